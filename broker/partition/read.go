package partition

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// Isolation says how far a reader sees.
type Isolation int8

// The isolations.
const (
	ReadUncommitted Isolation = iota // to the high watermark
	ReadCommitted                    // to the last stable offset
	ReadAll                          // to the log end: replicas, and coordinators that load
)

// ReadRequest is one partition of a fetch.
type ReadRequest struct {
	Offset    batch.Offset
	MaxBytes  int
	MinOne    bool // the first batch comes whole, however large, and a lack of files is an error
	Isolation Isolation
	// CurrentLeaderEpoch is the leader epoch the reader knows; AnyEpoch is not checked.
	CurrentLeaderEpoch batch.LeaderEpoch
	// LastFetchedEpoch is the epoch of the record before Offset in the reader's log; AnyEpoch is not checked (KIP-595).
	LastFetchedEpoch batch.LeaderEpoch
	// Replica is the follower's broker id; negative for a consumer. A follower reads to the log end, at the leader only.
	Replica int32
	// LeaderOnly refuses to serve a consumer from a follower: Fetch below version 11 (KIP-392).
	LeaderOnly bool
}

// ReadResult is what a fetch of one partition gives. Records must be released.
type ReadResult struct {
	Records       log.Section
	HighWatermark batch.Offset
	LastStable    batch.Offset
	LogStart      batch.Offset
	// LogEnd and LeaderEpoch are those that Records were read in: what FollowerFetched wants to know.
	LogEnd      batch.Offset
	LeaderEpoch batch.LeaderEpoch
	// Aborted are the aborted transactions among Records; for ReadCommitted only.
	Aborted []log.AbortedTxn
	// Cut says that no record came although there is more: the first batch does not fit, or no file could be opened for it.
	Cut bool
	// Segment is the first offset of the segment that was read from.
	Segment batch.Offset
	// Diverging is set where the reader's log differs from this one: it has to be truncated to here. There are no
	// records then.
	Diverging *EpochEnd
}

// EpochEnd is where a leader epoch ended.
type EpochEnd struct {
	Epoch     batch.LeaderEpoch
	EndOffset batch.Offset
}

// Read reads for a consumer or a follower. It takes no lock.
func (p *Partition) Read(q ReadRequest) (ReadResult, error) {
	r := p.role.Load()
	if err := p.offlineOr(r.serve(q)); err != nil {
		return ReadResult{}, err
	}
	return onLog(p, func(l *log.Log) (ReadResult, error) { return p.read(r, l.View(), q) })
}

func (p *Partition) read(r *role, v *log.View, q ReadRequest) (ReadResult, error) {
	out := ReadResult{HighWatermark: v.HighWatermark(), LastStable: v.LastStable(), LogStart: v.LogStart(), LogEnd: v.LogEnd(), LeaderEpoch: r.epoch}
	d, diverging, err := q.place(v)
	if err != nil {
		return ReadResult{}, err
	}
	if diverging {
		at := d // so that d itself stays on the stack
		out.Diverging = &at
		return out, nil
	}
	upper := q.upper(v)
	out.Segment = v.SegmentOf(q.Offset)
	if q.Offset >= upper {
		return out, nil
	}
	var s log.Section
	if q.Isolation == ReadCommitted && q.Replica < 0 {
		s, out.Aborted, err = v.ReadCommitted(q.Offset, upper, q.MaxBytes, q.MinOne)
	} else {
		s, err = v.Read(q.Offset, upper, q.MaxBytes, q.MinOne)
	}
	if err != nil {
		return ReadResult{}, fmt.Errorf("read %v at %d: %w", p, q.Offset, err)
	}
	out.Records, out.Cut = s, s.Len() == 0 && q.MaxBytes > 0
	return out, nil
}

// offlineOr is why the partition's data directory was given up, which Kafka says before anything else of a partition that
// is here; else err.
func (p *Partition) offlineOr(err error) error {
	if off := p.Log().Offline(); off != nil && !errors.Is(err, ErrGone) {
		return off
	}
	return err
}

// place compares where the reader stands with the log: its epochs may differ from the log's (KIP-595), or its offset may
// be none of the log's.
func (q *ReadRequest) place(v *log.View) (d EpochEnd, diverging bool, err error) {
	if q.LastFetchedEpoch != AnyEpoch {
		e, end := v.EndOffsetForEpoch(q.LastFetchedEpoch)
		if e == batch.NoLeaderEpoch || end == batch.NoOffset || q.Offset < v.LogStart() {
			return d, false, ErrOffsetOutOfRange
		}
		if (e < q.LastFetchedEpoch || end < q.Offset) && !faults.keepDiverged {
			return EpochEnd{Epoch: e, EndOffset: end}, true, nil
		}
	}
	if q.Offset < v.LogStart() || q.Offset > v.LogEnd() {
		return d, false, ErrOffsetOutOfRange
	}
	return d, false, nil
}

// serve checks that the reader may be served here.
func (r *role) serve(q ReadRequest) error {
	if err := r.current(q.CurrentLeaderEpoch); err != nil {
		return err
	}
	if q.Replica < 0 && !q.LeaderOnly {
		return nil
	}
	if !r.leader {
		return ErrNotLeader
	}
	if q.Replica >= 0 {
		for i := range r.replicas {
			if r.replicas[i].ID == q.Replica && q.Replica != r.leaderID {
				return nil
			}
		}
		if q.CurrentLeaderEpoch != AnyEpoch {
			// Who knows this epoch and takes itself for a replica has been made one;
			// that has not come here yet.
			return ErrUnknownLeaderEpoch
		}
		return ErrNotReplica
	}
	return nil
}

// upper is the end of what the reader may see.
func (q *ReadRequest) upper(v *log.View) batch.Offset {
	switch {
	case q.Replica >= 0 || q.Isolation == ReadAll || faults.readToEnd:
		return v.LogEnd()
	case q.Isolation == ReadCommitted:
		return v.LastStable()
	}
	return v.HighWatermark()
}

// Available estimates, without a lock or a read, how many bytes Read would find, at most MaxBytes. segment is that which
// Read told, or NoOffset. An error says that waiting for more is of no use: one that Read would give too, errDiverging
// where it answers with a diverging epoch, errRolled where the log has gone on to another segment, of which the reader
// gets nothing as long as there is something in its own: Kafka answers then, however little it is.
func (p *Partition) Available(q ReadRequest, segment batch.Offset) (int64, error) {
	if err := p.offlineOr(p.role.Load().serve(q)); err != nil {
		return 0, err
	}
	v := p.Log().View()
	if _, diverging, err := q.place(v); err != nil {
		return 0, err
	} else if diverging {
		return 0, errDiverging
	}
	upper := q.upper(v)
	if q.Offset >= upper {
		return 0, nil
	}
	if segment != batch.NoOffset && v.SegmentOf(upper-1) > segment {
		return 0, errRolled
	}
	return min(v.Size(q.Offset, upper), int64(q.MaxBytes)), nil
}

var (
	errDiverging = errors.New("the reader's log differs from this one")
	errRolled    = errors.New("the log has gone on to another segment")
)

// Interest is what a reader that found too little should watch for.
func (q *ReadRequest) Interest() Interest {
	if q.Replica >= 0 || q.Isolation == ReadAll {
		return OnLogEnd
	}
	return OnHighWatermark
}

// The times that ListOffset takes beside those at or above 0.
const (
	Latest          int64 = -1
	Earliest        int64 = -2
	MaxTimestamp    int64 = -3
	EarliestLocal   int64 = -4
	LastTiered      int64 = -5
	EarliestPending int64 = -6 // upload to tiered storage
)

// ListRequest is one partition of a ListOffsets request.
type ListRequest struct {
	Timestamp          int64
	Isolation          Isolation // ReadAll for a replica
	CurrentLeaderEpoch batch.LeaderEpoch
	// AnyReplica lets a follower answer: replica id -2, for debugging.
	AnyReplica bool
}

// ListOffset finds the offset that belongs to a time. Where there is none, offset and timestamp are -1.
func (p *Partition) ListOffset(q ListRequest) (log.FoundOffset, error) {
	none := log.FoundOffset{Offset: batch.NoOffset, Timestamp: batch.NoTimestamp, LeaderEpoch: batch.NoLeaderEpoch}
	r := p.role.Load()
	if err := p.offlineOr(r.current(q.CurrentLeaderEpoch)); err != nil {
		return none, err
	}
	if !r.leader && !q.AnyReplica {
		return none, ErrNotLeader
	}
	list := func(l *log.Log) (log.FoundOffset, error) { return p.listOffset(r, l, q) }
	found, err := onLog(p, list)
	for n := 0; log.AwaitDescriptor(err, n); n++ {
		found, err = onLog(p, list)
	}
	return found, err
}

func (p *Partition) listOffset(r *role, l *log.Log, q ListRequest) (log.FoundOffset, error) {
	none := log.FoundOffset{Offset: batch.NoOffset, Timestamp: batch.NoTimestamp, LeaderEpoch: batch.NoLeaderEpoch}
	v := l.View()
	upper := (&ReadRequest{Replica: -1, Isolation: q.Isolation}).upper(v)
	var lagging error
	if r.leader && q.Isolation != ReadAll && r.epochStart > v.HighWatermark() {
		lagging = ErrOffsetNotAvailable
	}
	var found log.FoundOffset
	var ok bool
	var err error
	switch q.Timestamp {
	case Latest:
		if lagging != nil {
			return none, lagging
		}
		return log.FoundOffset{Offset: upper, Timestamp: batch.NoTimestamp, LeaderEpoch: r.epoch}, nil
	case Earliest, EarliestLocal:
		e := v.EpochAt(v.LogStart())
		if v.LogStart() == v.LogEnd() {
			e = r.epoch
		}
		return log.FoundOffset{Offset: v.LogStart(), Timestamp: batch.NoTimestamp, LeaderEpoch: e}, nil
	case LastTiered, EarliestPending:
		return none, nil // nothing is tiered here
	case MaxTimestamp:
		found, ok, err = l.OffsetOfMaxTimestamp()
	default:
		if q.Timestamp < 0 {
			return none, fmt.Errorf("list offsets of %v: timestamp %d", p, q.Timestamp)
		}
		found, ok, err = l.OffsetForTime(q.Timestamp, v.LogEnd())
	}
	switch {
	case err != nil:
		return none, fmt.Errorf("list offsets of %v: %w", p, err)
	case ok && found.Offset < upper:
		return found, nil
	case ok && lagging != nil:
		return none, lagging
	}
	return none, nil
}

// EndOffsetForEpoch is the largest epoch at or below the asked one and where it ended; -1 and -1 where there is none. Only
// a leader answers.
func (p *Partition) EndOffsetForEpoch(current, asked batch.LeaderEpoch) (EpochEnd, error) {
	if err := p.offlineOr(p.role.Load().lead(current)); err != nil {
		return EpochEnd{Epoch: batch.NoLeaderEpoch, EndOffset: batch.NoOffset}, err
	}
	e, end := p.Log().View().EndOffsetForEpoch(asked)
	return EpochEnd{Epoch: e, EndOffset: end}, nil
}

// Deleted is what DeleteRecords did.
type Deleted struct {
	Asked        batch.Offset // the high watermark where -1 was asked
	LowWatermark batch.Offset // the deletion is done once it has reached Asked
	Moved        bool         // the local log start has changed
}

// DeleteRecords moves the log start to an offset, -1 for the high watermark. An offset at or below it changes nothing.
// What it has moved is stored at the next checkpoint of log starts, which is the caller's to hasten.
func (p *Partition) DeleteRecords(o batch.Offset) (Deleted, error) {
	p.mu.Lock()
	defer p.unlockAndTell()
	if err := p.offlineOr(p.role.Load().lead(AnyEpoch)); err != nil {
		return Deleted{}, err
	}
	if c := p.Log().Config(); c.Compact && !c.Delete {
		return Deleted{}, ErrOnlyCompacted
	}
	v := p.Log().View()
	if o == -1 {
		o = v.HighWatermark()
	}
	if o < 0 || o > v.HighWatermark() {
		return Deleted{}, ErrOffsetOutOfRange
	}
	before := v.LogStart()
	if err := p.Log().SetLogStart(o); err != nil {
		return Deleted{}, fmt.Errorf("delete records of %v below %d: %w", p, o, err)
	}
	p.startMoved()
	return Deleted{Asked: o, LowWatermark: p.leader.LowWatermark(), Moved: p.Log().View().LogStart() != before}, nil
}

// LowWatermark is the lowest log start of the live replicas; DeleteRecords is done when it has reached the asked offset.
func (p *Partition) LowWatermark() (batch.Offset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.role.Load().lead(AnyEpoch); err != nil {
		return batch.NoOffset, err
	}
	return p.leader.LowWatermark(), nil
}
