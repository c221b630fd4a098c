package state

import (
	"slices"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire/records"
)

// nobody stands for no broker where one may be named.
const nobody int32 = -1

// without gives an ISR with a broker taken out; the last one stays in, for it
// alone is known to hold all that was acknowledged.
func without(isr []int32, id int32) []int32 {
	if len(isr) == 1 || !slices.Contains(isr, id) {
		return isr
	}
	return slices.DeleteFunc(slices.Clone(isr), func(other int32) bool { return other == id })
}

// can says whether a broker can lead a partition, or be in sync: it is active, and
// the directory of its replica works.
func (d *Decider) can(p *image.Partition, id int32) bool {
	b := d.working.Broker(id)
	return b.Active() && b.Holds(p)
}

// successor is who leads a partition when `gone` cannot: the present leader if
// it can, else the first in-sync replica that can, else none.
func (d *Decider) successor(p *image.Partition, isr []int32, gone int32) int32 {
	may := func(id int32) bool {
		return id != gone && d.can(p, id) && slices.Contains(isr, id)
	}
	if p.Leader >= 0 && may(p.Leader) {
		return p.Leader
	}
	for _, id := range p.Replicas {
		if may(id) {
			return id
		}
	}
	return image.NoLeader
}

// unclean is a live replica outside the ISR, where the topic allows it to lead.
func (d *Decider) unclean(t *image.Topic, p *image.Partition, gone int32) int32 {
	for _, id := range p.Replicas {
		if id != gone && d.can(p, id) {
			c, err := config.Topic(d.static, d.clusterDefaults(), d.ownDynamic(), d.working.Configs(image.TopicResource, t.Name).Get)
			if err == nil && c.UncleanLeaderElection {
				return id
			}
			return image.NoLeader
		}
	}
	return image.NoLeader
}

// leave takes a broker out of a partition's ISR and leadership; nil when it has
// no part in them.
func (d *Decider) leave(t *image.Topic, p *image.Partition, gone int32) *records.PartitionChangeRecord {
	if p.Leader != gone && !slices.Contains(p.ISR, gone) {
		return nil
	}
	isr := without(p.ISR, gone)
	r := changeOf(t, p)
	if len(isr) != len(p.ISR) {
		r.Isr = isr
	}
	if p.Leader == gone || !d.can(p, p.Leader) {
		leader := d.successor(p, isr, gone)
		if leader == image.NoLeader {
			if leader = d.unclean(t, p, gone); leader != image.NoLeader {
				r.Isr, r.LeaderRecoveryState = []int32{leader}, 1
			}
		}
		if leader != p.Leader {
			r.Leader = leader
		}
	}
	if r.Isr == nil && r.Leader == image.LeaderUnchanged {
		return nil
	}
	return d.finish(p, r, gone)
}

// renew ends what a broker holds under an old broker epoch. Another in-sync
// replica takes over where there is one; else the broker stays leader, in a new
// leader epoch: a tail that it lost cannot be reused within an epoch then. It
// leads while fenced, for the moment until it is unfenced.
func (d *Decider) renew(t *image.Topic, p *image.Partition, id int32) *records.PartitionChangeRecord {
	if p.Leader != id && !slices.Contains(p.ISR, id) {
		return nil
	}
	isr := without(p.ISR, id)
	leader := d.successor(p, isr, id)
	r := changeOf(t, p)
	if leader == image.NoLeader {
		if p.Leader != id {
			return nil
		}
		r.Leader = image.NoLeader
		if slices.Contains(p.ISR, id) {
			r.Leader = id
		}
		return r
	}
	if len(isr) != len(p.ISR) {
		r.Isr = isr
	}
	if leader != p.Leader {
		r.Leader = leader
	}
	if r.Isr == nil && r.Leader == image.LeaderUnchanged {
		return nil
	}
	return d.finish(p, r, id)
}

// arrive gives a partition without a live leader one, now that a broker lives.
func (d *Decider) arrive(t *image.Topic, p *image.Partition, id int32) *records.PartitionChangeRecord {
	if !slices.Contains(p.Replicas, id) || d.can(p, p.Leader) {
		return nil
	}
	r := changeOf(t, p)
	leader := d.successor(p, p.ISR, nobody)
	if leader == image.NoLeader {
		if leader = d.unclean(t, p, nobody); leader == image.NoLeader {
			return nil
		}
		r.Isr, r.LeaderRecoveryState = []int32{leader}, 1
	}
	r.Leader = leader
	return d.finish(p, r, nobody)
}

// strand takes a broker out of a partition whose directory it has lost.
func (d *Decider) strand(t *image.Topic, p *image.Partition, id int32) *records.PartitionChangeRecord {
	if !slices.Contains(p.Replicas, id) || d.working.Broker(id).Holds(p) {
		return nil
	}
	return d.leave(t, p, id)
}

func changeOf(t *image.Topic, p *image.Partition) *records.PartitionChangeRecord {
	r := records.NewPartitionChangeRecord()
	r.TopicId, r.PartitionId = t.ID, p.Index
	return r
}

// everyPartition collects the changes that a rule makes for a broker.
func (d *Decider) everyPartition(id int32, rule func(*image.Topic, *image.Partition, int32) *records.PartitionChangeRecord) []records.Metadata {
	var out []records.Metadata
	for t := range d.working.Topics() {
		for _, p := range t.Partitions {
			if r := rule(t, p, id); r != nil {
				out = append(out, r)
			}
		}
	}
	return out
}

func (d *Decider) leads(id int32) bool {
	for t := range d.working.Topics() {
		for _, p := range t.Partitions {
			if p.Leader == id {
				return true
			}
		}
	}
	return false
}
