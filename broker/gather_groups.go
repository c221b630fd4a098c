package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/group"
	"millrace/broker/machine"
	"millrace/broker/metrics"
	"millrace/controller/image"
	"millrace/storage/batch"
)

// maxGroupSeries bounds how many groups are shown one by one, and
// maxOffsetSeries how many of their partitions.
const (
	maxGroupSeries  = 1000
	maxOffsetSeries = 20000
)

// groupShard is a coordinator's, as it is asked here.
type groupShard interface {
	Loaded() bool
	Do(ctx context.Context, req machine.Request) (any, error)
}

// gatherGroups asks the coordinators here, as a client would: what they say of
// groups is what DescribeGroups and OffsetFetch say. A coordinator that is
// loading, or that does not answer in time, is left out. However many groups
// there are, no more are asked for one by one than are shown.
func gatherGroups[S groupShard](ctx context.Context, b *Broker, shards []S, emit metrics.Emit) {
	img := b.applied()
	states := map[string]int{}
	var groups, offsets, shown, leftOut, series int
	for _, shard := range shards {
		if !shard.Loaded() {
			continue
		}
		if held, ok := gatherAsk[group.CountedOffsets](ctx, shard, group.CountOffsets{}); ok {
			offsets += int(held)
		}
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 5
		got, ok := gatherAsk[*kmsg.ListGroupsResponse](ctx, shard, list)
		if !ok || got.ErrorCode != 0 {
			continue
		}
		for _, g := range got.Groups {
			classic := g.GroupType == "" || g.GroupType == "classic"
			if classic {
				groups++
				states[g.GroupState]++
			}
			if g.GroupType == "share" {
				continue // it has no committed offsets
			}
			if shown >= maxGroupSeries || series >= maxOffsetSeries {
				leftOut++
				continue
			}
			fetch := kmsg.NewPtrOffsetFetchRequest()
			fetch.Version = 9
			fg := kmsg.NewOffsetFetchRequestGroup()
			fg.Group, fg.Topics = g.Group, nil
			fetch.Groups = append(fetch.Groups, fg)
			held, ok := gatherAsk[*kmsg.OffsetFetchResponse](ctx, shard, fetch)
			if !ok || len(held.Groups) == 0 {
				continue
			}
			shown++
			if classic {
				gatherMembers(ctx, shard, g.Group, emit)
			}
			cut := false
			for _, t := range held.Groups[0].Topics {
				for _, p := range t.Partitions {
					if cut = cut || series >= maxOffsetSeries; cut {
						break
					}
					series++
					b.gatherOffset(img, g.Group, t.Topic, p, emit)
				}
			}
			if cut {
				leftOut++
			}
		}
	}
	emit(metrics.Groups, float64(groups))
	emit(metrics.GroupsPrep, float64(states["PreparingRebalance"]))
	emit(metrics.GroupsCompl, float64(states["CompletingRebalance"]))
	emit(metrics.GroupsStable, float64(states["Stable"]))
	emit(metrics.GroupsEmpty, float64(states["Empty"]))
	emit(metrics.GroupsDead, float64(states["Dead"]))
	emit(metrics.Offsets, float64(offsets))
	emit(metrics.GroupsLeftOut, float64(leftOut))
}

func gatherMembers(ctx context.Context, shard groupShard, group string, emit metrics.Emit) {
	one := kmsg.NewPtrDescribeGroupsRequest()
	one.Version, one.Groups = 5, []string{group}
	if got, ok := gatherAsk[*kmsg.DescribeGroupsResponse](ctx, shard, one); ok && len(got.Groups) == 1 && got.Groups[0].ErrorCode == 0 {
		emit(metrics.GroupMembers, float64(len(got.Groups[0].Members)), group)
	}
}

func (b *Broker) gatherOffset(img *image.Image, group, topic string, p kmsg.OffsetFetchResponseGroupTopicPartition, emit metrics.Emit) {
	if p.ErrorCode != 0 || p.Offset < 0 {
		return
	}
	index := itoa(p.Partition)
	emit(metrics.GroupOffset, float64(p.Offset), group, topic, index)
	t := img.TopicByName(topic)
	if t == nil {
		return
	}
	part := b.replicas.get(t.ID, p.Partition)
	if part == nil {
		return
	}
	if leads, _, _ := part.Leading(); leads {
		emit(metrics.GroupLag, float64(max(part.Log().View().HighWatermark()-batch.Offset(p.Offset), 0)), group, topic, index)
	}
}

// gatherAsk asks a shard; not ok: it did not answer.
func gatherAsk[R any](ctx context.Context, shard groupShard, body any) (resp R, ok bool) {
	got, err := shard.Do(ctx, machine.Request{Body: body, Client: machine.Client{ID: "metrics", Host: "/127.0.0.1", Principal: "User:metrics"}})
	if err != nil {
		return resp, false
	}
	resp, ok = got.(R)
	return resp, ok
}
