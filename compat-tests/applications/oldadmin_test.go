//go:build compat

package applications

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"millrace/compat-tests/launch"
)

// TestOldAdmin lets the AdminClient of 1.0.2 make its calls and compares what it was told with what our own client sees.
func TestOldAdmin(t *testing.T) {
	t.Parallel()
	libs, classes := install(t, "oldadmin")
	bootstrap, _ := launch.ForTest(t)
	c := connect(t, bootstrap)
	topic := fmt.Sprintf("old-%d", time.Now().UnixNano())
	c.create(topic, mirrorPartitions, map[string]*string{"retention.ms": kadm.StringPtr("86400000"), "segment.bytes": kadm.StringPtr("8388608")})
	c.send(topic, mixed(1000, 21))

	metadata, err := c.admin.BrokerMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := metadata.Brokers[0]
	want := []string{
		"cluster.id " + metadata.Cluster,
		fmt.Sprintf("node %d %s:%d of 1", node.NodeID, node.Host, node.Port),
		"listed true",
		"config retention.ms 86400000 default false", "config segment.bytes 8388608 default false",
		"config retention.ms 7200000 default false", "config segment.bytes 1073741824 default true",
		fmt.Sprintf("broker node.id %d read only true", node.NodeID),
		"partitions 5", "directories 1", "directory error NONE",
	}
	directories, err := c.admin.DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[int32]int64)
	directories.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic {
				sizes[p.Partition] = p.Size
			}
		})
	})
	for p := range int32(5) {
		if p < mirrorPartitions && sizes[p] < 5000 {
			t.Errorf("%s-%d has a size of %d", topic, p, sizes[p])
		}
		want = append(want, fmt.Sprintf("size %d %d", p, sizes[p]))
	}

	p := java(t, classes+":"+libs+"/*", "OldAdmin", bootstrap, topic)
	select {
	case <-p.exited:
	case <-time.After(limit):
		t.Fatalf("OldAdmin had not ended after %v", limit)
	}
	if p.err != nil {
		t.Fatalf("OldAdmin ended with %v", p.err)
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameLines(want, strings.Split(strings.TrimSpace(string(text)), "\n")); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := c.ends(topic); err == nil {
		t.Error("the topic is still there after it was deleted")
	}
}
