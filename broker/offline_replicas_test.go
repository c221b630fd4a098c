package broker

import (
	"errors"
	"io/fs"
	"testing"

	"millrace/controller/image"
	"millrace/storage/disktest"
	"millrace/wire/records"
)

// damaged is a broker's life on a disk on which the log of the only partition of
// "t" is damaged below its recovery point, so that it does not open.
func damaged(t *testing.T) (*Broker, *disktest.FS) {
	t.Helper()
	b, disk := standing(t)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	p := b.replicas.get(someTopic, 0)
	for range 3 {
		appendOne(t, p)
	}
	if err := errors.Join(p.Log().Flush(), b.store.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	disk.Kill()
	const segment = "/data/t-0/00000000000000000000.log"
	bytes := disk.Bytes(segment)
	bytes[8] ^= 0x40 // the first batch's length
	disk.Put(segment, bytes)
	o := Options{Config: b.config, FS: disk}
	again := newBroker(o)
	if err := again.openStore(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.stop(errTestOver) })
	again.publisher.current.Store(image.New())
	see(again, registered(1, 20, again.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))
	if again.replicas.get(someTopic, 0) != nil || !again.replicas.broken(someTopic, 0) {
		t.Fatal("the damaged log opens")
	}
	return again, disk
}

// A topic whose log did not open can be deleted, files and all, and made anew.
func TestADeletedOfflineReplicaLeavesNothing(t *testing.T) {
	b, disk := damaged(t)
	remove := records.NewRemoveTopicRecord()
	remove.TopicId = someTopic
	next, delta := b.applied().Apply(b.applied().Offset()+1, []records.Metadata{remove})
	for _, gone := range delta.DeletedTopics {
		b.replicas.removeTopic(gone.Name, gone.ID)
	}
	b.replicas.assign(next, delta)
	b.publisher.current.Store(next)
	if _, err := disk.Stat("/data/t-0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
	other := [16]byte{4, 5, 6}
	see(b, topicOf("t", other), partitionOf(other, 1, 0, 0, []int32{1}, 1))
	p := b.replicas.get(other, 0)
	if p == nil {
		t.Fatalf("a new topic of that name is offline: %v", b.replicas.offline)
	}
	appendOne(t, p)
	if end := p.Log().View().LogEnd(); end != 1 {
		t.Errorf("it ends at %d", end)
	}
}

// One that was reassigned away, and comes back, begins anew.
func TestAReassignedOfflineReplicaLeavesNothing(t *testing.T) {
	b, disk := damaged(t)
	see(b, partitionOf(someTopic, 2, 3, 3, []int32{2}, 2))
	if _, err := disk.Stat("/data/t-0"); !errors.Is(err, fs.ErrNotExist) || b.replicas.broken(someTopic, 0) {
		t.Errorf("its directory: %v; offline: %v", err, b.replicas.offline)
	}
	see(b, partitionOf(someTopic, 2, 4, 4, []int32{2}, 2, 1))
	if p := b.replicas.get(someTopic, 0); p == nil || p.Log().View().LogEnd() != 0 {
		t.Errorf("the replica that comes back is not an empty one: %v", b.replicas.offline)
	}
}
