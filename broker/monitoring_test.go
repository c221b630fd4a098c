package broker

import (
	"fmt"
	"strings"
	"testing"

	"millrace/storage"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// TestNotReadyWithoutADirectory: partitions that lie in a data directory that is not there are offline, and whoever asks
// whether the broker is ready is told.
func TestNotReadyWithoutADirectory(t *testing.T) {
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{"/a"}, FS: disktest.New(), NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	b := &Broker{store: s}
	b.phase.Store(phaseRunning)
	b.replicas.b, b.replicas.offline = b, map[replicaKey]error{}
	lost := storage.Where{Directory: [16]byte{200}}
	for i := range int32(3) {
		_, err := s.LogAt(lost, "t", [16]byte{1}, i, log.DefaultConfig())
		b.replicas.offline[replicaKey{[16]byte{1}, i}] = fmt.Errorf("open: %w", err)
	}
	b.replicas.offline[replicaKey{[16]byte{2}, 0}] = fmt.Errorf("damaged")
	if got := b.replicas.elsewhere(); len(got) != 1 || got[lost.Directory] != 3 {
		t.Errorf("elsewhere: %v", got)
	}
	if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "3 partitions are offline") {
		t.Errorf("ready: %v", err)
	}
}
