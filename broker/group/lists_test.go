package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"millrace/broker/machine"
)

// TestLongProtocolLists: a join lists as many protocols as fit its frame, and the
// shard has other groups to serve. A scan of one list for each entry of another
// would outlast the time that the test binary is given.
func TestLongProtocolLists(t *testing.T) {
	const n = 300_000
	l := newLive()
	l.state, l.protocolType = stable, "consumer"
	var offered []kmsg.JoinGroupRequestProtocol
	for _, kind := range "ab" {
		m := &member{of: l, id: string(kind)}
		for i := range n {
			m.protocols = append(m.protocols, protocol{name: fmt.Sprintf("%c%d", kind, i), metadata: []byte{}})
			offered = append(offered, kmsg.JoinGroupRequestProtocol{Name: fmt.Sprintf("c%d", i)})
		}
		l.members = append(l.members, m)
	}
	if l.supports("consumer", offered) || l.choose() != "" {
		t.Error("protocols are shared that nobody shares")
	}
}

// TestSharedProtocols compares with the plain reading of the rule.
func TestSharedProtocols(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLive()
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for _, list := range rapid.SliceOfN(rapid.SliceOf(name), 1, 4).Draw(t, "members") {
			m := &member{of: l}
			for _, p := range list {
				m.protocols = append(m.protocols, protocol{p, []byte{}})
			}
			l.members = append(l.members, m)
		}
		shared := l.shared()
		for _, p := range []string{"a", "b", "c", "d"} {
			want := true
			for _, m := range l.members {
				want = want && m.metadata(p) != nil
			}
			if shared[p] != want {
				t.Fatalf("%s is shared: %v, want %v", p, shared[p], want)
			}
		}
	})
}

// TestLongLeaveLists: a request to leave lists as many members as fit its frame,
// those it is about among them. A scan of the group for each would outlast the
// time that the test binary is given.
func TestLongLeaveLists(t *testing.T) {
	const members, strangers = 20_000, 400_000
	l := newLive()
	for i := range members {
		m := &member{of: l, id: fmt.Sprint("member", i)}
		if i%2 == 1 {
			m.instance = kmsg.StringPtr(fmt.Sprint("instance", i))
		}
		l.members = append(l.members, m)
	}
	r, gone := rosterOf(l), departed{}
	for i := range strangers {
		for _, who := range []kmsg.LeaveGroupRequestMember{
			{MemberID: fmt.Sprint("stranger", i)}, {InstanceID: kmsg.StringPtr("nobody")}, {},
			{MemberID: "member19999", InstanceID: kmsg.StringPtr("nobody")},
		} {
			if code := r.strike(who, &gone); code != unknownMemberID {
				t.Fatalf("%v: %d", who, code)
			}
		}
		if code := r.strike(kmsg.LeaveGroupRequestMember{MemberID: "member0", InstanceID: kmsg.StringPtr("instance19999")}, &gone); code != fencedInstanceID {
			t.Fatalf("another's instance: %d", code)
		}
	}
	for i, who := range []kmsg.LeaveGroupRequestMember{{MemberID: "member4"}, {MemberID: "member5"}, {InstanceID: kmsg.StringPtr("instance7")}, {MemberID: "member9", InstanceID: kmsg.StringPtr("instance9")}} {
		if code := r.strike(who, &gone); code != none {
			t.Errorf("member %d: %d", i, code)
		}
		for _, again := range []kmsg.LeaveGroupRequestMember{who, {InstanceID: kmsg.StringPtr([]string{"instance4", "instance5", "instance7", "instance9"}[i])}} {
			if code := r.strike(again, &gone); code != unknownMemberID {
				t.Errorf("member %d again: %d", i, code)
			}
		}
	}
	if want := []int{4, 5, 7, 9}; !slices.Equal(gone.members, want) || len(gone.pending) > 0 {
		t.Errorf("those who leave are at %v, %v; want %v", gone.members, gone.pending, want)
	}
}

// TestManyLeaveAtOnce: all members of a large group but one leave by one request,
// and those who were promised an id, too; the one that stays leads. Looking for each
// anew would outlast the time that the test binary is given.
func TestManyLeaveAtOnce(t *testing.T) {
	const members, stays = 300_000, 200_000
	now := time.Unix(1_800_000_000, 0)
	m := New(Config{})
	m.Handle(now, machine.Loaded{})
	l := newLive()
	l.state, l.generation, l.leader, l.protocolType, l.protocol = preparingRebalance, 7, "member0", "consumer", kmsg.StringPtr("range")
	l.initial = true
	ask := kmsg.NewPtrLeaveGroupRequest()
	ask.Version, ask.Group = 5, "g"
	for i := range members {
		x := &member{of: l, id: fmt.Sprint("member", i), protocols: []protocol{{"range", nil}}}
		who := kmsg.LeaveGroupRequestMember{MemberID: x.id}
		if i%2 == 1 {
			x.instance = kmsg.StringPtr(fmt.Sprint("instance", i))
			who = kmsg.LeaveGroupRequestMember{InstanceID: x.instance}
		}
		if i == 0 {
			x.join = parked{1, 9}
		}
		l.members = append(l.members, x)
		l.pending = append(l.pending, pending{id: fmt.Sprint("promised", i)})
		if i != stays {
			ask.Members = append(ask.Members, who, kmsg.LeaveGroupRequestMember{MemberID: fmt.Sprint("promised", i)})
		}
	}
	m.ensure("g").live = l
	d := m.Handle(now, machine.Request{Ticket: 2, Body: ask})
	if len(d.Replies) != 2 {
		t.Fatalf("%d replies", len(d.Replies))
	}
	if j := d.Replies[0].Body.(*kmsg.JoinGroupResponse); d.Replies[0].Ticket != 1 || j.ErrorCode != unknownMemberID || j.MemberID != "" {
		t.Errorf("the one who waited is told %d as %q", j.ErrorCode, j.MemberID)
	}
	for i, a := range d.Replies[1].Body.(*kmsg.LeaveGroupResponse).Members {
		if a.ErrorCode != none {
			t.Fatalf("leaving, the %d. of the list: %d", i, a.ErrorCode)
		}
	}
	l = m.groups["g"].live
	want := fmt.Sprint("member", stays)
	if len(l.members) != 1 || l.members[0].id != want || l.leader != want || len(l.pending) != 1 || l.pending[0].id != fmt.Sprint("promised", stays) {
		t.Errorf("%d members are left, led by %q, and %d promised ids", len(l.members), l.leader, len(l.pending))
	}
}

// TestLongGroupNames: the records of a request hold the group's name each, and are
// not made without end: not of a commit, and not of a deletion that names one
// offset over and over.
func TestLongGroupNames(t *testing.T) {
	group := strings.Repeat("g", 30_000)
	commit := func(partitions, times int) *kmsg.OffsetCommitRequest {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation = 8, group, -1
		topic := kmsg.OffsetCommitRequestTopic{Topic: "a"}
		for i := range partitions * times {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: int32(i % partitions)})
		}
		r.Topics = append(r.Topics, topic)
		return r
	}
	remove := func(times int) *kmsg.OffsetDeleteRequest {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "a", Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, times)}}
		return r
	}
	m := New(Config{OffsetMetadataMaxBytes: 100})
	now := time.Unix(1_800_000_000, 0)
	m.Handle(now, machine.Loaded{})
	ask := func(body kmsg.Request) machine.Decision {
		d := m.Handle(now, machine.Request{Ticket: 1, Body: body})
		for _, r := range d.Records {
			m.Replay(r)
		}
		if len(d.Records) > 0 {
			m.Handle(now, machine.Written{})
		}
		return d
	}
	size := func(d machine.Decision) (n int) {
		for _, r := range d.Records {
			n += len(r.Key) + len(r.Value)
		}
		return n
	}
	if d := ask(commit(20, 1)); len(d.Records) != 20 || d.Replies[0].Body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode != none {
		t.Fatalf("a commit of 20 offsets: %d records", len(d.Records))
	}
	d := ask(commit(20, 500))
	got := d.Replies[0].Body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions
	if size(d) > 0 || len(got) != 10_000 || got[0].ErrorCode != unknownServerError || got[9_999].ErrorCode != unknownServerError {
		t.Errorf("a commit of 10000 offsets: %d bytes of records, %d answers", size(d), len(got))
	}
	d = ask(remove(10_000))
	if deleted := d.Replies[0].Body.(*kmsg.OffsetDeleteResponse); len(d.Records) != 1 || deleted.ErrorCode != none || len(deleted.Topics[0].Partitions) != 10_000 {
		t.Errorf("a deletion of one offset, 10000 times: %d records, %d", len(d.Records), deleted.ErrorCode)
	}
	// What is there in many commits goes in no single batch.
	for i := range 200 {
		r := commit(20, 1)
		r.Topics[0].Topic = fmt.Sprint("topic", i)
		ask(r)
	}
	all := kmsg.NewPtrDeleteGroupsRequest()
	all.Groups = []string{group}
	d = ask(all)
	if code := d.Replies[0].Body.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode; size(d) > 0 || code != unknownServerError {
		t.Errorf("a deletion of a group of 4000 offsets: %d bytes of records, %d", size(d), code)
	}
}

// TestManyExpireAtOnce: of a large group all members but one, who is not the one
// that leads, are gone by time: by their sessions, by a join or a sync that did not
// come. Taking each out by itself would outlast the time that the test binary is
// given.
func TestManyExpireAtOnce(t *testing.T) {
	const members, stays = 500_000, 400_000
	now := time.Unix(1_800_000_000, 0)
	for name, how := range map[string]struct { // any order: each by itself
		state   state
		expires func(l *live, m *member, gone bool)
	}{
		"session": {stable, func(l *live, m *member, gone bool) {
			if gone {
				m.deadline = now
			}
		}},
		"join": {preparingRebalance, func(l *live, m *member, gone bool) {
			if l.joinAt = now; !gone {
				m.join = parked{1, 9}
			}
		}},
		"sync": {completingRebalance, func(l *live, m *member, gone bool) { l.syncAt, m.pendingSync = now, gone }},
	} {
		m := New(Config{})
		m.Handle(now, machine.Loaded{})
		l := newLive()
		l.state, l.generation, l.leader, l.protocolType, l.protocol = how.state, 7, "member0", "consumer", kmsg.StringPtr("range")
		for i := range members {
			x := &member{of: l, id: fmt.Sprint("member", i), rebalance: 60_000, session: 60_000, protocols: []protocol{{"range", nil}}}
			how.expires(l, x, i != stays)
			l.members = append(l.members, x)
		}
		m.ensure("g").live = l
		turn := &turn{m: m, now: now}
		l = turn.edit("g")
		turn.due("g", l)
		if want := fmt.Sprint("member", stays); len(l.members) != 1 || l.members[0].id != want || l.leader != want {
			t.Errorf("%s: %d members are left, led by %q", name, len(l.members), l.leader)
		}
	}
}
