// Package epoch keeps at which offset each leader epoch of one partition began: what a follower asks for to find where
// its log parts from the leader's (KIP-101, KIP-279), and the leader-epoch-checkpoint file that stores it.
//
// It is pure and its Cache is a value: every change returns a new one, so that a published cache can be read without a
// lock. It does no input or output.
//
// It promises that epochs and start offsets both strictly increase within a cache.
package epoch

import (
	"sort"

	"millrace/storage/batch"
)

// Entry says that an epoch began at an offset.
type Entry struct {
	Epoch batch.LeaderEpoch
	Start batch.Offset
}

// Cache is the epochs of one partition, oldest first. The zero value is empty. A Cache is never changed once made.
type Cache struct{ entries []Entry }

// New makes a cache of entries, which must increase strictly in both fields; ok is false if they do not.
func New(entries []Entry) (c Cache, ok bool) {
	for i, e := range entries {
		if e.Epoch < 0 || e.Start < 0 {
			return Cache{}, false
		}
		if i > 0 && (e.Epoch <= entries[i-1].Epoch || e.Start <= entries[i-1].Start) {
			return Cache{}, false
		}
	}
	return Cache{entries: append([]Entry(nil), entries...)}, true
}

// Len is the number of entries.
func (c Cache) Len() int { return len(c.entries) }

// Entries returns a copy of the entries.
func (c Cache) Entries() []Entry { return append([]Entry(nil), c.entries...) }

// Equal says that two caches hold the same entries.
func (c Cache) Equal(d Cache) bool {
	if len(c.entries) != len(d.entries) {
		return false
	}
	for i := range c.entries {
		if c.entries[i] != d.entries[i] {
			return false
		}
	}
	return true
}

// Latest is the newest epoch; ok is false if there is none.
func (c Cache) Latest() (e batch.LeaderEpoch, ok bool) {
	if len(c.entries) == 0 {
		return batch.NoLeaderEpoch, false
	}
	return c.entries[len(c.entries)-1].Epoch, true
}

// Assign says that an epoch begins at an offset. Entries that contradict it, newer epochs and starts at or behind the
// offset, are dropped; the newest epoch, assigned again, keeps its start.
func (c Cache) Assign(e batch.LeaderEpoch, start batch.Offset) Cache {
	if n := len(c.entries); n > 0 {
		if last := c.entries[n-1]; last.Epoch == e && last.Start <= start {
			return c
		}
	}
	keep := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch >= e || c.entries[i].Start >= start })
	entries := make([]Entry, keep+1)
	copy(entries, c.entries[:keep])
	entries[keep] = Entry{Epoch: e, Start: start}
	return Cache{entries: entries}
}

// TruncateFromEnd drops the epochs that begin at or behind the log's new end.
func (c Cache) TruncateFromEnd(end batch.Offset) Cache {
	keep := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start >= end })
	return Cache{entries: c.entries[:keep:keep]}
}

// TruncateFromStart drops what lies wholly below the log's new start and moves the epoch the start falls into up to it.
func (c Cache) TruncateFromStart(start batch.Offset) Cache {
	// The last entry that begins at or below the start covers it.
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > start }) - 1
	if i < 0 || (i == 0 && c.entries[0].Start == start) {
		return c
	}
	entries := append([]Entry(nil), c.entries[i:]...)
	entries[0].Start = start
	return Cache{entries: entries}
}

// EndOffset answers OffsetForLeaderEpoch: the largest epoch at or below the asked one, and the offset after its last
// record, which is where the next epoch begins or the log ends. An epoch above the newest, or none (-1), is unknown (-1,
// -1); one below the oldest, even another negative one, is answered with itself and the oldest start.
func (c Cache) EndOffset(asked batch.LeaderEpoch, logEnd batch.Offset) (batch.LeaderEpoch, batch.Offset) {
	n := len(c.entries)
	if asked == batch.NoLeaderEpoch || n == 0 || asked > c.entries[n-1].Epoch {
		return batch.NoLeaderEpoch, batch.NoOffset
	}
	if asked == c.entries[n-1].Epoch {
		return asked, logEnd
	}
	// The first entry above the asked epoch exists, as the newest is above it.
	next := sort.Search(n, func(i int) bool { return c.entries[i].Epoch > asked })
	if next == 0 {
		return asked, c.entries[0].Start
	}
	return c.entries[next-1].Epoch, c.entries[next].Start
}

// At is the epoch in which the record at an offset was appended; -1 if it lies below the oldest entry.
func (c Cache) At(o batch.Offset) batch.LeaderEpoch {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > o }) - 1
	if i < 0 {
		return batch.NoLeaderEpoch
	}
	return c.entries[i].Epoch
}
