package adopt

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/storage/batch"
)

const offsetsTopic = "__consumer_offsets"

// The kinds of groups of which __consumer_offsets tells and nobody takes over more than committed offsets, by the ids of
// their records' keys (KIP-848, KIP-932, KIP-1071).
var groupKinds = map[int16]string{
	3: consumerGroup, 4: consumerGroup, 5: consumerGroup, 6: consumerGroup, 7: consumerGroup, 8: consumerGroup, 16: consumerGroup,
	9: shareGroup, 10: shareGroup, 11: shareGroup, 12: shareGroup, 13: shareGroup, 14: shareGroup, 15: shareGroup,
	17: streamsGroup, 18: streamsGroup, 19: streamsGroup, 20: streamsGroup, 21: streamsGroup, 22: streamsGroup, 23: streamsGroup,
}

const (
	consumerGroup = "consumer group (KIP-848)"
	shareGroup    = "share group (KIP-932)"
	streamsGroup  = "streams group (KIP-1071)"
)

// groups are the keys of groups' records that have a value, of one partition or of several.
type groups struct {
	keys map[string]string // key to what kind of group, and which; "" where nobody can read it
}

// note takes a record: a later one of the same key counts. Those of transactions are offsets only.
func (g *groups) note(r batch.Record) {
	if len(r.Key) < 2 {
		return
	}
	id := int16(binary.BigEndian.Uint16(r.Key))
	kind, ok := groupKinds[id]
	switch {
	case id >= 0 && id <= 2: // offsets and classic groups
	case r.Value == nil:
		delete(g.keys, string(r.Key))
	case !ok:
		g.keys[string(r.Key)] = ""
	default:
		// All of these keys begin with the group's name.
		name := r.Key[2:]
		if len(name) < 2 || int(binary.BigEndian.Uint16(name)) > len(name)-2 {
			g.keys[string(r.Key)] = ""
			return
		}
		name = name[2:][:binary.BigEndian.Uint16(name)]
		g.keys[string(r.Key)] = fmt.Sprintf("%s %q", kind, name)
	}
}

// tell says how much of each group is not taken over.
func (g *groups) tell(a *adoption) {
	count := map[string]int{}
	for _, name := range g.keys {
		count[name]++
	}
	unknown := count[""]
	delete(count, "")
	for _, name := range slices.Sorted(maps.Keys(count)) {
		what := "; offsets it has committed are taken over"
		if strings.HasPrefix(name, shareGroup) {
			what = " and of where it stands"
		}
		a.left("%s: %d records of its members and assignments%s", name, count[name], what)
	}
	if unknown > 0 {
		a.left("%d records of groups that are not understood", unknown)
	}
}

// unread takes note of a record that is longer than any that is read.
func (g *groups) unread(name string, at batch.Offset) {
	g.keys[fmt.Sprintf("offset %d of %s", at, name)] = ""
}
