package brokertest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// commitEach stores offset 7 of t-0 for some groups, and waits for it.
func commitEach(t *testing.T, c *kgo.Client, groups ...string) {
	t.Helper()
	for _, g := range groups {
		os := kadm.Offsets{}
		os.AddOffset("t", 0, 7, -1)
		if _, err := kadm.NewClient(c).CommitOffsets(t.Context(), g, os); err != nil {
			t.Fatal(err)
		}
	}
}

// groupCodes is what a coordinator's client is told of a group: by FindCoordinator, OffsetFetch, JoinGroup, OffsetCommit
// and DescribeGroups.
func groupCodes(t *testing.T, n *Node, c *kgo.Client, group string) string {
	t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{group}
	codes := []string{word(ask[*kmsg.FindCoordinatorResponse](t, n, c, find).Coordinators[0].ErrorCode)}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fg := kmsg.NewOffsetFetchRequestGroup()
	fg.Group, fg.Topics = group, nil
	fetch.Groups = append(fetch.Groups, fg)
	codes = append(codes, word(ask[*kmsg.OffsetFetchResponse](t, n, c, fetch).Groups[0].ErrorCode))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = group, 10000, 10000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	join.Protocols = append(join.Protocols, p)
	codes = append(codes, word(ask[*kmsg.JoinGroupResponse](t, n, c, join).ErrorCode))
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = group
	ct := kmsg.NewOffsetCommitRequestTopic()
	ct.Topic, ct.TopicID = "t", topicID(t, c, "t")
	ct.Partitions = append(ct.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	commit.Topics = append(commit.Topics, ct)
	codes = append(codes, word(ask[*kmsg.OffsetCommitResponse](t, n, c, commit).Topics[0].Partitions[0].ErrorCode))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	codes = append(codes, word(ask[*kmsg.DescribeGroupsResponse](t, n, c, describe).Groups[0].ErrorCode))
	return strings.Join(codes, " ")
}

// withOffsets lists the partitions of __consumer_offsets that hold something.
func withOffsets(n *Node) (list []string) {
	for p := range 4 {
		if f := fmt.Sprintf("/data/__consumer_offsets-%d/00000000000000000000.log", p); len(n.Disk.Bytes(f)) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// TestDamagedOffsets: one damaged batch in a partition of __consumer_offsets is told of once, with the place; the start goes
// on, all other groups are served, those of that partition are answered as by Apache Kafka 4.4.0, and they are served again
// when the topic was deleted.
func TestDamagedOffsets(t *testing.T) {
	for name, spoil := range map[string]func(b []byte){
		"a byte of a record": func(b []byte) { b[80] = 0xff },
		"a header":           func(b []byte) { clear(b[:61]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(t, nil)
				defer n.End()
				n.Start()
				c := n.Client()
				makeTopic(t, n, c, "t", 1)
				commitEach(t, c, "g1")
				bad := withOffsets(n)
				commitEach(t, c, "g1", "g2", "g3")
				if len(bad) != 1 || len(withOffsets(n)) < 2 {
					t.Fatalf("the groups lie in %v", withOffsets(n))
				}
				n.Stop()
				b := n.Disk.Bytes(bad[0])
				spoil(b)
				n.Disk.Put(bad[0], b)
				lines := n.Observe(zap.WarnLevel)
				begun := time.Now()
				n.Start()
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the start took %v", took)
				}
				time.Sleep(time.Hour)
				all := lines.FilterMessageSnippet("does not load").All()
				if total := lines.TakeAll(); len(all) != 1 || len(total) > 3 { // storage may tell of the damage too, as it opens and as it cleans
					t.Fatalf("told: %v", total)
				}
				if f := all[0].ContextMap(); f["topic"] != "__consumer_offsets" || !strings.Contains(bad[0], fmt.Sprintf("__consumer_offsets-%d/", f["partition"])) ||
					f["file"] != bad[0] || f["position"] != int64(0) || f["error"] == nil {
					t.Errorf("told: %v", f)
				}
				c = n.Client()
				if got, want := groupCodes(t, n, c, "g1"), "fine NOT_COORDINATOR NOT_COORDINATOR NOT_COORDINATOR NOT_COORDINATOR"; got != want {
					t.Errorf("its group is answered %s, want %s", got, want)
				}
				if got, want := groupCodes(t, n, c, "g2"), "fine fine MEMBER_ID_REQUIRED fine fine"; got != want {
					t.Errorf("another group is answered %s, want %s", got, want)
				}
				if list, err := kadm.NewClient(c).ListGroups(t.Context()); err != nil || strings.Join(list.Groups(), " ") != "g2 g3" {
					t.Errorf("listed are %v, %v", list.Groups(), err)
				}
				Produce(t, c, "t", "v", 1)
				if code := deleteTopic(t, c, "__consumer_offsets"); code != nil {
					t.Errorf("deleting the topic: %v", code)
				}
				if got, want := groupCodes(t, n, c, "g1"), "fine fine MEMBER_ID_REQUIRED fine fine"; got != want {
					t.Errorf("once the topic is deleted the group is answered %s, want %s", got, want)
				}
				n.Stop()
				if all := lines.TakeAll(); len(all) != 0 {
					t.Errorf("told afterwards: %v", all)
				}
			})
		})
	}
}

func deleteTopic(t *testing.T, c *kgo.Client, topic string) error {
	t.Helper()
	got, err := kadm.NewClient(c).DeleteTopics(t.Context(), topic)
	if err != nil {
		return err
	}
	return got[topic].Err
}

// TestOffsetsOnADiskThatFails: a file that cannot be read is told of once; of a directory that was given up it is told that
// it was, and not of each coordinator.
func TestOffsetsOnADiskThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Node)
		op   string
		want string
	}{
		"one file":      {(*Node).Stop, "read", "a partition's log does not open"},
		"its directory": {(*Node).Kill, "write", "a data directory was given up"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(t, map[string]string{"log.dirs": "/meta,/data", "metadata.log.dir": "/meta", "cordoned.log.dirs": "/meta"})
				defer n.End()
				n.Start()
				client := n.Client()
				makeTopic(t, n, client, "t", 1)
				commitEach(t, client, "g1", "g2", "g3")
				bad := withOffsets(n)
				if len(bad) < 2 {
					t.Fatalf("the groups lie in %v", bad)
				}
				c.end(n)
				n.Disk.Refuse(func(op, name string) error {
					if op == c.op && strings.HasPrefix(name, strings.TrimSuffix(bad[1], ".log")) {
						return errDisk
					}
					return nil
				})
				lines := n.Observe(zap.ErrorLevel)
				n.Start()
				time.Sleep(time.Hour)
				all := lines.TakeAll()
				var told []string
				late := map[any]bool{}
				for _, l := range all {
					if l.Message == "a partition does not take its new role" && !late[l.ContextMap()["partition"]] {
						late[l.ContextMap()["partition"]] = true // its log was being opened when the directory was given up
						continue
					}
					told = append(told, fmt.Sprint(l.Message, " ", l.ContextMap()))
				}
				if text := strings.Join(told, "\n"); strings.Count(text, c.want) != 1 || strings.Count(text, "does not load") > 1 || !strings.Contains(text, strings.TrimSuffix(bad[1], ".log")) || len(told) > 2 {
					t.Errorf("told:\n%s", text)
				}
				n.Disk.Refuse(nil)
				n.Stop()
			})
		})
	}
}

// TestCoordinatorsThatLoadForLong: the cluster hears of the broker while it waits for coordinators to load, which may take
// longer than its session lasts; after a minute the start goes on without them.
func TestCoordinatorsThatLoadForLong(t *testing.T) {
	for _, takes := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			n := New(t, map[string]string{"log.cleaner.enable": "false"})
			defer n.End()
			n.Start()
			c := n.Client()
			makeTopic(t, n, c, "t", 1)
			commitEach(t, c, "g1")
			slow := withOffsets(n)[0]
			n.Stop()
			// The first of what a start reads is read as the log is opened, the last of it as it is loaded.
			var reads, all atomic.Int32
			n.Disk.Hold(func(op, name string) {
				if op == "read" && name == slow {
					all.Add(1)
				}
			})
			n.Start()
			n.Stop()
			begun := time.Now()
			n.Disk.Hold(func(op, name string) {
				if op == "read" && name == slow && reads.Add(1) == all.Load() {
					time.Sleep(time.Until(begun.Add(takes)))
				}
			})
			lines := n.Observe(zap.InfoLevel)
			n.Start()
			if took := time.Since(begun).Round(time.Second); took != min(takes, time.Minute) {
				t.Errorf("with %v the start takes %v", takes, took)
			}
			if told := lines.FilterMessageSnippet("waits for groups").All(); len(told) != 1 || !strings.Contains(slow, told[0].ContextMap()["from"].(string)+"/") {
				t.Errorf("with %v, told of the wait: %v", takes, told)
			}
			c = n.Client()
			if takes > time.Minute {
				if got, want := groupCodes(t, n, c, "g1"), "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_LOAD_IN_PROGRESS"; got != want {
					t.Errorf("while it loads the group is answered %s, want %s", got, want)
				}
				time.Sleep(takes)
			}
			if got, want := groupCodes(t, n, c, "g1"), "fine fine MEMBER_ID_REQUIRED fine fine"; got != want {
				t.Errorf("with %v the group is answered %s, want %s", takes, got, want)
			}
			for _, l := range lines.All() {
				if l.Level > zap.WarnLevel || strings.Contains(l.Message, "still being loaded") && takes < time.Minute {
					t.Errorf("with %v, told: %v", takes, l)
				}
			}
			n.Stop()
		})
	}
}
