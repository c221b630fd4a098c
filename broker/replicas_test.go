package broker

import (
	"errors"
	"io/fs"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/broker/session"
	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/wire"
	"millrace/wire/records"
	"millrace/wire/wiretest"
)

// standing is a broker that has its disk and nothing else, for what images do to
// its replicas.
func standing(t *testing.T) (*Broker, *disktest.FS) {
	t.Helper()
	static, _, err := config.ParseStatic(map[string]string{"node.id": "1", "log.dirs": "/data"})
	if err != nil {
		t.Fatal(err)
	}
	disk := disktest.New()
	o := Options{Config: static, FS: disk}
	b := newBroker(o)
	if err := b.openStore(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(errTestOver) })
	b.publisher.current.Store(image.New())
	return b, disk
}

// see has the broker apply records as the next image.
func see(b *Broker, recs ...records.Metadata) *image.Image {
	next, delta := b.applied().Apply(b.applied().Offset()+1, recs)
	b.replicas.assign(next, delta)
	b.publisher.current.Store(next)
	return next
}

func registered(id int32, epoch int64, incarnation [16]byte) records.Metadata {
	r := records.NewRegisterBrokerRecord()
	r.BrokerId, r.BrokerEpoch, r.IncarnationId, r.Fenced = id, epoch, incarnation, false
	return r
}

func partitionOf(topic [16]byte, leader, leaderEpoch, partitionEpoch int32, isr []int32, replicas ...int32) records.Metadata {
	p := records.NewPartitionRecord()
	p.PartitionId = 0
	p.TopicId, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Isr, p.Replicas = topic, leader, leaderEpoch, partitionEpoch, isr, replicas
	return p
}

func topicOf(name string, id [16]byte) records.Metadata {
	r := records.NewTopicRecord()
	r.Name, r.TopicId = name, id
	return r
}

var someTopic = [16]byte{1, 2, 3}

var errTestOver = errors.New("the test is over")

// A leadership of an earlier life is not taken up: its epoch may have records
// that a power cut took.
func TestOnlyThePresentLifeLeads(t *testing.T) {
	b, _ := standing(t)
	see(b, topicOf("t", someTopic), partitionOf(someTopic, 1, 4, 4, []int32{1}, 1), registered(1, 10, [16]byte{9}))
	p := b.replicas.get(someTopic, 0)
	if leading, id, _ := p.Leading(); leading || id != -1 {
		t.Errorf("leads %v, or follows %d, by an image from before its registration", leading, id)
	}
	see(b, registered(1, 20, b.incarnation), partitionOf(someTopic, 1, 5, 5, []int32{1}, 1))
	if leading, _, epoch := p.Leading(); !leading || epoch != 5 {
		t.Errorf("leads %v in epoch %d after its registration", leading, epoch)
	}
}

// A leader learns of a follower's new life from the image, though its partition
// has not changed.
func TestARestartedFollowerJoinsAgain(t *testing.T) {
	b, _ := standing(t)
	see(b, registered(1, 10, b.incarnation), registered(2, 11, [16]byte{2}), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1, 2))
	see(b, registered(2, 12, [16]byte{3}))
	p := b.replicas.get(someTopic, 0)
	if err := p.FollowerFetched(1, replica.Fetch{ID: 2, BrokerEpoch: 12}); err != nil {
		t.Fatal(err)
	}
	if ask, ok := p.Proposal(); !ok || len(ask.ISR) != 2 || ask.ISR[1].Epoch != 12 {
		t.Errorf("the leader asks for %+v (%v)", ask, ok)
	}
}

// A replica that was reassigned to other brokers goes, and so do its files.
func TestReassignedReplicasGo(t *testing.T) {
	b, disk := standing(t)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	p := b.replicas.get(someTopic, 0)
	appendOne(t, p)
	if _, err := disk.Stat("/data/t-0"); err != nil {
		t.Fatal(err)
	}
	see(b, partitionOf(someTopic, 2, 2, 2, []int32{2}, 2))
	if b.replicas.get(someTopic, 0) != nil {
		t.Error("the replica is still here")
	}
	if _, err := disk.Stat("/data/t-0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}

// replicated is a broker that leads a partition with a follower which has not
// fetched yet.
func replicated(t *testing.T) (*Broker, *partition.Partition) {
	t.Helper()
	b, _ := standing(t)
	see(b, registered(1, 10, b.incarnation), registered(2, 11, [16]byte{2}), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1, 2}, 1, 2))
	return b, b.replicas.get(someTopic, 0)
}

func oneRecord(t *testing.T) []byte {
	t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, []byte("v"))
	return u.Bytes()
}

func appendOne(t *testing.T, p *partition.Partition) {
	t.Helper()
	u := oneRecord(t)
	h, err := batch.ParseHeader(u)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(u, h, partition.AppendOptions{LeaderEpoch: partition.AnyEpoch}); err != nil {
		t.Fatal(err)
	}
}

// A Produce that waits for replicas is forgotten when its connection is cut,
// however long its time-out.
func TestAPendingProduceEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := replicated(t)
		network := wiretest.New()
		l, err := network.Listen("broker:1")
		if err != nil {
			t.Fatal(err)
		}
		server := wire.NewServer(wire.ServerOptions{Handler: dispatcher{b}})
		go server.Serve(t.Context(), "PLAINTEXT", l)
		defer server.Close()
		nc, err := network.Dial(t.Context(), "tcp", "broker:1")
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, math.MaxInt32
		rp := kmsg.ProduceRequestTopicPartition{Records: oneRecord(t)}
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{rp}}}
		if _, err := nc.Write(frameOf(req, 9)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := p.State().Waiting; n != 1 {
			t.Fatalf("%d appends wait for the follower", n)
		}
		network.Reset("client", "broker")
		time.Sleep(time.Minute)
		if n := p.State().Waiting; n != 0 {
			t.Errorf("%d appends wait for nobody", n)
		}
	})
}

// A fetch of a follower's earlier life is refused, and what was read for it is
// given back.
func TestAFetchOfAnEarlierLife(t *testing.T) {
	b, p := replicated(t)
	appendOne(t, p)
	for _, c := range []struct {
		epoch int64
		code  int16
	}{{11, 0}, {10, kerr.NotLeaderForPartition.Code}} {
		f := fetching{b: b, c: &call{Request: &wire.Request{Version: 15}, b: b}, req: kmsg.NewPtrFetchRequest(), replica: 2, brokerEpoch: c.epoch, maxBytes: 1000}
		f.reads = []fetchRead{{part: p, asked: session.Partition{MaxBytes: 1000, CurrentLeaderEpoch: partition.AnyEpoch, LastFetchedEpoch: partition.AnyEpoch}}}
		f.read()
		if r := &f.reads[0]; codeOf(r.err) != c.code || (r.found.Records.Len() > 0) != (c.code == 0) {
			t.Errorf("a fetch of broker epoch %d: %v, with %d bytes", c.epoch, r.err, r.found.Records.Len())
		}
		f.release()
	}
}

// A Produce that waits for replicas and is told to hurry has timed out, and keeps the offset of its data.
func TestAHurriedProduceHasTimedOut(t *testing.T) {
	b, _ := replicated(t)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Version = -1, math.MaxInt32, 9
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: oneRecord(t)}}}}
	replies := make([]wire.Reply, 1)
	dispatcher{b}.HandleTogether(t.Context(), []*wire.Request{{Version: 9, Body: req.AppendTo(nil), Conn: &wire.Conn{}}}, replies)
	waiting := replies[0].Pending
	waiting.(interface{ Hurry() }).Hurry()
	<-waiting.Done()
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	body, err := waiting.Reply().Body.Bytes()
	if err == nil {
		err = resp.ReadFrom(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != kerr.RequestTimedOut.Code || p.BaseOffset != 0 {
		t.Errorf("error %d, base offset %d", p.ErrorCode, p.BaseOffset)
	}
}

// A consumer that cannot know what a failed directory is hears that another broker leads.
func TestAFetchFromAFailedDirectory(t *testing.T) {
	b, _ := standing(t)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	b.replicas.fail(b.replicas.get(someTopic, 0), errTestOver)
	b.sessions = newFetchSessions(session.DefaultSlots)
	for version := int16(0); version <= 12; version++ {
		want := kerr.KafkaStorageError.Code
		if version <= 5 {
			want = kerr.NotLeaderForPartition.Code
		}
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = version, 1000, session.Final
		req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1000, CurrentLeaderEpoch: -1}}}}
		reply := dispatcher{b}.Handle(t.Context(), &wire.Request{Key: int16(kmsg.Fetch), Version: version, Body: req.AppendTo(nil), Conn: &wire.Conn{}})
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = version
		body, err := reply.Body.Bytes()
		if err == nil {
			err = resp.ReadFrom(body)
		}
		if err != nil || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != want {
			t.Errorf("version %d: %+v, %v, want error %d", version, resp.Topics, err, want)
		}
	}
}

// Between the end of a leadership and the image that says so, the replica knows
// who leads.
func TestTheReplicaKnowsTheLeaderFirst(t *testing.T) {
	b, p := replicated(t)
	if err := p.BecomeFollower(partition.Assignment{LeaderID: 2, LeaderEpoch: 2, PartitionEpoch: 2}); err != nil {
		t.Fatal(err)
	}
	if leader, epoch, ok := b.leaderOf(&call{image: b.applied(), b: b}, "t", [16]byte{}, 0); leader != 2 || epoch != 2 || !ok {
		t.Errorf("leader %d in epoch %d (%v)", leader, epoch, ok)
	}
}
