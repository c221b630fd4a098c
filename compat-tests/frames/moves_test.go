//go:build compat

package frames

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// TestMovesAreKafkas plays moves between two data directories on Millrace and on
// the newest Kafka.
func TestMovesAreKafkas(t *testing.T) {
	dir := t.TempDir()
	theirs := maps.Clone(properties)
	theirs["log.dirs"] = filepath.Join(dir, "kafka", "data") + "," + filepath.Join(dir, "kafka", "data2")
	k, err := kafka.Start(t.Context(), kafka.Options{Properties: theirs, Features: []string{"eligible.leader.replicas.version=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	var overrides []string
	for key, v := range properties {
		overrides = append(overrides, key+"="+v)
	}
	b, err := launch.Start(launch.Options{Dir: filepath.Join(dir, "ours") + "," + filepath.Join(dir, "ours2"), Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping Millrace: %v", err)
		}
	})
	p := &peers{ours: Address{Broker: b.Bootstrap}, newest: Address{Broker: k.Bootstrap}, explained: map[string]int{}, seen: map[string]seen{}}
	p.newestHas = serves(t, k.Bootstrap)
	c := Case{API: kmsg.AlterReplicaLogDirs, Name: "moves", Run: moves}
	for v := int16(1); v <= 2; v++ {
		p.compare(t, fmt.Sprintf("AlterReplicaLogDirs/moves/v%d", v), &c, v, "moves")
	}
	// The comparison sees what differs.
	other := c
	other.Run = func(s *Side) {
		s.createTopic("c", 1)
		if s.Addr == b.Bootstrap {
			s.Ask("there", s.putting(put{"/nowhere", s.Topic("c"), []int32{0}}))
		} else {
			s.Ask("there", s.putting(put{s.dirs("c", 0)[0], s.Topic("c"), []int32{0}}))
		}
	}
	if d, err := p.differences("AlterReplicaLogDirs/planted/v2", &other, 2, "planted"); err != nil || len(d) != 1 {
		t.Errorf("a planted difference is seen as %v, %v", d, err)
	}
}
