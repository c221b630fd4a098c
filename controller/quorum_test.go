package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/raftlog"
)

func askQuorum(topics ...kmsg.DescribeQuorumRequestTopic) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	req.Topics = topics
	return req
}

func quorumTopic(name string, partitions ...int32) kmsg.DescribeQuorumRequestTopic {
	t := kmsg.DescribeQuorumRequestTopic{Topic: name}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	return t
}

// TestQuorumOfOne: what a lone node says of itself, and of what there is not.
func TestQuorumOfOne(t *testing.T) {
	c := start(t, raftlog.NewMemory())
	defer c.Stop()
	join(t, c, 1)
	_, offset := do[*kmsg.CreateTopicsResponse](t, c, createTopic("a", 1))
	before := time.Now().UnixMilli()
	got, _ := do[*kmsg.DescribeQuorumResponse](t, c, askQuorum(quorumTopic("__cluster_metadata", 0)))
	if got.ErrorCode != 0 || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		t.Fatalf("%+v", got)
	}
	p := got.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || p.HighWatermark != offset+1 || len(p.CurrentVoters) != 1 || len(p.Observers) != 0 {
		t.Fatalf("after offset %d: %+v", offset, p)
	}
	v := p.CurrentVoters[0]
	if v.ReplicaID != 1 || v.ReplicaDirectoryID != [16]byte{} || v.LogEndOffset != offset+1 || v.LastFetchTimestamp < before || v.LastCaughtUpTimestamp < before {
		t.Errorf("the voter at %d: %+v", before, v)
	}
	for _, topics := range [][]kmsg.DescribeQuorumRequestTopic{
		{quorumTopic("a", 0)}, {quorumTopic("__cluster_metadata", 1)}, {quorumTopic("__cluster_metadata", 0, 0)},
		{quorumTopic("__cluster_metadata", 0), quorumTopic("a", 0)},
	} {
		got, _ := do[*kmsg.DescribeQuorumResponse](t, c, askQuorum(topics...))
		if got.ErrorCode != 0 || len(got.Topics) != len(topics) {
			t.Fatalf("%v: %+v", topics, got)
		}
		for _, topic := range got.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 3 || p.LeaderID != 0 || p.CurrentVoters != nil {
					t.Errorf("%v: %+v", topics, p)
				}
			}
		}
	}
}

// TestQuorumOfThree: the leader knows how far the others are and when it heard
// of them last; one that is away falls behind.
func TestQuorumOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &loopbackNet{}
		ids := []int32{0, 1, 2}
		running := map[int32]*Controller{}
		for _, id := range ids {
			log := raftlog.NewMemory()
			if err := log.Found(RaftID(id, 0), confOf(ids)); err != nil {
				t.Fatal(err)
			}
			c, err := Start(context.Background(), Options{
				NodeID: id, Directory: [16]byte{byte(id), 1}, RaftLog: log, Static: testStatic(t, "node.id", fmt.Sprint(id)), Transport: net.port(RaftID(id, 0)),
			})
			if err != nil {
				t.Fatal(err)
			}
			running[id] = c
		}
		stop := func(id int32) {
			net.remove(RaftID(id, 0))
			if err := running[id].Stop(); err != nil {
				t.Fatal(err)
			}
		}
		leader := int32(-1)
		for range 1000 {
			for _, id := range ids {
				if running[id].Active() {
					leader = id
				}
			}
			if leader >= 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if leader < 0 {
			t.Fatal("nobody is elected")
		}
		join(t, running[leader], 1)
		time.Sleep(5 * time.Second)
		state := func() kmsg.DescribeQuorumResponseTopicPartition {
			got, _ := do[*kmsg.DescribeQuorumResponse](t, running[leader], askQuorum(quorumTopic("__cluster_metadata", 0)))
			return got.Topics[0].Partitions[0]
		}
		p := state()
		if p.LeaderID != leader || len(p.CurrentVoters) != 3 || len(p.Observers) != 0 {
			t.Fatalf("%+v", p)
		}
		now := time.Now()
		for i, v := range p.CurrentVoters {
			if v.ReplicaID != int32(i) || v.LogEndOffset != p.HighWatermark || now.Sub(time.UnixMilli(v.LastFetchTimestamp)) > time.Second ||
				now.Sub(time.UnixMilli(v.LastCaughtUpTimestamp)) > time.Second {
				t.Errorf("at %d: %+v", now.UnixMilli(), v)
			}
		}
		away := (leader + 1) % 3
		stop(away)
		left := time.Now()
		_, offset := do[*kmsg.CreateTopicsResponse](t, running[leader], createTopic("a", 1))
		time.Sleep(10 * time.Second)
		p = state()
		for _, v := range p.CurrentVoters {
			behind := v.LogEndOffset <= offset && !time.UnixMilli(v.LastFetchTimestamp).After(left) && !time.UnixMilli(v.LastCaughtUpTimestamp).After(left)
			if behind != (v.ReplicaID == away) {
				t.Errorf("node %d is away since %d, high watermark %d: %+v", away, left.UnixMilli(), p.HighWatermark, v)
			}
		}
		for _, id := range ids {
			if id != away {
				stop(id)
			}
		}
	})
}
