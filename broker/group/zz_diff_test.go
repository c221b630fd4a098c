package group

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type dconn struct {
	c       net.Conn
	id      string
	waiting kmsg.Request
	replies chan kmsg.Response
}

func ddial(addr, id string) *dconn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	d := &dconn{c: c, id: id, replies: make(chan kmsg.Response, 10)}
	return d
}
func (d *dconn) send(r kmsg.Request) {
	d.waiting = r
	d.c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(d.id)).AppendRequest(nil, r, 1))
	go func() {
		var l [4]byte
		if _, err := io.ReadFull(d.c, l[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(l[:]))
		io.ReadFull(d.c, b)
		b = b[4:]
		resp := r.ResponseKind()
		if r.IsFlexible() {
			b = b[1:]
		}
		if err := resp.ReadFrom(b); err != nil {
			panic(err)
		}
		d.replies <- resp
	}()
}

type pair struct{ k, o string } // kafka's id, ours

func TestDiff(t *testing.T) {
	addr := os.Getenv("KAFKA")
	n, _ := strconv.Atoi(os.Getenv("N"))
	base, _ := strconv.Atoi(os.Getenv("SEED"))
	for i := range n {
		if !diffOnce(t, addr, uint64(base+i)) {
			return
		}
	}
}

func diffOnce(t *testing.T, addr string, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 3))
	group := fmt.Sprintf("d%d-%d", seed, time.Now().UnixNano()%1000000)
	var conns []*dconn
	for i := range 4 {
		conns = append(conns, ddial(addr, fmt.Sprint("c", i)))
	}
	defer func() {
		for _, c := range conns {
			c.c.Close()
		}
	}()
	w := newWorld(t, Config{})
	ours := map[machine.Ticket]any{}
	w.onSend = func(r machine.Reply) { ours[r.Ticket] = r.Body }
	w.load()
	tickets := map[int]machine.Ticket{}
	ids := []pair{{"", ""}, {"bogus", "bogus"}}
	gen := int32(0)
	fresh := byte(0)
	var trace []string
	pick := func() pair {
		if len(ids) > 2 && rng.IntN(8) != 0 {
			return ids[max(2, len(ids)-1-rng.IntN(5))]
		}
		return ids[rng.IntN(len(ids))]
	}
	inst := func() *string {
		switch rng.IntN(8) {
		case 0:
			return kmsg.StringPtr("i")
		case 1:
			return kmsg.StringPtr("j")
		}
		return nil
	}
	generation := func() int32 {
		switch rng.IntN(10) {
		case 0:
			return gen - 1
		case 1:
			return gen + 1
		case 2:
			return -1
		}
		return gen
	}
	// cur: id in use per conn, so that flows get somewhere
	cur := map[int]pair{}
	curInst := map[int]*string{}
	leader := map[int]bool{}
	members := map[int][]pair{}
	proto := "range"
	superseded := 0
	for step := range 150 {
		ci := rng.IntN(len(conns))
		c := conns[ci]
		if c.waiting != nil {
			continue
		}
		me := cur[ci]
		if rng.IntN(16) == 0 {
			me = pick()
		}
		in := curInst[ci]
		if rng.IntN(12) == 0 {
			in = inst()
		}
		var rk, ro kmsg.Request
		mk := func(build func(id string, other func(pair) string) kmsg.Request) {
			rk = build(me.k, func(p pair) string { return p.k })
			ro = build(me.o, func(p pair) string { return p.o })
		}
		what := ""
		switch op := rng.IntN(20); {
		case op < 7:
			v := []int16{2, 3, 4, 5, 6, 7, 8, 9}[rng.IntN(8)]
			if rng.IntN(10) == 0 {
				me = pair{}
				in = inst()
				curInst[ci] = in
			}
			if v < 5 {
				in = nil
			}
			protos := []string{"range", "sticky"}
			switch rng.IntN(24) {
			case 0:
				protos = protos[:1]
			case 1:
				protos = []string{"other"}
			case 2:
				protos = nil
			}
			typ := "consumer"
			if rng.IntN(20) == 0 {
				typ = "connect"
			}
			topics := []string{"t"}
			if rng.IntN(6) == 0 {
				topics = []string{"t", "u"}
			}
			what = fmt.Sprintf("join v%d member=%s inst=%v protos=%v type=%s topics=%v", v, me.o, orNull(in), protos, typ, topics)
			mk(func(id string, _ func(pair) string) kmsg.Request {
				r := kmsg.NewPtrJoinGroupRequest()
				r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = v, group, id, in, typ
				r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 1800000, 1800000
				for _, p := range protos {
					x := kmsg.NewJoinGroupRequestProtocol()
					x.Name, x.Metadata = p, subscription(topics...)
					r.Protocols = append(r.Protocols, x)
				}
				return r
			})
		case op < 12:
			g := generation()
			v := []int16{0, 3, 4, 5}[rng.IntN(4)]
			if v < 3 {
				in = nil
			}
			nul := rng.IntN(30) == 0
			ms := members[ci]
			what = fmt.Sprintf("sync v%d member=%s inst=%v gen=%d", v, me.o, orNull(in), g)
			mk(func(id string, other func(pair) string) kmsg.Request {
				r := kmsg.NewPtrSyncGroupRequest()
				r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = v, group, id, in, g
				if v >= 5 && !nul {
					r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr(proto)
				}
				if leader[ci] {
					for n, m := range ms {
						x := kmsg.NewSyncGroupRequestGroupAssignment()
						x.MemberID, x.MemberAssignment = other(m), []byte(fmt.Sprint("a", n, "g", g))
						_ = n
						x.MemberAssignment = []byte("a" + strconv.Itoa(len(ids)))
						r.GroupAssignment = append(r.GroupAssignment, x)
					}
				}
				return r
			})
		case op < 14:
			g := generation()
			what = fmt.Sprintf("heartbeat member=%s inst=%v gen=%d", me.o, orNull(in), g)
			mk(func(id string, _ func(pair) string) kmsg.Request {
				r := kmsg.NewPtrHeartbeatRequest()
				r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, group, id, in, g
				return r
			})
		case op < 15:
			v := []int16{1, 3, 5}[rng.IntN(3)]
			if rng.IntN(5) == 0 {
				me = pair{}
			}
			more := pick()
			two := rng.IntN(4) == 0
			what = fmt.Sprintf("leave v%d member=%s inst=%v two=%v %s", v, me.o, orNull(in), two, more.o)
			mk(func(id string, other func(pair) string) kmsg.Request {
				r := kmsg.NewPtrLeaveGroupRequest()
				r.Version, r.Group, r.MemberID = v, group, id
				m := kmsg.NewLeaveGroupRequestMember()
				m.MemberID, m.InstanceID = id, in
				r.Members = append(r.Members, m)
				if two {
					m.MemberID, m.InstanceID = other(more), nil
					r.Members = append(r.Members, m)
				}
				return r
			})
		case op < 17:
			g := generation()
			v := []int16{2, 5, 7, 8, 9}[rng.IntN(5)]
			if v < 7 {
				in = nil
			}
			if rng.IntN(5) == 0 {
				me, g, in = pair{}, -1, nil
			}
			what = fmt.Sprintf("commit v%d member=%s inst=%v gen=%d", v, me.o, orNull(in), g)
			mk(func(id string, _ func(pair) string) kmsg.Request {
				r := kmsg.NewPtrOffsetCommitRequest()
				r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation, r.RetentionTimeMillis = v, group, id, in, g, -1
				x := kmsg.NewOffsetCommitRequestTopic()
				x.Topic = "t"
				y := kmsg.NewOffsetCommitRequestTopicPartition()
				y.Offset = int64(step)
				x.Partitions = append(x.Partitions, y)
				r.Topics = append(r.Topics, x)
				return r
			})
		case op < 18:
			v := int16(5 + rng.IntN(2))
			what = "describe"
			mk(func(id string, _ func(pair) string) kmsg.Request {
				r := kmsg.NewPtrDescribeGroupsRequest()
				r.Version, r.Groups = v, []string{group}
				return r
			})
		case op < 19:
			v := []int16{2, 5, 7}[rng.IntN(3)]
			what = "fetch"
			mk(func(id string, _ func(pair) string) kmsg.Request {
				r := kmsg.NewPtrOffsetFetchRequest()
				r.Version, r.Group = v, group
				if rng.IntN(1) == 0 {
					x := kmsg.NewOffsetFetchRequestTopic()
					x.Topic, x.Partitions = "t", []int32{0, 1}
					r.Topics = append(r.Topics, x)
				}
				return r
			})
		default:
			if rng.IntN(3) == 0 {
				what = "delete group"
				mk(func(id string, _ func(pair) string) kmsg.Request {
					r := kmsg.NewPtrDeleteGroupsRequest()
					r.Version, r.Groups = 2, []string{group}
					return r
				})
			} else {
				what = "delete offsets"
				mk(func(id string, _ func(pair) string) kmsg.Request {
					r := kmsg.NewPtrOffsetDeleteRequest()
					r.Group = group
					x := kmsg.NewOffsetDeleteRequestTopic()
					x.Topic = "t"
					x.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
					r.Topics = append(r.Topics, x)
					return r
				})
			}
		}
		trace = append(trace, fmt.Sprintf("%d c%d: %s", step, ci, what))
		fresh++
		c.send(rk)
		tickets[ci] = w.ask(ro, c.id, [16]byte{15: fresh})
		// our timers
		w.advance(time.Millisecond)
		// gather Kafka's replies
		deadline := time.After(1500 * time.Millisecond)
		gotK := map[int]kmsg.Response{}
		want := 0
		for i, cc := range conns {
			if cc.waiting != nil && ours[tickets[i]] != nil {
				want++
			}
		}
		settle := time.After(25 * time.Millisecond)
	gather:
		for {
			for i, cc := range conns {
				select {
				case r := <-cc.replies:
					gotK[i] = r
				default:
				}
			}
			select {
			case <-deadline:
				break gather
			case <-settle:
				if len(gotK) >= want {
					break gather
				}
				settle = time.After(10 * time.Millisecond)
			default:
				time.Sleep(time.Millisecond)
			}
		}
		// compare
		var order []int
		for i := range conns {
			order = append(order, i)
		}
		learn := func(k, o string) {
			if k == "" || o == "" {
				return
			}
			for _, p := range ids {
				if p.k == k || p.o == o {
					return
				}
			}
			ids = append(ids, pair{k, o})
		}
		for _, i := range order {
			k, ko := gotK[i]
			o, oo := ours[tickets[i]]
			if conns[i].waiting == nil {
				continue
			}
			if !ko && oo && i != ci {
				super := false
				if r, ok := o.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 27 {
					super = true
				}
				if r, ok := o.(*kmsg.SyncGroupResponse); ok && r.ErrorCode == 27 {
					super = true
				}
				if super {
					conns[i].c.Close()
					conns[i] = ddial(addr, conns[i].id)
					superseded++
					continue
				}
			}
			if ko != oo {
				t.Errorf("seed %d: c%d: Kafka answers %v, we %v\nkafka %+v\nours %+v\n%s", seed, i, ko, oo, k, o, strings.Join(trace, "\n"))
				return false
			}
			if !ko {
				continue
			}
			if kj, ok := k.(*kmsg.JoinGroupResponse); ok {
				learn(kj.MemberID, o.(*kmsg.JoinGroupResponse).MemberID)
			}
		}
		canon := func(id string, ours bool) string {
			for n, p := range ids {
				if ours && p.o == id || !ours && p.k == id {
					return fmt.Sprint("m", n)
				}
			}
			return "?" + strings.SplitN(id, "-", 2)[0]
		}
		for _, i := range order {
			k, ok := gotK[i]
			if !ok || conns[i].waiting == nil {
				continue
			}
			o := ours[tickets[i]].(kmsg.Response)
			conns[i].waiting = nil
			ks, os := diffText(k, func(s string) string { return canon(s, false) }), diffText(o, func(s string) string { return canon(s, true) })
			if ks != os {
				kj, isJoin := k.(*kmsg.JoinGroupResponse)
				if oj, _ := o.(*kmsg.JoinGroupResponse); isJoin && kj.ErrorCode == 0 && oj.ErrorCode == 0 && (canon(kj.LeaderID, false) != canon(oj.LeaderID, true) || orNull(kj.Protocol) != orNull(oj.Protocol)) {
					t.Logf("seed %d ends at step %d: leader or protocol is another", seed, step)
					return true
				}
				t.Errorf("seed %d: c%d:\nkafka %s\nours  %s\n%s", seed, i, ks, os, strings.Join(trace, "\n"))
				return false
			}
			if oj, ok := o.(*kmsg.JoinGroupResponse); ok {
				kj := k.(*kmsg.JoinGroupResponse)
				if oj.ErrorCode == 0 || oj.ErrorCode == 79 {
					cur[i] = pair{kj.MemberID, oj.MemberID}
				}
				if oj.ErrorCode == 0 {
					gen = oj.Generation
					proto = *oj.Protocol
					leader[i] = oj.LeaderID == oj.MemberID
					members[i] = nil
					for _, m := range oj.Members {
						for _, p := range ids {
							if p.o == m.MemberID {
								members[i] = append(members[i], p)
							}
						}
					}
				}
				if oj.ErrorCode == 25 {
					cur[i] = pair{}
				}
			}
		}
	}
	t.Logf("seed %d: agreed to the end, generation %d, %d ids, %d superseded", seed, gen, len(ids), superseded)
	// release
	return true
}

func diffText(r kmsg.Response, canon func(string) string) string {
	switch r := r.(type) {
	case *kmsg.JoinGroupResponse:
		if r.Version < 7 {
			r.ProtocolType = nil
		}
		var ms []string
		for _, m := range r.Members {
			if r.Version < 5 {
				m.InstanceID = nil
			}
			ms = append(ms, fmt.Sprintf("%s@%s:%q", canon(m.MemberID), orNull(m.InstanceID), m.ProtocolMetadata))
		}
		sort.Strings(ms)
		return fmt.Sprintf("join %d gen=%d type=%s proto=%s leader=%s skip=%v member=%s %v", r.ErrorCode, r.Generation, orNull(r.ProtocolType), orNull(r.Protocol), canon(r.LeaderID), r.SkipAssignment, canon(r.MemberID), ms)
	case *kmsg.SyncGroupResponse:
		if r.Version < 5 {
			r.ProtocolType, r.Protocol = nil, nil
		}
		return fmt.Sprintf("sync %d %s %s %q", r.ErrorCode, orNull(r.ProtocolType), orNull(r.Protocol), r.MemberAssignment)
	case *kmsg.LeaveGroupResponse:
		s := fmt.Sprintf("leave %d", r.ErrorCode)
		for _, m := range r.Members {
			s += fmt.Sprintf(" %s@%s %d", canon(m.MemberID), orNull(m.InstanceID), m.ErrorCode)
		}
		return s
	case *kmsg.DescribeGroupsResponse:
		g := r.Groups[0]
		var ms []string
		for _, m := range g.Members {
			ms = append(ms, fmt.Sprintf("%s@%s %s %s %q %q", canon(m.MemberID), orNull(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment))
		}
		sort.Strings(ms)
		return fmt.Sprintf("describe %d %s %s type=%s proto=%s %v", g.ErrorCode, orNull(g.ErrorMessage), g.State, g.ProtocolType, g.Protocol, ms)
	case *kmsg.HeartbeatResponse:
		return fmt.Sprintf("heartbeat %d", r.ErrorCode)
	}
	return describeAnswer(r)
}
