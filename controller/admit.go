package controller

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"millrace/controller/image"
)

// Admitted is a node's place in the raft group.
type Admitted struct {
	RaftID uint64
	Voter  bool
}

// admission is a node that asks to be a member of the group. A node is known by
// its directory: the same directory gets the same identity, however often it
// asks; another one gets the next incarnation, after the old one was removed. So
// a voter that lost its disk, and with it its memory of how it voted, never votes
// again under the identity it voted with.
//
// A new member begins as a learner. It is told its identity once there is a
// snapshot that names it, for without that it could not be brought up; if it is
// to vote, it becomes a voter when it has caught up.
type admission struct {
	node      int32
	directory [16]byte
	voter     bool
	done      chan admitted // has room for one
}

type admitted struct {
	Admitted
	err error
}

// Admit makes a node a member of the group, in steps: it answers as soon as the
// node may start, and a node that is to vote asks again until it does. Only the
// active controller admits; any other answers that it is not.
func (c *Controller) Admit(ctx context.Context, node int32, directory [16]byte, voter bool) (Admitted, error) {
	a := &admission{node: node, directory: directory, voter: voter, done: make(chan admitted, 1)}
	select {
	case c.admissions <- a:
	case <-ctx.Done():
		return Admitted{}, ctx.Err()
	case <-c.stopped:
		return Admitted{}, ErrStopped
	}
	select {
	case got := <-a.done:
		return got.Admitted, got.err
	case <-ctx.Done():
		return Admitted{}, ctx.Err()
	case <-c.stopped:
		return Admitted{}, ErrStopped
	}
}

// admit takes an admission to work on in the next turns.
func (m *member) admit(a *admission) { m.admissions = append(m.admissions, a) }

// roles of an identity in the group.
func isVoter(c *pb.ConfState, id uint64) bool { return slices.Contains(c.GetVoters(), id) }
func isMember(c *pb.ConfState, id uint64) bool {
	return isVoter(c, id) || slices.Contains(c.GetLearners(), id)
}

// membership moves the admissions on, one change of the group at a time. It says
// whether it proposed a change. What the next entry is to record goes through
// the decider.
func (m *member) membership() bool {
	if len(m.admissions) == 0 || m.applied < m.changing {
		return false
	}
	for len(m.admissions) > 0 {
		a := m.admissions[0]
		id, change, err := m.nextChange(a)
		switch {
		case err != nil:
			m.settle(a, admitted{err: err})
		case change != nil:
			return m.propose(change)
		case id == 0:
			return false // waits for its record to be committed
		case m.snapped < m.changed:
			m.wantSnapshot = true
			return false
		default:
			m.settle(a, admitted{Admitted: Admitted{RaftID: id, Voter: isVoter(m.conf, id)}})
		}
	}
	return false
}

// nextChange is the next step of an admission: a change of the group; or none
// and the identity that the node has in it; or neither yet.
func (m *member) nextChange(a *admission) (uint64, *pb.ConfChange, error) {
	if a.node == NodeOf(m.id) {
		return 0, nil, fmt.Errorf("node %d asks to be admitted, and is the active controller", a.node)
	}
	known := m.decider.Working().Node(a.node)
	if known == nil || known.Directory != a.directory {
		next := image.Node{ID: a.node, Directory: a.directory}
		if known != nil {
			next.Incarnation = known.Incarnation + 1
		} else if isMember(m.conf, RaftID(a.node, 0)) {
			next.Incarnation = 1 // a founder of which no directory was recorded
		}
		m.decider.Record(next)
		return 0, nil, nil
	}
	if recorded := m.committed.Node(a.node); recorded == nil || *recorded != *known {
		return 0, nil, nil
	}
	id := RaftID(a.node, known.Incarnation)
	for _, other := range slices.Concat(m.conf.GetVoters(), m.conf.GetLearners()) {
		if NodeOf(other) == a.node && other != id {
			return 0, &pb.ConfChange{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: &other}, nil
		}
	}
	switch {
	case !isMember(m.conf, id):
		return 0, &pb.ConfChange{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: &id}, nil
	case a.voter && !isVoter(m.conf, id) && m.caughtUp(id):
		return 0, &pb.ConfChange{Type: pb.ConfChangeAddNode.Enum(), NodeId: &id}, nil
	}
	return id, nil, nil
}

// caughtUp says whether a learner has what was committed a moment ago.
func (m *member) caughtUp(id uint64) bool {
	done := false
	m.node.WithProgress(func(peer uint64, _ raft.ProgressType, p tracker.Progress) {
		if peer == id {
			done = p.State == tracker.StateReplicate && p.Match+m.o.keepEntries >= m.applied
		}
	})
	return done
}

func (m *member) propose(change *pb.ConfChange) bool {
	last, err := m.o.log.LastIndex()
	if err == nil {
		err = m.node.ProposeConfChange(change)
	}
	if err != nil {
		return false // another turn, another try
	}
	m.changing = last + 1
	return true
}

func (m *member) settle(a *admission, got admitted) {
	m.out.admitted = append(m.out.admitted, settledAdmission{a.done, got})
	m.admissions = m.admissions[1:]
}

type settledAdmission struct {
	to chan admitted
	admitted
}
