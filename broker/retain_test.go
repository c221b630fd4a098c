package broker

import (
	"bytes"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/broker/partition"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// TestNoRetentionOfWhatIsOutOfUse: a log that is out of use was told of once, and not again by each retention.
func TestNoRetentionOfWhatIsOutOfUse(t *testing.T) {
	fs := disktest.New()
	o := log.Options{FS: fs, Dir: "/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1}
	l, _, err := log.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, []byte("v"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err == nil {
			_, err = l.Append(b, h, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "/t-0/00000000000000000000.log"
	b := bytes.Clone(fs.Bytes(name))
	clear(b[len(b)/200:][:batch.HeaderSize]) // the second batch
	fs.Put(name, b)
	o.Clean, o.RecoveryPoint = true, l.RecoveryPoint()
	if l, _, err = log.Open(o); err != nil {
		t.Fatal(err)
	}
	if err := l.Truncate(150); !errors.As(err, new(*log.UnusableError)) {
		t.Fatal(err)
	}
	core, lines := observer.New(zap.InfoLevel)
	p := partition.New(partition.Options{Log: l, Topic: "t", ID: [16]byte{1}, Self: 1})
	defer p.Close()
	node := &Broker{log: zap.New(core)}
	node.replicas.at = map[replicaKey]*partition.Partition{{p.ID(), 0}: p}
	node.retain()
	node.retainOne(p) // as the cleaner does that had it listed before
	if all := lines.All(); len(all) > 0 {
		t.Errorf("told: %v", all)
	}
}
