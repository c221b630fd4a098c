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
}

func newFetchSessions(slots int) *fetchSessions { return &fetchSessions{shards: session.New(slots)} }

func (s *fetchSessions) at(i int) (*session.Shard, func()) {
	s.locks[i].Lock()
	return s.shards[i], s.locks[i].Unlock
}

func (s *fetchSessions) close(id int32) {
	shard, done := s.at(session.Home(id))
	defer done()
	shard.Close(id)
}

func (s *fetchSessions) resume(r session.ContinueRequest) ([]session.Partition, bool, error) {
	shard, done := s.at(session.Home(r.ID))
	defer done()
	return shard.Continue(r)
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
