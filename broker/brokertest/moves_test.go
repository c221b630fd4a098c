package brokertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const moveRate = "replica.alter.log.dirs.io.max.bytes.per.second"

// have asks for partitions of a topic to lie in a directory and gives the error of each.
func have(t *testing.T, n *Node, c *kgo.Client, dir, topic string, partitions ...int32) string {
	t.Helper()
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	rt := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = topic, partitions
	d.Topics = append(d.Topics, rt)
	req.Dirs = append(req.Dirs, d)
	var out []string
	for _, rt := range ask[*kmsg.AlterReplicaLogDirsResponse](t, n, c, req).Topics {
		for _, p := range rt.Partitions {
			out = append(out, word(p.ErrorCode))
		}
	}
	return strings.Join(out, " ")
}

// places tells "directory" of each replica of a topic, with "+lag" of those on their way.
func places(t *testing.T, n *Node, c *kgo.Client, topic string) string {
	t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	var out []string
	for _, d := range ask[*kmsg.DescribeLogDirsResponse](t, n, c, req).Dirs {
		for _, rt := range d.Topics {
			for _, p := range rt.Partitions {
				if rt.Topic != topic {
					continue
				}
				at := fmt.Sprintf("%d%s", p.Partition, d.Dir)
				if p.IsFuture {
					at += fmt.Sprintf("+%d", p.OffsetLag)
				}
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestReplicasMove: a partition goes where it is asked to while it is written
// and read, comes back, and lies there after the next start too.
func TestReplicasMove(t *testing.T) {
	for name, end := range restarts {
		t.Run(name, func(t *testing.T) {
			bubble(t, threeDirs, func(t *testing.T, n *Node) {
				c := n.Client()
				makeTopic(t, n, c, "t", 1, "segment.bytes", "1048576")
				Produce(t, c, "t", "before", 500)
				if got := places(t, n, c, "t"); got != "0/a" {
					t.Fatalf("begins at %s", got)
				}
				reader := n.Client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				Consume(t, reader, 500)
				at := 500
				for i, dir := range []string{"/b", "/c", "/a", "/b"} {
					if got := have(t, n, c, dir, "t", 0); got != "fine" {
						t.Fatalf("to %s: %s", dir, got)
					}
					Produce(t, c, "t", fmt.Sprintf("during %d ", i), 50)
					Consume(t, reader, 50)
					at += 50
					time.Sleep(time.Second)
					if got := places(t, n, c, "t"); got != "0"+dir {
						t.Fatalf("asked to %s, lies at %s", dir, got)
					}
				}
				time.Sleep(time.Minute) // it is on disk, and what it left is removed
				for _, dir := range []string{"/a", "/c"} {
					names, err := n.Disk.ReadDir(dir)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range names {
						if strings.HasPrefix(e.Name, "t-0") {
							t.Errorf("%s is left in %s", e.Name, dir)
						}
					}
				}
				end(n)
				n.Start()
				c = n.Client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				if got := places(t, n, c, "t"); got != "0/b" {
					t.Errorf("after the next start it lies at %s", got)
				}
				for i, r := range Consume(t, c, at) {
					if r.Offset != int64(i) {
						t.Fatalf("record %d has offset %d", i, r.Offset)
					}
				}
			})
		})
	}
}

// TestMoveOfADamagedReplica: who copies a log compares its checksums. A damaged one stays where it is and as it is, nothing is
// left in the other directory, and what can be read of it is.
func TestMoveOfADamagedReplica(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "t", 1)
		for range 5 {
			Produce(t, c, "t", strings.Repeat("x", 900), 1)
		}
		n.Stop()
		const name = "/a/t-0/00000000000000000000.log"
		spoilt := n.Disk.Bytes(name)
		spoilt[len(spoilt)/2] ^= 1 // in the third batch
		n.Disk.Put(name, spoilt)
		lines := n.Observe(zap.ErrorLevel)
		n.Start()
		c = n.Client()
		if got := have(t, n, c, "/b", "t", 0); got != "fine" {
			t.Fatal(got)
		}
		time.Sleep(2 * time.Minute)
		if got := places(t, n, c, "t"); got != "0/a" {
			t.Errorf("it lies at %s", got)
		}
		names, err := n.Disk.ReadDir("/b")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			if strings.HasPrefix(e.Name, "t-0") {
				t.Errorf("%s is left", e.Name)
			}
		}
		Produce(t, c, "t", "more", 1)
		if now := n.Disk.Bytes(name); !bytes.HasPrefix(now, spoilt) {
			t.Error("the damaged segment was changed")
		}
		if code := fetchCode(t, n, c, "t", 0); code != 0 {
			t.Errorf("it is read with error %d", code)
		}
		r := n.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(3)}}))
		if got := Consume(t, r, 3); got[0].Offset != 3 || got[2].Offset != 5 {
			t.Errorf("behind the damage are %d to %d", got[0].Offset, got[2].Offset)
		}
		told := lines.FilterMessageSnippet("a partition does not come to its new directory").All()
		if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["error"]), "crc") {
			t.Errorf("told is %v", lines.All())
		}
	})
}

// TestMoveRate: replica.alter.log.dirs.io.max.bytes.per.second holds moves back;
// one that is held back shows how far it is, is called off by asking for where
// the partition is, goes on after a start and ends with its topic.
func TestMoveRate(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client(kgo.ProducerBatchCompression(kgo.NoCompression()))
		adm := kadm.NewClient(c)
		setForBroker(t, adm, moveRate, " 1000 ") // blanks around it are none of it
		makeTopic(t, n, c, "t", 1)
		for range 40 {
			Produce(t, c, "t", strings.Repeat("x", 900), 1)
		}
		if got := have(t, n, c, "/b", "t", 0); got != "fine" {
			t.Fatal(got)
		}
		time.Sleep(10 * time.Second)
		var lag int
		got := places(t, n, c, "t")
		if _, err := fmt.Sscanf(got, "0/a 0/b+%d", &lag); err != nil || lag < 20 || lag > 38 {
			t.Fatalf("after 10 s: %s", got)
		}
		if got := have(t, n, c, "/a", "t", 0); got != "fine" || places(t, n, c, "t") != "0/a" {
			t.Fatalf("called off: %s, %s", got, places(t, n, c, "t"))
		}
		if got := have(t, n, c, "/b", "t", 0) + have(t, n, c, "/c", "t", 0); got != "finefine" {
			t.Fatal(got)
		}
		time.Sleep(10 * time.Second)
		got = places(t, n, c, "t")
		if _, err := fmt.Sscanf(got, "0/a 0/c+%d", &lag); err != nil {
			t.Fatalf("asked elsewhere meanwhile: %s", got)
		}
		n.Kill()
		n.Start()
		c = n.Client()
		var resumed int
		got = places(t, n, c, "t") // at once, when what was copied may not be open yet
		if _, err := fmt.Sscanf(got, "0/a 0/c+%d", &resumed); err != nil || resumed < 20 || resumed > 40 {
			t.Fatalf("at the next start: %s", got)
		}
		time.Sleep(time.Second)
		got = places(t, n, c, "t")
		if _, err := fmt.Sscanf(got, "0/a 0/c+%d", &resumed); err != nil || resumed > lag {
			t.Fatalf("after the next start: %s, the lag was %d", got, lag)
		}
		setForBroker(t, kadm.NewClient(c), moveRate, "100000000")
		time.Sleep(2 * time.Second)
		if got := places(t, n, c, "t"); got != "0/c" {
			t.Fatalf("with a higher rate: %s", got)
		}
		setForBroker(t, kadm.NewClient(c), moveRate, "1")
		have(t, n, c, "/a", "t", 0)
		time.Sleep(time.Second)
		if _, err := kadm.NewClient(c).DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		for _, dir := range []string{"/a", "/b", "/c"} {
			names, err := n.Disk.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range names {
				if strings.HasPrefix(e.Name, "t-0") {
					t.Errorf("%s is left in %s", e.Name, dir)
				}
			}
		}
	})
}

// TestMoveAnswers: what is asked of what is not there is refused as Kafka does,
// and kept in mind for what is not there yet.
func TestMoveAnswers(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "t", 2)
		for what, c2 := range map[string]struct {
			dir, topic string
			want       string
		}{
			"a directory that is none":    {"/x", "t", kerr.LogDirNotFound.Message},
			"its path in other words":     {"/a/", "t", kerr.LogDirNotFound.Message},
			"neither":                     {"/x", "no", kerr.LogDirNotFound.Message},
			"a topic that is none":        {"/a", "no", kerr.UnknownTopicOrPartition.Message},
			"a name that is none":         {"/a", "", kerr.UnknownTopicOrPartition.Message},
			"a name that is too long":     {"/x", strings.Repeat("n", 214), kerr.InvalidTopicException.Message},
			"a name that is almost":       {"/x", strings.Repeat("n", 213), kerr.LogDirNotFound.Message},
			"the directory that it is in": {"/a", "t", "fine"},
		} {
			if got := have(t, n, c, c2.dir, c2.topic, 0); got != c2.want {
				t.Errorf("%s: %s, want %s", what, got, c2.want)
			}
		}
		if got := have(t, n, c, "/a", "t", 5, -1); got != strings.Repeat(kerr.UnknownTopicOrPartition.Message+" ", 2)[:2*len(kerr.UnknownTopicOrPartition.Message)+1] {
			t.Errorf("partitions that are none: %s", got)
		}
		have(t, n, c, "/c", "later", 0, 1, 2)
		makeTopic(t, n, c, "later", 3)
		if got := places(t, n, c, "later"); got != "0/c 1/c 2/c" {
			t.Errorf("asked for before they came: %s", got)
		}
		cordoned := "/b,/a"
		if r, err := kadm.NewClient(c).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Name: "cordoned.log.dirs", Value: &cordoned}}, n.Info.NodeID); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		if got := have(t, n, c, "/b", "t", 0, 1); got != kerr.InvalidReplicaAssignment.Message+" fine" {
			t.Errorf("into a cordoned directory, and where it is: %s", got)
		}
		time.Sleep(time.Second)
		if got := places(t, n, c, "t"); got != "0/a 1/b" {
			t.Errorf("t lies at %s", got)
		}
		n.Stop()
		n.Authorizer = nobody{}
		n.Start()
		c = n.Client()
		if got := have(t, n, c, "/b", "t", 0); got != kerr.ClusterAuthorizationFailed.Message {
			t.Errorf("who may not: %s", got)
		}
	})
}

// TestMoveToFailingDirectory: what fails on the way costs nothing but the move.
func TestMoveToFailingDirectory(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "t", 1)
		Produce(t, c, "t", "r", 100)
		n.Disk.Refuse(func(op, name string) error {
			if strings.HasPrefix(name, "/b/t-0") && op == "write" {
				return fmt.Errorf("input/output error")
			}
			return nil
		})
		have(t, n, c, "/b", "t", 0)
		time.Sleep(2 * time.Second)
		n.Disk.Refuse(nil)
		if got := places(t, n, c, "t"); got != "0/a" {
			t.Errorf("lies at %s", got)
		}
		if got := have(t, n, c, "/b", "t", 0); got != kerr.KafkaStorageError.Message {
			t.Errorf("to a directory that has failed: %s", got)
		}
		Produce(t, c, "t", "s", 10)
		n.Stop()
		n.Start()
		c = n.Client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		Consume(t, c, 110)
		time.Sleep(time.Second)
		if got := places(t, n, c, "t"); got != "0/b" {
			t.Errorf("the move goes on when its directory works again; it lies at %s", got)
		}
	})
}
