package group

import (
	"strings"
	"testing"
	"time"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSimulationCatchesFaults plants a fault in the machine, or between it and
// its driver; the simulation must find each within a few seeds.
func TestSimulationCatchesFaults(t *testing.T) {
	for name, plant := range faults {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				s := newSim(t, seed, func(s *sim, m machine.Machine) machine.Machine {
					return &planted{Machine: m, s: s, f: plant}
				})
				s.run()
				if s.err != nil {
					t.Logf("seed %d: %v", seed, s.err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}

// planted is a machine with a fault around it.
type planted struct {
	machine.Machine
	s *sim
	f faultPlan
	n int
}

// faultPlan changes what passes, each part if it is set.
type faultPlan struct {
	event   func(p *planted, ev machine.Event) machine.Event
	decided func(p *planted, m *Machine, d *machine.Decision)
	record  func(p *planted, rec machine.Record) (machine.Record, bool)
}

func (p *planted) Unwrap() machine.Machine { return p.Machine }

// nth is true once in n times, though not while all is calm.
func (p *planted) nth(n int) bool {
	p.n++
	return p.n%n == 0 && !p.s.quiet
}

func (p *planted) Handle(now time.Time, ev machine.Event) machine.Decision {
	if p.f.event != nil {
		ev = p.f.event(p, ev)
	}
	d := p.Machine.Handle(now, ev)
	if p.f.decided != nil {
		p.f.decided(p, p.Machine.(*Machine), &d)
	}
	return d
}

func (p *planted) Replay(rec machine.Record) string {
	if p.f.record != nil {
		var keep bool
		if rec, keep = p.f.record(p, rec); !keep {
			return ""
		}
	}
	return p.Machine.Replay(rec)
}

func isOffset(rec machine.Record) bool {
	k, _ := records.DecodeKey(rec.Key)
	_, ok := k.(*records.OffsetCommitKey)
	return ok
}

var faults = map[string]faultPlan{
	"a generation is skipped": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, g := range m.groups {
			if g.live != nil && g.live.state == preparingRebalance && p.nth(50) {
				g.live.generation++
			}
		}
	}},
	"a member is kept after its session": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, g := range m.groups {
			if g.live == nil {
				continue
			}
			for _, mb := range g.live.members {
				if strings.Contains(mb.id, "1-") && !mb.deadline.IsZero() {
					mb.deadline = p.s.w.now.Add(time.Hour)
				}
			}
		}
	}},
	"a partition has two owners": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, r := range d.Replies {
			if resp, ok := r.Body.(*kmsg.SyncGroupResponse); ok && resp.ErrorCode == none && p.nth(20) {
				resp.MemberAssignment = append([]byte("0,1,"), resp.MemberAssignment...)
			}
		}
	}},
	"an offset is lost": {record: func(p *planted, rec machine.Record) (machine.Record, bool) {
		return rec, !isOffset(rec) || !p.nth(300)
	}},
	"a load leaves out a record": {record: func(p *planted, rec machine.Record) (machine.Record, bool) {
		return rec, p.Machine.(*Machine).loaded || !isOffset(rec) || !p.nth(30)
	}},
	"a commit is answered early": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for i := range d.Replies {
			if _, ok := d.Replies[i].Body.(*kmsg.OffsetCommitResponse); ok {
				d.Replies[i].Wait = machine.Wait{}
			}
		}
	}},
	"an assignment is answered early": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for i := range d.Replies {
			if _, ok := d.Replies[i].Body.(*kmsg.SyncGroupResponse); ok {
				d.Replies[i].Wait = machine.Wait{}
			}
		}
	}},
	"a rebalance does not end": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, g := range m.groups {
			if g.live != nil && g.live.state == preparingRebalance {
				g.live.joinAt = p.s.w.now.Add(time.Hour)
			}
		}
	}},
	"syncs are waited for without end": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, g := range m.groups {
			if g.live != nil && g.live.state == completingRebalance {
				g.live.syncAt = p.s.w.now.Add(time.Hour)
				for _, mb := range g.live.members {
					mb.deadline = p.s.w.now.Add(time.Hour)
				}
			}
		}
	}},
	"a refused record counts": {event: func(p *planted, ev machine.Event) machine.Event {
		if _, ok := ev.(machine.Refused); ok {
			return machine.Written{}
		}
		return ev
	}},
	"a request is answered twice": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		if len(d.Replies) > 0 && p.nth(200) {
			d.Replies = append(d.Replies, d.Replies[0])
		}
	}},
	"a request is never answered": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		if len(d.Replies) > 0 && p.nth(12) {
			d.Replies = d.Replies[1:]
		}
	}},
	"a static member keeps its fenced id": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, r := range d.Replies {
			if resp, ok := r.Body.(*kmsg.HeartbeatResponse); ok && resp.ErrorCode == fencedInstanceID {
				resp.ErrorCode = none
			}
			if resp, ok := r.Body.(*kmsg.JoinGroupResponse); ok && resp.ErrorCode == fencedInstanceID {
				resp.ErrorCode = unknownMemberID
			}
			if resp, ok := r.Body.(*kmsg.OffsetCommitResponse); ok && resp.Topics[0].Partitions[0].ErrorCode == fencedInstanceID {
				for i := range resp.Topics[0].Partitions {
					resp.Topics[0].Partitions[i].ErrorCode = none
				}
			}
		}
	}},
}
