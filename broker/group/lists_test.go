package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// TestLongProtocolLists: a join lists as many protocols as fit its frame, and the
// shard has other groups to serve.
func TestLongProtocolLists(t *testing.T) {
	const n = 60_000
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
	begun := time.Now()
	if l.supports("consumer", offered) || l.choose() != "" {
		t.Error("protocols are shared that nobody shares")
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %v", took)
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
// those it is about among them.
func TestLongLeaveLists(t *testing.T) {
	const members, strangers = 2000, 100_000
	l := newLive()
	for i := range members {
		m := &member{of: l, id: fmt.Sprint("member", i)}
		if i%2 == 1 {
			m.instance = kmsg.StringPtr(fmt.Sprint("instance", i))
		}
		l.members = append(l.members, m)
	}
	r := rosterOf(l)
	begun := time.Now()
	for i := range strangers {
		for _, who := range []kmsg.LeaveGroupRequestMember{
			{MemberID: fmt.Sprint("stranger", i)}, {InstanceID: kmsg.StringPtr("nobody")}, {},
			{MemberID: "member1999", InstanceID: kmsg.StringPtr("nobody")},
		} {
			if code := r.strike(who); code != unknownMemberID {
				t.Fatalf("%v: %d", who, code)
			}
		}
		if code := r.strike(kmsg.LeaveGroupRequestMember{MemberID: "member0", InstanceID: kmsg.StringPtr("instance1999")}); code != fencedInstanceID {
			t.Fatalf("another's instance: %d", code)
		}
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	for i, who := range []kmsg.LeaveGroupRequestMember{{MemberID: "member4"}, {MemberID: "member5"}, {InstanceID: kmsg.StringPtr("instance7")}, {MemberID: "member9", InstanceID: kmsg.StringPtr("instance9")}} {
		if code := r.strike(who); code != none {
			t.Errorf("member %d: %d", i, code)
		}
		for _, again := range []kmsg.LeaveGroupRequestMember{who, {InstanceID: kmsg.StringPtr([]string{"instance4", "instance5", "instance7", "instance9"}[i])}} {
			if code := r.strike(again); code != unknownMemberID {
				t.Errorf("member %d again: %d", i, code)
			}
		}
	}
}
