package frames

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomGroupCases lead some clients through random requests. Both servers go
// step by step together: a step ends when the same requests wait on both, so
// that nothing depends on how fast either is. MILLRACE_FRAMES_SEEDS says how many
// walks there are in each version.
func randomGroupCases() []Case {
	seeds := 3
	if n, err := strconv.Atoi(os.Getenv("MILLRACE_FRAMES_SEEDS")); err == nil {
		seeds = n
	}
	var all []Case
	for seed := range seeds {
		all = append(all, Case{API: kmsg.JoinGroup, Name: fmt.Sprint("random walk ", seed), Run: withMembers(kmsg.JoinGroup, func(c *cast) {
			walk(c, rand.New(rand.NewPCG(uint64(seed), uint64(c.Version))), 60)
		})})
	}
	return all
}

// walker is a client on a random walk.
type walker struct {
	*member
	under *waiting // what it waits for
	what  string
	there bool // it has an id that it has not left with
}

func walk(c *cast, random *rand.Rand, steps int) {
	meeting := meetingOf(c.Prefix)
	defer meeting.leave()
	c.createTopic("t", 1)
	names := []string{"a", "b", "d", "e"}
	ws := make([]*walker, len(names))
	for i, n := range names {
		m := c.member("g", n, "x:"+n, "y:"+n)
		if i >= 2 && c.Version >= 5 && random.IntN(2) == 0 {
			m.instance = kmsg.StringPtr("i" + n)
		}
		ws[i] = &walker{member: m}
	}
	leader := ""
	for step := range steps {
		w := ws[random.IntN(len(ws))]
		w.step(random, ws, leader)
		state := func() string {
			var b strings.Builder
			for _, w := range ws {
				if w.under == nil {
					continue
				}
				select {
				case o := <-w.under.done:
					w.under.out = &o
					w.under.end()
					w.under = nil
					if r, ok := o.Response.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 0 {
						leader = r.LeaderID
						if strings.HasPrefix(c.names[leader], "="+w.name+"#") {
							leader = w.id // up to v8 a leader that restarted is told its old id
						}
					}
					if r, ok := o.Response.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 25 {
						w.id = "" // it is to come as somebody new
					}
					w.there = w.id != ""
				default:
					fmt.Fprintf(&b, " %s waits to %s", w.name, w.what)
				}
			}
			return c.stateOf("g") + b.String()
		}
		agreed, same := meeting.meet(c.Addr, state)
		c.Check(fmt.Sprintf("step %d, %s", step, w.name), agreed)
		if !same || c.err != nil {
			return
		}
		c.describe(fmt.Sprint("after step ", step), "g")
	}
	c.fetched("in the end", "g", "t")
}

// stateOf says in what state a group is and with how many members.
func (c *cast) stateOf(group string) string {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{c.group(group)}
	if r, ok := c.Do(5, req).Response.(*kmsg.DescribeGroupsResponse); ok && len(r.Groups) == 1 {
		return fmt.Sprintf("%s with %d", r.Groups[0].State, len(r.Groups[0].Members))
	}
	return "not described"
}

// step has the client do something that makes sense, or not quite.
func (w *walker) step(random *rand.Rand, ws []*walker, leader string) {
	members := 0
	for _, o := range ws {
		if o.there || o.under != nil {
			members++
		}
	}
	chance, part := random.IntN(100), random.IntN(4)
	start := func(what string, req kmsg.Request) { w.under, w.what = w.begin(what, req), what }
	// Of several whom Kafka makes the leader when that has left is up to a hash
	// map, and what a leaver had to be answered to a sync it forgets. One that
	// waits for a new id may be the leader.
	mayLeave := w.there && (w.id != "" && w.id != leader || members <= 2) && (w.under == nil || w.what != "sync")
	switch {
	case mayLeave && chance < 8:
		req := w.leaveRequest()
		w.c.AskIn(w.c.v(kmsg.LeaveGroup), w.name+": leave", req)
		w.there = false
		if w.under == nil && random.IntN(2) == 0 {
			w.id = ""
		}
	case chance >= 98:
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{w.group}
		w.c.AskIn(w.c.v(kmsg.DeleteGroups), "delete the group", req)
	case chance >= 96:
		req := w.leaveRequest()
		req.Members[0].MemberID, req.Members[0].InstanceID = "", kmsg.StringPtr("nobody")
		w.c.AskIn(w.c.v(kmsg.LeaveGroup), "an instance that nobody is leaves", req)
	case w.under != nil:
		// It waits and has nothing to say.
	case w.id == "":
		start("join", w.joinRequest())
	case !w.there:
		w.id = ""
	case w.instance != nil && chance < 20:
		w.id = ""
		start("restart", w.joinRequest())
	case chance < 30:
		switch part {
		case 0:
			w.protocols = []string{fmt.Sprint("x:", w.name, random.IntN(100)), "y:" + w.name}
		case 1:
			w.protocols[0], w.protocols[1] = w.protocols[1], w.protocols[0]
		}
		start("join", w.joinRequest())
	case chance < 65:
		req := w.syncRequest()
		if w.id == leader {
			var to []string
			for _, o := range ws {
				to = append(to, fmt.Sprint(o.name, "=", o.name, random.IntN(100)))
			}
			req = w.syncRequest(to...)
		}
		if chance == 64 {
			req.Generation--
		}
		start("sync", req)
	case chance < 85:
		req := w.beatRequest()
		if chance >= 82 {
			req.Generation += int32(part) - 1
		}
		start("heartbeat", req)
	default:
		req := w.c.commitRequest("g", "t/0")
		req.Generation, req.MemberID, req.InstanceID = w.generation, w.id, w.instance
		req.Topics[0].Partitions[0].Offset = int64(random.IntN(1000))
		switch part {
		case 0:
			req.Generation, req.MemberID, req.InstanceID = -1, "", nil
		case 1:
			req.Generation--
		}
		start("commit", req)
	}
}

// meeting is where the two plays of one case agree that a step is over.
type meeting struct {
	prefix string
	limit  time.Duration
	mu     sync.Mutex
	sides  map[string]*attendant
	agreed int // steps that both are through with
	since  time.Time
}

// attendant is a play at a meeting: how many steps it has made and how the last
// one has come out by now.
type attendant struct {
	steps int
	state string
}

var meetings sync.Map // prefix -> *meeting

func meetingOf(prefix string) *meeting {
	m, _ := meetings.LoadOrStore(prefix, &meeting{prefix: prefix, limit: agreement, sides: map[string]*attendant{}})
	return m.(*meeting)
}

func (m *meeting) leave() { meetings.Delete(m.prefix) }

// The two states must have been the same for this long, and may take that long
// to become it.
const (
	calm      = 25 * time.Millisecond
	agreement = 8 * time.Second
)

// meet waits until the state on both sides is the same and stays so for a
// moment. It gives the state of this side, and whether the other's became the
// same.
func (m *meeting) meet(side string, state func() string) (string, bool) {
	m.mu.Lock()
	a := m.sides[side]
	if a == nil {
		a = &attendant{}
		m.sides[side] = a
	}
	a.steps++
	a.state = ""
	m.since = time.Now()
	step := a.steps
	m.mu.Unlock()
	for start := time.Now(); time.Since(start) < m.limit; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		if m.agreed >= step {
			now := a.state
			m.mu.Unlock()
			return now, true
		}
		if now := state(); now != a.state {
			a.state, m.since = now, time.Now()
		}
		same := len(m.sides) == 2
		for _, o := range m.sides {
			same = same && o.steps == step && o.state == a.state
		}
		if same && time.Since(m.since) >= calm {
			m.agreed = step
		}
		m.mu.Unlock()
	}
	return a.state, false
}
