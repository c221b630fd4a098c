// Package raftlog keeps what a member of the metadata's raft group must not
// forget: its hard state, the log's entries, and the newest snapshot.
//
// It is not the state machine: it does not know what an entry means. There are
// two of it, one on disk (Open: entries and hard state in bbolt, snapshots as
// files) and one in memory (NewMemory), which can lose what was not synced. The
// same suite of tests runs on both.
//
// It promises: what was appended can be read at once and is durable once Sync
// has returned; a crash before that loses a tail of it and nothing else. A log
// whose Sync failed answers with that error forever, for nobody knows what the
// disk holds then.
//
// # On disk
//
// raft.db is a bbolt database. Bucket "entries" holds one raftpb.Entry per index
// (8 bytes, big endian). Bucket "state" holds
//
//	format     one byte, 2
//	self       the raft id of the member this is the log of (8 bytes, big endian)
//	hard       raftpb.HardState
//	founding   raftpb.ConfState of the group this log was founded with; absent in one that joined
//	compacted  index and term (8 bytes each, big endian) of the last entry dropped from the front
//	total      bbolt's transaction that wrote it, how many other values there are in both buckets,
//	           and the sum of their checksums (8 bytes each, big endian); written with every transaction
//
// Each value has in front of it the CRC-32C (4 bytes, big endian) of its bucket's
// name, its key and itself. Open reads everything, bbolt's own pages included, before
// bbolt does: whatever has changed in a byte that matters is an error, and nothing
// but the file is to blame for it. In format 1, which is read and written anew by
// the first Sync, values have no checksums, and there is no total.
//
// <index>-<term>.snapshot (20 digits each) holds "MRSNAP1\n", the CRC-32C of
// what follows (4 bytes, big endian), the length of the metadata (4 bytes, big
// endian), raftpb.SnapshotMetadata, and the state machine's bytes to the end.
// It is written under a name ending in .part and renamed. raft.db is raft.db.new
// until its first Sync: a founding that a power cut interrupts never was.
package raftlog

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// FoundingIndex is where a founded group's log starts: as if after a snapshot at
// this index, in term 1, holding the group's first members and no data. A node
// that joins with an empty log (index 0) can then only be brought up by a
// snapshot, which tells it the members.
const FoundingIndex = 1

// FoundingTerm is the term at FoundingIndex.
const FoundingTerm = 1

// ErrNotEmpty is Found's answer on a log that holds something.
var ErrNotEmpty = errors.New("the raft log is not empty")

// Log is the memory of one raft member. One goroutine uses it, except for
// StoreSnapshot, which may run beside it.
type Log interface {
	raft.Storage

	// Self is the raft id this log belongs to; 0 for an empty log, of which no
	// group was founded or joined.
	Self() uint64
	// Found makes an empty log that of a new group's first members, one of which
	// is self.
	Found(self uint64, conf *pb.ConfState) error
	// Join makes an empty log that of a member which a group has admitted; the
	// rest comes from its leader.
	Join(self uint64) error
	// Append takes a Ready's hard state (nil: unchanged) and entries, which
	// replace all from the first one's index on.
	Append(hard *pb.HardState, entries []*pb.Entry) error
	// Sync makes all that was taken so far durable.
	Sync() error
	// Install replaces the log by a snapshot from the leader, durably.
	Install(s *pb.Snapshot) error
	// StoreSnapshot makes a snapshot durable without putting it to use.
	StoreSnapshot(s *pb.Snapshot) error
	// Compact puts a stored snapshot to use, drops the snapshots before it, and
	// drops the entries up to and including index, which is not above it.
	Compact(snapshot *pb.SnapshotMetadata, index uint64) error
	// Close syncs and lets go.
	Close() error
	// Abandon lets go and writes nothing: what was not synced is lost.
	Abandon() error
}

// picture is the log as it reads: what both implementations hold in memory. The
// controller compacts often enough to keep it small.
type picture struct {
	self uint64
	hard *pb.HardState
	snap *pb.SnapshotMetadata // newest snapshot in use; index 0 before any
	data []byte               // its data, in the twin only

	before, beforeTerm uint64 // index and term of the entry in front of entries[0]
	entries            []*pb.Entry
}

func newPicture() picture {
	return picture{snap: pb.EnsureSnapshotMetadata(nil)}
}

func (p *picture) last() uint64 { return p.before + uint64(len(p.entries)) }

// Self is part of Log.
func (p *picture) Self() uint64 { return p.self }

func (p *picture) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return p.hard, p.snap.GetConfState(), nil
}

func (p *picture) FirstIndex() (uint64, error) { return p.before + 1, nil }

func (p *picture) LastIndex() (uint64, error) { return p.last(), nil }

func (p *picture) Term(index uint64) (uint64, error) {
	switch {
	case index == p.before:
		return p.beforeTerm, nil
	case index < p.before:
		return 0, raft.ErrCompacted
	case index > p.last():
		return 0, raft.ErrUnavailable
	}
	return p.entries[index-p.before-1].GetTerm(), nil
}

func (p *picture) Entries(low, high, maxSize uint64) ([]*pb.Entry, error) {
	if low <= p.before {
		return nil, raft.ErrCompacted
	}
	if high > p.last()+1 {
		return nil, raft.ErrUnavailable
	}
	all := p.entries[low-p.before-1 : high-p.before-1]
	var size uint64
	for i, e := range all {
		size += uint64(len(e.GetData())) + entryOverhead
		if i > 0 && size > maxSize {
			all = all[:i]
			break
		}
	}
	return append([]*pb.Entry(nil), all...), nil
}

// entryOverhead is what an entry weighs beside its data when a message's size
// is limited.
const entryOverhead = 24

// found puts the founding snapshot in place.
func (p *picture) found(self uint64, conf *pb.ConfState) error {
	if err := p.join(self); err != nil {
		return err
	}
	p.snap = pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{
		ConfState: pb.EnsureConfState(conf), Index: new(uint64(FoundingIndex)), Term: new(uint64(FoundingTerm)),
	})
	p.hard = foundingState()
	p.before, p.beforeTerm = FoundingIndex, FoundingTerm
	return nil
}

func (p *picture) join(self uint64) error {
	if p.self != 0 {
		return ErrNotEmpty
	}
	if self == 0 {
		return errors.New("a raft log can not belong to nobody")
	}
	p.self = self
	return nil
}

func foundingState() *pb.HardState {
	return &pb.HardState{Term: new(uint64(FoundingTerm)), Vote: new(uint64(raft.None)), Commit: new(uint64(FoundingIndex))}
}

// put takes hard state and entries, and gives the lowest index that changed (0:
// no entry did).
func (p *picture) put(hard *pb.HardState, entries []*pb.Entry) (uint64, error) {
	if !raft.IsEmptyHardState(hard) {
		p.hard = hard
	}
	if len(entries) == 0 {
		return 0, nil
	}
	from := entries[0].GetIndex()
	if from <= p.before || from > p.last()+1 {
		return 0, fmt.Errorf("appending entries from index %d to a log of %d to %d", from, p.before+1, p.last())
	}
	for i, e := range entries {
		if e.GetIndex() != from+uint64(i) {
			return 0, fmt.Errorf("appending entries: index %d follows %d", e.GetIndex(), from+uint64(i)-1)
		}
	}
	// The kept slice may be shared with a reader; what it holds is not written to.
	kept := p.entries[: from-p.before-1 : from-p.before-1]
	if from == p.last()+1 {
		kept = p.entries
	}
	p.entries = append(kept, entries...)
	return from, nil
}

// install makes the log that of a snapshot.
func (p *picture) install(meta *pb.SnapshotMetadata, data []byte) {
	p.snap, p.data = meta, data
	p.before, p.beforeTerm = meta.GetIndex(), meta.GetTerm()
	p.entries = nil
	p.raiseTo(meta)
}

// raiseTo lifts a hard state that is older than the snapshot: its commit index,
// and its term, in which this node cannot have voted then.
func (p *picture) raiseTo(meta *pb.SnapshotMetadata) {
	hard := &pb.HardState{Term: new(p.hard.GetTerm()), Vote: new(p.hard.GetVote()), Commit: new(p.hard.GetCommit())}
	if hard.GetTerm() < meta.GetTerm() {
		hard.Term, hard.Vote = new(meta.GetTerm()), new(uint64(raft.None))
	}
	if hard.GetCommit() < meta.GetIndex() {
		hard.Commit = new(meta.GetIndex())
	}
	p.hard = hard
}

func (p *picture) compact(meta *pb.SnapshotMetadata, data []byte, index uint64) error {
	if meta.GetIndex() < p.snap.GetIndex() {
		return fmt.Errorf("going back from the snapshot at index %d to the one at %d", p.snap.GetIndex(), meta.GetIndex())
	}
	if index > meta.GetIndex() || index > p.last() {
		return fmt.Errorf("compacting to index %d with a snapshot at %d and entries up to %d", index, meta.GetIndex(), p.last())
	}
	p.snap, p.data = meta, data
	if index <= p.before {
		return nil
	}
	term, err := p.Term(index)
	if err != nil {
		return err
	}
	p.entries = append([]*pb.Entry(nil), p.entries[index-p.before:]...)
	p.before, p.beforeTerm = index, term
	return nil
}
