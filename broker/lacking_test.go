package broker

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/controller"
	"millrace/controller/image"
	"millrace/storage/disktest"
	"millrace/wire"
)

// lack lets a disk open no file.
func lack(disk *disktest.FS) {
	disk.Refuse(func(op, name string) error {
		switch op {
		case "open", "create", "readdir", "syncdir", "removeall":
			return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
}

// idle is a controller from which nothing comes.
type idle struct{}

func (idle) Next(ctx context.Context, after int64) (controller.Update, error) {
	<-ctx.Done()
	return controller.Update{}, ctx.Err()
}

// A log that does not open for lack of a descriptor is offline, and opens when
// there is one; the broker's log tells once of each.
func TestLogsThatLackedADescriptorComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk := standing(t)
		see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
		appendOne(t, b.replicas.get(someTopic, 0))
		// The same disk under another broker's life.
		if err := b.store.Close(true); err != nil {
			t.Fatal(err)
		}
		core, told := observer.New(zap.InfoLevel)
		o := Options{Config: b.config, FS: disk, Logger: zap.New(core)}
		b = newBroker(o)
		if err := b.openStore(o); err != nil {
			t.Fatal(err)
		}
		b.publisher.current.Store(image.New())
		told.TakeAll()
		lack(disk)
		see(b, registered(1, 20, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))
		if code := b.absent(someTopic, 0); b.replicas.get(someTopic, 0) != nil || code != kerr.KafkaStorageError.Code {
			t.Fatalf("without a descriptor it is answered with %d", code)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.publisher.run(ctx, idle{})
		}()
		time.Sleep(5 * time.Minute)
		if b.replicas.get(someTopic, 0) != nil {
			t.Fatal("it has opened without a descriptor")
		}
		if n := told.Len(); n != 1 {
			t.Errorf("told %d times: %v", n, told.All())
		}
		if len(b.replicas.offline) != 1 {
			t.Errorf("offline: %v", b.replicas.offline)
		}
		disk.Refuse(nil)
		time.Sleep(time.Minute)
		p := b.replicas.get(someTopic, 0)
		if p == nil {
			t.Fatal("it stays offline with descriptors")
		}
		if leading, _, epoch := p.Leading(); !leading || epoch != 2 || p.Log().View().LogEnd() != 1 {
			t.Errorf("it leads %v in epoch %d, with %d records", leading, epoch, p.Log().View().LogEnd())
		}
		appendOne(t, p)
		if n := told.Len(); n != 2 || len(b.replicas.offline) != 0 {
			t.Errorf("told %d times: %v; offline: %v", n, told.All(), b.replicas.offline)
		}
		stop()
		<-done
		b.stop(errTestOver)
	})
}

// A replica that is taken away while its log lacks a descriptor leaves no files.
func TestALackingReplicaIsDeleted(t *testing.T) {
	b, disk := standing(t)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	appendOne(t, b.replicas.get(someTopic, 0))
	if err := b.store.Close(true); err != nil {
		t.Fatal(err)
	}
	o := Options{Config: b.config, FS: disk}
	again := newBroker(o)
	if err := again.openStore(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.stop(errTestOver) })
	again.publisher.current.Store(image.New())
	lack(disk)
	see(again, registered(1, 20, again.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))
	disk.Refuse(nil)
	again.replicas.removeTopic("t", someTopic)
	if _, err := disk.Stat("/data/t-0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
	if n := len(again.replicas.lackingKeys()); n != 0 {
		t.Errorf("%d replicas are to be opened", n)
	}
}

// A log start that cannot be stored for lack of a descriptor is not answered as if it were; asked again, it is stored.
func TestADeletionThatLacksADescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk := standing(t)
		see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
		for range 3 {
			appendOne(t, b.replicas.get(someTopic, 0))
		}
		cut := func() kmsg.DeleteRecordsResponseTopicPartition {
			t.Helper()
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.TimeoutMillis, req.Version = 1000, 2
			req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 2}}}}
			reply := dispatcher{b}.Handle(t.Context(), &wire.Request{Key: int16(kmsg.DeleteRecords), Version: 2, Body: req.AppendTo(nil), Conn: &wire.Conn{}})
			resp := kmsg.NewPtrDeleteRecordsResponse()
			resp.Version = 2
			body, err := reply.Body.Bytes()
			if err == nil {
				err = resp.ReadFrom(body)
			}
			if err != nil {
				t.Fatal(err)
			}
			return resp.Topics[0].Partitions[0]
		}
		stored := func() string { return string(disk.Bytes("/data/log-start-offset-checkpoint")) }
		lack(disk)
		if p := cut(); p.ErrorCode != kerr.KafkaStorageError.Code || p.LowWatermark != -1 {
			t.Errorf("without a descriptor: error %d, low watermark %d", p.ErrorCode, p.LowWatermark)
		}
		disk.Refuse(nil)
		if strings.Contains(stored(), "t 0 2") {
			t.Fatal("it is stored without a descriptor")
		}
		if p := cut(); p.ErrorCode != 0 || p.LowWatermark != 2 || !strings.Contains(stored(), "t 0 2") {
			t.Errorf("with one: error %d, low watermark %d, stored %q", p.ErrorCode, p.LowWatermark, stored())
		}
	})
}
