package broker

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker/partition"
	"millrace/controller"
	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/wire/records"
)

// fed is a controller that gives what a test puts into it.
type fed chan controller.Update

func (f fed) Next(ctx context.Context, after int64) (controller.Update, error) {
	select {
	case u := <-f:
		return u, nil
	case <-ctx.Done():
		return controller.Update{}, ctx.Err()
	}
}

// give has the publisher apply records, and waits until it has taken them.
func (f fed) give(b *Broker, recs ...records.Metadata) {
	next, delta := b.applied().Apply(b.applied().Offset()+1, recs)
	f <- controller.Update{Image: next, Delta: delta}
}

// recovering is a broker that leads "u", with another broker in its ISR, and has begun
// to recover the log of "t", which lacked a descriptor at first: what it reads of that
// hangs until on is closed. Its publisher runs, and what it does from time to time.
func recovering(t *testing.T) (b *Broker, disk *disktest.FS, f fed, on chan struct{}) {
	t.Helper()
	first, disk := standing(t)
	see(first, registered(1, 10, first.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	for range 3 {
		appendOne(t, first.replicas.get(someTopic, 0))
	}
	disk.Kill()
	o := Options{Config: first.config, FS: disk}
	b = newBroker(o)
	if err := b.openStore(o); err != nil {
		t.Fatal(err)
	}
	b.publisher.current.Store(image.New())
	lack(disk)
	see(b, registered(1, 20, b.incarnation), registered(2, 21, [16]byte{2}), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))
	disk.Refuse(nil)
	see(b, topicOf("u", otherTopic), partitionOf(otherTopic, 1, 1, 1, []int32{1, 2}, 1, 2))
	appendOne(t, b.replicas.get(otherTopic, 0))

	on = make(chan struct{})
	hangs := false
	disk.Hold(func(op, name string) {
		if op == "read" && strings.HasPrefix(name, "/data/t-0/") {
			hangs = true
			<-on
		}
	})
	f = make(fed)
	b.background(func(ctx context.Context) { b.publisher.run(ctx, f) })
	b.background(b.expireFollowers)
	b.background(b.housekeep)
	b.background(b.watchDirectories)
	time.Sleep(5 * time.Second)
	synctest.Wait()
	if !hangs || len(b.replicas.lackingKeys()) != 1 {
		t.Fatalf("nothing is recovered: %v", b.replicas.offline)
	}
	return b, disk, f, on
}

var otherTopic = [16]byte{4, 5, 6}

// A recovery whose disk hangs holds up nothing but its own log.
func TestAHungRecoveryHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := recovering(t)
		if err := b.store.Housekeep(b.now()); err != nil {
			t.Error(err)
		}
		if use := b.store.Describe(func(storage.Name) bool { return true }); len(use[0].Logs) != 1 {
			t.Errorf("described: %+v", use)
		}
		if err := b.store.FlushDue(t.Context(), b.now()); err != nil {
			t.Error(err)
		}
		third := [16]byte{7, 8, 9}
		f.give(b, topicOf("w", third), partitionOf(third, 1, 0, 0, []int32{1}, 1))
		synctest.Wait()
		if b.replicas.get(third, 0) == nil || b.applied().TopicByName("w") == nil {
			t.Error("a new image is not applied")
		}
		// Nor does a checkpoint that hangs, too, keep a lagging follower in the ISR.
		disk.Hold(func(op, name string) {
			if strings.HasPrefix(name, "/data/t-0/") || strings.Contains(name, "checkpoint") {
				<-on
			}
		})
		appendOne(t, b.replicas.get(otherTopic, 0))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if ask, ok := b.replicas.get(otherTopic, 0).Proposal(); !ok || len(ask.ISR) != 1 {
			t.Errorf("of the ISR of a partition whose follower lags it is asked %+v (%v)", ask, ok)
		}
		close(on)
		time.Sleep(time.Minute)
		synctest.Wait()
		p := b.replicas.get(someTopic, 0)
		if p == nil {
			t.Fatalf("the log that was recovered is offline: %v", b.replicas.offline)
		}
		if leading, _, _ := p.Leading(); !leading || p.Log().View().LogEnd() != 3 {
			t.Errorf("it leads %v, with %d records", leading, p.Log().View().LogEnd())
		}
		disk.Hold(nil)
		b.stop(errTestOver)
	})
}

// That no data directory is left stops the broker, also when the checkpoints hang.
func TestALostDirectoryIsToldBesideAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, _, on := recovering(t)
		p := b.replicas.get(otherTopic, 0)
		appendOne(t, p)
		disk.Hold(func(op, name string) {
			if strings.HasPrefix(name, "/data/t-0/") || strings.Contains(name, "checkpoint") {
				<-on
			}
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		disk.Refuse(func(op, name string) error {
			if op == "write" && strings.HasPrefix(name, "/data/u-0/") {
				return errors.New("input/output error")
			}
			return nil
		})
		u := oneRecord(t)
		h, err := batch.ParseHeader(u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(u, h, partition.AppendOptions{LeaderEpoch: partition.AnyEpoch}); err == nil {
			t.Error("the disk takes what it does not")
		}
		synctest.Wait()
		select {
		case err := <-b.failed:
			if !errors.Is(err, storage.ErrNoDirectory) {
				t.Error(err)
			}
		default:
			t.Error("nobody is told")
		}
		close(on)
		disk.Refuse(nil)
		disk.Hold(nil)
		b.stop(errTestOver)
	})
}

// A topic that is deleted while the log of a replica is recovered goes when that is
// open, with its files, and leaves its name to another. Images do not wait for it.
func TestAReplicaIsDeletedWhileItIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := recovering(t)
		remove := records.NewRemoveTopicRecord()
		remove.TopicId = someTopic
		f.give(b, remove)
		synctest.Wait()
		if b.applied().TopicByName("t") != nil {
			t.Fatal("the image without it is not applied")
		}
		// Its name is another's already, and then a third one's.
		again := [16]byte{6, 7, 8}
		f.give(b, topicOf("t", again), partitionOf(again, 1, 0, 0, []int32{1}, 1))
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.replicas.get(again, 0) != nil || !b.replicas.broken(again, 0) {
			t.Error("the next of its name is here while the files are the first one's")
		}
		remove = records.NewRemoveTopicRecord()
		remove.TopicId = again
		f.give(b, remove)
		synctest.Wait()
		third := [16]byte{7, 8, 9}
		f.give(b, topicOf("t", third), partitionOf(third, 1, 0, 0, []int32{1}, 1))
		synctest.Wait()
		close(on)
		synctest.Wait()
		disk.Hold(nil)
		if _, err := disk.Stat("/data/t-0"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its directory: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p := b.replicas.get(third, 0)
		if p == nil || p.Log().TopicID() != third || p.Log().View().LogEnd() != 0 {
			t.Errorf("the next topic of its name: %v", b.replicas.offline)
		}
		if n := len(b.replicas.lackingKeys()); n != 0 {
			t.Errorf("%d are lacking", n)
		}
		time.Sleep(time.Minute)
		b.stop(errTestOver)
	})
}

// A move of a partition that was deleted, whose turn comes while the log of the next one of its name is recovered, leaves
// that to be deleted by whoever recovers it.
func TestAMoveThatIsOverLeavesTheNameAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := recovering(t)
		goOn := sync.OnceFunc(func() { close(on) })
		defer func() {
			goOn()
			b.stop(errTestOver)
		}()
		other, _ := standing(t)
		see(other, registered(1, 10, other.incarnation), topicOf("t", otherTopic), partitionOf(otherTopic, 1, 1, 1, []int32{1}, 1))
		gone := other.replicas.get(otherTopic, 0)
		gone.Close()
		b.background(b.moveReplicas)
		b.moves.add(&moving{part: gone, resumes: true})
		synctest.Wait()
		if !b.recoveries.under(storage.Name{Topic: "t"}) {
			t.Fatal("the name is free while a log of it is recovered")
		}
		remove := records.NewRemoveTopicRecord()
		remove.TopicId = someTopic
		f.give(b, remove)
		synctest.Wait()
		if b.applied().TopicByName("t") != nil {
			t.Error("an image waits for what is recovered")
		}
		b.moves.add(&moving{part: gone, resumes: true})
		synctest.Wait()
		goOn()
		time.Sleep(time.Minute)
		synctest.Wait()
		disk.Hold(nil)
		if _, err := disk.Stat("/data/t-0"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its directory: %v", err)
		}
		if m, wait := b.moves.next(b.now()); m != nil || wait != 0 {
			t.Errorf("%+v is still to be gone on with", m)
		}
	})
}
