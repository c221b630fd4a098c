package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"millrace/controller/image"
	"millrace/controller/raftlog"
)

// loopback is a transport within the process.
type loopback struct {
	net      *loopbackNet
	received chan *pb.Message
	failed   chan Undelivered
}

type loopbackNet struct {
	mu    sync.Mutex
	ports map[uint64]*loopback
}

func (n *loopbackNet) port(id uint64) *loopback {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports == nil {
		n.ports = map[uint64]*loopback{}
	}
	l := &loopback{net: n, received: make(chan *pb.Message, 1024), failed: make(chan Undelivered, 1024)}
	n.ports[id] = l
	return l
}

func (n *loopbackNet) remove(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ports, id)
}

func (l *loopback) Send(messages []*pb.Message) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for _, m := range messages {
		to := l.net.ports[m.GetTo()]
		if to != nil {
			select {
			case to.received <- proto.Clone(m).(*pb.Message):
				continue
			default:
			}
		}
		select {
		case l.failed <- Undelivered{To: m.GetTo(), Snapshot: m.GetType() == pb.MsgSnap}:
		default:
		}
	}
}

func (l *loopback) Receive() <-chan *pb.Message { return l.received }
func (l *loopback) Failed() <-chan Undelivered  { return l.failed }

// TestGroup runs three controllers with their goroutines: a failover, a client
// that rides it out, and a node that was away so long that it needs a snapshot.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &loopbackNet{}
		ids := []int32{0, 1, 2}
		logs := map[int32]*raftlog.Memory{}
		running := map[int32]*Controller{}
		boot := func(id int32) {
			if logs[id] == nil {
				logs[id] = raftlog.NewMemory()
				if err := logs[id].Found(RaftID(id, 0), confOf(ids)); err != nil {
					t.Fatal(err)
				}
			} else {
				logs[id] = logs[id].Crash()
			}
			c, err := Start(context.Background(), Options{
				NodeID: id, Directory: [16]byte{byte(id), 1}, RaftLog: logs[id], Static: testStatic(t, "node.id", fmt.Sprint(id)),
				Transport: net.port(RaftID(id, 0)), SnapshotEntries: 20, VerifyWorking: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			running[id] = c
		}
		halt := func(id int32) {
			net.remove(RaftID(id, 0))
			if err := running[id].Stop(); err != nil {
				t.Fatal(err)
			}
			delete(running, id)
		}
		active := func() int32 {
			for range 1000 {
				for _, id := range ids {
					if c := running[id]; c != nil && c.Active() {
						return id
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Fatal("nobody is elected")
			return -1
		}
		agree := func(topics int) {
			t.Helper()
			for range 1000 {
				same := 0
				var first *image.Image
				for _, id := range ids {
					c := running[id]
					if c == nil {
						continue
					}
					i := c.Image()
					if first == nil {
						first = i
					}
					if i.NumTopics() == topics && image.Equal(i, first) {
						same++
					}
				}
				if same == len(running) {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			for id, c := range running {
				t.Logf("node %d: offset %d, %d topics, leader %d", id, c.Image().Offset(), c.Image().NumTopics(), c.LeaderID())
			}
			t.Fatalf("the images do not come to agree on %d topics", topics)
		}
		for _, id := range ids {
			boot(id)
		}
		leader := active()
		join(t, running[leader], 1)
		_, _ = do[*kmsg.CreateTopicsResponse](t, running[leader], createTopic("first", 2))
		agree(1)
		for id, c := range running {
			if c.LeaderID() != leader || c.Active() != (id == leader) {
				t.Errorf("node %d: leader %d, active %t", id, c.LeaderID(), c.Active())
			}
		}

		// A request to a follower waits for its node to lead, and times out.
		follower := (leader + 1) % 3
		req := createTopic("nowhere", 1)
		req.TimeoutMillis = 2000
		if _, _, err := running[follower].Client().Do(context.Background(), "", req); err == nil {
			t.Error("a follower decided")
		}

		halt(leader)
		next := active()
		if next == leader {
			t.Fatal("it is stopped and leads")
		}
		for i := range 60 {
			_, _ = do[*kmsg.CreateTopicsResponse](t, running[next], createTopic(fmt.Sprintf("t%d", i), 1))
		}
		agree(61)
		boot(leader)
		agree(61)
		if first, _ := logs[leader].FirstIndex(); first < 20 {
			t.Errorf("node %d came back without a snapshot: its log begins at %d", leader, first)
		}
		for _, id := range ids {
			halt(id)
		}
	})
}
