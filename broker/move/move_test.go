package move

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestDecide(t *testing.T) {
	here := State{Known: true, Exists: true, Here: true, At: "/a"}
	with := func(change func(*State)) State {
		s := here
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		s    State
		want Decision
	}{
		"elsewhere": {here, Decision{Begin: true}},
		"a long name comes before everything": {with(func(s *State) { s.NameTooLong, s.Known, s.Exists = true, false, false }),
			Decision{Code: kerr.InvalidTopicException.Code}},
		"no such directory, no such partition": {with(func(s *State) { s.Known, s.Exists, s.Here = false, false, false }), Decision{Code: kerr.LogDirNotFound.Code}},
		"the directory has failed":             {with(func(s *State) { s.Offline, s.Exists, s.Here = true, false, false }), Decision{Code: kerr.KafkaStorageError.Code}},
		"the partition has failed":             {with(func(s *State) { s.Broken, s.Here = true, false }), Decision{Code: kerr.KafkaStorageError.Code}},
		"no such partition":                    {with(func(s *State) { s.Exists, s.Here = false, false }), Decision{Code: kerr.UnknownTopicOrPartition.Code, Prefer: true}},
		"another broker's":                     {with(func(s *State) { s.Here = false }), Decision{Code: kerr.ReplicaNotAvailable.Code, Prefer: true}},
		"where it is":                          {with(func(s *State) { s.At = "/b" }), Decision{}},
		"where it is, cordoned":                {with(func(s *State) { s.At, s.Cordoned = "/b", true }), Decision{}},
		"where it goes":                        {with(func(s *State) { s.To = "/b" }), Decision{}},
		"where it goes, cordoned":              {with(func(s *State) { s.To, s.Cordoned = "/b", true }), Decision{Code: kerr.InvalidReplicaAssignment.Code}},
		"no such partition, cordoned":          {with(func(s *State) { s.Exists, s.Here, s.At, s.Cordoned = false, false, "", true }), Decision{Code: kerr.InvalidReplicaAssignment.Code}},
		"back":                                 {with(func(s *State) { s.At, s.To = "/b", "/a" }), Decision{Cancel: true}},
		"somewhere else":                       {with(func(s *State) { s.To = "/c" }), Decision{Cancel: true, Begin: true}},
		"somewhere else, cordoned":             {with(func(s *State) { s.To, s.Cordoned = "/c", true }), Decision{Code: kerr.InvalidReplicaAssignment.Code}},
		"cordoned":                             {with(func(s *State) { s.Cordoned = true }), Decision{Code: kerr.InvalidReplicaAssignment.Code}},
	} {
		if got := Decide("/b", c.s); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Over any stretch of time no more is copied than the rate gives, and one piece.
func TestQuota(t *testing.T) {
	for _, rate := range []int64{1, 999, 1000, 12345, 1 << 30} {
		q := Quota{Rate: rate}
		var copied, now int64 = 0, 1_700_000_000_000
		begun := now
		const piece = 5000
		for copied < 20*rate && copied < 50*piece {
			most := q.Take(now)
			wait := q.Wait(now)
			if (most > 0) != (wait == 0) || wait < 0 || wait > 1000 {
				t.Fatalf("rate %d: %d may be taken, and the wait is %d", rate, most, wait)
			}
			if most == 0 {
				now += wait
				continue
			}
			n := min(most, piece)
			if copied%3 == 0 {
				n = piece // a batch that is larger than what is left comes whole
			}
			q.Took(int(n))
			copied += n
			if given := rate + (now-begun)*rate/1000 + piece; copied > given {
				t.Fatalf("rate %d: %d copied in %d ms", rate, copied, now-begun)
			}
		}
		if most := (now - begun + 2000) * rate / 1000; now > begun && copied*2 < most-4000*rate/1000 {
			t.Errorf("rate %d: only %d copied in %d ms", rate, copied, now-begun)
		}
	}
	q := Quota{}
	if q.Take(5) != 0 || q.Wait(5) != 1000 {
		t.Error("the rate 0 gives something")
	}
	q.Rate = 1 << 62
	if q.Take(6) < 1<<30 || q.Wait(6) != 0 {
		t.Error("an unlimited rate is limited")
	}
	q.Took(1 << 40)
	if q.Rate = 1000; q.Wait(2000) != 0 {
		t.Error("what was taken without a limit is not forgotten")
	}
}
