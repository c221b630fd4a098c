package frames

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// glance is how long a case looks whether an answer waits, memberPatience how
// long it is ready to wait for one. Members' own timeouts, in milliseconds, are
// longer, so that an answer that waits for nothing shows as none.
const (
	glance         = 150 * time.Millisecond
	memberPatience = 15 * time.Second
	memberTimeout  = 60000
)

// cast runs a case with group members: clients with connections of their own,
// some of which may wait while others go on.
type cast struct {
	*Side
	api     kmsg.Key
	members []*member
	names   map[string]string // member ids given out, as a person reads them
	anyone  []election
}

// election is a set of answers to joins where the leader is gone: whom Kafka
// takes next is up to a hash map.
type election []*waiting

func withMembers(api kmsg.Key, run func(c *cast)) func(*Side) {
	return func(s *Side) {
		c := &cast{Side: s, api: api, names: map[string]string{}}
		run(c)
		c.rename()
		for _, e := range c.anyone {
			e.hide()
		}
		for _, m := range c.members {
			if m.conn != nil {
				m.conn.Close()
			}
		}
	}
}

// v is the version to ask an API in: the one under test, or the newest.
func (c *cast) v(api kmsg.Key) int16 {
	if api == c.api {
		return c.Version
	}
	return newestOfMembers[api]
}

var newestOfMembers = map[kmsg.Key]int16{
	kmsg.JoinGroup: 9, kmsg.SyncGroup: 5, kmsg.Heartbeat: 4, kmsg.LeaveGroup: 5, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9,
	kmsg.DescribeGroups: 5, kmsg.ListGroups: 5, kmsg.DeleteGroups: 2,
}

// group names a group of this run.
func (c *cast) group(name string) string { return c.Prefix + name }

// member is a client of a group and what it has been told.
type member struct {
	c     *cast
	name  string
	group string
	conn  *frame.Conn

	// What it says when it joins. Each protocol is NAME:METADATA.
	instance         *string
	protocolType     string
	protocols        []string
	session, balance int32

	// What it was told. ids counts the ids it was given.
	id         string
	ids        int
	generation int32
	protocol   string
}

// member makes a client that is to join a group; it asks nothing yet.
func (c *cast) member(group, name string, protocols ...string) *member {
	if len(protocols) == 0 {
		protocols = []string{"range:" + name}
	}
	m := &member{c: c, name: name, group: c.group(group), protocolType: "consumer", protocols: protocols,
		session: memberTimeout, balance: memberTimeout, generation: -1}
	c.members = append(c.members, m)
	return m
}

// static makes a member with an instance id.
func (c *cast) static(group, name, instance string, protocols ...string) *member {
	m := c.member(group, name, protocols...)
	m.instance = &instance
	return m
}

// waiting is a request under way. Its answer takes its place among the compared
// ones in the order of asking.
type waiting struct {
	m     *member
	place int
	done  chan frame.Outcome
	out   *frame.Outcome
}

// begin sends a request and does not wait for its answer; end does.
func (m *member) begin(what string, req kmsg.Request) *waiting {
	req.SetVersion(m.c.v(kmsg.Key(req.Key())))
	w := &waiting{m: m, place: len(m.c.answers), done: make(chan frame.Outcome, 1)}
	m.c.answers = append(m.c.answers, Answer{What: told(m.name+": "+what, req), Outcome: frame.Outcome{Silent: true}}) // until it ends
	if m.conn == nil {
		conn, err := frame.Dial(m.c.Addr)
		if err != nil {
			m.c.Fail("%s: %v", m.name, err)
			w.done <- frame.Outcome{Closed: true}
			return w
		}
		conn.Patience = memberPatience
		m.conn = conn
	}
	kind := req.ResponseKind()
	kind.SetVersion(req.GetVersion())
	raw, conn := m.conn.Encode(req), m.conn
	go func() { w.done <- conn.Send(raw, kind) }()
	return w
}

// holds records whether the request still has no answer after a moment.
func (w *waiting) holds() *waiting {
	if w.out == nil {
		select {
		case o := <-w.done:
			w.out = &o
		case <-time.After(glance):
		}
	}
	w.m.c.Check(w.m.c.answers[w.place].What+" waits", w.out == nil)
	return w
}

// end waits for the answer, records it and remembers what it says.
func (w *waiting) end() frame.Outcome {
	if w.out == nil {
		o := <-w.done
		w.out = &o
	}
	o, m := *w.out, w.m
	if o.Response == nil && m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
	if r, ok := o.Response.(*kmsg.JoinGroupResponse); ok {
		m.learn(r)
	}
	m.c.answers[w.place].Outcome = o
	return o
}

func (m *member) learn(r *kmsg.JoinGroupResponse) {
	if r.ErrorCode != 0 && r.ErrorCode != 79 {
		return
	}
	if m.id = r.MemberID; m.c.names[m.id] == "" {
		m.ids++
		m.c.names[m.id] = fmt.Sprintf("=%s#%d", m.name, m.ids)
	}
	if r.ErrorCode == 0 {
		m.generation, m.protocol = r.Generation, ""
		if r.Protocol != nil {
			m.protocol = *r.Protocol
		}
	}
}

// ask is begin and end, for what is not to wait.
func (m *member) ask(what string, req kmsg.Request) frame.Outcome { return m.begin(what, req).end() }

// hashed says that the peer is the older Kafka, whose group coordinator keeps
// partitions in a hash map.
func (c *cast) hashed() bool { return c.api == kmsg.OffsetCommit && c.Version < 2 }

// rename puts names for the member ids in all answers, now that everybody's are
// known, and sorts lists of members by them.
func (c *cast) rename() {
	name := func(id *string) {
		if n, ok := c.names[*id]; ok {
			*id = n
		}
	}
	for i := range c.answers {
		switch r := c.answers[i].Outcome.Response.(type) {
		case *kmsg.JoinGroupResponse:
			name(&r.MemberID)
			name(&r.LeaderID)
			for j := range r.Members {
				name(&r.Members[j].MemberID)
			}
			slices.SortFunc(r.Members, func(a, b kmsg.JoinGroupResponseMember) int { return strings.Compare(a.MemberID, b.MemberID) })
		case *kmsg.OffsetCommitResponse:
			if c.hashed() {
				for j := range r.Topics {
					slices.SortFunc(r.Topics[j].Partitions, func(a, b kmsg.OffsetCommitResponseTopicPartition) int { return int(a.Partition - b.Partition) })
				}
			}
		case *kmsg.OffsetFetchResponse:
			if c.hashed() {
				for _, g := range r.Groups {
					for j := range g.Topics {
						slices.SortFunc(g.Topics[j].Partitions, func(a, b kmsg.OffsetFetchResponseGroupTopicPartition) int { return int(a.Partition - b.Partition) })
					}
				}
			}
		case *kmsg.DescribeGroupsResponse:
			for j := range r.Groups {
				ms := r.Groups[j].Members
				for k := range ms {
					name(&ms[k].MemberID)
				}
				slices.SortFunc(ms, func(a, b kmsg.DescribeGroupsResponseGroupMember) int { return strings.Compare(a.MemberID, b.MemberID) })
			}
		}
	}
}

// electAny says that any of these joins' members may have become the leader.
func (c *cast) electAny(ws ...*waiting) { c.anyone = append(c.anyone, ws) }

// hide puts in place of the leader of an election whether it is one of them, all
// were told of the same, and it alone got the list of members.
func (e election) hide() {
	leader, one := "", 0
	for _, w := range e {
		r, ok := w.out.Response.(*kmsg.JoinGroupResponse)
		if !ok || leader != "" && r.LeaderID != leader {
			return
		}
		leader = r.LeaderID
		if (r.MemberID == leader) != (len(r.Members) > 0) {
			return
		}
		if r.MemberID == leader {
			one++
		}
	}
	if one != 1 {
		return
	}
	var members []kmsg.JoinGroupResponseMember
	for _, w := range e {
		r := w.out.Response.(*kmsg.JoinGroupResponse)
		members = append(members, r.Members...)
		r.LeaderID, r.Members = "one of them", nil
	}
	e[0].out.Response.(*kmsg.JoinGroupResponse).Members = members
}

// joinRequest is what the member says to join with the id it has.
func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = m.group, m.id, m.instance, m.protocolType
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = m.session, m.balance
	r.Protocols = []kmsg.JoinGroupRequestProtocol{}
	for _, p := range m.protocols {
		name, metadata, _ := strings.Cut(p, ":")
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = name, []byte(metadata)
		r.Protocols = append(r.Protocols, rp)
	}
	return r
}

// join asks to join with the id it has, or none.
func (m *member) join(what string) *waiting { return m.begin(what, m.joinRequest()) }

// enter joins as somebody new: from v4 on a dynamic member gets its id first.
func (m *member) enter(what string) *waiting {
	if m.instance == nil && m.c.v(kmsg.JoinGroup) >= 4 {
		m.join(what + ", for an id").end()
	}
	return m.join(what)
}

// syncRequest brings the leader's assignments, each MEMBER=BYTES, where MEMBER
// is a member's name or an id that nobody has.
func (m *member) syncRequest(assignments ...string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.Generation, r.MemberID, r.InstanceID = m.group, m.generation, m.id, m.instance
	r.ProtocolType, r.Protocol = &m.protocolType, &m.protocol
	for _, a := range assignments {
		who, bytes, _ := strings.Cut(a, "=")
		ra := kmsg.NewSyncGroupRequestGroupAssignment()
		ra.MemberID, ra.MemberAssignment = who, []byte(bytes)
		for _, o := range m.c.members {
			if o.name == who && o.group == m.group {
				ra.MemberID = o.id
			}
		}
		r.GroupAssignment = append(r.GroupAssignment, ra)
	}
	return r
}

func (m *member) sync(what string, assignments ...string) *waiting {
	return m.begin(what, m.syncRequest(assignments...))
}

func (m *member) beatRequest() *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.Generation, r.MemberID, r.InstanceID = m.group, m.generation, m.id, m.instance
	return r
}

func (m *member) beat(what string) { m.ask(what, m.beatRequest()) }

func (m *member) leaveRequest() *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = m.group, m.id
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID, one.InstanceID = m.id, m.instance
	r.Members = append(r.Members, one)
	return r
}

func (m *member) leave(what string) { m.ask(what, m.leaveRequest()) }

// gather brings members into a group that nobody is in: the first joins alone
// and leads, the others join together. The group is left waiting for the
// leader's assignments.
func gather(ms ...*member) {
	lead := ms[0]
	lead.enter("join alone").end()
	if len(ms) == 1 {
		return
	}
	var ws []*waiting
	for i, m := range ms[1:] {
		ws = append(ws, m.enter("join"))
		lead.await("PreparingRebalance", i+2)
	}
	ws = append(ws, lead.join("join again"))
	for _, w := range ws {
		w.end()
	}
}

// settle is gather, and then all sync: everybody is assigned its own name.
func settle(ms ...*member) {
	gather(ms...)
	assign(ms...)
}

// assign has everybody sync, the leader first.
func assign(ms ...*member) {
	var to []string
	for _, m := range ms {
		to = append(to, m.name+"="+m.name)
	}
	ms[0].sync("assign", to...).end()
	for _, m := range ms[1:] {
		m.sync("sync").end()
	}
}

// await waits until the member's group is in a state with so many members.
func (m *member) await(state string, members int) { m.c.await(m.group, state, members) }

func (c *cast) await(group, state string, members int) {
	last := "no answer"
	for range 500 {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		if r, ok := c.Do(5, req).Response.(*kmsg.DescribeGroupsResponse); ok && len(r.Groups) == 1 {
			g := r.Groups[0]
			if g.State == state && len(g.Members) == members {
				return
			}
			last = fmt.Sprintf("%s with %d members", g.State, len(g.Members))
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Fail("group %s did not become %s with %d members: %s", group, state, members, last)
}

// describe records how groups are described.
func (c *cast) describe(what string, groups ...string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.IncludeAuthorizedOperations = true
	for _, g := range groups {
		req.Groups = append(req.Groups, c.group(g))
	}
	c.AskIn(c.v(kmsg.DescribeGroups), what, req)
}
