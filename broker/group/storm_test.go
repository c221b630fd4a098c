package group

import (
	"math/rand/v2"
	"testing"
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzRequests lets any sequence of requests loose on a machine, sensible or
// not: it must not panic, must keep what the audit asks for, and must answer
// every request at once or by the end of the timers that belong to it.
func FuzzRequests(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint16(400))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		storm(t, seed, int(steps%2000))
	})
}

func storm(t *testing.T, seed uint64, steps int) {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := newWorld(t, Config{InitialRebalanceDelay: time.Duration(rng.IntN(2)) * time.Second, MaxSize: 3 + rng.IntN(3), OffsetsRetention: time.Hour})
	var ids []string
	w.onSend = func(r machine.Reply) {
		if j, ok := r.Body.(*kmsg.JoinGroupResponse); ok && j.MemberID != "" {
			ids = append(ids, j.MemberID)
		}
	}
	w.refuse = func(machine.Decision) error {
		if rng.IntN(20) == 0 {
			return errRefused
		}
		return nil
	}
	w.load()
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	maybe := func(s ...string) *string {
		if i := rng.IntN(len(s) + 2); i < len(s) {
			return &s[i]
		}
		return nil
	}
	id := func() string {
		if len(ids) > 0 && rng.IntN(5) > 0 {
			return ids[max(0, len(ids)-1-rng.IntN(8))]
		}
		return pick("", "nobody")
	}
	gid := func() string { return pick("g", "g", "g", "h", "") }
	gen := func() int32 { return int32(rng.IntN(8)) - 1 }
	for range steps {
		switch rng.IntN(14) {
		case 0, 1, 2, 3:
			r := kmsg.NewPtrJoinGroupRequest()
			r.Version, r.Group, r.MemberID, r.InstanceID = int16(rng.IntN(10)), gid(), id(), maybe("i", "j")
			r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(5900+rng.IntN(20000)), int32(rng.IntN(30000))-10
			r.ProtocolType = pick("consumer", "consumer", "consumer", "connect", "")
			for range rng.IntN(4) {
				p := kmsg.NewJoinGroupRequestProtocol()
				p.Name = pick("range", "range", "sticky", "other", "")
				p.Metadata = [][]byte{subscription("t"), subscription("t", "u"), nil, {0}, {0, 1, 0xff, 0xff, 0xff, 0xff}, {0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 1}}[rng.IntN(6)]
				r.Protocols = append(r.Protocols, p)
			}
			w.ask(r, "c", [16]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())})
		case 4, 5, 6:
			r := kmsg.NewPtrSyncGroupRequest()
			r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = int16(rng.IntN(6)), gid(), id(), maybe("i"), gen()
			r.ProtocolType, r.Protocol = maybe("consumer", "consumer", "connect"), maybe("range", "range", "sticky")
			for range rng.IntN(3) {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = id(), [][]byte{nil, []byte("x")}[rng.IntN(2)]
				r.GroupAssignment = append(r.GroupAssignment, a)
			}
			w.ask(r, "", [16]byte{})
		case 7:
			r := kmsg.NewPtrHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, gid(), id(), maybe("i"), gen()
			w.ask(r, "", [16]byte{})
		case 8:
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Version, r.Group, r.MemberID = int16(rng.IntN(6)), gid(), id()
			for range rng.IntN(3) {
				m := kmsg.NewLeaveGroupRequestMember()
				m.MemberID, m.InstanceID = id(), maybe("i", "j")
				r.Members = append(r.Members, m)
			}
			w.ask(r, "", [16]byte{})
		case 9:
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Version, r.Group, r.MemberID, r.Generation, r.RetentionTimeMillis = int16(rng.IntN(11)), gid(), id(), gen(), rng.Int64N(10)-1
			o := kmsg.NewOffsetCommitRequestTopic()
			o.Topic = pick("t", "u", "")
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Offset, p.Metadata = rng.Int64(), maybe("m", "\xff")
			o.Partitions = append(o.Partitions, p)
			r.Topics = append(r.Topics, o)
			w.ask(r, "", [16]byte{})
		case 10:
			switch rng.IntN(5) {
			case 0:
				r := kmsg.NewPtrDeleteGroupsRequest()
				r.Version, r.Groups = 3, []string{gid(), gid()}
				w.ask(r, "", [16]byte{})
			case 1:
				r := kmsg.NewPtrTxnOffsetCommitRequest()
				r.Group, r.MemberID, r.Generation, r.ProducerID = gid(), id(), gen(), rng.Int64N(3)
				o := kmsg.NewTxnOffsetCommitRequestTopic()
				o.Topic = "t"
				o.Partitions = append(o.Partitions, kmsg.NewTxnOffsetCommitRequestTopicPartition())
				r.Topics = append(r.Topics, o)
				w.ask(r, "", [16]byte{})
			case 2:
				w.mark(machine.Marker{Producer: machine.Producer{ID: rng.Int64N(3)}, Commit: rng.IntN(2) == 0})
			case 3:
				r := kmsg.NewPtrOffsetDeleteRequest()
				r.Group = gid()
				o := kmsg.NewOffsetDeleteRequestTopic()
				o.Topic, o.Partitions = "t", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
				r.Topics = append(r.Topics, o)
				w.ask(r, "", [16]byte{})
			default:
				w.load()
				ids = ids[len(ids)/2:]
			}
		case 11:
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = int16(rng.IntN(7)), []string{"g", "h", gid()}
			w.ask(r, "", [16]byte{})
		case 12:
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Version, r.Group, r.RequireStable = int16(rng.IntN(11)), gid(), rng.IntN(2) == 0
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = gid()
			r.Groups = append(r.Groups, g)
			w.ask(r, "", [16]byte{})
		default:
			w.advance(time.Duration(rng.IntN(9000)) * time.Millisecond)
		}
	}
	w.refuse = nil
	// Nobody says anything any more: all timers run out, everybody is answered.
	w.advance(10 * time.Minute)
	if len(w.open) > 0 {
		t.Fatalf("seed %d: %d requests are never answered", seed, len(w.open))
	}
	for _, g := range w.inner().groups {
		if g.live.state != empty {
			t.Fatalf("seed %d: %s is %v though nobody is there", seed, g.id, g.live.state)
		}
	}
}
