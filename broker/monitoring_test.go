package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/broker/coordinator"
	"millrace/broker/machine"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// running is a broker that has started and holds nothing.
func running(t *testing.T) *Broker {
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{"/a"}, FS: disktest.New(), NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(false) })
	b := &Broker{store: s}
	b.phase.Store(phaseRunning)
	return b
}

// TestNotReadyWithoutADirectory: partitions that lie in a data directory that is not there are offline, and whoever asks
// whether the broker is ready is told.
func TestNotReadyWithoutADirectory(t *testing.T) {
	b := running(t)
	b.replicas.b, b.replicas.offline = b, map[replicaKey]error{}
	lost := storage.Where{Directory: [16]byte{200}}
	for i := range int32(3) {
		_, err := b.store.LogAt(lost, "t", [16]byte{1}, i, log.DefaultConfig())
		b.replicas.offline[replicaKey{[16]byte{1}, i}] = fmt.Errorf("open: %w", err)
		if err := b.Ready(); i == 0 && (err == nil || !strings.Contains(err.Error(), "1 partition is offline: it lies in a data directory that")) {
			t.Errorf("ready without one: %v", err)
		}
	}
	b.replicas.offline[replicaKey{[16]byte{2}, 0}] = fmt.Errorf("damaged")
	if got := b.replicas.elsewhere(); len(got) != 1 || got[lost.Directory] != 3 {
		t.Errorf("elsewhere: %v", got)
	}
	if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "3 partitions are offline") {
		t.Errorf("ready: %v", err)
	}
}

// badLog is a coordinator's log that holds a record and cannot be read.
type badLog struct{ coordinator.Log }

func (badLog) Start() batch.Offset                        { return 0 }
func (badLog) End() batch.Offset                          { return 1 }
func (badLog) Read(batch.Offset, int) ([]byte, error)     { return nil, errors.New("no batch") }
func (badLog) Where(batch.Offset) (file string, at int64) { return "", -1 }
func (badLog) Watch(func()) (stop func())                 { return func() {} }

// TestNotReadyWithoutGroups: nor is a broker ready whose groups cannot be served.
func TestNotReadyWithoutGroups(t *testing.T) {
	b := running(t)
	b.coordinators.shards = map[int32]*coordinator.Shard{3: coordinator.NewShard(coordinator.Options{Log: badLog{}, Machine: func() machine.Machine { return nil }})}
	defer b.coordinators.stop()
	if err := b.coordinators.awaitSettled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "__consumer_offsets-3 holds of them does not load") {
		t.Errorf("ready: %v", err)
	}
}
