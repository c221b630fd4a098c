package broker

import (
	"sync"

	"millrace/broker/session"
)

// fetchSessions guards the shards of the session cache, each with a lock of its
// own, held for no read and no wait.
type fetchSessions struct {
	shards [session.Shards]*session.Shard
	locks  [session.Shards]sync.Mutex
	turns  [session.Shards]map[int32]*turn // by session
}

// largeSession is how many partitions a session has of which one fetch is executed
// at a time, and for whose end none waits: what it takes is much, and a request of a
// few bytes asks for it. The bound on what sessions hold is then one on that too. In
// Kafka such a fetch waits on, and fails in the end as its session has gone on; a
// client sends its next when it has the answer.
const largeSession = 1000

// turn is a fetch of a large session.
type turn struct {
	hurried bool          // hurry is closed
	hurry   chan struct{} // another one waits for it, or the session has ended
	done    chan struct{}
}

func newFetchSessions(slots int) *fetchSessions {
	s := &fetchSessions{}
	for i := range s.turns {
		s.turns[i] = map[int32]*turn{}
	}
	s.shards = session.New(slots, s.hurry)
	return s
}

// hurry has the fetch that is executed in a large session answer now. The session's
// lock is held.
func (s *fetchSessions) hurry(id int32) {
	if t := s.turns[session.Home(id)][id]; t != nil && !t.hurried {
		t.hurried = true
		close(t.hurry)
	}
}

func (s *fetchSessions) at(i int) (*session.Shard, func()) {
	s.locks[i].Lock()
	return s.shards[i], s.locks[i].Unlock
}

func (s *fetchSessions) close(id int32) {
	shard, done := s.at(session.Home(id))
	defer done()
	shard.Close(id)
}

// resume continues a session. In a large one it first waits for the fetch that is
// being executed, and is a turn itself, which is to be ended.
func (s *fetchSessions) resume(c *call, r session.ContinueRequest) (ps []session.Partition, open bool, t *turn, err error) {
	for {
		ps, open, t, before, err := s.tryResume(r)
		if before == nil {
			return ps, open, t, err
		}
		c.Waiting()
		<-before.done
	}
}

func (s *fetchSessions) tryResume(r session.ContinueRequest) (ps []session.Partition, open bool, t, before *turn, err error) {
	home := session.Home(r.ID)
	shard, done := s.at(home)
	defer done()
	if before = s.turns[home][r.ID]; before != nil {
		if _, err := shard.Fits(r); err != nil {
			return nil, false, nil, nil, err
		}
		s.hurry(r.ID)
		return nil, false, nil, before, nil
	}
	if ps, open, err = shard.Continue(r); open && len(ps) > largeSession {
		t = &turn{hurry: make(chan struct{}), done: make(chan struct{})}
		s.turns[home][r.ID] = t
	}
	return ps, open, t, nil, err
}

// end ends a turn.
func (s *fetchSessions) end(id int32, t *turn) {
	home := session.Home(id)
	_, done := s.at(home)
	delete(s.turns[home], id)
	done()
	close(t.done)
}

func (s *fetchSessions) finish(id, epoch int32, results []session.Result) error {
	shard, done := s.at(session.Home(id))
	defer done()
	return shard.Finish(id, epoch, results)
}

// open looks for room in one shard after the other, beginning with one that
// chance names.
func (s *fetchSessions) open(r session.OpenRequest) int32 {
	for i := range session.Shards {
		shard, done := s.at((int(r.Chance%session.Shards) + i) % session.Shards)
		id := shard.Open(r)
		done()
		if id != session.None {
			return id
		}
	}
	return session.None
}
