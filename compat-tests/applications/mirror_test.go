//go:build compat

package applications

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

const mirrorPartitions = 3

// mixed is records with everything that a copy may lose.
func mixed(n int, seed uint64) []*kgo.Record {
	records := words(mirrorPartitions, n, seed)
	for i, r := range records {
		switch i % 7 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Value = []byte{}
		case 4:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte{0xff, 0}}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}}
		}
	}
	return records
}

// commit commits offsets for a group without members.
func (c *cluster) commit(group, topic string, at map[int32]int64) {
	c.t.Helper()
	var offsets kadm.Offsets
	for p, o := range at {
		offsets.AddOffset(topic, p, o, -1)
	}
	if err := c.admin.CommitAllOffsets(c.t.Context(), group, offsets); err != nil {
		c.t.Fatalf("commit for %s: %v", group, err)
	}
}

// committed returns a group's offsets in a topic.
func (c *cluster) committed(group, topic string) (map[int32]int64, error) {
	committed, err := c.admin.FetchOffsets(c.t.Context(), group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, err
	}
	at := make(map[int32]int64)
	for p, o := range committed[topic] {
		at[p] = o.At
	}
	return at, nil
}

// hasConfigs is nil when the topic has these values.
func (c *cluster) hasConfigs(topic string, want map[string]string) error {
	have, err := c.configs(topic)
	if err != nil {
		return err
	}
	for k, v := range want {
		if have[k] != v {
			return fmt.Errorf("%s has %s=%s, wanted %s", topic, k, have[k], v)
		}
	}
	return nil
}

func (c *cluster) hasRecords(topic string, n int) error {
	if have := c.total(topic); have != int64(n) {
		return fmt.Errorf("%s has %d of %d records", topic, have, n)
	}
	return nil
}

// TestMirrorMaker mirrors topics from Apache Kafka to Millrace and others back, in one MirrorMaker 2: records, configs, new
// partitions, and the offsets of groups. It is stopped in the middle and goes on.
func TestMirrorMaker(t *testing.T) {
	t.Parallel()
	libs, _ := install(t, "connect")
	server, err := kafka.Start(t.Context(), kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	bootstrap, _ := launch.ForTest(t)
	old, ours := connect(t, server.Bootstrap), connect(t, bootstrap)

	id := strconv.FormatInt(time.Now().UnixNano(), 10)
	topic, topicBack, readAll, readSome := "there-"+id, "back-"+id, "read-all-"+id, "read-some-"+id
	configs := map[string]*string{"retention.ms": kadm.StringPtr("86400000"), "max.message.bytes": kadm.StringPtr("2000000")}
	old.create(topic, mirrorPartitions, configs)
	ours.create(topicBack, mirrorPartitions, configs)
	there, back := mixed(2000, 11), mixed(2000, 12)
	old.send(topic, there)
	ours.send(topicBack, back)
	ends, err := old.ends(topic)
	if err != nil {
		t.Fatal(err)
	}
	// One group has read everything, the other some of each partition.
	some := make(map[int32]int64)
	for p, end := range ends {
		some[p] = end / 2
	}
	old.commit(readAll, topic, ends)
	old.commit(readSome, topic, some)

	file := properties(t, t.TempDir()+"/mm2.properties", map[string]string{
		"clusters": "kafka, millrace", "kafka.bootstrap.servers": server.Bootstrap, "millrace.bootstrap.servers": bootstrap,
		"kafka->millrace.enabled": "true", "kafka->millrace.topics": topic, "kafka->millrace.groups": "read-.*-" + id,
		"millrace->kafka.enabled": "true", "millrace->kafka.topics": topicBack, "tasks.max": "2",
		"replication.factor": "1", "checkpoints.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1",
		"offset-syncs.topic.replication.factor": "1", "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
		"config.storage.replication.factor": "1", "sync.topic.acls.enabled": "false", "sync.group.offsets.enabled": "true",
		"sync.group.offsets.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1", "emit.heartbeats.interval.seconds": "1",
		"refresh.topics.interval.seconds": "2", "refresh.groups.interval.seconds": "2", "sync.topic.configs.interval.seconds": "2",
		"offset.lag.max": "0", "offset.flush.interval.ms": "500",
	})
	start := func() *program {
		return java(t, libs+"/*", "org.apache.kafka.connect.mirror.MirrorMaker", file)
	}
	p := start()
	eventually(t, limit, p, func() error { return ours.hasRecords("kafka."+topic, len(there)) })
	eventually(t, limit, p, func() error { return old.hasRecords("millrace."+topicBack, len(back)) })
	want := map[string]string{"retention.ms": "86400000", "max.message.bytes": "2000000"}
	eventually(t, limit, p, func() error { return ours.hasConfigs("kafka."+topic, want) })
	eventually(t, limit, p, func() error { return old.hasConfigs("millrace."+topicBack, want) })

	// Offsets are translated to places that are not after them, as near as MirrorMaker has kept one, which on a busy machine
	// is not always the last one; for an offset in the middle it may have kept none. The copy has the original's offsets.
	notAfter := func(group string, limits map[int32]int64) (int, error) {
		at, err := ours.committed(group, "kafka."+topic)
		for p, o := range at {
			if o > limits[p] {
				t.Errorf("%s stands at %d of partition %d: records after %d were never read", group, o, p, limits[p])
			}
		}
		return len(at), err
	}
	eventually(t, limit, p, func() error {
		n, err := notAfter(readAll, ends)
		if err == nil && n != mirrorPartitions {
			err = fmt.Errorf("%s has offsets of %d partitions, wanted %d", readAll, n, mirrorPartitions)
		}
		return err
	})
	if _, err := notAfter(readSome, some); err != nil {
		t.Error(err)
	}

	// The topics that it makes for itself.
	for internal, partitions := range map[string]int{
		"mm2-configs.kafka.internal": 1, "mm2-offsets.kafka.internal": 25, "mm2-status.kafka.internal": 5,
		"kafka.checkpoints.internal": 1, "mm2-offset-syncs.kafka.internal": 1, "heartbeats": 1, "kafka.heartbeats": 1,
	} {
		eventually(t, limit, p, func() error {
			if ours.total(internal) == 0 {
				return fmt.Errorf("topic %s is empty", internal)
			}
			return nil
		})
		described, err := ours.admin.ListTopics(t.Context(), internal)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(described[internal].Partitions); n != partitions {
			t.Errorf("%s has %d partitions, wanted %d", internal, n, partitions)
		}
		if n := described[internal].Partitions.NumReplicas(); n != 1 {
			t.Errorf("%s has %d replicas, wanted 1", internal, n)
		}
		if err := ours.hasConfigs(internal, map[string]string{"cleanup.policy": "compact"}); err != nil && internal != "kafka.heartbeats" {
			t.Error(err)
		}
	}

	// While it does not run more comes, a config changes and the topic grows.
	p.stop(t)
	more, moreBack := mixed(1000, 13), mixed(1000, 14)
	old.send(topic, more)
	ours.send(topicBack, moreBack)
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")}}
	if _, err := old.admin.AlterTopicConfigs(t.Context(), change, topic); err != nil {
		t.Fatal(err)
	}
	if answer, err := old.admin.UpdatePartitions(t.Context(), mirrorPartitions+1, topic); err != nil || answer.Error() != nil {
		t.Fatal(err, answer.Error())
	}
	added := words(1, 10, 15)
	for _, r := range added {
		r.Partition = mirrorPartitions
	}
	grown := connect(t, server.Bootstrap) // without knowledge of the fewer partitions
	eventually(t, limit, nil, func() error {
		ends, err := grown.ends(topic)
		if err == nil && len(ends) != mirrorPartitions+1 {
			err = fmt.Errorf("there has %d partitions", len(ends))
		}
		return err
	})
	grown.send(topic, added)
	p = start()
	there, back = slices.Concat(there, more, added), slices.Concat(back, moreBack)
	eventually(t, limit, p, func() error { return ours.hasRecords("kafka."+topic, len(there)) })
	eventually(t, limit, p, func() error { return old.hasRecords("millrace."+topicBack, len(back)) })
	eventually(t, limit, p, func() error { return ours.hasConfigs("kafka."+topic, map[string]string{"retention.ms": "7200000"}) })
	p.stop(t)
	for group, limits := range map[string]map[int32]int64{readAll: ends, readSome: some} {
		if _, err := notAfter(group, limits); err != nil {
			t.Error(err)
		}
	}
	mirrored, mirroredBack := ours.read("kafka."+topic), old.read("millrace."+topicBack)
	if err := sameRecords(there, mirrored); err != nil {
		t.Errorf("from Apache Kafka to Millrace: %v", err)
	}
	if err := sameRecords(back, mirroredBack); err != nil {
		t.Errorf("from Millrace to Apache Kafka: %v", err)
	}
	mustCatch(t, mirrored, otherValue, func(got []*kgo.Record) error { return sameRecords(there, got) })
	mustCatch(t, mirroredBack, otherValue, func(got []*kgo.Record) error { return sameRecords(back, got) })
}
