package group

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSimulation lets groups of clients live for some minutes of virtual time:
// they start, leave, crash, stall and restart as static members, commit what they
// own, and outlive refused appends and coordinators that lose what was not
// committed. The invariants are checked after every event.
func TestSimulation(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSim(t, seed, nil)
			s.run()
			if s.err != nil {
				t.Fatal(s.err)
			}
			c := s.n
			if c.generations < 40 || c.failovers < 5 || c.expirations < 10 || c.replaced < 10 || c.refused < 10 || c.unknown < 1 ||
				c.commits < 1000 || c.leaves < 5 || c.fenced < 1 || c.stalls < 10 {
				t.Fatalf("too little happened: %+v", c)
			}
		})
	}
}

// counts is what happened in a simulation.
type counts struct {
	generations, failovers, expirations, replaced, refused, unknown, commits, leaves, fenced, stalls int
}

const (
	simPartitions = 8
	simSession    = 10 * time.Second
	simRebalance  = 15 * time.Second
	simDelay      = time.Second
	simBeat       = time.Second
	simLife       = 6 * time.Minute
)

// sim is the world with clients in it. Everything happens at a time, in order.
type sim struct {
	w     *world
	rng   *rand.Rand
	queue happenings
	seq   int
	err   error
	n     counts
	quiet bool // no more mishaps

	waiting map[machine.Ticket]func(any, error)
	held    []heldReply
	hw      int // entries of the log that are committed

	groups  []*cohort
	fresh   uint64
	crashes int // lives of the coordinator
}

type heldReply struct {
	r  machine.Reply
	at int // committed once hw is here
}

// happening is something that happens at a time.
type happening struct {
	at  time.Time
	seq int
	do  func()
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// cohort is one group and all that is known about it from outside.
type cohort struct {
	id       string
	clients  []*client
	owner    map[int32]map[int32]string // generation, partition: who was told it owns it
	last     map[int32]int64            // partition: of the last commit record in the log
	acked    map[int32]int64            // partition: the last that was acknowledged
	next     int64                      // offsets grow over the whole group
	seen     int32                      // generation, after the last event
	life     int                        // of the coordinator, when seen was seen
	holder   map[string]string          // instance id: the member id after the last event
	roster   map[string]time.Time       // member ids after the last event, and when each was last heard of
	unstable time.Time                  // since when the phase of a rebalance lasts; zero: none
	phase    string
}

var (
	errNotHere = errors.New("not the coordinator")
	errRefused = errors.New("too few replicas")
)

func newSim(t testing.TB, seed uint64, wrap func(*sim, machine.Machine) machine.Machine) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 7)), waiting: map[machine.Ticket]func(any, error){}}
	s.w = newWorld(t, Config{InitialRebalanceDelay: simDelay, RetentionCheckInterval: time.Minute, OffsetsRetention: 24 * time.Hour})
	if wrap != nil {
		s.w.wrap = func(m machine.Machine) machine.Machine { return wrap(s, m) }
	}
	s.w.onSend = s.answered
	s.w.onLog = s.logged
	s.w.after = s.after
	s.w.refuse = s.refuse
	s.w.fell = s.failover
	s.w.fail = s.fail
	for g, kinds := range [][]kind{{eager, eager, eager, eager}, {cooperative, cooperative, cooperative}, {static, static, eager, static}} {
		c := &cohort{id: fmt.Sprint("group", g), owner: map[int32]map[int32]string{}, last: map[int32]int64{}, acked: map[int32]int64{}, roster: map[string]time.Time{}, holder: map[string]string{}}
		for i, k := range kinds {
			cl := &client{s: s, g: c, name: fmt.Sprintf("c%d%d", g, i), kind: k, version: []int16{3, 9, 9, 5}[i%4]}
			if k == static {
				inst := fmt.Sprint("instance", i)
				cl.instance = &inst
				cl.version = []int16{9, 8}[i%2]
			}
			c.clients = append(c.clients, cl)
		}
		s.groups = append(s.groups, c)
	}
	return s
}

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %v: %s", s.w.now.Sub(epoch), fmt.Sprintf(format, args...))
	}
}

func (s *sim) at(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, happening{s.w.now.Add(d), s.seq, do})
}

func (s *sim) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *sim) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

// run lives through the mishaps, then waits for calm.
func (s *sim) run() {
	s.w.load()
	for _, g := range s.groups {
		for _, c := range g.clients {
			s.at(s.between(0, 5*time.Second), c.start)
		}
	}
	s.mishaps()
	s.commitSome()
	s.until(5 * time.Minute)
	// Calm: everybody who is down starts, nobody stalls any more.
	s.quiet = true
	for _, g := range s.groups {
		for _, c := range g.clients {
			s.at(0, func() {
				if c.phase == down {
					c.start()
				}
			})
		}
	}
	s.until(simLife + 2*(simSession+simRebalance))
	for _, g := range s.groups {
		s.settled(g)
	}
}

// until runs what happens up to a time.
func (s *sim) until(end time.Duration) {
	idle := 0
	for s.err == nil {
		stop := epoch.Add(end)
		next := stop
		if len(s.queue) > 0 && s.queue[0].at.Before(next) {
			next = s.queue[0].at
		}
		if due := s.w.due; !due.IsZero() && due.Before(next) {
			if due.After(s.w.now) {
				s.w.now, idle = due, 0
			}
			if idle++; idle > 1000 {
				s.fail("the machine wants to be woken again and again")
			}
			s.w.tell(machine.Expire{})
			continue
		}
		idle = 0
		s.w.now = next
		if next.Equal(stop) {
			return
		}
		heap.Pop(&s.queue).(happening).do()
	}
}

// mishaps makes one bad thing happen, and then another.
func (s *sim) mishaps() {
	if s.quiet {
		return
	}
	g := s.groups[s.rng.IntN(len(s.groups))]
	c := g.clients[s.rng.IntN(len(g.clients))]
	switch n := s.rng.IntN(22); {
	case n < 2:
		s.failover()
	case c.phase == down:
		c.start()
	case n < 6:
		c.leave()
	case n < 9:
		c.crash()
	case n < 15:
		c.stall(s.between(time.Second, 25*time.Second))
	case n < 17 && c.kind == static:
		// Restart at once, while the old self may still wait for answers.
		c.crash()
		c.start()
	case n < 22 && c.kind == static:
		c.twin()
	}
	s.at(s.between(500*time.Millisecond, 5*time.Second), s.mishaps)
}

// commitSome moves the high watermark.
func (s *sim) commitSome() {
	s.hw += s.rng.IntN(len(s.w.log) - s.hw + 1)
	if s.quiet || s.chance(3) {
		s.hw = len(s.w.log)
	}
	kept := s.held[:0]
	for _, h := range s.held {
		if h.at <= s.hw {
			s.deliver(h.r.Ticket, h.r.Body, nil)
		} else {
			kept = append(kept, h)
		}
	}
	s.held = kept
	s.at(s.between(time.Millisecond, 200*time.Millisecond), s.commitSome)
}

// refuse says how an append fails, if it does.
func (s *sim) refuse(machine.Decision) error {
	switch {
	case s.quiet:
		return nil
	case s.chance(30):
		s.n.refused++
		return errRefused
	case s.chance(200):
		s.n.unknown++
		return unknownOutcome{stored: s.chance(2)}
	}
	return nil
}

// failover begins anew with what was committed, or with more.
func (s *sim) failover() {
	s.n.failovers++
	s.crashes++
	keep := s.hw + s.rng.IntN(len(s.w.log)-s.hw+1)
	s.w.log = s.w.log[:keep]
	s.hw = keep
	for _, g := range s.groups {
		g.last = map[int32]int64{}
	}
	for _, e := range s.w.log {
		s.logged(e.rec)
	}
	s.held = nil
	for tk := machine.Ticket(1); tk <= s.w.ticket; tk++ {
		if s.waiting[tk] != nil {
			s.deliver(tk, nil, errNotHere)
		}
	}
	s.w.load()
}

// ask sends a request on its way.
func (s *sim) ask(client string, body any, done func(any, error)) {
	s.at(s.between(time.Millisecond, 20*time.Millisecond), func() {
		tk := s.w.ticket + 1
		s.waiting[tk] = done
		s.fresh++
		var fresh [16]byte
		for i := range 8 {
			fresh[8+i] = byte(s.fresh >> (56 - 8*i))
		}
		s.heard(body)
		s.w.ask(body, client, fresh)
	})
}

// answered is a reply of the machine; it leaves when what it waits for is
// committed.
func (s *sim) answered(r machine.Reply) {
	if err, ok := r.Body.(error); ok {
		s.deliver(r.Ticket, nil, err)
		return
	}
	if r.Wait.Written || len(r.Wait.Keys) > 0 {
		s.held = append(s.held, heldReply{r, len(s.w.log)})
		return
	}
	s.deliver(r.Ticket, r.Body, nil)
}

func (s *sim) deliver(tk machine.Ticket, body any, err error) {
	done := s.waiting[tk]
	delete(s.waiting, tk)
	s.at(s.between(time.Millisecond, 20*time.Millisecond), func() { done(body, err) })
}

// logged notes what the log says last about each offset.
func (s *sim) logged(rec machine.Record) {
	k, err := records.DecodeKey(rec.Key)
	if err != nil {
		s.fail("%v", err)
		return
	}
	if k, ok := k.(*records.OffsetCommitKey); ok {
		v, err := records.DecodeValue(k, rec.Value)
		if err != nil || v == nil {
			s.fail("an offset is forgotten: %v, %v", k, err)
			return
		}
		for _, g := range s.groups {
			if g.id == k.Group {
				g.last[k.Partition] = v.(*records.OffsetCommitValue).Offset
			}
		}
	}
}

// heard notes when a member was last heard of.
func (s *sim) heard(body any) {
	note := func(group, id string) {
		for _, g := range s.groups {
			if _, ok := g.roster[id]; ok && g.id == group {
				g.roster[id] = s.w.now
			}
		}
	}
	switch r := body.(type) {
	case *kmsg.HeartbeatRequest:
		note(r.Group, r.MemberID)
	case *kmsg.SyncGroupRequest:
		note(r.Group, r.MemberID)
	case *kmsg.OffsetCommitRequest:
		note(r.Group, r.MemberID)
	case *kmsg.JoinGroupRequest:
		note(r.Group, r.MemberID)
	}
}

// after checks what must hold after every event.
func (s *sim) after(ev machine.Event) {
	m := s.w.inner()
	for _, g := range s.groups {
		gr := m.groups[g.id]
		if gr == nil {
			if len(g.acked) > 0 {
				s.fail("%s is gone, with its offsets", g.id)
			}
			g.roster = map[string]time.Time{}
			continue
		}
		l := gr.live
		s.generation(g, l)
		s.members(g, l, ev)
		s.progress(g, l)
		s.offsets(g, gr)
	}
}

// generation: it grows by one at the end of each join phase, as long as the
// coordinator lives.
func (s *sim) generation(g *cohort, l *live) {
	if g.life == s.crashes && l.generation != g.seen {
		s.n.generations++
		if l.generation != g.seen+1 || l.state != completingRebalance && l.state != empty {
			s.fail("%s goes from generation %d, %s, to %d, %v", g.id, g.seen, g.phase, l.generation, l.state)
		}
	}
	g.seen, g.life = l.generation, s.crashes
}

// members: whoever is silent for longer than its session is gone, unless it
// waits for the group.
func (s *sim) members(g *cohort, l *live, ev machine.Event) {
	roster := map[string]time.Time{}
	_, timed := ev.(machine.Expire)
	_, loaded := ev.(machine.Loaded)
	for _, m := range l.members {
		since, ok := g.roster[m.id]
		if !ok || m.awaiting() || m.isNew || loaded {
			since = s.w.now
		}
		if l.state == completingRebalance && m.pendingSync && g.phase != l.state.String() {
			since = s.w.now // it was answered just now
		}
		if l.state == stable && g.phase == completingRebalance.String() {
			since = s.w.now
		}
		roster[m.id] = since
		if m.instance != nil {
			if was := g.holder[*m.instance]; was != "" && was != m.id && !loaded {
				s.n.replaced++
			}
			g.holder[*m.instance] = m.id
		}
		if silent := s.w.now.Sub(since); silent > simSession+2*time.Second {
			s.fail("%s has not heard of %s for %v, yet it is a member", g.id, m.id, silent)
		}
	}
	if timed {
		for id := range g.roster {
			if _, ok := roster[id]; !ok {
				s.n.expirations++
			}
		}
	}
	g.roster = roster
}

// progress: each phase of a rebalance ends.
func (s *sim) progress(g *cohort, l *live) {
	phase := l.state.String()
	if phase != g.phase || g.life != s.crashes {
		g.phase, g.unstable = phase, s.w.now
	}
	if l.state == stable || l.state == empty {
		return
	}
	if took := s.w.now.Sub(g.unstable); took > simRebalance+simSession+10*time.Second {
		s.fail("%s is in %s for %v", g.id, phase, took)
	}
}

// offsets: the machine has what the log says last, and nothing that was
// acknowledged is missing.
func (s *sim) offsets(g *cohort, gr *group) {
	have := map[int32]int64{}
	for p, o := range gr.offsets["t"] {
		have[p] = o.offset
	}
	if !reflect.DeepEqual(have, g.last) {
		s.fail("%s has offsets %v, the log says %v", g.id, have, g.last)
	}
	for p, at := range g.acked {
		if have[p] < at {
			s.fail("%s acknowledged offset %d of partition %d and has %d", g.id, at, p, have[p])
		}
	}
}

// assigned: one owner for each partition and generation.
func (s *sim) assigned(c *client, generation int32, partitions []int32) {
	who := c.id
	if c.instance != nil {
		who = *c.instance // a restart goes on under another id
	}
	owners := c.g.owner[generation]
	if owners == nil {
		owners = map[int32]string{}
		c.g.owner[generation] = owners
	}
	for _, p := range partitions {
		if was, ok := owners[p]; ok && was != who {
			s.fail("%s, generation %d: partition %d belongs to %s and to %s", c.g.id, generation, p, was, who)
		}
		owners[p] = who
	}
}

// settled: when all is calm, the group is Stable, its members are the clients,
// and every partition is owned by one of them.
func (s *sim) settled(g *cohort) {
	if s.err != nil {
		return
	}
	l := s.w.inner().groups[g.id].live
	if l.state != stable || len(l.members) != len(g.clients) {
		s.fail("%s does not come to rest: %v with %d members of %d clients", g.id, l.state, len(l.members), len(g.clients))
		return
	}
	owned := map[int32]string{}
	for _, c := range g.clients {
		if l.index(c.id) < 0 || c.phase != working || c.generation != l.generation {
			s.fail("%s: client %s is %v in generation %d as %s", g.id, c.name, c.phase, c.generation, c.id)
		}
		for p := range c.owned {
			if was, ok := owned[p]; ok {
				s.fail("%s: partition %d is owned by %s and %s", g.id, p, was, c.name)
			}
			owned[p] = c.name
		}
	}
	if len(owned) != simPartitions {
		s.fail("%s: %d partitions are owned", g.id, len(owned))
	}
}
