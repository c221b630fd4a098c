package controller

import "go.etcd.io/raft/v3"

// Status is what one member knows of the raft group.
type Status struct {
	State     string // as Kafka calls it: leader, candidate, follower, observer
	Leader    int32  // node id, -1: none is known
	Vote      int32  // node id, -1: none
	Epoch     uint64 // raft's term
	Committed uint64 // metadata offset
	End       uint64 // offset of the next entry
	EndEpoch  uint64 // term of the last entry applied
	Voters    int
	Learners  int
}

// Status is that of the last turn; nothing is known where Options.Observe is nil.
func (c *Controller) Status() Status {
	if s := c.status.Load(); s != nil {
		return *s
	}
	return Status{State: "unattached", Leader: -1, Vote: -1}
}

func (m *member) status() *Status {
	b := m.node.BasicStatus()
	s := &Status{
		State: "follower", Leader: NodeOf(m.leader), Vote: NodeOf(b.GetVote()), Epoch: b.GetTerm(), Committed: b.GetCommit(), EndEpoch: m.term,
		Voters: len(m.conf.GetVoters()), Learners: len(m.conf.GetLearners()),
	}
	if last, err := m.o.log.LastIndex(); err == nil {
		s.End = last + 1
	}
	switch {
	case b.RaftState == raft.StateLeader:
		s.State = "leader"
	case b.RaftState == raft.StateCandidate, b.RaftState == raft.StatePreCandidate:
		s.State = "candidate"
	case !isVoter(m.conf, m.id):
		s.State = "observer"
	}
	return s
}
