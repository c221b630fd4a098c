package state

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
	"millrace/wire/records"
)

// assignReplicas takes note of the directories that a broker has chosen for its
// replicas (KIP-858).
func (d *Decider) assignReplicas(req *kmsg.AssignReplicasToDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	if !d.knows(req.BrokerID, req.BrokerEpoch) {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	for _, rd := range req.Directories {
		dir := kmsg.NewAssignReplicasToDirsResponseDirectory()
		dir.ID = rd.ID
		for _, rt := range rd.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = rt.TopicID
			t := d.working.TopicByID(rt.TopicID)
			for _, rp := range rt.Partitions {
				p := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				p.Partition = rp.Partition
				if t == nil {
					p.ErrorCode = kerr.UnknownTopicID.Code
				} else {
					p.ErrorCode = d.assignReplica(req.BrokerID, rd.ID, t, rp.Partition)
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			dir.Topics = append(dir.Topics, topic)
		}
		resp.Directories = append(resp.Directories, dir)
	}
	return resp
}

func (d *Decider) assignReplica(broker int32, dir [16]byte, t *image.Topic, index int32) int16 {
	p := d.working.TopicByID(t.ID).Partition(index)
	if p == nil {
		return kerr.UnknownTopicOrPartition.Code
	}
	i := slices.Index(p.Replicas, broker)
	if i < 0 {
		return kerr.NotLeaderForPartition.Code
	}
	dirs := make([][16]byte, len(p.Replicas))
	copy(dirs, p.Directories)
	if dirs[i] == dir {
		return 0
	}
	dirs[i] = dir
	r := changeOf(t, p)
	r.Directories = dirs
	d.write(r)
	// The broker may have lost that directory meanwhile, or come out of one that it has lost.
	t = d.working.TopicByID(t.ID)
	for _, rule := range []func(*image.Topic, *image.Partition, int32) *records.PartitionChangeRecord{d.strand, d.arrive} {
		if change := rule(t, t.Partition(index), broker); change != nil {
			d.write(change)
			break
		}
	}
	return 0
}

// lose takes note of the directories that a broker has given up, and of the
// leaderships that went with them (KIP-858); it says whether that is news. Of a
// broker that has lost the last one, which stops, they stay as they are.
func (d *Decider) lose(b *image.Broker, gone [][16]byte) bool {
	left := slices.DeleteFunc(slices.Clone(b.Directories), func(dir [16]byte) bool { return slices.Contains(gone, dir) })
	if len(left) == len(b.Directories) || len(left) == 0 {
		return false
	}
	r := records.NewBrokerRegistrationChangeRecord()
	r.BrokerId, r.BrokerEpoch, r.LogDirs = b.ID, b.Epoch, left
	d.write(r)
	d.write(d.everyPartition(b.ID, d.strand)...)
	return true
}

// cordon takes note of the directories in which a broker wants no new replicas
// (KIP-1066), and says whether that is news.
func (d *Decider) cordon(b *image.Broker, dirs [][16]byte) bool {
	if dirs == nil || slices.Equal(dirs, b.Cordoned) {
		return false
	}
	r := records.NewBrokerRegistrationChangeRecord()
	r.BrokerId, r.BrokerEpoch, r.CordonedLogDirs = b.ID, b.Epoch, dirs
	d.write(r)
	return true
}

// cordoned says whether a broker wants no new replicas in any of its
// directories.
func cordoned(b *image.Broker) bool {
	if len(b.Directories) == 0 {
		return false
	}
	for _, dir := range b.Directories {
		if !slices.Contains(b.Cordoned, dir) {
			return false
		}
	}
	return true
}
