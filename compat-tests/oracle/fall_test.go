//go:build compat

package oracle

import (
	"syscall"
	"testing"
	"time"
)

// Kafka may end by itself in the middle of a run: nothing that it was asked then counts as a
// difference, and nothing is left out.
func TestKafkaFalls(t *testing.T) {
	s, own := both(t)
	if own[kafkas] == nil || own[ours] == nil {
		t.Skip("the servers are not its own: it cannot end one of them")
	}
	k, killed := own[kafkas].(*apacheKafka), 0
	o := Options{From: 2 * roundSize, Seeds: 40, Parallel: 16, Log: t.Logf}
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
		case <-time.After(2 * time.Second):
			if syscall.Kill(k.server.PID(), syscall.SIGKILL) == nil {
				killed++
			}
		}
	}()
	r := s.Run(o)
	close(stop)
	<-ended
	if killed != 1 || r.Falls != 1 || r.Sequences != 40 || len(r.Findings)+len(r.Errors) > 0 {
		t.Errorf("Kafka was ended %d times, which was seen %d times; %d sequences, findings %v, seen once %v, errors %v", killed, r.Falls, r.Sequences, r.Findings, r.Fleeting, r.Errors)
	}
}

// Millrace that has ended by itself is never just started again, whatever else has ended.
func TestMillraceFalls(t *testing.T) {
	m := millrace(t)
	told := 0
	m.fails = func(string, ...any) { told++ }
	for _, falls := range []bool{false, true, false} {
		if falls {
			if err := syscall.Kill(m.broker.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-m.broker.Exited()
		}
		told = 0
		for range 2 {
			if err := restartAll(Restart{Kill: true}, m); err != nil {
				t.Fatal(err)
			}
		}
		if told > 0 != falls {
			t.Errorf("it fell: %v; that was told %d times", falls, told)
		}
	}
}
