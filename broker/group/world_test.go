package group

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/wire/records"
)

// world is a machine with the least of a driver around it: a log in memory and a
// clock that stands still. After every event it checks what must always hold.
type world struct {
	t      testing.TB
	config Config
	m      machine.Machine
	wrap   func(machine.Machine) machine.Machine // plants a fault
	log    []entry
	now    time.Time
	due    time.Time
	ticket machine.Ticket
	fail   func(format string, args ...any)
	refuse func(d machine.Decision) error // says whether an append fails
	onSend func(machine.Reply)            // a reply leaves
	onLog  func(machine.Record)           // a record was appended
	open   map[machine.Ticket]bool        // asked and not answered
	after  func(ev machine.Event)         // an event is over
	fell   func()                         // the outcome of an append was unknown
	image  *image.Image
}

// entry is a record of the log, or a marker.
type entry struct {
	rec    machine.Record
	marker *machine.Marker
}

// unknownOutcome is an append of which nobody knows whether it happened.
type unknownOutcome struct{ stored bool }

func (unknownOutcome) Error() string { return "the outcome is unknown" }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t testing.TB, c Config) *world {
	w := &world{t: t, config: c, now: epoch, open: map[machine.Ticket]bool{}, onSend: func(machine.Reply) {}, onLog: func(machine.Record) {}}
	w.fail = func(format string, args ...any) { w.t.Fatalf(format, args...) }
	return w
}

// load begins with what the log holds, as a broker that became the leader.
func (w *world) load() {
	w.open = map[machine.Ticket]bool{}
	w.m = New(w.config)
	if w.wrap != nil {
		w.m = w.wrap(w.m)
	}
	for _, e := range w.log {
		if e.marker != nil {
			w.m.ReplayMarker(*e.marker)
			continue
		}
		if why := w.m.Replay(e.rec); why != "" {
			w.fail("a record was skipped: %s", why)
		}
	}
	w.tell(machine.Loaded{})
	if w.image != nil {
		w.tell(machine.ImageChanged{Image: w.image})
	}
}

// ask puts a request and gives its ticket.
func (w *world) ask(body any, client string, fresh [16]byte) machine.Ticket {
	w.ticket++
	tk := w.ticket
	w.open[tk] = true
	w.tell(machine.Request{Ticket: tk, Body: body, Client: machine.Client{ID: client, Host: "/127.0.0.1"}, Fresh: fresh})
	return tk
}

// tell is what the driver does with an event.
func (w *world) tell(ev machine.Event) {
	own := machine.Ticket(0)
	if q, ok := ev.(machine.Request); ok {
		own = q.Ticket
	}
	for {
		d := w.m.Handle(w.now, ev)
		w.due = d.Deadline
		if len(d.Records) == 0 {
			w.dispatch(d)
			w.check()
			if w.after != nil {
				w.after(ev)
			}
			return
		}
		if w.refuse != nil {
			if err := w.refuse(d); err != nil {
				if u, ok := err.(unknownOutcome); ok {
					if u.stored {
						for _, rec := range d.Records {
							rec.Producer = d.Producer
							w.log = append(w.log, entry{rec: rec})
							w.onLog(rec)
						}
					}
					w.fell()
					return
				}
				if w.open[own] {
					delete(w.open, own)
					w.onSend(machine.Reply{Ticket: own, Body: err})
				}
				ev = machine.Refused{Code: unavailable, Err: err}
				continue
			}
		}
		for _, rec := range d.Records {
			rec.Producer = d.Producer
			w.log = append(w.log, entry{rec: rec})
			w.onLog(rec)
			if why := w.m.Replay(rec); why != "" {
				w.fail("an own record was skipped: %s", why)
			}
		}
		w.dispatch(d)
		ev = machine.Written{}
	}
}

func (w *world) mark(mk machine.Marker) {
	w.log = append(w.log, entry{marker: &mk})
	w.m.ReplayMarker(mk)
	w.tell(machine.Marked{Marker: mk})
}

func (w *world) dispatch(d machine.Decision) {
	for _, r := range d.Replies {
		if !w.open[r.Ticket] {
			w.fail("ticket %d is answered but nobody waits: %+v", r.Ticket, r.Body)
			continue
		}
		delete(w.open, r.Ticket)
		w.onSend(r)
	}
}

// advance lets time pass; the machine is woken when it asked to be.
func (w *world) advance(d time.Duration) {
	until := w.now.Add(d)
	for n := 0; !w.due.IsZero() && !w.due.After(until); n++ {
		if n > 100_000 {
			w.fail("the machine asks to be woken at %v again and again", w.due)
			return
		}
		if w.due.After(w.now) {
			w.now = w.due
		}
		w.tell(machine.Expire{})
	}
	w.now = until
}

// machine gives the machine itself, under whatever was wrapped around it.
func (w *world) inner() *Machine {
	m := w.m
	for {
		switch x := m.(type) {
		case *Machine:
			return x
		case interface{ Unwrap() machine.Machine }:
			m = x.Unwrap()
		default:
			panic("no machine inside")
		}
	}
}

// check is what holds after every event, whatever was asked.
func (w *world) check() {
	if err := audit(w.inner(), w.open); err != nil {
		w.fail("at %v: %v", w.now.Sub(epoch), err)
	}
}

// audit looks over a machine: states and timers fit together, hard and soft
// state agree where they must, and every parked ticket is one that waits.
func audit(m *Machine, open map[machine.Ticket]bool) error {
	if m.waiting != nil {
		return fmt.Errorf("records are waiting though the event is over")
	}
	held := map[machine.Ticket]string{}
	hold := func(tk machine.Ticket, who string) error {
		if tk == 0 {
			return nil
		}
		if was, ok := held[tk]; ok {
			return fmt.Errorf("ticket %d is held by %s and by %s", tk, was, who)
		}
		held[tk] = who
		if !open[tk] {
			return fmt.Errorf("ticket %d is parked with %s but nobody waits", tk, who)
		}
		return nil
	}
	for _, id := range m.sortedIDs() {
		g := m.groups[id]
		l := g.live
		if l == nil {
			return fmt.Errorf("group %s is not alive", id)
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("group %s, %v, generation %d: %s", id, l.state, l.generation, fmt.Sprintf(format, args...))
		}
		if next := l.next(); !next.IsZero() && (g.index < 0 || g.due.After(next)) {
			return fail("its timer is later than what is due")
		}
		ids := map[string]bool{}
		instances := map[string]bool{}
		for _, mb := range l.members {
			if ids[mb.id] {
				return fail("two members with id %s", mb.id)
			}
			ids[mb.id] = true
			if mb.instance != nil {
				if instances[*mb.instance] {
					return fail("two members with instance id %s", *mb.instance)
				}
				instances[*mb.instance] = true
			}
			if err := hold(mb.join.ticket, mb.id); err != nil {
				return err
			}
			if err := hold(mb.sync.ticket, mb.id); err != nil {
				return err
			}
			switch {
			case mb.join.ticket != 0 && l.state != preparingRebalance:
				return fail("%s awaits a join", mb.id)
			case mb.sync.ticket != 0 && l.state != completingRebalance:
				return fail("%s awaits a sync", mb.id)
			case mb.isNew && l.state != preparingRebalance:
				return fail("%s is new", mb.id)
			case mb.deadline.IsZero() && !mb.awaiting():
				return fail("%s has no session and waits for nothing", mb.id)
			}
		}
		for _, p := range l.pending {
			if ids[p.id] {
				return fail("%s is pending and a member", p.id)
			}
		}
		if (len(l.members) == 0) != (l.state == empty) && l.state != preparingRebalance {
			return fail("%d members", len(l.members))
		}
		if l.leader != "" && !ids[l.leader] {
			return fail("the leader %s is no member", l.leader)
		}
		if (l.state == preparingRebalance) == l.joinAt.IsZero() {
			return fail("end of join phase is at %v", l.joinAt)
		}
		switch l.state {
		case completingRebalance:
			if l.leader == "" || l.protocol == nil || l.syncAt.IsZero() && !allSynced(l) {
				return fail("leader %q, protocol %v, syncs until %v", l.leader, l.protocol, l.syncAt)
			}
		case stable:
			if l.leader == "" || l.protocol == nil {
				return fail("leader %q, protocol %v", l.leader, l.protocol)
			}
			if err := sameAsStored(l, g.stored); err != nil {
				return fail("%v", err)
			}
		}
		for producer, in := range g.txns {
			if len(in) == 0 || !m.txns[producer][id] {
				return fail("producer %d: %d topics, noted %v", producer, len(in), m.txns[producer][id])
			}
		}
	}
	for producer, groups := range m.txns {
		for id := range groups {
			if g := m.groups[id]; g == nil || g.txns[producer] == nil {
				return fmt.Errorf("producer %d is noted for group %s, which has nothing of it", producer, id)
			}
		}
	}
	for i, g := range m.timers {
		if g.index != i || m.groups[g.id] != g {
			return fmt.Errorf("timers: group %s at %d says %d", g.id, i, g.index)
		}
	}
	return nil
}

func allSynced(l *live) bool {
	if l.unsynced > 0 {
		return false
	}
	for _, m := range l.members {
		if m.pendingSync {
			return false
		}
	}
	return true
}

// sameAsStored says where a Stable group's soft state has left its records.
func sameAsStored(l *live, v *records.GroupMetadataValue) error {
	if v == nil {
		return fmt.Errorf("stable but not stored")
	}
	var leader string
	if v.Leader != nil {
		leader = *v.Leader
	}
	if l.generation != v.Generation || l.protocolType != v.ProtocolType || !reflect.DeepEqual(l.protocol, v.Protocol) || l.leader != leader {
		return fmt.Errorf("stored is generation %d, leader %q, protocol %v", v.Generation, leader, v.Protocol)
	}
	if len(l.members) != len(v.Members) {
		return fmt.Errorf("%d members stored, %d alive", len(v.Members), len(l.members))
	}
	for i, s := range v.Members {
		m := l.members[i]
		if m.id != s.MemberId || !reflect.DeepEqual(m.instance, s.GroupInstanceId) || string(m.assignment) != string(s.Assignment) ||
			string(m.metadata(*l.protocol)) != string(s.Subscription) || m.session != s.SessionTimeout || m.rebalance != s.RebalanceTimeout {
			return fmt.Errorf("member %s is stored as %+v", m.id, s)
		}
	}
	return nil
}
