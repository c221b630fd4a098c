package raftlog

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Memory is a log in memory that distinguishes what was synced from what was
// not, as a disk does.
type Memory struct {
	picture
	durable picture
	pending []func(*picture) // taken, not yet synced

	mu     sync.Mutex // guards stored, which StoreSnapshot writes beside the owner
	stored map[uint64]*pb.Snapshot

	err   error
	syncs int

	// Faults, for tests that show what would catch them.
	failSync  atomic.Pointer[error]
	LoseSyncs bool // Sync answers and does nothing: a missing fsync
}

// NewMemory gives an empty log.
func NewMemory() *Memory {
	return &Memory{picture: newPicture(), durable: newPicture(), stored: map[uint64]*pb.Snapshot{}}
}

// Syncs counts the calls of Sync that had something to make durable.
func (m *Memory) Syncs() int { return m.syncs }

// Crash gives the log as it is found after a power cut. The old one stays as it
// is and must not be used on.
func (m *Memory) Crash() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := NewMemory()
	next.durable = m.durable
	next.durable.entries = append([]*pb.Entry(nil), m.durable.entries...)
	next.picture = next.durable
	next.picture.entries = append([]*pb.Entry(nil), m.durable.entries...)
	for index, s := range m.stored {
		next.stored[index] = s
	}
	next.LoseSyncs = m.LoseSyncs
	return next
}

// both does to the picture now what it will do to the durable one at Sync.
func (m *Memory) both(f func(*picture) error) error {
	if m.err != nil {
		return m.err
	}
	if err := f(&m.picture); err != nil {
		return err
	}
	m.pending = append(m.pending, func(p *picture) {
		if err := f(p); err != nil {
			panic("raftlog: what the log took, its durable twin refuses: " + err.Error())
		}
	})
	return nil
}

// Found is part of Log.
func (m *Memory) Found(self uint64, conf *pb.ConfState) error {
	return m.both(func(p *picture) error { return p.found(self, conf) })
}

// Join is part of Log.
func (m *Memory) Join(self uint64) error {
	return m.both(func(p *picture) error { return p.join(self) })
}

// Append is part of Log.
func (m *Memory) Append(hard *pb.HardState, entries []*pb.Entry) error {
	return m.both(func(p *picture) error {
		_, err := p.put(hard, entries)
		return err
	})
}

// FailSync has the next Sync fail, and with it the log; nil: it does not. It may be called concurrently.
func (m *Memory) FailSync(why error) { m.failSync.Store(&why) }

// Sync is part of Log.
func (m *Memory) Sync() error {
	if why := m.failSync.Load(); m.err == nil && why != nil && *why != nil {
		m.err = *why
	}
	if m.err != nil {
		return m.err
	}
	if len(m.pending) == 0 {
		return nil
	}
	m.syncs++
	if m.LoseSyncs {
		return nil
	}
	for _, f := range m.pending {
		f(&m.durable)
	}
	m.pending = nil
	return nil
}

// Snapshot is part of raft.Storage.
func (m *Memory) Snapshot() (*pb.Snapshot, error) {
	if m.err != nil {
		return nil, m.err
	}
	return &pb.Snapshot{Metadata: m.snap, Data: m.data}, nil
}

// StoreSnapshot is part of Log.
func (m *Memory) StoreSnapshot(s *pb.Snapshot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored[s.GetMetadata().GetIndex()] = s
	return nil
}

// Install is part of Log.
func (m *Memory) Install(s *pb.Snapshot) error {
	err := m.both(func(p *picture) error {
		p.install(s.GetMetadata(), s.GetData())
		return nil
	})
	if err != nil {
		return err
	}
	return m.Sync()
}

// Compact is part of Log.
func (m *Memory) Compact(snapshot *pb.SnapshotMetadata, index uint64) error {
	m.mu.Lock()
	s := m.stored[snapshot.GetIndex()]
	for at := range m.stored {
		if at <= snapshot.GetIndex() {
			delete(m.stored, at)
		}
	}
	m.mu.Unlock()
	if s == nil {
		return errNoSnapshot(snapshot)
	}
	return m.both(func(p *picture) error { return p.compact(snapshot, s.GetData(), index) })
}

// Close is part of Log.
func (m *Memory) Close() error { return m.Sync() }

// Abandon is part of Log.
func (m *Memory) Abandon() error {
	if m.err == nil {
		m.err = errAbandoned
	}
	return nil
}
