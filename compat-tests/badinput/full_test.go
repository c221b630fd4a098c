//go:build compat && linux

package badinput

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// ballast fills a file system to its last byte.
func ballast(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := f.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
}

// change is something that clients have changed, one step after another.
type change struct {
	name string
	// step asks for the n-th change, n from 1; ok: it was acknowledged.
	step func(c *frame.Conn, n int) (ok bool, refused string)
	// kept judges, after a restart, what is there against the last step that was
	// acknowledged and the last that was asked for.
	kept func(t *testing.T, c *frame.Conn, acked, asked int)
}

// answer gives an answer of a type, or what came in its place.
func answer[R kmsg.Response](o frame.Outcome) (r R, instead string) {
	r, ok := o.Response.(R)
	if !ok {
		return r, o.String()
	}
	return r, ""
}

func named(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		return err.Error()
	}
	return ""
}

const fullGroup, firstAlteration = "full-group", 3_600_000

var changes = []change{
	{
		name: "CreateTopics",
		step: func(c *frame.Conn, n int) (bool, string) {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.Version, req.TimeoutMillis = 5, 5000
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = fmt.Sprintf("created-%d", n), 1, 1
			req.Topics = append(req.Topics, rt)
			r, instead := answer[*kmsg.CreateTopicsResponse](c.Ask(req))
			if instead != "" {
				return false, instead
			}
			return r.Topics[0].ErrorCode == 0, named(r.Topics[0].ErrorCode)
		},
		kept: func(t *testing.T, c *frame.Conn, acked, _ int) {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 9
			r, instead := answer[*kmsg.MetadataResponse](c.Ask(req))
			if instead != "" {
				t.Fatal(instead)
			}
			there := map[string]bool{}
			for _, topic := range r.Topics {
				there[*topic.Topic] = topic.ErrorCode == 0 && topic.Partitions[0].Leader >= 0
			}
			for n := 1; n <= acked; n++ {
				if !there[fmt.Sprintf("created-%d", n)] {
					t.Errorf("created-%d of %d is gone, or has no leader", n, acked)
				}
			}
		},
	},
	{
		name: "IncrementalAlterConfigs",
		step: func(c *frame.Conn, n int) (bool, string) {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.Version = 1
			rr := kmsg.NewIncrementalAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			value := fmt.Sprint(firstAlteration + n)
			rc.Name, rc.Value = "retention.ms", &value
			rr.Configs = append(rr.Configs, rc)
			req.Resources = append(req.Resources, rr)
			r, instead := answer[*kmsg.IncrementalAlterConfigsResponse](c.Ask(req))
			if instead != "" {
				return false, instead
			}
			return r.Resources[0].ErrorCode == 0, named(r.Resources[0].ErrorCode)
		},
		kept: func(t *testing.T, c *frame.Conn, acked, asked int) {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version = 4
			rr := kmsg.NewDescribeConfigsRequestResource()
			rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{"retention.ms"}
			req.Resources = append(req.Resources, rr)
			r, instead := answer[*kmsg.DescribeConfigsResponse](c.Ask(req))
			if instead != "" {
				t.Fatal(instead)
			}
			got := *r.Resources[0].Configs[0].Value
			if acked > 0 && got != fmt.Sprint(firstAlteration+acked) && got != fmt.Sprint(firstAlteration+asked) {
				t.Errorf("retention.ms is %s, %d was acknowledged, %d asked for", got, firstAlteration+acked, firstAlteration+asked)
			}
		},
	},
	{
		name: "DeleteRecords",
		step: func(c *frame.Conn, n int) (bool, string) {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version, req.TimeoutMillis = 2, 5000
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewDeleteRecordsRequestTopicPartition()
			rp.Offset = int64(n)
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			r, instead := answer[*kmsg.DeleteRecordsResponse](c.Ask(req))
			if instead != "" {
				return false, instead
			}
			return r.Topics[0].Partitions[0].ErrorCode == 0, named(r.Topics[0].Partitions[0].ErrorCode)
		},
		kept: func(t *testing.T, c *frame.Conn, acked, asked int) {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = 4, -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Timestamp = -2
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			r, instead := answer[*kmsg.ListOffsetsResponse](c.Ask(req))
			if instead != "" {
				t.Fatal(instead)
			}
			if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != int64(acked) && p.Offset != int64(asked) {
				t.Errorf("the log starts at %d (error %d), %d was acknowledged, %d asked for", p.Offset, p.ErrorCode, acked, asked)
			}
		},
	},
	{
		name: "OffsetCommit",
		step: func(c *frame.Conn, n int) (bool, string) {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 7, fullGroup, -1
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Offset = int64(n)
			metadata := strings.Repeat("m", 1000)
			rp.Metadata = &metadata
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			r, instead := answer[*kmsg.OffsetCommitResponse](c.Ask(req))
			if instead != "" {
				return false, instead
			}
			return r.Topics[0].Partitions[0].ErrorCode == 0, named(r.Topics[0].Partitions[0].ErrorCode)
		},
		kept: func(t *testing.T, c *frame.Conn, acked, asked int) {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group = 5, fullGroup
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = topic, []int32{0}
			req.Topics = append(req.Topics, rt)
			r, instead := answer[*kmsg.OffsetFetchResponse](c.Ask(req))
			if instead != "" {
				t.Fatal(instead)
			}
			if p := r.Topics[0].Partitions[0]; r.ErrorCode != 0 || p.Offset != int64(acked) && p.Offset != int64(asked) {
				t.Errorf("the committed offset is %d (error %d), %d was acknowledged, %d asked for", p.Offset, r.ErrorCode, acked, asked)
			}
		},
	},
	{
		name: "JoinGroup",
		step: func(c *frame.Conn, n int) (bool, string) {
			join := kmsg.NewPtrJoinGroupRequest()
			join.Version, join.Group = 5, fmt.Sprintf("joined-%d", n)
			join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 30_000, 1000, "consumer"
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = "range", make([]byte, 1000)
			join.Protocols = append(join.Protocols, p)
			for {
				r, instead := answer[*kmsg.JoinGroupResponse](c.Ask(join))
				if instead != "" {
					return false, "joining: " + instead
				}
				if r.ErrorCode == kerr.MemberIDRequired.Code {
					join.MemberID = r.MemberID
					continue
				}
				if r.ErrorCode != 0 {
					return false, "joining: " + named(r.ErrorCode)
				}
				sync := kmsg.NewPtrSyncGroupRequest()
				sync.Version, sync.Group, sync.Generation, sync.MemberID = 3, join.Group, r.Generation, r.MemberID
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = r.MemberID, make([]byte, 1000)
				sync.GroupAssignment = append(sync.GroupAssignment, a)
				s, instead := answer[*kmsg.SyncGroupResponse](c.Ask(sync))
				if instead != "" {
					return false, "syncing: " + instead
				}
				return s.ErrorCode == 0, "syncing: " + named(s.ErrorCode)
			}
		},
		kept: func(t *testing.T, c *frame.Conn, acked, _ int) {
			for n := max(1, acked-3); n <= acked; n++ {
				req := kmsg.NewPtrDescribeGroupsRequest()
				req.Version, req.Groups = 5, []string{fmt.Sprintf("joined-%d", n)}
				r, instead := answer[*kmsg.DescribeGroupsResponse](c.Ask(req))
				if instead != "" {
					t.Fatal(instead)
				}
				if g := r.Groups[0]; g.State != "Stable" || len(g.Members) != 1 || len(g.Members[0].MemberAssignment) != 1000 {
					t.Errorf("group %s is %s with %d members", g.Group, g.State, len(g.Members))
				}
			}
		},
	},
}

// TestChangesOnAFullDisk: the disk under the metadata, or under the logs, runs
// full between two changes of one kind. Each is acknowledged and there after a
// restart with room, or refused, or not answered because the broker gives up with
// one line. None hangs.
func TestChangesOnAFullDisk(t *testing.T) {
	t.Parallel()
	const steps = 150
	for _, full := range []string{"metadata", "logs"} {
		for _, ch := range changes {
			t.Run(full+"/"+ch.name, func(t *testing.T) {
				disk, grow := small(t, "8m")
				other := t.TempDir()
				meta, logs := filepath.Join(disk, "on"), filepath.Join(other, "on")
				if full == "logs" {
					meta, logs = logs, meta
				}
				overrides := []string{"metadata.log.dir=" + meta, "offsets.topic.num.partitions=1", "log.segment.bytes=1048576", "group.initial.rebalance.delay.ms=0"}
				v := start(t, logs, "", overrides...)
				v.create(t, topic)
				if stored, failed := v.produceUntil(t, topic, 500, 2*steps); failed != 0 {
					t.Fatalf("record %d: error %d", stored, failed)
				}
				c, err := frame.Dial(v.Bootstrap)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				acked, refused := 0, ""
				n := 1
				ask := func() bool {
					ok, why := ch.step(c, n)
					if ok {
						acked = n
						return true
					}
					refused = why
					return false
				}
				for ; n <= 3; n++ {
					if !ask() {
						t.Fatalf("step %d, with room: %s", n, refused)
					}
				}
				ballast(t, disk)
				for n <= steps && ask() {
					n++
				}
				asked := min(n, steps)
				if refused == "" {
					t.Logf("all %d were acknowledged", steps)
					v.Kill()
				} else {
					t.Logf("%d were acknowledged, then: %s", acked, refused)
					v.givesUp(t, "no space left on device")
				}
				grow("64m")
				v = start(t, logs, "", overrides...)
				again, err := frame.Dial(v.Bootstrap)
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				ch.kept(t, again, acked, asked)
				if ok, why := ch.step(again, steps+1); !ok {
					t.Errorf("with room again: %s", why)
				}
				v.check(t, 2*budget+allowance)
				v.ends(t)
			})
		}
	}
}

// TestOneFullDiskOfTwo: of two data directories the one with the groups' offsets
// runs full. Commits are refused and not left waiting, /readyz says why, what lies
// in the other directory is served, and a restart with room heals it.
func TestOneFullDiskOfTwo(t *testing.T) {
	t.Parallel()
	full, grow := small(t, "8m")
	logs := filepath.Join(full, "on") + "," + filepath.Join(t.TempDir(), "on")
	overrides := []string{"metadata.log.dir=" + filepath.Join(t.TempDir(), "meta"), "offsets.topic.num.partitions=1"}
	v := startWatched(t, logs, overrides...)
	commit := changes[slices.IndexFunc(changes, func(c change) bool { return c.name == "OffsetCommit" })]
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// With a first partition in each directory, the offsets go into the first.
	v.create(t, "first")
	v.create(t, topic)
	acked := 0
	for acked < 3 {
		if ok, why := commit.step(c, acked+1); !ok {
			t.Fatal(why)
		}
		acked++
	}
	if _, err := os.Stat(filepath.Join(full, "on", "__consumer_offsets-0")); err != nil {
		t.Fatalf("the offsets lie in the other directory: %v", err)
	}
	ballast(t, full)
	asked := 0
	for asked = acked + 1; ; asked++ {
		ok, why := commit.step(c, asked)
		if !ok {
			t.Logf("refused after %d commits: %s", acked, why)
			break
		}
		acked = asked
		if acked > 100 {
			t.Fatal("a full disk took a hundred commits")
		}
	}
	// Whatever is asked meanwhile is refused, and soon with what lasts.
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 2, fullGroup
	for end := time.Now().Add(prompt); ; time.Sleep(20 * time.Millisecond) {
		ok, why := commit.step(c, asked)
		r, instead := answer[*kmsg.FindCoordinatorResponse](c.Ask(find))
		if ok || instead != "" {
			t.Fatalf("once the directory was given up, a commit: %v; the coordinator: %s", ok, instead)
		}
		if why == kerr.NotCoordinator.Error() && r.ErrorCode == kerr.CoordinatorNotAvailable.Code {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still a commit is answered %s, and who coordinates %v", why, kerr.ErrorForCode(r.ErrorCode))
		}
	}
	v.readyz(t, http.StatusServiceUnavailable, "no space left on device")
	served := 0
	for _, name := range []string{"first", topic} {
		if _, failed := v.produceUntil(t, name, 500, 5); failed == 0 {
			served++
		}
	}
	if served != 1 {
		t.Errorf("%d of the two partitions are served", served)
	}
	v.ends(t)

	grow("64m")
	v = startWatched(t, logs, overrides...)
	again, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	commit.kept(t, again, acked, asked)
	v.readyz(t, http.StatusOK, "")
	v.check(t, 2*budget+allowance)
	v.ends(t)
}
