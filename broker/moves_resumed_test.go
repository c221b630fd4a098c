package broker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/partition"
	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/disktest"
	"millrace/wire/records"
)

// agreeing is a controller that takes note of every directory.
type agreeing struct{ b *Broker }

func (c agreeing) Do(context.Context, string, kmsg.Request) (kmsg.Response, int64, error) {
	return kmsg.NewPtrAssignReplicasToDirsResponse(), c.b.applied().Offset(), nil
}

// resumed is a broker that leads "t", of three records, which an earlier life was
// moving from /a to /b when it was killed. What it reads of the log in /b hangs until
// on is closed. Its publisher and its mover run.
func resumed(t *testing.T, also ...records.Metadata) (b *Broker, disk *disktest.FS, f fed, on chan struct{}) {
	t.Helper()
	disk = disktest.New()
	first := onDirs(t, disk, "/a,/b,/c")
	first.store.Prefer("t", 0, "/a")
	see(first, registered(1, 10, first.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	p := first.replicas.get(someTopic, 0)
	for range 3 {
		appendOne(t, p)
	}
	if err := first.beginMove(p, "/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Fill(1); err != nil {
		t.Fatal(err)
	}
	disk.Kill()
	first.stop(errTestOver)

	b = onDirs(t, disk, "/a,/b,/c")
	b.client = agreeing{b}
	b.brokerEpoch.Store(20)
	b.directories.untold = map[replicaKey][16]byte{}
	on = make(chan struct{})
	hangs := false
	disk.Hold(func(op, name string) {
		if op == "read" && strings.HasPrefix(name, "/b/t-0.") {
			hangs = true
			<-on
		}
	})
	f = make(fed)
	b.background(func(ctx context.Context) { b.publisher.run(ctx, f) })
	b.background(b.housekeep)
	f.give(b, append(also, registered(1, 20, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))...)
	synctest.Wait()
	b.replicas.putAsideStrays()
	b.background(b.moveReplicas)
	synctest.Wait()
	if !hangs {
		t.Fatal("nothing is recovered")
	}
	return b, disk, f, on
}

// lies checks where a partition lies, on its way nowhere, with so many records.
func lies(t *testing.T, b *Broker, p *partition.Partition, want string, records int) {
	t.Helper()
	if at, to := b.store.PlaceOf(p.Topic(), p.Index()); at != want || to != "" || int(p.Log().View().LogEnd()) != records {
		t.Errorf("it lies in %q, with %d records, and is on its way to %q; want %q, with %d", at, p.Log().View().LogEnd(), to, want, records)
	}
	if p.Log().CleaningPaused() {
		t.Error("it is not cleaned any more")
	}
}

// futures lists the logs on disk that are on their way.
func futures(t *testing.T, disk *disktest.FS) (list []string) {
	t.Helper()
	for _, dir := range []string{"/a", "/b", "/c"} {
		names, err := disk.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if strings.HasSuffix(n.Name, "-future") {
				list = append(list, dir+"/"+n.Name)
			}
		}
	}
	return list
}

// A move of an earlier life whose log takes long to recover holds up no image, no
// other move, and nobody who uses the partition; and it arrives.
func TestARecoveryOfAMovedLogHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := resumed(t)
		p := b.replicas.get(someTopic, 0)
		if p == nil {
			t.Fatal("the image with it is not applied")
		}
		appendOne(t, p)
		b.store.Prefer("u", 0, "/a")
		f.give(b, topicOf("u", otherTopic), partitionOf(otherTopic, 1, 1, 1, []int32{1}, 1))
		synctest.Wait()
		u := b.replicas.get(otherTopic, 0)
		if u == nil {
			t.Fatal("a new image is not applied")
		}
		appendOne(t, u)
		b.moves.asking.Lock()
		if code := b.haveIn(&call{b: b, image: b.applied()}, "u", 0, "/c"); code != 0 {
			t.Errorf("error %d", code)
		}
		b.moves.asking.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		lies(t, b, u, "/c", 1)
		close(on)
		time.Sleep(time.Minute)
		synctest.Wait()
		lies(t, b, p, "/b", 4)
		disk.Hold(nil)
		b.stop(errTestOver)
	})
}

// How fast is copied is no matter to what was copied already: it is opened, and seen,
// where nothing may be copied.
func TestALogOnItsWayIsOpenedAtAnyRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := resumed(t, configOf(int8(image.BrokerResource), "", moveRate, "0"))
		p := b.replicas.get(someTopic, 0)
		appendOne(t, p)
		close(on)
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := false
		for _, d := range b.store.Describe(func(storage.Name) bool { return true }) {
			for _, l := range d.Logs {
				seen = seen || l.Future && l.Lag > 0
			}
		}
		if !seen || b.moves.resuming(replicaKey{someTopic, 0}) {
			t.Error("it is not opened, or was copied")
		}
		f.give(b, configOf(int8(image.BrokerResource), "", moveRate, "1000000"))
		time.Sleep(time.Minute)
		synctest.Wait()
		lies(t, b, p, "/b", 4)
		disk.Hold(nil)
		b.stop(errTestOver)
	})
}

// A topic that is deleted while such a log is recovered is gone at once for everybody
// but those that come under its name; its files go when the log is open.
func TestAMovedTopicIsDeletedWhileItIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, f, on := resumed(t)
		remove := records.NewRemoveTopicRecord()
		remove.TopicId = someTopic
		f.give(b, remove)
		synctest.Wait()
		if b.applied().TopicByName("t") != nil {
			t.Fatal("the image without it is not applied")
		}
		f.give(b, topicOf("t", otherTopic), partitionOf(otherTopic, 1, 0, 0, []int32{1}, 1))
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.replicas.get(otherTopic, 0) != nil || !b.replicas.broken(otherTopic, 0) {
			t.Error("the next of its name is here while the files are the first one's")
		}
		close(on)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left := futures(t, disk); len(left) > 0 || b.moves.resuming(replicaKey{someTopic, 0}) {
			t.Errorf("%v are left", left)
		}
		p := b.replicas.get(otherTopic, 0)
		if p == nil || p.Log().TopicID() != otherTopic {
			t.Fatalf("the next topic of its name: %v", b.replicas.offline)
		}
		at, _ := b.store.PlaceOf("t", 0)
		lies(t, b, p, at, 0)
		disk.Hold(nil)
		b.stop(errTestOver)
	})
}

// Who wants the partition elsewhere while such a log is recovered does not wait for
// that, and has it in the end; the last one to ask counts.
func TestARecoveredMoveIsCalledOff(t *testing.T) {
	for name, c := range map[string]struct {
		asked []string
		want  string
	}{
		"it is to stay":                      {[]string{"/a"}, "/a"},
		"it is to go elsewhere":              {[]string{"/c"}, "/c"},
		"elsewhere, and to stay":             {[]string{"/c", "/a"}, "/a"},
		"to stay, and elsewhere":             {[]string{"/a", "/c"}, "/c"},
		"to stay, and where it was to go":    {[]string{"/a", "/b"}, "/b"},
		"elsewhere, and where it was to go":  {[]string{"/c", "/b"}, "/b"},
		"where it was to go, and to stay":    {[]string{"/b", "/a"}, "/a"},
		"where it was to go, and no further": {[]string{"/b"}, "/b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, disk, _, on := resumed(t)
				p := b.replicas.get(someTopic, 0)
				for _, dir := range c.asked {
					haveItIn(t, b, dir)
				}
				close(on)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				lies(t, b, p, c.want, 3)
				if left := futures(t, disk); len(left) > 0 {
					t.Errorf("%v are left", left)
				}
				disk.Hold(nil)
				b.stop(errTestOver)
			})
		})
	}
}
