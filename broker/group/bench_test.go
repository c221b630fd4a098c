package group

import (
	"fmt"
	"testing"
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fleet is a machine with n Stable groups of one member.
func fleet(b *testing.B, n int) (w *world, members []string) {
	w = newWorld(b, Config{})
	w.load()
	var id string
	w.onSend = func(r machine.Reply) {
		if j, ok := r.Body.(*kmsg.JoinGroupResponse); ok {
			id = j.MemberID
		}
	}
	m := w.m.(*Machine)
	for i := range n {
		g := fmt.Sprint("group", i)
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 3, g, "consumer", 45000, 60000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", subscription("t")
		r.Protocols = append(r.Protocols, p)
		quick(w, m, r)
		d := m.Handle(w.now, machine.Expire{})
		id = d.Replies[0].Body.(*kmsg.JoinGroupResponse).MemberID
		s := kmsg.NewPtrSyncGroupRequest()
		s.Version, s.Group, s.MemberID, s.Generation = 3, g, id, 1
		quick(w, m, s)
		members = append(members, id)
	}
	return w, members
}

// quick is ask without the world's checks.
func quick(w *world, m *Machine, body any) machine.Decision {
	w.ticket++
	d := m.Handle(w.now, machine.Request{Ticket: w.ticket, Body: body, Client: machine.Client{ID: "c"}, Fresh: [16]byte{byte(w.ticket), byte(w.ticket >> 8), byte(w.ticket >> 16)}})
	if len(d.Records) > 0 {
		for _, rec := range d.Records {
			rec.Producer = d.Producer
			m.Replay(rec)
		}
		m.Handle(w.now, machine.Written{})
	}
	return d
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n, " groups"), func(b *testing.B) {
			w, members := fleet(b, n)
			m := w.m.(*Machine)
			r := kmsg.NewPtrHeartbeatRequest()
			r.Version, r.Generation = 4, 1
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 1) % n
				r.Group, r.MemberID = fmt.Sprint("group", i), members[i]
				w.now = w.now.Add(time.Millisecond / time.Duration(n))
				quick(w, m, r)
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n, " groups"), func(b *testing.B) {
			w, members := fleet(b, n)
			m := w.m.(*Machine)
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Version, r.Generation = 9, 1
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = "t"
			t.Partitions = append(t.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
			r.Topics = append(r.Topics, t)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 1) % n
				r.Group, r.MemberID = fmt.Sprint("group", i), members[i]
				r.Topics[0].Partitions[0].Offset++
				quick(w, m, r)
			}
		})
	}
}

// BenchmarkExpire is a wake-up with nothing but one group due, among many.
func BenchmarkExpire(b *testing.B) {
	w, members := fleet(b, 10_000)
	m := w.m.(*Machine)
	g := m.groups["group7"]
	b.ReportAllocs()
	for b.Loop() {
		m.extend(g, members[7], w.now)
		m.schedule(g, w.now)
		m.Handle(w.now, machine.Expire{})
	}
}

// BenchmarkBigGroup is the rebalance of one group with many members.
func BenchmarkBigGroup(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n, " members"), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, Config{})
				w.load()
				m := w.m.(*Machine)
				for range n {
					r := kmsg.NewPtrJoinGroupRequest()
					r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 3, "g", "consumer", 45000, 60000
					p := kmsg.NewJoinGroupRequestProtocol()
					p.Name, p.Metadata = "range", subscription("t")
					r.Protocols = append(r.Protocols, p)
					quick(w, m, r)
				}
				d := m.Handle(w.now, machine.Expire{})
				if len(d.Replies) != n {
					b.Fatalf("%d answers", len(d.Replies))
				}
				for i := n - 1; i >= 0; i-- {
					s := kmsg.NewPtrSyncGroupRequest()
					s.Version, s.Group, s.MemberID, s.Generation = 3, "g", d.Replies[i].Body.(*kmsg.JoinGroupResponse).MemberID, 1
					quick(w, m, s)
				}
			}
		})
	}
}
