package oracle

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

const (
	ours   = 0
	kafkas = 1
)

// Step is one thing that a sequence does. It draws nothing itself: what it does
// follows from what was drawn when the sequence was made and from what the
// servers have told, so that it can be done again, and without others.
type Step struct {
	Text string
	Do   func(p *Play)
	// restarts: it restarts the servers.
	restarts bool
}

// Play is a sequence in progress on both servers, in step with each other.
type Play struct {
	Sides   [2]*side
	tally   *Tally
	both    map[int16][2]int16 // versions that both advertise
	pending []*exchange
	step    int
	found   []Difference
	over    bool // nothing that follows can be compared
	err     error
	asked   int
	// spoil changes a request's bytes on their way; nil: they stay.
	spoil func([]byte) []byte
	// empty changes the next requests before they are written; nil: they stay.
	empty func([2]kmsg.Request)
	// subscriptions to clients' metrics: nobody asks of them while somebody changes one;
	// subscribed: this play has changed one.
	subscriptions *parties
	subscribed    bool
	// old: versions that Kafka 4 has dropped are asked in, where there are any.
	old bool
	// droppedLast: the last request was in such a version.
	droppedLast bool
	// woken is told of every answer that comes.
	woken chan struct{}
	// comesAgain are clients whose connection went while they waited, until they ask again.
	comesAgain map[string]bool
	// restarts: the servers are restarted in it.
	restarts bool
	// round are those who restart the servers together with this one.
	round *round
}

// patience is how long an answer may take; for those who wait on purpose, too.
const patience = 12 * time.Second

// pick is a drawn choice of a version.
type pick struct {
	draw        uint32
	from, under int16 // 0: no limit
}

func (p pick) above(v int16) pick { p.from = v; return p }
func (p pick) below(v int16) pick { p.under = v; return p }

// version is the version to ask an API in; false where the two have none in
// common.
func (p *Play) version(key int16, v pick) (int16, bool) {
	r, ok := p.both[key]
	if !ok {
		return 0, false
	}
	from, to := max(r[0], v.from), r[1]
	if v.under != 0 {
		to = min(to, v.under-1)
	}
	if kept := keptFrom[key]; p.old && from < kept {
		to = min(to, kept-1)
	}
	if from > to {
		return 0, false
	}
	// The newest comes oftener: most clients speak it.
	if n := v.draw % uint32(to-from+4); n < uint32(to-from+1) {
		return from + int16(n), true
	}
	return to, true
}

// exchange is one request to both servers.
type exchange struct {
	client string
	what   string
	req    [2]kmsg.Request
	out    [2]*frame.Outcome
	done   [2]chan frame.Outcome
	wait   time.Duration // how long the request lets the server wait; 0: it is none that waits
	begun  time.Time
}

// kafka is the side that decides what a sequence does next where that depends on
// what was answered.
func (p *Play) kafka() *side { return p.Sides[kafkas] }

// busy says that a client waits for an answer, so it cannot ask.
func (p *Play) busy(client string) bool {
	return slices.ContainsFunc(p.pending, func(x *exchange) bool { return x.client == client })
}

// ask sends a request to both and compares their answers. build is called once
// for each side; nil leaves the request out.
func (p *Play) ask(client string, v pick, what string, build func(s *side) kmsg.Request) *exchange {
	x := p.send(client, v, what, build)
	if x == nil {
		return nil
	}
	for i := range x.out {
		if x.out[i] == nil {
			o := <-x.done[i]
			x.out[i] = &o
		}
	}
	p.compare(x)
	if x.req[0].Key() == int16(kmsg.Produce) {
		pause(1) // the servers' clocks tell one write from the next
	}
	if r, ok := x.out[kafkas].Response.(*kmsg.OffsetCommitResponse); ok && !storedAny(r) {
		p.stir(x.req[kafkas].(*kmsg.OffsetCommitRequest).Group)
	}
	return x
}

// begin is ask for a request whose answer may wait for what others do. settle
// takes the answers that have come.
func (p *Play) begin(client string, v pick, what string, build func(s *side) kmsg.Request) {
	// Kafka forgets what a member waits for when another client speaks for it.
	if r := build(p.kafka()); r != nil && !reflect.ValueOf(r).IsNil() && memberOf(r) != "" && slices.ContainsFunc(p.pending, func(x *exchange) bool {
		return memberOf(x.req[kafkas]) == memberOf(r)
	}) {
		return
	}
	x := p.send(client, v, what, build)
	if x == nil {
		return
	}
	p.pending = append(p.pending, x)
	if p.comesAgain[client] {
		// Nothing tells when a server has taken what replaces the request that is waited for
		// in vain: one that has not answers that one when its time has come.
		delete(p.comesAgain, client)
		time.Sleep(replacing)
	}
}

const (
	// replacing is how long a busy server may take to read a request on a new connection.
	replacing = 400 * time.Millisecond
	// nearlyOver is how long before the end of a wait nothing is asked any more.
	nearlyOver = 400 * time.Millisecond
)

// lapse lets a wait end that is about to: whether by itself or by what is asked now would
// be up to chance, as what is asked takes its time to have an effect.
func (p *Play) lapse() {
	ends := time.Duration(-1)
	for _, x := range p.pending {
		if left := x.wait - time.Since(x.begun); x.wait > 0 && left < nearlyOver {
			ends = max(ends, left, 0)
		}
	}
	if ends >= 0 {
		time.Sleep(ends)
		p.settle(nil)
	}
}

// memberOf is the member that a request speaks for.
func memberOf(req kmsg.Request) string {
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		return r.MemberID
	case *kmsg.SyncGroupRequest:
		return r.MemberID
	case *kmsg.LeaveGroupRequest:
		return r.MemberID
	}
	return ""
}

func (p *Play) send(client string, v pick, what string, build func(s *side) kmsg.Request) *exchange {
	if !p.over {
		p.lapse()
	}
	if p.over || p.busy(client) {
		return nil
	}
	x := &exchange{client: client, what: what, begun: time.Now()}
	for i, s := range p.Sides {
		x.req[i] = build(s)
		if x.req[i] == nil || reflect.ValueOf(x.req[i]).IsNil() {
			return nil
		}
	}
	if p.empty != nil {
		p.empty(x.req)
		p.empty = nil
	}
	version, ok := p.version(x.req[0].Key(), v)
	if !ok || p.restarts && p.kafka().makesAnew(x.req[kafkas], version) {
		return nil
	}
	for i := range x.req {
		x.req[i].SetVersion(version)
		p.Sides[i].versed.Asked(x.req[i])
		if f, ok := x.req[i].(*kmsg.FetchRequest); ok && version < 15 {
			f.ReplicaState.ID, f.ReplicaState.Epoch = -1, -1 // a tag that is none before
		}
	}
	p.asked++
	p.droppedLast = dropped(x.req[0])
	p.touch(x.req[0].Key())
	if f, ok := x.req[0].(*kmsg.FetchRequest); ok {
		x.wait = time.Duration(f.MaxWaitMillis) * time.Millisecond
	}
	silent := false
	if r, ok := x.req[0].(*kmsg.ProduceRequest); ok {
		silent = r.Acks == 0
	}
	for i, s := range p.Sides {
		done := make(chan frame.Outcome, 1)
		x.done[i] = done
		c, err := s.conn(client)
		if err != nil {
			p.fail(fmt.Errorf("connecting to %s: %w", s.addr, err))
			return nil
		}
		c.Patience = patience
		raw := c.Encode(x.req[i])
		if p.spoil != nil {
			raw = p.spoil(raw)
		}
		kind := x.req[i].ResponseKind()
		kind.SetVersion(version)
		if kind.Key() == int16(kmsg.ApiVersions) && len(raw) >= 4 && (raw[2] != 0 || raw[3] > byte(p.both[kind.Key()][1])) {
			kind.SetVersion(0) // KIP-511: what is not known is answered so
		}
		if silent {
			probe := kmsg.NewPtrApiVersionsRequest()
			go func() {
				defer p.wake()
				if err := c.Push(raw); err != nil {
					done <- frame.Outcome{Closed: true}
					return
				}
				done <- c.Send(c.Encode(probe), probe.ResponseKind())
			}()
			continue
		}
		go func() {
			defer p.wake()
			done <- c.Send(raw, kind)
		}()
	}
	return x
}

// touch remembers what has to be cleaned up.
func (p *Play) touch(key int16) {
	kind := ""
	switch kmsg.Key(key) {
	case kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs:
		kind = "configs"
	case kmsg.JoinGroup, kmsg.OffsetCommit, kmsg.ConsumerGroupHeartbeat, kmsg.ShareGroupHeartbeat, kmsg.TxnOffsetCommit:
		kind = "groups"
	}
	if kind != "" {
		for _, s := range p.Sides {
			s.touched[kind] = true
		}
	}
}

func (p *Play) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *Play) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.over = true
}

// calm is for how long the same requests must have been without an answer on
// both servers to be taken for waiting; agreement is how long the two may take
// to come to the same state.
const (
	calm      = 25 * time.Millisecond
	agreement = 8 * time.Second
)

// settle waits until the same requests have been answered on both sides and the
// given states are the same, and compares those answers. state may be nil.
func (p *Play) settle(state func(s *side) string) {
	if p.over {
		return
	}
	begun := time.Now()
	waits, since := p.collect(), begun
	look := 4 * time.Millisecond // between looks at the states, longer each time
	var told [2]string
	for {
		rest := calm - time.Since(since)
		if waits[0] == waits[1] && (waits[0] == "" || rest <= 0) {
			// What nobody waits for has happened.
			if state == nil {
				break
			}
			if told = p.tell(state); told[0] == told[1] {
				if now := p.collect(); now == waits {
					break
				}
			}
		}
		if time.Since(begun) > agreement {
			if p.old && !p.droppedLast && !slices.ContainsFunc(p.pending, func(x *exchange) bool { return dropped(x.req[0]) }) {
				p.over = true
				return
			}
			what := p.pendingText()
			if what == "" {
				what = "nobody waits"
			}
			p.differ(Difference{Text: fmt.Sprintf("%s; waiting:%s, state %s against waiting:%s, state %s", what, waits[0], told[0], waits[1], told[1]),
				Kind: what + " waits or states differ"})
			p.over = true
			return
		}
		select {
		case <-p.woken:
		case <-time.After(max(rest, look)):
			look = min(look*3/2, 50*time.Millisecond)
		}
		if now := p.collect(); now != waits {
			waits, since, look = now, time.Now(), 4*time.Millisecond
		}
	}
	p.elects()
	p.pending = slices.DeleteFunc(p.pending, func(x *exchange) bool {
		if x.out[0] == nil || x.out[1] == nil {
			return false
		}
		p.compare(x)
		return true
	})
}

// collect takes the answers that have come, and names who waits on each side.
func (p *Play) collect() [2]string {
	var waits [2]string
	for i := range p.Sides {
		for _, x := range p.pending {
			if x.out[i] == nil {
				select {
				case o := <-x.done[i]:
					x.out[i] = &o
				default:
					waits[i] += " " + x.client
				}
			}
		}
	}
	return waits
}

// tell asks both sides for a state.
func (p *Play) tell(state func(s *side) string) [2]string {
	var told [2]string
	var other sync.WaitGroup
	other.Go(func() { told[kafkas] = state(p.Sides[kafkas]) })
	told[ours] = state(p.Sides[ours])
	other.Wait()
	return told
}

// elects ends a sequence where a group has another leader on one server than on
// the other: whom Kafka takes when the leader is gone is up to a hash map.
func (p *Play) elects() {
	var leaders [2]string
	for _, x := range p.pending {
		if x.out[0] == nil || x.out[1] == nil {
			continue
		}
		a, ok := x.out[0].Response.(*kmsg.JoinGroupResponse)
		b, ok2 := x.out[1].Response.(*kmsg.JoinGroupResponse)
		if !ok || !ok2 || a.ErrorCode != 0 || b.ErrorCode != 0 || a.Generation != b.Generation {
			continue
		}
		for i, r := range []*kmsg.JoinGroupResponse{a, b} {
			if r.LeaderID == r.MemberID {
				leaders[i] = x.client
			} else if who := p.Sides[i].who(r.LeaderID); who != "" && leaders[i] == "" {
				leaders[i] = who
			}
		}
	}
	// One of whom this play knows no more than an id, as its client has come again since,
	// is another than one that both servers know.
	for i, l := range leaders {
		if l != "" && leaders[1-i] == "" && p.Sides[1-i].knows(l, p.pending, 1-i) {
			leaders[1-i] = "somebody else"
		}
	}
	if leaders[0] != leaders[1] && leaders[0] != "" && leaders[1] != "" {
		p.over = true
		p.pending = slices.DeleteFunc(p.pending, func(x *exchange) bool { return x.out[0] != nil && x.out[1] != nil })
	}
}

// knows says that a client was told a member's id on this side, or is about to be.
func (s *side) knows(client string, pending []*exchange, i int) bool {
	if s.member(client).id != "" {
		return true
	}
	return slices.ContainsFunc(pending, func(x *exchange) bool { return x.client == client && x.out[i] != nil })
}

// who is the client that was told a member's id; "" if nobody was.
func (s *side) who(id string) string {
	for client, m := range s.members {
		if m.id == id {
			return client
		}
	}
	return ""
}

// abandon ends the connection of a client that waits for an answer, which nobody
// hears then.
func (p *Play) abandon(client string) {
	if !p.busy(client) {
		return
	}
	p.pending = slices.DeleteFunc(p.pending, func(x *exchange) bool { return x.client == client })
	p.comesAgain[client] = true
	for _, s := range p.Sides {
		s.hangUp(client)
	}
}

func (p *Play) pendingText() string {
	var list []string
	for _, x := range p.pending {
		list = append(list, fmt.Sprintf("%s v%d", kmsg.NameForKey(x.req[0].Key()), x.req[0].GetVersion()))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// drain waits until everything under way is answered, or has waited for as long
// as it may.
func (p *Play) drain() {
	for begun := time.Now(); len(p.pending) > 0 && !p.over && time.Since(begun) < patience; {
		p.settle(nil)
	}
}
