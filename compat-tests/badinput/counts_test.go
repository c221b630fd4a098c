//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// lie is a frame with one wrong length in it.
type lie struct {
	what  string
	bytes []byte
	// must the connection be closed? Not of every lie: a length may by chance
	// make another good request.
	closed bool
}

// lies are what can be said wrongly of every length in a request.
func lies(key, version int16) []lie {
	c := &frame.Conn{ClientID: "x"}
	req := sample(key, version)
	good, found := places(c, req)
	var list []lie
	add := func(p place, what string, length []byte, closed bool) {
		list = append(list, lie{fmt.Sprintf("%s v%d %s: %s", kmsg.NameForKey(key), version, p.field, what), sized(p.with(good, length)), closed})
	}
	for _, p := range found {
		left := int64(len(good) - p.at - p.size)
		add(p, "2^31-1", p.number(1<<31-1), p.array || p.size != 2)
		add(p, "2^31-2", p.number(1<<31-2), p.array || p.size != 2)
		add(p, "one more than there are bytes", p.number(left+1), true)
		add(p, "as many as there are bytes", p.number(left), false)
		add(p, "half as many", p.number(left/2), false)
		add(p, "null", p.number(-1), !p.nullable)
		if !p.compact {
			add(p, "-2", p.number(-2), !p.nullable)
			if p.size == 4 {
				add(p, "-2^31", p.number(-1<<31), !p.nullable)
			}
			continue
		}
		add(p, "a varint of six bytes", []byte{0x81, 0x80, 0x80, 0x80, 0x80, 0x00}, true)
		add(p, "2^32-1", binary.AppendUvarint(nil, 1<<32-1), false)
		add(p, "2^31", binary.AppendUvarint(nil, 1<<31), false)
	}
	return list
}

// TestCounts says, at every length of every request in every version, that more
// follows than does.
func TestCounts(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	var jobs []lie
	v.each(t, func(key, version int16) { jobs = append(jobs, lies(key, version)...) })
	if len(jobs) < 3000 {
		t.Fatalf("only %d lies", len(jobs))
	}
	begun := time.Now()
	inParallel(jobs, func(l lie) {
		o := v.raw(t, l.bytes, prompt)
		if o.Silent {
			t.Errorf("%s: silence", l.what)
		} else if l.closed && !o.Closed {
			t.Errorf("%s: an answer, want the connection closed", l.what)
		}
	})
	t.Logf("%d lies in %v", len(jobs), time.Since(begun).Round(time.Millisecond))
	v.check(t, budget+allowance)
	v.ends(t)
}
