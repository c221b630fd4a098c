package state

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the commands of a transcript ask.

func (p *play) request(d *datadriven.TestData) kmsg.Request {
	broker := int32(p.number(arg(d, "broker", "1")))
	switch d.Cmd {
	case "register":
		req := kmsg.NewPtrBrokerRegistrationRequest()
		req.Version, req.BrokerID, req.ClusterID = 4, broker, arg(d, "cluster", "cluster")
		req.IncarnationID = [16]byte{byte(p.number(arg(d, "incarnation", "1")))}
		req.LogDirs = [][16]byte{}
		for _, dir := range args(d, "dirs") {
			if dir == "none" {
				continue
			}
			req.LogDirs = append(req.LogDirs, [16]byte{15: byte(p.number(dir))})
		}
		if !d.HasArg("dirs") {
			req.LogDirs = [][16]byte{{0xd, byte(broker)}}
		}
		if rack := arg(d, "rack", ""); rack != "" {
			req.Rack = &rack
		}
		if levels := arg(d, "levels", ""); levels != "" {
			low, high, _ := strings.Cut(levels, "-")
			req.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: int16(p.number(low)), MaxSupportedVersion: int16(p.number(high))}}
		}
		if level := arg(d, "level", ""); level != "" {
			n := int16(p.number(level))
			req.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: n, MaxSupportedVersion: n}}
		}
		return req
	case "heartbeat":
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		req.BrokerID, req.BrokerEpoch = broker, p.number(arg(d, "epoch", fmt.Sprint(p.epoch(broker))))
		req.CurrentMetadataOffset = p.number(arg(d, "offset", fmt.Sprint(p.offset)))
		req.WantFence, req.WantShutdown = d.HasArg("fence"), d.HasArg("shutdown")
		for _, dir := range args(d, "lost") {
			req.OfflineLogDirs = append(req.OfflineLogDirs, [16]byte{15: byte(p.number(dir))})
		}
		return req
	case "place":
		req := kmsg.NewPtrAssignReplicasToDirsRequest()
		req.BrokerID, req.BrokerEpoch = broker, p.epoch(broker)
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line) // a topic, a partition, a directory
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = [16]byte{15: byte(p.number(f[2]))}
			t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			t.TopicID = p.d.Working().TopicByName(f[0]).ID
			one := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			one.Partition = int32(p.number(f[1]))
			t.Partitions = append(t.Partitions, one)
			dir.Topics = append(dir.Topics, t)
			req.Directories = append(req.Directories, dir)
		}
		return req
	case "unregister":
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = broker
		return req
	case "producer-ids":
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID, req.BrokerEpoch = broker, p.number(arg(d, "epoch", fmt.Sprint(p.epoch(broker))))
		return req
	case "create":
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly = 7, d.HasArg("validate-only")
		for line := range strings.Lines(d.Input) {
			req.Topics = append(req.Topics, p.newTopic(strings.TrimSpace(line)))
		}
		return req
	case "delete":
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = int16(p.number(arg(d, "version", "6")))
		for line := range strings.Lines(d.Input) {
			name, id, _ := strings.Cut(strings.TrimSpace(line), "#")
			t := kmsg.NewDeleteTopicsRequestTopic()
			if name != "-" {
				t.Topic = &name
			}
			if id == "unknown" {
				t.TopicID = [16]byte{0xee}
			} else if id != "" {
				t.TopicID = p.d.Working().TopicByName(id).ID
			}
			req.Topics = append(req.Topics, t)
			req.TopicNames = append(req.TopicNames, name)
		}
		return req
	case "add-partitions":
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.ValidateOnly = 3, d.HasArg("validate-only")
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			t := kmsg.NewCreatePartitionsRequestTopic()
			t.Topic, t.Count = f[0], int32(p.number(f[1]))
			for _, list := range f[2:] {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				if list != "[]" {
					a.Replicas = p.ids(list, "/")
				}
				t.Assignment = append(t.Assignment, a)
			}
			req.Topics = append(req.Topics, t)
		}
		return req
	case "configs":
		return p.configs(d)
	case "replace-configs":
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version, req.ValidateOnly = 2, d.HasArg("validate-only")
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = p.resource(f[0])
			for _, pair := range f[1:] {
				c := kmsg.NewAlterConfigsRequestResourceConfig()
				key, v, _ := strings.Cut(pair, "=")
				c.Name, c.Value = key, value(v)
				r.Configs = append(r.Configs, c)
			}
			req.Resources = append(req.Resources, r)
		}
		return req
	case "isr":
		return p.alterPartition(d)
	}
	if req := p.clusterRequest(d); req != nil {
		return req
	}
	p.t.Fatalf("%s: no such command %q", d.Pos, d.Cmd)
	return nil
}

// newTopic reads "name [partitions=n] [factor=n] [assign=i:a/b,...] [key=value]...".
func (p *play) newTopic(line string) kmsg.CreateTopicsRequestTopic {
	f := strings.Split(line, " ")
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = f[0], -1, -1
	if t.Topic == `""` {
		t.Topic = ""
	}
	if n, ok := strings.CutPrefix(t.Topic, "long:"); ok {
		t.Topic = strings.Repeat("x", int(p.number(n)))
	}
	for _, pair := range f[1:] {
		key, v, _ := strings.Cut(pair, "=")
		switch key {
		case "partitions":
			t.NumPartitions = int32(p.number(v))
		case "factor":
			t.ReplicationFactor = int16(p.number(v))
		case "assign":
			for one := range strings.SplitSeq(v, ",") {
				at, list, _ := strings.Cut(one, ":")
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = int32(p.number(at)), p.ids(list, "/")
				t.ReplicaAssignment = append(t.ReplicaAssignment, a)
			}
		default:
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = key, value(v)
			t.Configs = append(t.Configs, c)
		}
	}
	return t
}

func (p *play) resource(s string) (kmsg.ConfigResourceType, string) {
	kind, name, _ := strings.Cut(s, ":")
	types := map[string]kmsg.ConfigResourceType{"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}
	t, ok := types[kind]
	if !ok {
		t = kmsg.ConfigResourceType(p.number(kind))
	}
	return t, name
}

// configs reads lines "topic:name key=value key- key+=value key-=value key?=value".
func (p *play) configs(d *datadriven.TestData) kmsg.Request {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, d.HasArg("validate-only")
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = p.resource(f[0])
		for _, one := range f[1:] {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			key, v, set := strings.Cut(one, "=")
			c.Value = value(v)
			switch {
			case !set:
				key, c.Op, c.Value = strings.TrimSuffix(key, "-"), kmsg.IncrementalAlterConfigOpDelete, nil
			case strings.HasSuffix(key, "+"):
				key, c.Op = strings.TrimSuffix(key, "+"), kmsg.IncrementalAlterConfigOpAppend
			case strings.HasSuffix(key, "-"):
				key, c.Op = strings.TrimSuffix(key, "-"), kmsg.IncrementalAlterConfigOpSubtract
			case strings.HasSuffix(key, "?"):
				key, c.Op = strings.TrimSuffix(key, "?"), 9
			}
			c.Name = key
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	return req
}

// alterPartition reads "topic partition isr=1/2 [leader-epoch=n] [partition-epoch=n] [recovering] [broker-epoch=n]".
func (p *play) alterPartition(d *datadriven.TestData) kmsg.Request {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = int16(p.number(arg(d, "version", "3")))
	req.BrokerID = int32(p.number(arg(d, "broker", "1")))
	req.BrokerEpoch = p.number(arg(d, "epoch", fmt.Sprint(p.epoch(req.BrokerID))))
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		topic := kmsg.NewAlterPartitionRequestTopic()
		topic.Topic = f[0]
		part := kmsg.NewAlterPartitionRequestTopicPartition()
		part.Partition = int32(p.number(f[1]))
		if t := p.d.Working().TopicByName(f[0]); t == nil {
			topic.TopicID = [16]byte{0xee}
		} else {
			topic.TopicID = t.ID
			if now := t.Partition(part.Partition); now != nil {
				part.LeaderEpoch, part.PartitionEpoch = now.LeaderEpoch, now.PartitionEpoch
			}
		}
		var brokerEpoch int64 = -2
		for _, pair := range f[2:] {
			key, v, _ := strings.Cut(pair, "=")
			switch key {
			case "isr":
				part.NewISR = p.ids(v, "/")
			case "leader-epoch":
				part.LeaderEpoch = int32(p.number(v))
			case "partition-epoch":
				part.PartitionEpoch = int32(p.number(v))
			case "recovering":
				part.LeaderRecoveryState = 1
			case "broker-epoch":
				brokerEpoch = p.number(v)
			}
		}
		for _, id := range part.NewISR {
			m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			m.BrokerID, m.BrokerEpoch = id, p.epoch(id)
			if brokerEpoch != -2 {
				m.BrokerEpoch = brokerEpoch
			}
			part.NewEpochISR = append(part.NewEpochISR, m)
		}
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	return req
}
