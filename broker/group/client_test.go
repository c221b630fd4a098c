package group

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kind is how a client behaves.
type kind int

const (
	eager       kind = iota // gives everything up before it rejoins
	cooperative             // keeps what it has and gives up what it must (KIP-429)
	static                  // has an instance id, does not leave (KIP-345)
)

type clientPhase int

const (
	down clientPhase = iota
	joining
	syncing
	working
)

// client is a consumer as its own library would run it.
type client struct {
	s        *sim
	g        *cohort
	name     string
	kind     kind
	instance *string
	version  int16 // of its JoinGroup

	life       int // answers to an earlier life are lost
	phase      clientPhase
	id         string
	generation int32
	owned      map[int32]bool
	awake      time.Time // when it stalls: until then it does nothing
}

func (c *client) start() {
	c.life++
	c.id, c.generation, c.owned, c.awake = "", -1, map[int32]bool{}, time.Time{}
	c.join()
	c.loop()
}

// crash ends the client without a word.
func (c *client) crash() {
	c.life++
	c.phase = down
}

// leave ends it in good order: static members say nothing.
func (c *client) leave() {
	if c.kind != static && c.id != "" {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 5, c.g.id
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = c.id
		r.Members = append(r.Members, m)
		c.s.ask(c.name, r, func(body any, err error) {
			if resp, ok := body.(*kmsg.LeaveGroupResponse); ok && resp.Members[0].ErrorCode == none {
				c.s.n.leaves++
			}
		})
	}
	c.crash()
}

func (c *client) stall(d time.Duration) {
	c.s.n.stalls++
	c.awake = c.s.w.now.Add(d)
}

// twin is a second process that was started with the same instance id: one of
// the two is fenced.
func (c *client) twin() {
	t := &client{s: c.s, g: c.g, name: c.name + "twin", kind: static, instance: c.instance, version: 9}
	t.start()
	c.s.at(c.s.between(time.Second, 4*time.Second), t.crash)
}

// ask sends a request; the answer comes when the client is awake, and not to
// another life of it.
func (c *client) ask(body any, done func(any, error)) {
	life := c.life
	var arrive func(body any, err error)
	arrive = func(body any, err error) {
		if c.life != life {
			return
		}
		if wait := c.awake.Sub(c.s.w.now); wait > 0 {
			c.s.at(wait, func() { arrive(body, err) })
			return
		}
		done(body, err)
	}
	c.s.ask(c.name, body, arrive)
}

// again does something a little later, in this life.
func (c *client) again(do func()) {
	life := c.life
	c.s.at(c.s.between(50*time.Millisecond, 300*time.Millisecond), func() {
		if c.life == life {
			do()
		}
	})
}

func (c *client) join() {
	c.phase = joining
	if c.kind != cooperative {
		c.owned = map[int32]bool{}
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID = c.version, c.g.id, c.id, c.instance
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(simSession.Milliseconds()), int32(simRebalance.Milliseconds())
	r.ProtocolType = "consumer"
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{"t"}
	o := kmsg.NewConsumerMemberMetadataOwnedPartition()
	o.Topic = "t"
	for p := range int32(simPartitions) {
		if c.owned[p] {
			o.Partitions = append(o.Partitions, p)
		}
	}
	m.OwnedPartitions = append(m.OwnedPartitions, o)
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "spread", m.AppendTo(nil)
	r.Protocols = append(r.Protocols, p)
	c.ask(r, func(body any, err error) {
		if err != nil {
			c.again(c.join)
			return
		}
		c.joined(body.(*kmsg.JoinGroupResponse))
	})
}

func (c *client) joined(r *kmsg.JoinGroupResponse) {
	switch r.ErrorCode {
	case none:
	case memberIDRequired:
		c.id = r.MemberID
		c.join()
		return
	case unknownMemberID:
		c.lost()
		return
	case fencedInstanceID:
		c.fenced()
		return
	case rebalanceInProgress:
		c.again(c.join)
		return
	default:
		c.s.fail("%s cannot join: error %d", c.name, r.ErrorCode)
		return
	}
	c.id, c.generation = r.MemberID, r.Generation
	c.phase = syncing
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID, q.Generation = 5, c.g.id, c.id, c.instance, c.generation
	q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), r.Protocol
	if r.LeaderID == c.id && !r.SkipAssignment {
		q.GroupAssignment = assign(r.Members)
	}
	c.sync(q)
}

// unavailable is what a client is told of an append that was refused
// (COORDINATOR_NOT_AVAILABLE).
const unavailable int16 = 15

func (c *client) sync(q *kmsg.SyncGroupRequest) {
	generation := c.generation
	c.ask(q, func(body any, err error) {
		if err != nil {
			c.again(func() { c.sync(q) })
			return
		}
		r := body.(*kmsg.SyncGroupResponse)
		switch r.ErrorCode {
		case none:
		case rebalanceInProgress:
			c.join()
			return
		case unavailable:
			c.again(c.join)
			return
		case illegalGeneration, unknownMemberID:
			c.lost()
			return
		case fencedInstanceID:
			c.fenced()
			return
		default:
			c.s.fail("%s cannot sync: error %d", c.name, r.ErrorCode)
			return
		}
		mine := partitionsOf(r.MemberAssignment)
		c.s.assigned(c, generation, mine)
		gave := false
		for p := range c.owned {
			gave = gave || !slices.Contains(mine, p)
		}
		c.owned = map[int32]bool{}
		for _, p := range mine {
			c.owned[p] = true
		}
		c.phase = working
		if gave && c.kind == cooperative {
			c.join() // what it gave up is to be assigned
		}
	})
}

// lost begins anew: the group does not know the member any more.
func (c *client) lost() {
	c.id, c.generation, c.owned = "", -1, map[int32]bool{}
	c.join()
}

// fenced ends a client whose instance id another one took over.
func (c *client) fenced() {
	c.s.n.fenced++
	c.crash()
}

// loop sends heartbeats and commits as long as the client lives.
func (c *client) loop() {
	life := c.life
	c.s.at(c.s.between(simBeat/2, simBeat), func() {
		if c.life != life {
			return
		}
		if !c.awake.After(c.s.w.now) && c.phase == working {
			c.beat()
			if c.s.chance(2) {
				c.commit()
			}
		}
		c.loop()
	})
}

func (c *client) beat() {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, c.g.id, c.id, c.instance, c.generation
	id := c.id
	c.ask(r, func(body any, err error) {
		if err != nil || c.phase != working || c.id != id {
			return
		}
		c.told(body.(*kmsg.HeartbeatResponse).ErrorCode, r.Generation)
	})
}

// told is an error code that a working client gets for its membership.
func (c *client) told(code int16, generation int32) {
	if generation != c.generation {
		return
	}
	switch code {
	case rebalanceInProgress:
		c.join()
	case illegalGeneration, unknownMemberID:
		c.lost()
	case fencedInstanceID:
		c.fenced()
	}
}

func (c *client) commit() {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 9, c.g.id, c.id, c.instance, c.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	for p := range int32(simPartitions) {
		if c.owned[p] {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			c.g.next++
			rp.Partition, rp.Offset = p, c.g.next
			t.Partitions = append(t.Partitions, rp)
		}
	}
	if len(t.Partitions) == 0 {
		return
	}
	r.Topics = append(r.Topics, t)
	g := c.g
	id := c.id
	// The acknowledgement counts whatever became of the client.
	c.s.ask(c.name, r, func(body any, err error) {
		if err != nil {
			return
		}
		code := none
		for i, p := range body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
			code = p.ErrorCode
			if code == none {
				c.s.n.commits++
				if at := t.Partitions[i].Offset; at <= g.last[p.Partition] {
					g.acked[p.Partition] = max(g.acked[p.Partition], at)
				} else {
					c.s.fail("%s acknowledged offset %d of partition %d, the log's last is %d", g.id, at, p.Partition, g.last[p.Partition])
				}
			}
		}
		if c.id == id && c.phase == working {
			c.told(code, r.Generation)
		}
	})
}

// assign spreads the partitions over the members. What a member says it owns it
// keeps up to its share; what another one still owns is not given away yet.
func assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	owner := map[int32]string{}
	got := map[string][]int32{}
	share := (simPartitions + len(members) - 1) / len(members)
	for _, m := range members {
		md := kmsg.NewConsumerMemberMetadata()
		if err := md.ReadFrom(m.ProtocolMetadata); err != nil {
			panic(err)
		}
		for _, o := range md.OwnedPartitions {
			for _, p := range o.Partitions {
				if _, ok := owner[p]; ok {
					continue // two say so: the first keeps it
				}
				owner[p] = m.MemberID
				if len(got[m.MemberID]) < share {
					got[m.MemberID] = append(got[m.MemberID], p)
				}
			}
		}
	}
	for p := range int32(simPartitions) {
		if _, ok := owner[p]; ok {
			continue
		}
		least := members[0].MemberID
		for _, m := range members {
			if len(got[m.MemberID]) < len(got[least]) {
				least = m.MemberID
			}
		}
		got[least] = append(got[least], p)
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, m := range members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		var text []string
		for _, p := range got[m.MemberID] {
			text = append(text, strconv.Itoa(int(p)))
		}
		a.MemberID, a.MemberAssignment = m.MemberID, []byte(strings.Join(text, ","))
		out = append(out, a)
	}
	return out
}

func partitionsOf(assignment []byte) []int32 {
	var ps []int32
	for _, text := range strings.Split(string(assignment), ",") {
		if n, err := strconv.Atoi(text); err == nil {
			ps = append(ps, int32(n))
		}
	}
	return ps
}

var _ machine.Machine = (*Machine)(nil)
