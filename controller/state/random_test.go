package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"millrace/controller/image"
)

// TestRandomRequests sends requests good and bad, lets time pass and leaderships
// change, and checks after each decision what must hold of every cluster.
func TestRandomRequests(t *testing.T) {
	static := parseStatic(t, "")
	counts := map[string]int{}
	world := func(t *rapid.T) {
		now := time.Unix(1000, 0)
		committed := image.New()
		d := New(Options{NodeID: 1, Static: static}, committed, now)
		d.Begin(1)
		d.Found("cluster", nil)
		_, committed, _ = d.Batch()
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			before := d.Working()
			d.Begin(before.Offset() + 1)
			for range rapid.IntRange(1, 3).Draw(t, "together") {
				decided := d.Working()
				if rapid.IntRange(0, 5).Draw(t, "time") == 0 {
					now = now.Add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
					d.Expire(now)
					check(t, decided, d.Working(), counts)
					continue
				}
				req := randomRequest(t, d, step)
				out := d.Decide(now, &Request{Body: req, Seed: [32]byte{byte(step), byte(step >> 8), byte(len(d.batch.Records))}})
				if out.Response == nil && !out.Again {
					t.Fatalf("%T was not answered", req)
				}
				check(t, decided, d.Working(), counts)
			}
			if rapid.IntRange(0, 15).Draw(t, "leadership lost") == 0 {
				// What was decided last is lost with it.
				d = New(Options{NodeID: 1, Static: static}, committed, now)
				continue
			}
			e, working, _ := d.Batch()
			if e == nil {
				continue
			}
			decoded, err := image.DecodeEntry(e.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			replayed, _ := committed.ApplyEntry(working.Offset(), decoded)
			if !image.Equal(replayed, working) {
				t.Fatal("the entry makes another image than the working one")
			}
			committed = working
		}
	}
	for i := range 15 {
		rapid.Check(t, func(t *rapid.T) {
			rapid.SliceOfN(rapid.Bool(), i, i).Draw(t, "aside") // other worlds, from the same seed too
			world(t)
		})
	}
	for what, floor := range map[string]int{"partitions led": 100, "leaders changed": 10, "isr changed": 10, "topics gone": 2, "brokers fenced": 20, "directories lost under a leader": 10, "reassignments running": 5, "replicas removed": 5} {
		if counts[what] < floor && !testing.Short() {
			t.Errorf("%d %s, at least %d are wanted", counts[what], what, floor)
		}
	}
	t.Log(counts)
}

func check(t *rapid.T, before, after *image.Image, counts map[string]int) {
	for topic := range after.Topics() {
		if len(topic.Partitions) == 0 {
			t.Fatalf("%s has no partitions", topic.Name)
		}
		old := before.TopicByID(topic.ID)
		for _, p := range topic.Partitions {
			name := fmt.Sprintf("%s-%d", topic.Name, p.Index)
			if len(p.ISR) == 0 || len(p.Directories) != len(p.Replicas) {
				t.Fatalf("%s: isr %v, %d directories for replicas %v", name, p.ISR, len(p.Directories), p.Replicas)
			}
			for _, id := range p.ISR {
				if !slices.Contains(p.Replicas, id) {
					t.Fatalf("%s: isr %v is not within replicas %v", name, p.ISR, p.Replicas)
				}
			}
			if len(p.Adding)+len(p.Removing) > 0 {
				counts["reassignments running"]++
				if len(difference(p.Adding, p.Replicas))+len(difference(p.Removing, p.Replicas)) > 0 {
					t.Fatalf("%s: replicas %v, adding %v, removing %v", name, p.Replicas, p.Adding, p.Removing)
				}
				if left, isr := difference(p.Replicas, p.Removing), difference(p.ISR, p.Removing); len(left) > 0 && len(difference(left, isr)) == 0 {
					t.Fatalf("%s: the reassignment of %v is not over with isr %v", name, p, p.ISR)
				}
			}
			if p.Leader != image.NoLeader {
				counts["partitions led"]++
				if !slices.Contains(p.ISR, p.Leader) {
					t.Fatalf("%s: leader %d is not in isr %v", name, p.Leader, p.ISR)
				}
				if b := after.Broker(p.Leader); b != nil && !b.Holds(p) {
					t.Fatalf("%s: leader %d has lost the directory %x of its replica", name, p.Leader, p.Directories)
				}
				// Only a broker that just registered again, alone in its ISR, leads fenced.
				if b := after.Broker(p.Leader); b == nil || !b.Active() && (!b.Fenced || p.LeaderEpoch == 0) {
					t.Fatalf("%s: leader %d is %+v", name, p.Leader, b)
				}
			}
			was := old.Partition(p.Index)
			if was == nil || was == p {
				continue
			}
			if len(difference(was.Replicas, p.Replicas)) > 0 {
				counts["replicas removed"]++
				if p.LeaderEpoch == was.LeaderEpoch {
					t.Fatalf("%s: replicas went from %v to %v in leader epoch %d", name, was.Replicas, p.Replicas, p.LeaderEpoch)
				}
			}
			if p.PartitionEpoch <= was.PartitionEpoch || p.LeaderEpoch < was.LeaderEpoch {
				t.Fatalf("%s: epochs went from %d/%d to %d/%d", name, was.LeaderEpoch, was.PartitionEpoch, p.LeaderEpoch, p.PartitionEpoch)
			}
			if p.Leader != was.Leader {
				counts["leaders changed"]++
				if b := after.Broker(was.Leader); b.Active() && !b.Holds(p) {
					counts["directories lost under a leader"]++
				}
				if p.LeaderEpoch == was.LeaderEpoch {
					t.Fatalf("%s: from leader %d to %d in leader epoch %d", name, was.Leader, p.Leader, p.LeaderEpoch)
				}
			}
			if !slices.Equal(p.ISR, was.ISR) {
				counts["isr changed"]++
				// Without unclean election somebody who was in sync remains,
				// unless the reassignment that just ended took them all away.
				stayed := difference(was.ISR, difference(was.ISR, p.Replicas))
				if p.LeaderRecoveryState == 0 && len(stayed) > 0 && len(difference(stayed, p.ISR)) == len(stayed) {
					t.Fatalf("%s: isr %v followed %v", name, p.ISR, was.ISR)
				}
			}
			// A new broker epoch ends what was led under the old one.
			if b, o := after.Broker(p.Leader), before.Broker(p.Leader); b != nil && o != nil && b.Epoch != o.Epoch && p.LeaderEpoch == was.LeaderEpoch {
				t.Fatalf("%s: broker %d leads epoch %d under broker epochs %d and %d", name, p.Leader, p.LeaderEpoch, o.Epoch, b.Epoch)
			}
		}
	}
	for topic := range before.Topics() {
		if after.TopicByID(topic.ID) == nil {
			counts["topics gone"]++
		}
	}
	for b := range after.Brokers() {
		o := before.Broker(b.ID)
		if o != nil && b.Epoch < o.Epoch {
			t.Fatalf("broker %d went from epoch %d to %d", b.ID, o.Epoch, b.Epoch)
		}
		if o != nil && b.Fenced && !o.Fenced {
			counts["brokers fenced"]++
		}
	}
}

func randomRequest(t *rapid.T, d *Decider, step int) kmsg.Request {
	broker := rapid.Int32Range(0, 4).Draw(t, "broker")
	var epoch int64 = -1
	if b := d.working.Broker(broker); b != nil && rapid.IntRange(0, 9).Draw(t, "right epoch") > 0 {
		epoch = b.Epoch
	}
	names := []string{"a", "b.c", "b_c", "d", "e", "", "bad!"}
	name := func() string { return rapid.SampledFrom(names).Draw(t, "topic") }
	ids := func() []int32 {
		return rapid.SliceOfN(rapid.Int32Range(0, 5), 0, 3).Draw(t, "ids")
	}
	switch rapid.IntRange(0, 20).Draw(t, "request") {
	case 0, 1:
		req := kmsg.NewPtrBrokerRegistrationRequest()
		req.BrokerID, req.ClusterID = broker, "cluster"
		req.IncarnationID = [16]byte{byte(rapid.IntRange(0, 2).Draw(t, "incarnation"))}
		req.LogDirs = [][16]byte{{1, byte(broker)}, {2, byte(broker)}}[:rapid.IntRange(1, 2).Draw(t, "directories")]
		return req
	case 2, 3, 4, 5:
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.BrokerID, req.BrokerEpoch = broker, epoch
		req.CurrentMetadataOffset = d.working.Offset() - rapid.Int64Range(0, 3).Draw(t, "lag")
		req.WantFence = rapid.IntRange(0, 9).Draw(t, "fence") == 0
		req.WantShutdown = rapid.IntRange(0, 7).Draw(t, "shutdown") == 0
		if rapid.IntRange(0, 7).Draw(t, "disks") == 0 {
			req.OfflineLogDirs = [][16]byte{{byte(rapid.IntRange(1, 2).Draw(t, "disk")), byte(broker)}}
		}
		return req
	case 6, 7, 8:
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly = 7, rapid.IntRange(0, 9).Draw(t, "validate") == 0
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name(), rapid.Int32Range(-2, 4).Draw(t, "partitions"), int16(rapid.IntRange(-2, 4).Draw(t, "factor"))
			if rapid.IntRange(0, 3).Draw(t, "by hand") == 0 {
				topic.NumPartitions, topic.ReplicationFactor = -1, -1
				for i := range rapid.Int32Range(1, 3).Draw(t, "partitions") {
					a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
					a.Partition, a.Replicas = i, ids()
					topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "unclean") == 0 {
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				c.Name, c.Value = "unclean.leader.election.enable", ptr("true")
				topic.Configs = append(topic.Configs, c)
			}
			req.Topics = append(req.Topics, topic)
		}
		return req
	case 19, 20:
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = broker, epoch
		dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
		dir.ID = [16]byte{byte(rapid.IntRange(1, 2).Draw(t, "disk")), byte(broker)}
		for topic := range d.working.Topics() {
			one := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			one.TopicID = topic.ID
			for i := range rapid.Int32Range(1, 3).Draw(t, "partitions") {
				p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
				p.Partition = i
				one.Partitions = append(one.Partitions, p)
			}
			dir.Topics = append(dir.Topics, one)
		}
		req.Directories = append(req.Directories, dir)
		return req
	case 9:
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = 6
		for range rapid.IntRange(0, 2).Draw(t, "topics") {
			one := kmsg.NewDeleteTopicsRequestTopic()
			if topic := d.working.TopicByName(name()); topic != nil && rapid.Bool().Draw(t, "by id") {
				one.TopicID = topic.ID
			} else {
				one.Topic = ptr(name())
			}
			req.Topics = append(req.Topics, one)
		}
		return req
	case 10:
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version = 3
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = name(), rapid.Int32Range(-1, 8).Draw(t, "count")
		if rapid.Bool().Draw(t, "by hand") {
			for range rapid.IntRange(0, 3).Draw(t, "lists") {
				one.Assignment = append(one.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: ids()})
			}
		}
		req.Topics = append(req.Topics, one)
		return req
	case 11:
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		for range rapid.IntRange(0, 3).Draw(t, "resources") {
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType = rapid.SampledFrom([]kmsg.ConfigResourceType{0, 2, 2, 2, 4, 8, 16, 32}).Draw(t, "type")
			r.ResourceName = rapid.SampledFrom([]string{"", "a", "b.c", "1", "x"}).Draw(t, "resource")
			for range rapid.IntRange(0, 3).Draw(t, "configs") {
				c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				c.Name = rapid.SampledFrom([]string{"unclean.leader.election.enable", "cleanup.policy", "retention.ms", "log.retention.ms", "interval.ms", "x", ""}).Draw(t, "key")
				c.Op = kmsg.IncrementalAlterConfigOp(rapid.IntRange(-1, 5).Draw(t, "op"))
				if rapid.IntRange(0, 5).Draw(t, "null") > 0 {
					c.Value = ptr(rapid.SampledFrom([]string{"", "true", "5", "compact", "-1", ",,"}).Draw(t, "value"))
				}
				r.Configs = append(r.Configs, c)
			}
			req.Resources = append(req.Resources, r)
		}
		return req
	case 12:
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = broker
		return req
	case 15:
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = 2, int8(rapid.IntRange(0, 2).Draw(t, "election"))
		if rapid.Bool().Draw(t, "some") {
			req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name(), Partitions: ids()}}
		}
		return req
	case 16, 17:
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version, req.AllowReplicationFactorChange = 1, rapid.IntRange(0, 3).Draw(t, "any factor") > 0
		topic := kmsg.AlterPartitionAssignmentsRequestTopic{Topic: name()}
		known := []int32{9}
		for b := range d.working.Brokers() {
			known = append(known, b.ID, b.ID, b.ID)
		}
		for t := range d.working.Topics() {
			topic.Topic = t.Name // the last that there is
		}
		for i := range rapid.Int32Range(0, 3).Draw(t, "partitions") {
			one := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: i}
			if rapid.IntRange(0, 4).Draw(t, "cancel") > 0 {
				for range rapid.IntRange(0, 3).Draw(t, "replicas") {
					if id := rapid.SampledFrom(known).Draw(t, "replica"); !slices.Contains(one.Replicas, id) {
						one.Replicas = append(one.Replicas, id)
					}
				}
			}
			topic.Partitions = append(topic.Partitions, one)
		}
		req.Topics = append(req.Topics, topic)
		return req
	case 13:
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID, req.BrokerEpoch = broker, epoch
		return req
	default:
		req := kmsg.NewPtrAlterPartitionRequest()
		req.Version, req.BrokerID, req.BrokerEpoch = int16(rapid.IntRange(0, 3).Draw(t, "version")), broker, epoch
		for topic := range d.working.Topics() {
			one := kmsg.NewAlterPartitionRequestTopic()
			one.Topic, one.TopicID = topic.Name, topic.ID
			for _, p := range topic.Partitions {
				part := kmsg.NewAlterPartitionRequestTopicPartition()
				part.Partition, part.LeaderEpoch, part.PartitionEpoch = p.Index, p.LeaderEpoch, p.PartitionEpoch
				part.NewISR = ids()
				if rapid.Bool().Draw(t, "all") {
					part.NewISR = p.Replicas
				}
				part.LeaderRecoveryState = int8(rapid.IntRange(0, 1).Draw(t, "recovery"))
				for _, id := range part.NewISR {
					m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
					m.BrokerID, m.BrokerEpoch = id, -1
					part.NewEpochISR = append(part.NewEpochISR, m)
				}
				one.Partitions = append(one.Partitions, part)
			}
			req.Topics = append(req.Topics, one)
		}
		return req
	}
}
