//go:build compat

package frames

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/ledger"
)

// seen is what came of a case in one version, in its last attempt.
type seen struct {
	api     kmsg.Key
	version int16
	failed  bool     // something differs that nobody has explained, or it could not be played
	why     []string // explanations that were needed
}

// note keeps what came of a case.
func (p *peers) note(full string, s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[full] = s
}

// settle brings what a whole run has seen to the conformance ledger.
func (p *peers) settle(t *testing.T) {
	lines := &ledger.Ledger{}
	commit := ledger.Commit()
	for _, s := range p.seen {
		i := slices.IndexFunc(lines.APIs, func(a ledger.API) bool { return a.Key == int16(s.api) && a.Version == s.version })
		if i < 0 {
			i = len(lines.APIs)
			lines.APIs = append(lines.APIs, ledger.API{Key: int16(s.api), Name: kmsg.NameForKey(int16(s.api)), Version: s.version, Frames: &ledger.Compared{Commit: commit}})
		}
		c := lines.APIs[i].Frames
		c.Compared++
		switch {
		case s.failed:
			c.Unexplained++
		case len(s.why) > 0:
			c.Explained++
		default:
			c.Equal++
		}
		for _, why := range s.why {
			if !slices.Contains(c.Why, why) {
				c.Why = append(c.Why, why)
			}
		}
		slices.Sort(c.Why)
	}
	ledger.Settle(t, "frames", lines, false)
}
