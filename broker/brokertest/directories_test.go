package brokertest

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker"
	"millrace/storage"
)

var threeDirs = map[string]string{"log.dirs": "/a,/b,/c", "num.partitions": "1"}

// perDir counts the partitions in each directory.
func perDir(s map[string]int64) map[string]int {
	out := map[string]int{}
	for k := range s {
		dir, _, _ := strings.Cut(k, " ")
		out[dir]++
	}
	return out
}

// writeEach writes one record to every partition of a topic.
func writeEach(t *testing.T, n *Node, topic string, partitions int32) {
	t.Helper()
	c := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range partitions {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartitionsSpreadOverDirectories(t *testing.T) {
	for name, end := range restarts {
		t.Run(name, func(t *testing.T) {
			bubble(t, threeDirs, func(t *testing.T, n *Node) {
				c := n.Client()
				makeTopic(t, n, c, "t", 6)
				makeTopic(t, n, c, "u", 3)
				before := sizes(t, n, c)
				if got := perDir(before); len(got) != 3 || got["/a"] != 3 || got["/b"] != 3 || got["/c"] != 3 {
					t.Fatalf("partitions per directory: %v", got)
				}
				writeEach(t, n, "t", 6)
				written := sizes(t, n, c)
				end(n)
				n.Start()
				c = n.Client()
				if again := sizes(t, n, c); !maps.Equal(again, written) {
					t.Errorf("before %v\nafter %v", written, again)
				}
				if got := perDir(sizes(t, n, c, "u")); got["/a"]+got["/b"]+got["/c"] != 3 {
					t.Errorf("partitions of u per directory: %v", got)
				}
				for _, dir := range []string{"/a", "/b", "/c"} {
					if meta := string(n.Disk.Bytes(dir + "/meta.properties")); !strings.Contains(meta, "cluster.id="+n.Info.ClusterID) {
						t.Errorf("%s is marked %q", dir, meta)
					}
				}
			})
		})
	}
}

// leaderless counts the partitions of topics that nobody leads, whose only replica
// is offline; the others end where their topic does.
func leaderless(t *testing.T, c *kgo.Client, ends map[string]int64, topics ...string) (n int) {
	t.Helper()
	admin := kadm.NewClient(c)
	found, err := admin.ListTopics(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range found {
		for _, p := range topic.Partitions {
			asked := kmsg.NewPtrListOffsetsRequest()
			asked.ReplicaID = -1
			at := kmsg.NewListOffsetsRequestTopic()
			at.Topic = topic.Topic
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp = p.Partition, -1
			at.Partitions = append(at.Partitions, one)
			asked.Topics = append(asked.Topics, at)
			got, err := c.Broker(1).RetriableRequest(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			end := got.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			switch {
			case errors.Is(p.Err, kerr.LeaderNotAvailable) && p.Leader == -1 && slices.Equal(p.OfflineReplicas, []int32{1}):
				n++
				if end.ErrorCode != kerr.KafkaStorageError.Code {
					t.Errorf("the end of %s-%d is answered %d", p.Topic, p.Partition, end.ErrorCode)
				}
			case p.Err != nil || p.Leader != 1 || len(p.OfflineReplicas) > 0:
				t.Errorf("%+v", p)
			case end.ErrorCode != 0 || end.Offset != ends[p.Topic]:
				t.Errorf("%s-%d ends at %d, error %d", p.Topic, p.Partition, end.Offset, end.ErrorCode)
			}
		}
	}
	return n
}

// TestLostDirectory: partitions of a directory that fails at a start are
// offline. They are not begun anew elsewhere, whether they were written to or
// not, and come back with their directory.
func TestLostDirectory(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "t", 6)
		makeTopic(t, n, c, "unwritten", 3)
		writeEach(t, n, "t", 6)
		whole := sizes(t, n, c)
		time.Sleep(time.Second) // the controller hears where they are
		n.Stop()
		broken := errors.New("input/output error")
		n.Disk.Refuse(func(op, name string) error {
			if strings.HasPrefix(name, "/b") {
				return broken
			}
			return nil
		})
		lines := n.Observe(zap.WarnLevel)
		n.Start()
		// One line for the directory, and one for all that lies in it, however much that is.
		var told []string
		for _, line := range lines.All() {
			if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "offline") || strings.Contains(text, "input/output error") || strings.Contains(text, "given up") {
				told = append(told, text)
			}
		}
		if len(told) != 2 || !strings.Contains(told[0], "/b") || !strings.Contains(told[1], "partitions:3") || !strings.Contains(told[1], "unwritten-") || !strings.Contains(told[1], ":t-") {
			t.Errorf("told of what is offline in %d lines:\n%s", len(told), strings.Join(told, "\n"))
		}
		c = n.Client()
		left := maps.Clone(whole)
		maps.DeleteFunc(left, func(k string, _ int64) bool { return strings.HasPrefix(k, "/b ") })
		left["/b "+kerr.KafkaStorageError.Error()] = -1
		if got := sizes(t, n, c); !maps.Equal(got, left) {
			t.Errorf("with /b gone: %v\nwant %v", got, left)
		}
		if offline := leaderless(t, c, map[string]int64{"t": 1}, "t", "unwritten"); offline != 3 {
			t.Errorf("%d partitions are offline, 3 lay in /b", offline)
		}
		// What is new goes to those that are left.
		makeTopic(t, n, c, "new", 4)
		if got := perDir(sizes(t, n, c, "new")); got["/a"]+got["/c"] != 4 {
			t.Errorf("new partitions per directory: %v", got)
		}
		n.Stop()
		n.Disk.Refuse(nil)
		n.Start()
		c = n.Client()
		got := sizes(t, n, c, "t", "unwritten")
		if !maps.Equal(got, whole) {
			t.Errorf("with /b back: %v\nwant %v", got, whole)
		}
	})
}

// TestDirectoryFailsUnderGroups: the directory with the groups' offsets fails while
// the broker runs and has others. Groups are coordinated nowhere until it is back.
func TestDirectoryFailsUnderGroups(t *testing.T) {
	bubble(t, map[string]string{"log.dirs": "/a,/b", "offsets.topic.num.partitions": "1", "metadata.log.dir": "/m"}, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "t", 1)
		commit := func(c *kgo.Client, at int64) error {
			var o kadm.Offsets
			o.AddOffset("t", 0, at, -1)
			return kadm.NewClient(c).CommitAllOffsets(t.Context(), "g", o)
		}
		if err := commit(c, 1); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("input/output error")
		n.Disk.Refuse(func(op, name string) error {
			if strings.HasPrefix(name, "/b/") && op != "lock" {
				return broken
			}
			return nil
		})
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		var code int16
		for range 100 {
			raw := kmsg.NewPtrOffsetCommitRequest()
			raw.Group, raw.Generation = "g", -1
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = "t"
			rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitRequestTopicPartition{Offset: 2, LeaderEpoch: -1})
			raw.Topics = append(raw.Topics, rt)
			if _, err := c.Broker(1).Request(t.Context(), raw); err != nil {
				t.Fatal(err)
			}
			got, err := c.Broker(1).Request(t.Context(), find)
			if err != nil {
				t.Fatal(err)
			}
			if code = got.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if code != kerr.CoordinatorNotAvailable.Code {
			t.Errorf("the coordinator is answered %d", code)
		}
		if offline := leaderless(t, c, nil, "t", "__consumer_offsets"); offline != 1 {
			t.Errorf("%d partitions are offline", offline)
		}
		n.Stop()
		n.Disk.Refuse(nil)
		n.Start()
		c = n.Client()
		got, err := kadm.NewClient(c).FetchOffsets(t.Context(), "g")
		if o, ok := got.Lookup("t", 0); err != nil || !ok || o.At != 1 && o.At != 2 {
			t.Errorf("the offset is %v, %v", o, err)
		}
		if err := commit(c, 3); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDisk: when a write fails, a full disk being such a case, the directory is given up at once and everything that
// is asked of its partitions ends with KAFKA_STORAGE_ERROR; those of other directories are served on. Room alone heals
// nothing; the next start finds all that was acknowledged.
func TestFullDisk(t *testing.T) {
	for name, fails := range map[string]string{"write": "write", "sync": "sync"} {
		t.Run(name, func(t *testing.T) {
			props := maps.Clone(threeDirs)
			props["log.flush.interval.messages"] = "1"
			bubble(t, props, func(t *testing.T, n *Node) {
				c := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.RecordDeliveryTimeout(5*time.Second))
				makeTopic(t, n, c, "t", 6)
				writeEach(t, n, "t", 6)
				time.Sleep(time.Second)
				inB := map[int32]bool{}
				for k := range sizes(t, n, c) {
					if dir, log, _ := strings.Cut(k, " "); dir == "/b" {
						i, err := strconv.Atoi(log[strings.LastIndex(log, "-")+1:])
						if err != nil {
							t.Fatal(err)
						}
						inB[int32(i)] = true
					}
				}
				if len(inB) != 2 {
					t.Fatalf("in /b: %v", inB)
				}
				n.Disk.Refuse(func(op, name string) error {
					if strings.HasPrefix(name, "/b") && op == fails {
						return errors.New("no space left on device")
					}
					return nil
				})
				acked := map[int32]int64{}
				for p := range int32(6) {
					acked[p] = 1
					err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("w")}).FirstErr()
					if err == nil {
						acked[p]++
					}
					if inB[p] == (err == nil) {
						t.Errorf("partition %d, in /b %v: %v", p, inB[p], err)
					}
				}
				n.Disk.Refuse(nil) // there is room again
				for _, p := range []int32{0, 1, 2, 3, 4, 5} {
					want := int16(0)
					if inB[p] {
						want = kerr.KafkaStorageError.Code
					}
					for what, got := range map[string]int16{"produce": produceCode(t, n, c, "t", p), "fetch": fetchCode(t, n, c, "t", p), "list offsets": listCode(t, n, c, "t", p)} {
						if got != want {
							t.Errorf("%s of partition %d, in /b %v: error %d", what, p, inB[p], got)
						}
					}
				}
				time.Sleep(3 * time.Second) // the controller hears of it
				req := kmsg.NewPtrMetadataRequest()
				rt := kmsg.NewMetadataRequestTopic()
				rt.Topic = kmsg.StringPtr("t")
				req.Topics = append(req.Topics, rt)
				for _, p := range ask[*kmsg.MetadataResponse](t, n, c, req).Topics[0].Partitions {
					if (len(p.OfflineReplicas) == 1) != inB[p.Partition] {
						t.Errorf("partition %d, in /b %v: offline replicas %v", p.Partition, inB[p.Partition], p.OfflineReplicas)
					}
				}
				n.PowerCut()
				n.Start()
				time.Sleep(time.Second) // for the first flush, which the high watermark waits for
				c = n.Client()
				ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "t")
				if err != nil {
					t.Fatal(err)
				}
				ends.Each(func(o kadm.ListedOffset) {
					if o.Err != nil || o.Offset < acked[o.Partition] {
						t.Errorf("%d ends at %d: %v", o.Partition, o.Offset, o.Err)
					}
				})
				writeEach(t, n, "t", 6)
			})
		})
	}
}

// produceCode, fetchCode and listCode are what a broker says when it is asked to append to a partition, to read it from the
// start, and for its end.
func produceCode(t *testing.T, n *Node, c *kgo.Client, topic string, p int32) int16 {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, topicID(t, c, topic)
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = p, oneRecord(-1, -1)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ProduceResponse](t, n, c, req).Topics[0].Partitions[0].ErrorCode
}

func fetchCode(t *testing.T, n *Node, c *kgo.Client, topic string, p int32) int16 {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, topicID(t, c, topic)
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.PartitionMaxBytes = p, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.FetchResponse](t, n, c, req).Topics[0].Partitions[0].ErrorCode
}

func listCode(t *testing.T, n *Node, c *kgo.Client, topic string, p int32) int16 {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = p, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ListOffsetsResponse](t, n, c, req).Topics[0].Partitions[0].ErrorCode
}

func topicID(t *testing.T, c *kgo.Client, topic string) [16]byte {
	t.Helper()
	meta, err := kadm.NewClient(c).Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return meta.Topics[topic].ID
}

// TestLostMetadataDirectory: when the directory fails that holds the metadata, the broker gives up although others are
// left, and says why in one line.
func TestLostMetadataDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, threeDirs)
		defer n.End()
		n.Start()
		c := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.RecordDeliveryTimeout(5*time.Second))
		makeTopic(t, n, c, "t", 3)
		writeEach(t, n, "t", 3)
		n.Disk.Refuse(func(op, name string) error {
			if strings.HasPrefix(name, "/a/") && op == "write" {
				return errors.New("input/output error")
			}
			return nil
		})
		for p := range int32(3) {
			c.Produce(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("w")}, nil)
		}
		select {
		case err := <-n.done:
			if n.cancel = nil; !errors.Is(err, broker.ErrMetadataDirectory) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "input/output error") {
				t.Errorf("it gives up because of %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("it runs on without the directory of its metadata")
		}
	})
}

// TestDirectoryNotMounted: a disk that is not mounted looks like an empty directory, and one may be left out of log.dirs. The
// partitions that lie there are offline, and are not begun anew beside what there is of them.
func TestDirectoryNotMounted(t *testing.T) {
	for _, without := range []string{"/a,/b,/c", "/a,/c"} {
		bubble(t, threeDirs, func(t *testing.T, n *Node) {
			c := n.Client()
			makeTopic(t, n, c, "t", 6)
			makeTopic(t, n, c, "__many", 21)
			writeEach(t, n, "t", 6)
			whole := sizes(t, n, c, "t")
			time.Sleep(time.Second) // the controller hears where they are
			n.Stop()
			if err := n.Disk.Rename("/b", "/unmounted"); err != nil {
				t.Fatal(err)
			}
			n.Configure("log.dirs", without)
			lines := n.Observe(zap.WarnLevel)
			n.Start()
			// All that lies there is told of in one line, what somebody has written first.
			if all := lines.All(); len(all) != 1 || all[0].ContextMap()["partitions"] != int64(9) ||
				!regexp.MustCompile(`^t-\d, t-\d, (__many-\d+, ){2}__many-\d+ and 4 more$`).MatchString(all[0].ContextMap()["names"].(string)) {
				t.Errorf("%s: told of what is offline: %v", without, all)
			}
			c = n.Client()
			if offline := leaderless(t, c, map[string]int64{"t": 1}, "t"); offline != 2 {
				t.Errorf("%d partitions are offline, 2 lay in /b", offline)
			}
			makeTopic(t, n, c, "new", 4) // the others go on
			writeEach(t, n, "new", 4)
			n.Stop()
			if err := n.Disk.RemoveAll("/b"); err != nil {
				t.Fatal(err)
			}
			if err := n.Disk.Rename("/unmounted", "/b"); err != nil {
				t.Fatal(err)
			}
			n.Configure("log.dirs", threeDirs["log.dirs"])
			n.Start()
			c = n.Client()
			if got := sizes(t, n, c, "t"); !maps.Equal(got, whole) {
				t.Errorf("with /b back: %v\nwant %v", got, whole)
			}
		})
	}
}

// TestDirectoriesOfOthers: a directory of another cluster or node, and a
// partition that lies in two, end a start.
func TestDirectoriesOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(n *Node){
		"another cluster": func(n *Node) {
			n.Disk.Put("/b/meta.properties", []byte(strings.Replace(string(n.Disk.Bytes("/b/meta.properties")), "cluster.id=", "cluster.id=x", 1)))
		},
		"another node": func(n *Node) {
			n.Disk.Put("/b/meta.properties", []byte(strings.Replace(string(n.Disk.Bytes("/b/meta.properties")), "node.id=1", "node.id=2", 1)))
		},
		"one directory twice": func(n *Node) { n.Disk.Put("/b/meta.properties", n.Disk.Bytes("/a/meta.properties")) },
		"one partition twice": func(n *Node) {
			for _, dir := range []string{"/a", "/b", "/c"} {
				n.Disk.Put(dir+"/t-0/partition.metadata", []byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(t, threeDirs)
				defer n.End()
				n.Configure("node.id", "1")
				n.Start()
				makeTopic(t, n, n.Client(), "t", 3)
				writeEach(t, n, "t", 3)
				n.Stop()
				kept := n.Disk.Bytes("/a/.kafka_cleanshutdown")
				spoil(n)
				if err := n.StartError(); !errors.Is(err, storage.ErrIdentity) {
					t.Errorf("the start ends with %v", err)
				}
				if !slices.Equal(kept, n.Disk.Bytes("/a/.kafka_cleanshutdown")) {
					t.Error("the start that was refused took the mark of a clean stop")
				}
			})
		})
	}
}

// TestCordonedDirectories: new partitions go round them, and none are made while
// all are cordoned; what is there stays.
func TestCordonedDirectories(t *testing.T) {
	bubble(t, threeDirs, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "old", 3)
		set := func(value string) int16 {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n.Info.NodeID))
			r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "cordoned.log.dirs", Value: &value}}
			req.Resources = append(req.Resources, r)
			return ask[*kmsg.IncrementalAlterConfigsResponse](t, n, c, req).Resources[0].ErrorCode
		}
		marked := func() string {
			var out []string
			for _, d := range ask[*kmsg.DescribeLogDirsResponse](t, n, c, kmsg.NewPtrDescribeLogDirsRequest()).Dirs {
				if d.IsCordoned {
					out = append(out, d.Dir)
				}
			}
			return strings.Join(out, " ")
		}
		for value, want := range map[string]int16{"/x": 42, "/a,*": 42, "/a,/x": 42} {
			if code := set(value); code != want {
				t.Errorf("cordoning %s: %d, want %d", value, code, want)
			}
		}
		if code := set("/a,/c"); code != 0 || marked() != "/a /c" {
			t.Errorf("cordoning two: %d, marked are %q", code, marked())
		}
		n.Stop()
		n.Start()
		c = n.Client()
		if marked() != "/a /c" {
			t.Errorf("after a restart marked are %q", marked())
		}
		makeTopic(t, n, c, "new", 4)
		if got := perDir(sizes(t, n, c, "new")); got["/b"] != 4 {
			t.Errorf("new partitions per directory: %v", got)
		}
		if got := perDir(sizes(t, n, c, "old")); got["/a"] != 1 || got["/c"] != 1 {
			t.Errorf("old partitions per directory: %v", got)
		}
		if code := set("*"); code != 0 || marked() != "/a /b /c" {
			t.Errorf("cordoning all: %d, marked are %q", code, marked())
		}
		time.Sleep(5 * time.Second) // a heartbeat
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "none", 1, 1
		req.Topics = append(req.Topics, rt)
		if got := ask[*kmsg.CreateTopicsResponse](t, n, c, req).Topics[0]; got.ErrorCode != kerr.InvalidReplicationFactor.Code {
			t.Errorf("a topic while all are cordoned: %d", got.ErrorCode)
		}
		set("")
		time.Sleep(5 * time.Second)
		makeTopic(t, n, c, "again", 1)
	})
}
