package frames

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// joinsOf gives two answered joins, of members a and b.
func joinsOf(leaderOfA, leaderOfB string, listToA, listToB int) election {
	c := &cast{names: map[string]string{}}
	answer := func(id, leader string, list int) *waiting {
		r := kmsg.NewPtrJoinGroupResponse()
		r.MemberID, r.LeaderID = id, leader
		r.Members = make([]kmsg.JoinGroupResponseMember, list)
		return &waiting{m: &member{c: c}, out: &frame.Outcome{Response: r}}
	}
	return election{answer("a", leaderOfA, listToA), answer("b", leaderOfB, listToB)}
}

// An election is hidden only where one leads, all know it, and it alone has the
// list; anything else is left to be compared.
func TestElectionHidesOnlyASoundOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		e      election
		hidden bool
	}{
		{"a leads", joinsOf("a", "a", 2, 0), true},
		{"b leads", joinsOf("b", "b", 0, 2), true},
		{"both lead", joinsOf("a", "b", 2, 2), false},
		{"neither leads", joinsOf("c", "c", 0, 0), false},
		{"the leader has no list", joinsOf("a", "a", 0, 0), false},
		{"the follower has the list", joinsOf("a", "a", 0, 2), false},
		{"both have it", joinsOf("a", "a", 2, 2), false},
	} {
		c.e.hide()
		first := c.e[0].out.Response.(*kmsg.JoinGroupResponse)
		if got := first.LeaderID == "one of them" && len(first.Members) == 2; got != c.hidden {
			t.Errorf("%s: hidden is %v", c.name, got)
		}
	}
}

// Two sides agree on a step once both are in the same state, however late one
// of them gets there; and a change before that is not lost.
func TestMeetingWaitsForTheSlower(t *testing.T) {
	m := meetingOf("slower")
	defer m.leave()
	var late atomic.Bool
	time.AfterFunc(200*time.Millisecond, func() { late.Store(true) })
	slow := func() string {
		if late.Load() {
			return "after"
		}
		return "before"
	}
	got := make(chan string, 1)
	go func() {
		s, _ := m.meet("slow", slow)
		got <- s
	}()
	s, same := m.meet("fast", func() string { return "after" })
	if other := <-got; !same || s != "after" || other != "after" {
		t.Fatalf("%v: %q and %q", same, s, other)
	}
}

func TestMeetingTellsWhoNeverAgrees(t *testing.T) {
	m := meetingOf("never")
	m.limit = 300 * time.Millisecond
	defer m.leave()
	other := make(chan bool, 1)
	go func() {
		_, same := m.meet("one", func() string { return "waits" })
		other <- same
	}()
	s, same := m.meet("two", func() string { return "answered" })
	if same || <-other || s != "answered" {
		t.Fatalf("%q is agreed on", s)
	}
}
