package state

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire/records"
)

// Partition reassignments (KIP-455, KIP-860). While one runs, a partition's
// replicas are those it is to have, followed by those it is to lose; Adding and
// Removing say which are which. It is over when all that it is to have are in
// sync: whichever change brings that about finishes it in the same record.

func (d *Decider) alterReassignments(req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = true
	if len(req.Topics) == 0 {
		resp.ErrorMessage = kmsg.StringPtr("") // Kafka's answer to nothing is its message's default
		return resp
	}
	resp.AllowReplicationFactorChange = req.Version < 1 || req.AllowReplicationFactorChange
	for _, asked := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = asked.Topic
		for _, one := range asked.Partitions {
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answer.Partition = one.Partition
			if f := d.reassign(asked.Topic, one, resp.AllowReplicationFactorChange); f != nil {
				answer.ErrorCode, answer.ErrorMessage = f.code, f.message
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (d *Decider) reassign(topic string, asked kmsg.AlterPartitionAssignmentsRequestTopicPartition, anyFactor bool) *failure {
	t := d.working.TopicByName(topic)
	if t == nil {
		return fail(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+topic+".")
	}
	p := t.Partition(asked.Partition)
	if p == nil {
		return fail(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", topic, asked.Partition))
	}
	var r *records.PartitionChangeRecord
	var f *failure
	if asked.Replicas == nil {
		r, f = d.cancel(t, p)
	} else {
		r, f = d.move(t, p, asked.Replicas, anyFactor)
	}
	if f == nil && changes(r) {
		d.write(r)
	}
	return f
}

// reassigning says whether a partition is on its way to other replicas.
func reassigning(p *image.Partition) bool { return len(p.Adding) > 0 || len(p.Removing) > 0 }

// move begins a reassignment to a list of replicas, or finishes it at once.
func (d *Decider) move(t *image.Topic, p *image.Partition, target []int32, anyFactor bool) (*records.PartitionChangeRecord, *failure) {
	if f := d.checkReplicas(target, 0); f != nil {
		return nil, f
	}
	if !anyFactor {
		heading := len(p.Replicas)
		if reassigning(p) {
			heading = len(difference(p.Replicas, p.Removing))
		}
		if heading != len(target) {
			return nil, fail(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", heading, len(target)))
		}
	}
	adding, removing := difference(target, p.Replicas), difference(p.Replicas, target)
	slices.Sort(adding)
	slices.Sort(removing)
	r := changeOf(t, p)
	if replicas := slices.Concat(target, removing); !slices.Equal(replicas, p.Replicas) {
		r.Replicas = replicas
	}
	// As in Kafka, one that adds or removes nothing leaves what an earlier one was
	// about to add or remove.
	if len(adding) > 0 && !slices.Equal(adding, p.Adding) {
		r.AddingReplicas = adding
	}
	if len(removing) > 0 && !slices.Equal(removing, p.Removing) {
		r.RemovingReplicas = removing
	}
	return d.finish(p, r, nobody), nil
}

// cancel gives a partition back the replicas it had before its reassignment.
func (d *Decider) cancel(t *image.Topic, p *image.Partition) (*records.PartitionChangeRecord, *failure) {
	if !reassigning(p) {
		return nil, plain(kerr.NoReassignmentInProgress)
	}
	r := changeOf(t, p)
	r.Replicas, r.AddingReplicas, r.RemovingReplicas = difference(p.Replicas, p.Adding), []int32{}, []int32{}
	if len(r.Replicas) == 0 {
		return nil, fail(kerr.InvalidReplicaAssignment, "Invalid replica assignment: addingReplicas contains all replicas.")
	}
	isr := difference(p.ISR, p.Adding)
	if len(isr) == 0 {
		// Only what was being added is in sync: to go back is to lose records.
		c, err := config.Topic(d.static, d.clusterDefaults(), d.ownDynamic(), d.working.Configs(image.TopicResource, t.Name).Get)
		if err != nil || !c.UncleanLeaderElection {
			return nil, fail(kerr.InvalidReplicaAssignment, fmt.Sprintf(
				"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", t.Name, p.Index))
		}
		isr = r.Replicas[:1]
		if living := d.active(r.Replicas); len(living) > 0 && living[0] != isr[0] {
			isr, r.LeaderRecoveryState = living[:1], 1
		}
	}
	if !slices.Equal(isr, p.ISR) {
		r.Isr = isr
	}
	return d.settle(p, r, nobody), nil
}

// difference is a without what is in b, in a's order.
func difference(a, b []int32) []int32 {
	out := make([]int32, 0, len(a))
	for _, id := range a {
		if !slices.Contains(b, id) {
			out = append(out, id)
		}
	}
	return out
}

// finish completes a partition's reassignment in the change that brings it to
// its end; any other change it gives back as it is. gone is a broker that is on
// its way out with this change.
func (d *Decider) finish(p *image.Partition, r *records.PartitionChangeRecord, gone int32) *records.PartitionChangeRecord {
	next := p.With(r)
	if reassigning(next) {
		replicas, isr := difference(next.Replicas, next.Removing), difference(next.ISR, next.Removing)
		if len(replicas) > 0 && len(difference(replicas, isr)) == 0 {
			r.Replicas, r.AddingReplicas, r.RemovingReplicas = replicas, []int32{}, []int32{}
			r.Isr = nil
			if !slices.Equal(isr, p.ISR) {
				r.Isr = isr
			}
		}
	}
	return d.settle(p, r, gone)
}

// settle makes a change of replicas whole: a directory for each, a leader among
// them, and a new leader epoch where one is gone, so that it hears of it.
func (d *Decider) settle(p *image.Partition, r *records.PartitionChangeRecord, gone int32) *records.PartitionChangeRecord {
	if r.Replicas == nil {
		return r
	}
	placed := d.located(r.Replicas).directories
	for i, id := range r.Replicas {
		if had := slices.Index(p.Replicas, id); had >= 0 && had < len(p.Directories) {
			placed[i] = p.Directories[had]
		}
	}
	r.Directories = placed
	next := p.With(r)
	if !slices.Contains(next.ISR, next.Leader) || next.Leader == gone || !d.can(next, next.Leader) {
		if leader := d.successor(next, next.ISR, gone); leader != next.Leader {
			r.Leader = leader
		}
	}
	if r.Leader == image.LeaderUnchanged && len(difference(p.Replicas, next.Replicas)) > 0 {
		r.Leader = p.Leader
	}
	if slices.Equal(r.Replicas, p.Replicas) {
		r.Replicas, r.Directories = nil, nil
	}
	return r
}

// changes says whether a change record changes anything.
func changes(r *records.PartitionChangeRecord) bool {
	return r != nil && (r.Isr != nil || r.Leader != image.LeaderUnchanged || r.Replicas != nil || r.AddingReplicas != nil ||
		r.RemovingReplicas != nil || r.Directories != nil || r.LeaderRecoveryState >= 0)
}

// listReassignments tells what runs, on the working image: what was decided
// before it is in it.
func (d *Decider) listReassignments(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	tell := func(t *image.Topic, partitions []*image.Partition) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = t.Name
		for _, p := range partitions {
			if p == nil || !reassigning(p) {
				continue
			}
			one := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			one.Partition, one.Replicas, one.AddingReplicas, one.RemovingReplicas = p.Index, p.Replicas, p.Adding, p.Removing
			out.Partitions = append(out.Partitions, one)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if req.Topics == nil {
		for t := range d.working.Topics() {
			tell(t, t.Partitions)
		}
		return resp
	}
	for _, asked := range req.Topics {
		t := d.working.TopicByName(asked.Topic)
		if t == nil {
			continue
		}
		var partitions []*image.Partition
		for _, i := range asked.Partitions {
			partitions = append(partitions, t.Partition(i))
		}
		tell(t, partitions)
	}
	return resp
}
