package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/wire/records"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testStatic(t testing.TB, props ...string) *config.Static {
	t.Helper()
	all := map[string]string{"node.id": "1"}
	for i := 0; i < len(props); i += 2 {
		all[props[i]] = props[i+1]
	}
	s, _, err := config.ParseStatic(all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, log raftlog.Log, change ...func(*Options)) *Controller {
	t.Helper()
	o := Options{NodeID: 1, Directory: [16]byte{1, 2, 3}, RaftLog: log, Static: testStatic(t), VerifyWorking: true}
	if tt, ok := t.(*testing.T); ok {
		o.Logger = zaptest.NewLogger(tt)
	}
	for _, f := range change {
		f(&o)
	}
	c, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func do[R kmsg.Response](t testing.TB, c *Controller, req kmsg.Request) (R, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, offset, err := c.Client().Do(ctx, "User:test", req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp.(R), offset
}

// clusterOf waits for the image in which the cluster has its id.
func clusterOf(t testing.TB, s Source) Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	after := int64(-1)
	for {
		u, err := s.Next(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		if u.Image.ClusterID() != "" {
			return u
		}
		after = u.Image.Offset()
	}
}

func registration(cluster string, broker int32, incarnation byte) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID, req.ClusterID, req.IncarnationID = broker, cluster, [16]byte{incarnation, byte(broker)}
	req.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}}
	req.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: 7, MaxSupportedVersion: 33}}
	req.LogDirs = [][16]byte{{0xd0, byte(broker)}}
	return req
}

func beat(broker int32, epoch, offset int64) *kmsg.BrokerHeartbeatRequest {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = broker, epoch, offset
	return req
}

// join registers broker 1 and has it unfenced.
func join(t testing.TB, c *Controller, incarnation byte) int64 {
	t.Helper()
	u := clusterOf(t, c.Source())
	reg, offset := do[*kmsg.BrokerRegistrationResponse](t, c, registration(u.Image.ClusterID(), 1, incarnation))
	if reg.ErrorCode != 0 || reg.BrokerEpoch != offset {
		t.Fatalf("registration: %v, broker epoch %d at offset %d", kerr.ErrorForCode(reg.ErrorCode), reg.BrokerEpoch, offset)
	}
	hb, _ := do[*kmsg.BrokerHeartbeatResponse](t, c, beat(1, reg.BrokerEpoch, offset))
	if hb.ErrorCode != 0 || hb.IsFenced {
		t.Fatalf("heartbeat: %v, fenced %t", kerr.ErrorForCode(hb.ErrorCode), hb.IsFenced)
	}
	return reg.BrokerEpoch
}

func createTopic(name string, partitions int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	req.Topics = append(req.Topics, topic)
	return req
}

// TestLoneNode walks a single node through founding, a topic, and a restart that
// ends the leadership held before it.
func TestLoneNode(t *testing.T) {
	dir := t.TempDir()
	log, err := raftlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, log)
	source := c.Source()
	cluster := clusterOf(t, source).Image.ClusterID()
	first := join(t, c, 1)
	created, offset := do[*kmsg.CreateTopicsResponse](t, c, createTopic("walk", 3))
	if created.Topics[0].ErrorCode != 0 || created.Topics[0].NumPartitions != 3 || created.Topics[0].ReplicationFactor != 1 {
		t.Fatalf("CreateTopics: %+v", created.Topics[0])
	}
	if got := c.Image().Offset(); got < offset {
		t.Fatalf("the answer names offset %d, the image is at %d", offset, got)
	}
	if !c.Active() || c.LeaderID() != 1 {
		t.Fatalf("active %t, leader %d", c.Active(), c.LeaderID())
	}
	before := c.Image()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Next(context.Background(), before.Offset()); !errors.Is(err, ErrStopped) {
		t.Fatalf("Next after Stop: %v", err)
	}
	if _, _, err := c.Client().Do(context.Background(), "", createTopic("late", 1)); !errors.Is(err, ErrStopped) {
		t.Fatalf("Do after Stop: %v", err)
	}

	log, err = raftlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c = start(t, log)
	defer c.Stop()
	again := clusterOf(t, c.Source())
	if again.Image.ClusterID() != cluster {
		t.Fatalf("cluster %s became %s", cluster, again.Image.ClusterID())
	}
	second := join(t, c, 2)
	if second <= first {
		t.Fatalf("broker epoch %d after %d", second, first)
	}
	topic := c.Image().TopicByName("walk")
	if topic == nil || topic.ID != created.Topics[0].TopicID {
		t.Fatalf("after the restart: %+v", topic)
	}
	for i, p := range topic.Partitions {
		if p.Leader != 1 || p.LeaderEpoch != before.TopicByName("walk").Partitions[i].LeaderEpoch+1 {
			t.Errorf("partition %d: leader %d, leader epoch %d after the restart", i, p.Leader, p.LeaderEpoch)
		}
	}
}

// TestTogether: requests that arrive together make few entries, and all see
// those before them.
func TestTogether(t *testing.T) {
	log := raftlog.NewMemory()
	c := start(t, log)
	defer c.Stop()
	join(t, c, 1)
	before := c.Image().Offset()
	const n = 200
	results := make(chan error, n)
	for i := range n {
		go func() {
			resp, _, err := c.Client().Do(context.Background(), "", createTopic(fmt.Sprintf("t%d", i/2), 1))
			if err == nil {
				err = kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
			}
			results <- err
		}()
	}
	refused := 0
	for range n {
		switch err := <-results; {
		case errors.Is(err, kerr.TopicAlreadyExists):
			refused++
		case err != nil:
			t.Error(err)
		}
	}
	if refused != n/2 || c.Image().NumTopics() != n/2 {
		t.Errorf("%d of %d refused, %d topics", refused, n, c.Image().NumTopics())
	}
	t.Logf("%d requests made %d entries", n, c.Image().Offset()-before)
}

// TestSource: a subscriber that was away gets one update with all that changed.
func TestSource(t *testing.T) {
	c := start(t, raftlog.NewMemory())
	defer c.Stop()
	join(t, c, 1)
	s := c.Source()
	first := clusterOf(t, s)
	if len(first.Delta.Brokers) != 1 || !first.Delta.Features {
		t.Errorf("the first update does not name everything: %+v", first.Delta)
	}
	_, _ = do[*kmsg.CreateTopicsResponse](t, c, createTopic("a", 1))
	_, _ = do[*kmsg.CreateTopicsResponse](t, c, createTopic("b", 1))
	u, err := s.Next(context.Background(), first.Image.Offset())
	if err != nil || len(u.Delta.Topics) != 2 || u.Delta.Topics[0] != "a" || len(u.Delta.Brokers) != 0 {
		t.Fatalf("%v: %+v", err, u.Delta)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx, u.Image.Offset()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next without news: %v", err)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version = 6
	name := "a"
	del.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	_, _ = do[*kmsg.DeleteTopicsResponse](t, c, del)
	_, _ = do[*kmsg.CreateTopicsResponse](t, c, createTopic("a", 1))
	again, err := s.Next(context.Background(), u.Image.Offset())
	if err != nil || len(again.Delta.DeletedTopics) != 1 || again.Delta.DeletedTopics[0].ID != u.Image.TopicByName("a").ID || len(again.Delta.Topics) != 1 {
		t.Fatalf("%v: %+v", err, again.Delta)
	}
}

// TestCompaction: the log is cut behind a snapshot and the node comes back from
// both.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	open := func() *Controller {
		log, err := raftlog.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return start(t, log, func(o *Options) { o.SnapshotEntries = 20 })
	}
	c := open()
	join(t, c, 1)
	for i := range 150 {
		_, _ = do[*kmsg.CreateTopicsResponse](t, c, createTopic(fmt.Sprintf("t%d", i), 2))
	}
	before := c.Image()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	firstIndex, _ := log.FirstIndex()
	if firstIndex < 50 {
		t.Errorf("the log still begins at %d", firstIndex)
	}
	_ = log.Close()
	c = open()
	defer c.Stop()
	after := clusterOf(t, c.Source()).Image
	for topic := range before.Topics() {
		now := after.TopicByName(topic.Name)
		if now == nil || now.ID != topic.ID || len(now.Partitions) != 2 {
			t.Fatalf("%s did not come back: %+v", topic.Name, now)
		}
	}
	if after.NumTopics() != 150 || after.Broker(1) == nil {
		t.Errorf("%d topics, broker %+v", after.NumTopics(), after.Broker(1))
	}
}

var errFull = errors.New("the disk is gone")

func TestFailedSyncStops(t *testing.T) {
	log := raftlog.NewMemory()
	log.FailSync(errFull)
	if _, err := Start(context.Background(), Options{NodeID: 1, RaftLog: log, Static: testStatic(t)}); !errors.Is(err, errFull) {
		t.Fatalf("it started: %v", err)
	}
	log = raftlog.NewMemory()
	c := start(t, log)
	join(t, c, 1)
	before := c.Image()
	log.FailSync(errFull)
	if _, _, err := c.Client().Do(context.Background(), "", createTopic("lost", 1)); !errors.Is(err, ErrStopped) {
		t.Fatalf("Do: %v", err)
	}
	<-c.Done()
	if !errors.Is(c.Err(), errFull) {
		t.Fatalf("it stopped with %v", c.Err())
	}
	if c.Image() != before {
		t.Fatal("an image was let out that is not durable")
	}
}

// TestDamagedMetadata: what is committed and does not fit is a refused start, in one
// sentence, with nothing written.
func TestDamagedMetadata(t *testing.T) {
	topic := [16]byte{9}
	entry := func(recs ...records.Metadata) []byte {
		return (&image.Entry{Term: 1, ClusterID: "c", Records: recs}).Append(nil)
	}
	for what, c := range map[string]struct {
		snapshot, entry []byte
		say             string
	}{
		"an entry":       {entry: entry(&records.PartitionRecord{TopicId: topic}), say: "the entry at metadata offset 3: a record at offset 3 is for topic id"},
		"an entry's end": {entry: entry(&records.TopicRecord{Name: "t", TopicId: topic})[:9], say: "the entry at metadata offset 3: decoding"},
		"a snapshot":     {snapshot: entry(&records.UnregisterBrokerRecord{BrokerId: 7}), entry: entry(), say: "the snapshot at metadata offset 2: change of broker 7"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			log, err := raftlog.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			conf := &pb.ConfState{Voters: []uint64{RaftID(1, 0)}}
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ok(log.Found(RaftID(1, 0), conf))
			one := func(index uint64, data []byte) *pb.Entry {
				return &pb.Entry{Index: new(index), Term: new(uint64(1)), Type: pb.EntryNormal.Enum(), Data: data}
			}
			hard := &pb.HardState{Term: new(uint64(1)), Vote: new(RaftID(1, 0)), Commit: new(uint64(3))}
			ok(log.Append(hard, []*pb.Entry{one(2, entry()), one(3, c.entry)}))
			ok(log.Sync())
			if c.snapshot != nil {
				meta := pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{Index: new(uint64(2)), Term: new(uint64(1)), ConfState: conf})
				ok(log.StoreSnapshot(&pb.Snapshot{Data: c.snapshot, Metadata: meta}))
				ok(log.Compact(meta, 2))
			}
			ok(log.Close())
			before, err := os.ReadFile(filepath.Join(dir, "raft.db"))
			ok(err)
			log, err = raftlog.Open(dir)
			ok(err)
			_, err = Start(context.Background(), Options{NodeID: 1, RaftLog: log, Static: testStatic(t)})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it started: %v", err)
			}
			after, err := os.ReadFile(filepath.Join(dir, "raft.db"))
			ok(err)
			if !bytes.Equal(before, after) {
				t.Error("it has written")
			}
		})
	}
}

// TestRefusedStartLetsGo: whoever is refused holds the metadata no longer, and has changed nothing.
func TestRefusedStartLetsGo(t *testing.T) {
	dir := t.TempDir()
	log, err := raftlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, log)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if log, err = raftlog.Open(dir); err != nil {
			t.Fatal(err)
		}
		_, err = Start(context.Background(), Options{NodeID: 2, RaftLog: log, Static: testStatic(t)})
		if err == nil || err.Error() != "the metadata here is that of node 1, not of node 2" {
			t.Fatalf("it started: %v", err)
		}
	}
}

func TestUnsupported(t *testing.T) {
	c := start(t, raftlog.NewMemory())
	defer c.Stop()
	clusterOf(t, c.Source())
	_, _, err := c.Client().Do(context.Background(), "", kmsg.NewPtrFetchRequest())
	if !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
}

func TestFounders(t *testing.T) {
	own := config.Address{Host: "me", Port: 1}
	itself := func(a config.Address) bool { return a == own }
	for _, c := range []struct {
		name      string
		voters    []int32
		bootstrap []config.Address
		want      string
	}{
		{"nothing configured", nil, nil, "[1]"},
		{"bootstrap names itself", nil, []config.Address{own}, "[1]"},
		{"bootstrap names another too", nil, []config.Address{own, {Host: "you", Port: 1}}, "join"},
		{"stands in the voters", []int32{3, 1, 2}, nil, "[1 2 3]"},
		{"does not stand in the voters", []int32{3, 2}, nil, "join"},
	} {
		var voters []config.Voter
		for _, id := range c.voters {
			voters = append(voters, config.Voter{ID: id})
		}
		ids, err := founders(1, voters, c.bootstrap, itself)
		got := fmt.Sprint(ids)
		if errors.Is(err, errMustJoin) {
			got = "join"
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}

func TestRaftID(t *testing.T) {
	for _, node := range []int32{0, 1, 1<<31 - 1} {
		for _, inc := range []uint32{0, 1, 1<<32 - 2} {
			if id := RaftID(node, inc); id == 0 || NodeOf(id) != node || IncarnationOf(id) != inc {
				t.Errorf("node %d, incarnation %d: raft id %x is node %d, incarnation %d", node, inc, id, NodeOf(id), IncarnationOf(id))
			}
		}
	}
	if NodeOf(0) != -1 {
		t.Error("raft's nobody is somebody")
	}
}

func BenchmarkFounding(b *testing.B) {
	static := testStatic(b)
	for b.Loop() {
		log, err := raftlog.Open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		c := start(b, log, func(o *Options) { o.Static, o.VerifyWorking = static, false })
		join(b, c, 1)
		b.StopTimer()
		_ = c.Stop()
		b.StartTimer()
	}
}

func BenchmarkCreateTopic(b *testing.B) {
	for _, kind := range []string{"disk", "memory"} {
		b.Run(kind, func(b *testing.B) {
			var log raftlog.Log = raftlog.NewMemory()
			if kind == "disk" {
				disk, err := raftlog.Open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				log = disk
			}
			c := start(b, log, func(o *Options) { o.VerifyWorking = false })
			defer c.Stop()
			join(b, c, 1)
			i := 0
			for b.Loop() {
				do[*kmsg.CreateTopicsResponse](b, c, createTopic(fmt.Sprintf("t%d", i), 1))
				i++
			}
		})
	}
}

// TestDamagedSnapshotOfALeader: one that cannot be read stops who is sent it, and leaves that one's log as it was: the next start
// asks again.
func TestDamagedSnapshotOfALeader(t *testing.T) {
	log := raftlog.NewMemory()
	for _, err := range []error{log.Found(RaftID(0, 0), confOf([]int32{0, 1, 2})), log.Sync()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &world{static: testStatic(t), history: map[uint64][32]byte{}, count: map[string]int{}}
	n := &simNode{log: log, image: image.New()}
	w.boot(n)
	n.m.step(&pb.Message{
		Type: pb.MsgSnap.Enum(), From: new(RaftID(1, 0)), To: new(RaftID(0, 0)), Term: new(uint64(2)),
		Snapshot: &pb.Snapshot{Data: []byte("what is no entry"), Metadata: pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)), ConfState: n.m.conf})},
	})
	if _, err := n.m.turn(time.Unix(1, 0)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("it goes on: %v", err)
	}
	if s, err := log.Crash().Snapshot(); err != nil || s.GetMetadata().GetIndex() != raftlog.FoundingIndex {
		t.Errorf("the next start finds the snapshot of %d, %v", s.GetMetadata().GetIndex(), err)
	}
}
