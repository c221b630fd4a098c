package broker

import (
	"errors"
	"io/fs"
	"testing"

	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/wire/records"
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
	t.Cleanup(func() { b.stop(false) })
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
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, []byte("v"))
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(u.Bytes(), h, partition.AppendOptions{LeaderEpoch: partition.AnyEpoch}); err != nil {
		t.Fatal(err)
	}
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
