package oracle

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// falling are servers of which Kafka ends by itself when a test says so, and what is played then differs.
type falling struct {
	dead     atomic.Bool // it is down
	stays    bool        // it does not come back
	dies     *time.Timer // it is about to be down
	restarts int
	played   atomic.Int64
}

func (f *falling) servers(play func(n int64, r *round) bool) *Servers {
	s := &Servers{Fallen: func() bool { return f.dead.Load() }}
	s.Restart = func(Restart) error {
		if f.dies != nil {
			f.dies.Stop()
		}
		if f.restarts++; f.stays {
			return errors.New("it does not start")
		}
		f.dead.Store(false)
		return nil
	}
	s.instead = func(steps []Step, r *round) Outcome {
		out := Outcome{Tally: newTally()}
		if play(f.played.Add(1), r) {
			out.Found = []Difference{{Kind: "some", Step: 1}}
		}
		r.leave()
		return out
	}
	return s
}

func nothing(string, ...any) {}

// What was played while Kafka fell is played again, also when the time is over by then.
func TestFallAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &falling{}
		s := f.servers(func(n int64, _ *round) bool {
			if n == 1 {
				time.Sleep(2 * time.Minute)
				f.dead.Store(true)
			}
			return true
		})
		r := s.Run(Options{From: 2 * roundSize, Seeds: 5, Parallel: 1, Once: true, Until: time.Now().Add(time.Minute), Log: nothing})
		if r.Falls != 1 || r.Sequences != 1 || len(r.Fleeting) != 1 || len(r.Errors) > 0 {
			t.Errorf("%d falls, %d sequences, seen %v, errors %v", r.Falls, r.Sequences, r.Fleeting, r.Errors)
		}
	})
}

// A fall before a round's restart, which would start Kafka again, is noticed, and the round is played again.
func TestFallBeforeARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &falling{}
		s := f.servers(func(n int64, r *round) bool {
			if n > 1 {
				return r.arrive(Restart{}) != nil
			}
			f.dies = time.AfterFunc(100*time.Millisecond, func() { f.dead.Store(true) }) // its connections end before
			return true
		})
		r := s.Run(Options{From: roundSize, Seeds: 1, Once: true, Log: nothing})
		if r.Falls != 1 || r.Sequences != 1 || r.Restarts != 1 || f.restarts != 2 || len(r.Fleeting)+len(r.Errors) > 0 {
			t.Errorf("one: %d falls, %d sequences, %d restarts of %d, seen %v, errors %v", r.Falls, r.Sequences, r.Restarts, f.restarts, r.Fleeting, r.Errors)
		}
		f.restarts = 0
		f.played.Store(0)
		r = s.Run(Options{From: roundSize, Seeds: 3, Once: true, Log: nothing})
		if r.Falls != 1 || r.Sequences != 3 || r.Restarts != 1 || f.restarts != 2 || len(r.Fleeting)+len(r.Errors) > 0 {
			t.Errorf("three: %d falls, %d sequences, %d restarts of %d, seen %v, errors %v", r.Falls, r.Sequences, r.Restarts, f.restarts, r.Fleeting, r.Errors)
		}
	})
}

// Kafka that does not come back is an error, whatever is being done; what was seen before is told.
func TestKafkaStaysDown(t *testing.T) {
	for _, at := range []int64{2, 3, 4} {
		synctest.Test(t, func(t *testing.T) {
			f := &falling{stays: true}
			s := f.servers(func(n int64, _ *round) bool {
				f.dead.Store(n >= at)
				return true
			})
			r := s.Run(Options{From: 2 * roundSize, Seeds: 2, Parallel: 1, Log: nothing})
			if len(r.Errors) == 0 || len(r.Fleeting)+len(r.Findings) != 1 || r.Falls != 1 {
				t.Errorf("from %d on: errors %v, seen once %v, found %v, %d falls", at, r.Errors, r.Fleeting, r.Findings, r.Falls)
			}
		})
	}
}

// Kafka that ends each time does not keep a run from ending.
func TestKafkaFallsEachTime(t *testing.T) {
	for _, from := range []uint64{roundSize, 2 * roundSize} {
		synctest.Test(t, func(t *testing.T) {
			f := &falling{}
			s := f.servers(func(n int64, _ *round) bool {
				f.dead.Store(true)
				return true
			})
			r := s.Run(Options{From: from, Seeds: 2, Parallel: 1, Log: nothing})
			if len(r.Errors) == 0 || r.Falls != mostFalls+1 || r.Sequences > 0 {
				t.Errorf("%d falls, %d sequences, errors %v", r.Falls, r.Sequences, r.Errors)
			}
		})
	}
}
