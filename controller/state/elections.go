package state

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
	"millrace/wire/records"
)

// Elections on demand: ElectLeaders (KIP-183, KIP-460).

// Kinds of election, as ElectLeaders numbers them.
const (
	preferredElection int8 = 0
	uncleanElection   int8 = 1
)

func (d *Decider) electLeaders(req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind := req.ElectionType
	if req.Version == 0 {
		kind = preferredElection
	}
	if kind != preferredElection && kind != uncleanElection {
		f := fail(kerr.InvalidRequest, fmt.Sprintf("Unknown election type %d", kind))
		resp.ErrorCode, resp.Topics = f.code, unelected(req, f)
		return resp
	}
	// Each partition is decided on what the ones before it have made: the same one
	// may be asked for twice.
	if req.Topics == nil {
		var all []string
		for t := range d.working.Topics() {
			all = append(all, t.Name)
		}
		for _, name := range all {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = name
			for i := range d.working.TopicByName(name).Partitions {
				// Who asks for all does not want to hear of those that need nothing.
				if f := d.elect(name, int32(i), kind); f == nil || f.code != kerr.ElectionNotNeeded.Code {
					out.Partitions = append(out.Partitions, elected(int32(i), f))
				}
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	for _, asked := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = asked.Topic
		for _, i := range asked.Partitions {
			out.Partitions = append(out.Partitions, elected(i, d.elect(asked.Topic, i, kind)))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func elected(partition int32, f *failure) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition = partition
	if f != nil {
		out.ErrorCode, out.ErrorMessage = f.code, f.message
	}
	return out
}

// unelected refuses every partition that was asked for.
func unelected(req *kmsg.ElectLeadersRequest, f *failure) []kmsg.ElectLeadersResponseTopic {
	var topics []kmsg.ElectLeadersResponseTopic
	for _, asked := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = asked.Topic
		for _, i := range asked.Partitions {
			out.Partitions = append(out.Partitions, elected(i, f))
		}
		topics = append(topics, out)
	}
	return topics
}

func (d *Decider) elect(topic string, index int32, kind int8) *failure {
	t := d.working.TopicByName(topic)
	if t == nil {
		return fail(kerr.UnknownTopicOrPartition, "No such topic as "+topic)
	}
	p := t.Partition(index)
	if p == nil {
		return fail(kerr.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", topic, index))
	}
	var r *records.PartitionChangeRecord
	if kind == preferredElection {
		if p.Leader == p.Replicas[0] {
			return told(kerr.ElectionNotNeeded)
		}
		r = d.prefer(t, p)
	} else {
		if p.Leader != image.NoLeader {
			return told(kerr.ElectionNotNeeded)
		}
		r = d.force(t, p)
	}
	switch {
	case r != nil:
		d.write(d.finish(p, r, nobody))
		return nil
	case kind == preferredElection:
		return told(kerr.PreferredLeaderNotAvailable)
	}
	return told(kerr.EligibleLeadersNotAvailable)
}

// prefer makes the first replica the leader if it can lead. Where it cannot, a
// partition that has no leader that can gets one all the same.
func (d *Decider) prefer(t *image.Topic, p *image.Partition) *records.PartitionChangeRecord {
	leader := p.Replicas[0]
	if !d.can(p, leader) || !slices.Contains(p.ISR, leader) {
		leader = d.successor(p, p.ISR, nobody)
	}
	if leader == p.Leader || leader == image.NoLeader {
		return nil
	}
	r := changeOf(t, p)
	r.Leader = leader
	return r
}

// force gives a partition without a leader one: an in-sync replica, else the
// first that lives, whatever the topic says of unclean elections.
func (d *Decider) force(t *image.Topic, p *image.Partition) *records.PartitionChangeRecord {
	r := changeOf(t, p)
	if leader := d.successor(p, p.ISR, nobody); leader != image.NoLeader {
		r.Leader = leader
		return r
	}
	for _, id := range p.Replicas {
		if d.can(p, id) {
			r.Leader, r.Isr, r.LeaderRecoveryState = id, []int32{id}, 1
			return r
		}
	}
	return nil
}
