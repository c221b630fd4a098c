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
