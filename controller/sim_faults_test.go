package controller

// What befalls the world of sim_test.go: its network, its crashes, and how they end.

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"millrace/controller/image"
	"millrace/controller/raftlog"
)

func (w *world) send(msg *pb.Message) {
	if w.lossy && w.random.IntN(100) < 8 {
		w.count["messages lost"]++
		w.lost(msg)
		return
	}
	w.wire = append(w.wire, proto.Clone(msg).(*pb.Message))
	if w.lossy && w.random.IntN(100) < 4 {
		w.wire = append(w.wire, proto.Clone(msg).(*pb.Message))
	}
}

// lost tells the sender, as a transport does.
func (w *world) lost(msg *pb.Message) {
	if n := w.find(msg.GetFrom()); n != nil && n.m != nil {
		n.m.undelivered(Undelivered{To: msg.GetTo(), Snapshot: msg.GetType() == pb.MsgSnap})
	}
}

func (w *world) find(id uint64) *simNode {
	for _, n := range w.nodes {
		if n.m != nil && n.m.id == id {
			return n
		}
	}
	return nil
}

// deliver takes one message off the wire.
func (w *world) deliver() {
	if len(w.wire) == 0 {
		return
	}
	at := 0
	if w.lossy {
		at = w.random.IntN(min(len(w.wire), 6))
	}
	msg := w.wire[at]
	w.wire = slices.Delete(w.wire, at, at+1)
	to := w.find(msg.GetTo())
	if to == nil || w.cut[[2]int32{NodeOf(msg.GetFrom()), NodeOf(msg.GetTo())}] {
		w.lost(msg)
		return
	}
	to.m.step(msg)
	w.turn(to)
}

// crash stops a node. What it had not synced is gone; half of the time the cut
// comes in the middle of a turn, before its sync.
func (w *world) crash(n *simNode) {
	if w.random.IntN(2) == 0 {
		n.log.FailSync(errPowerCut)
		for range 3 {
			n.m.tick()
		}
		w.askFor(n, fmt.Sprintf("cut%d", w.count["crashes"]))
		for _, msg := range w.wire {
			if msg.GetTo() == n.m.id {
				n.m.step(proto.Clone(msg).(*pb.Message))
			}
		}
		w.turn(n)
	}
	if w.wipes && n.log.Self() != 0 && w.random.IntN(12) == 0 && !slices.ContainsFunc(w.nodes, func(n *simNode) bool { return n.wiped }) {
		w.wipe(n)
		return
	}
	w.note("node %d down", n.node)
	n.log = n.log.Crash()
	n.m = nil
	n.image = image.New()
	n.down = 50 + w.random.IntN(200)
	w.count["crashes"]++
}

// wipe takes a node's disk away: it has to come back as somebody else.
func (w *world) wipe(n *simNode) {
	w.note("node %d loses its disk", n.node)
	if old := n.log.Self(); old > w.gone[n.node] {
		w.gone[n.node] = old
	}
	n.log, n.m, n.image, n.applied = raftlog.NewMemory(), nil, image.New(), 0
	n.log.LoseSyncs = w.nodes[(n.node+1)%int32(len(w.nodes))].log.LoseSyncs
	n.dir++
	n.wiped, n.asks = true, nil
	w.count["disks lost"]++
}

// rejoin has a wiped node ask whoever leads until it votes again.
func (w *world) rejoin(n *simNode) {
	if n.asks == nil {
		leader := w.leading()
		if leader == nil || leader == n {
			return
		}
		n.asks = make(chan admitted, 1)
		leader.m.admit(&admission{node: n.node, directory: n.directory(), voter: true, done: n.asks})
		w.turn(leader)
	}
	select {
	case got := <-n.asks:
		n.asks = nil
		if got.err != nil {
			return
		}
		if got.RaftID <= w.gone[n.node] {
			w.fail("node %d lost its disk as %x and is admitted as %x", n.node, w.gone[n.node], got.RaftID)
		}
		if n.log.Self() == 0 {
			if err := n.log.Join(got.RaftID); err != nil {
				w.fail("%v", err)
			}
			lose := n.log.LoseSyncs
			n.log.LoseSyncs = false
			if err := n.log.Sync(); err != nil {
				w.fail("%v", err)
			}
			n.log.LoseSyncs = lose
			w.boot(n)
		}
		if got.Voter {
			n.wiped = false
			w.count["admitted again"]++
		}
	default:
		// A leader that is gone does not answer.
		if w.random.IntN(500) == 0 {
			n.asks = nil
		}
	}
}

// heal brings everything back and lets it come to rest; then all must agree and
// nothing acknowledged may be missing.
func (w *world) heal() {
	w.lossy = false
	clear(w.cut)
	for _, n := range w.nodes {
		if n.m == nil && n.log.Self() != 0 {
			w.boot(n)
		}
	}
	for range 20000 {
		if !slices.ContainsFunc(w.nodes, func(n *simNode) bool { return n.wiped }) {
			break
		}
		w.now = w.now.Add(10 * time.Millisecond)
		for _, n := range w.nodes {
			if n.wiped {
				w.rejoin(n)
			}
			if n.m != nil {
				n.m.tick()
				w.turn(n)
			}
		}
		for len(w.wire) > 0 {
			w.deliver()
		}
	}
	for _, n := range w.nodes {
		if n.wiped {
			w.fail("node %d was not admitted again", n.node)
		}
	}
	still := 0
	for before := w.highest; still < 80; still++ {
		if w.highest != before || w.leading() == nil {
			before, still = w.highest, 0
		}
		w.now = w.now.Add(10 * time.Millisecond)
		for _, n := range w.nodes {
			n.m.tick()
			w.turn(n)
		}
		for len(w.wire) > 0 {
			w.deliver()
		}
	}
	for _, n := range w.nodes {
		if n.m.applied != w.highest {
			w.fail("at rest node %d has applied %d, not %d", n.node, n.m.applied, w.highest)
		}
		if !image.Equal(n.m.committed, w.nodes[0].m.committed) {
			w.fail("at rest nodes 0 and %d differ", n.node)
		}
		for name, id := range w.created {
			if t := n.m.committed.TopicByName(name); t == nil || t.ID != id {
				w.fail("%s was acknowledged and is not on node %d", name, n.node)
			}
		}
	}
	if len(w.nodes[0].m.committed.ClusterID()) != 22 {
		w.fail("the cluster id is %q", w.nodes[0].m.committed.ClusterID())
	}
}
