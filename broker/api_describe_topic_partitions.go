package broker

import (
	"cmp"
	"slices"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/image"
)

// DescribeTopicPartitions (75), version 0. KIP-966.
//
// Topics come sorted by name, each once; none in the request asks for all. The
// answer holds at most ResponsePartitionLimit partitions, and never more than
// max.request.partition.size.limit; the cursor it ends with names the first
// partition left out, and the next request begins there. A cursor must name a
// topic of the request, where that names any. Topics that are unknown, or that
// the client may not see, are told apart from the page and do not count.

func (b *Broker) describeTopicPartitions(c *call, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	names, all, code := topicsFrom(c, req)
	if code != 0 {
		for _, rt := range req.Topics {
			out := nameless(rt.Topic, code)
			out.IsInternal = false // nobody looks
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	room := max(1, min(int(req.ResponsePartitionLimit), int(b.config.Int("max.request.partition.size.limit"))))
	var hidden []kmsg.DescribeTopicPartitionsResponseTopic
	for _, name := range names {
		if !c.allowed(auth.Describe, auth.Topic, name) {
			if !all {
				hidden = append(hidden, nameless(name, kerr.TopicAuthorizationFailed.Code))
			}
			continue
		}
		if resp.NextCursor != nil {
			continue // only the hidden are still of interest
		}
		if room == 0 {
			resp.NextCursor = cursorAt(name, 0)
			continue
		}
		t := c.image.TopicByName(name)
		if t == nil {
			code := kerr.UnknownTopicOrPartition.Code
			if !validTopicName(name) {
				code = kerr.InvalidTopicException.Code
			}
			out := nameless(name, code)
			out.AuthorizedOperations = c.operations(auth.Topic, name)
			resp.Topics = append(resp.Topics, out)
			continue
		}
		from := 0
		if req.Cursor != nil && req.Cursor.Topic == name {
			from = min(int(req.Cursor.Partition), len(t.Partitions))
		}
		to := min(from+room, len(t.Partitions))
		out := nameless(name, 0)
		out.TopicID, out.AuthorizedOperations = t.ID, c.operations(auth.Topic, name)
		for _, p := range t.Partitions[from:to] {
			out.Partitions = append(out.Partitions, b.describedPartition(c, p))
		}
		resp.Topics = append(resp.Topics, out)
		room -= to - from
		if to < len(t.Partitions) {
			resp.NextCursor = cursorAt(name, int32(to))
		}
	}
	resp.Topics = append(resp.Topics, hidden...)
	return resp
}

// topicsFrom lists the names that a request asks for, sorted, from its cursor
// on. The code is why they cannot be told: a cursor that makes no sense, or an
// empty name without a cursor, on which Kafka fails.
func topicsFrom(c *call, req *kmsg.DescribeTopicPartitionsRequest) (names []string, all bool, code int16) {
	from := ""
	if req.Cursor != nil {
		from = req.Cursor.Topic
		if req.Cursor.Partition < 0 {
			return nil, false, kerr.InvalidRequest.Code
		}
	}
	if all = len(req.Topics) == 0; all {
		for t := range c.image.Topics() {
			names = append(names, t.Name)
		}
	}
	for _, rt := range req.Topics {
		names = append(names, rt.Topic)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return compareJava(name, from) < 0 })
	slices.SortFunc(names, compareJava)
	names = slices.Compact(names)
	switch {
	case !all && req.Cursor != nil && !slices.Contains(names, from):
		return nil, false, kerr.InvalidRequest.Code
	case req.Cursor == nil && len(names) > 0 && names[0] == "":
		return nil, false, kerr.UnknownServerError.Code
	}
	return names, all, 0
}

// compareJava compares as Java's strings do: by UTF-16 units.
func compareJava(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] >= 0x80 || b[i] >= 0x80 {
			return slices.Compare(utf16.Encode([]rune(a[i:])), utf16.Encode([]rune(b[i:])))
		}
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// nameless is a topic of which no more than its name is told.
func nameless(name string, code int16) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode, out.IsInternal, out.AuthorizedOperations = &name, code, isInternal(name), auth.NotAsked
	return out
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	cur := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cur.Topic, cur.Partition = topic, partition
	return &cur
}

func (b *Broker) describedPartition(c *call, p *image.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = p.Index, p.Leader, p.LeaderEpoch
	out.Replicas, out.ISR = p.Replicas, p.ISR
	out.EligibleLeaderReplicas, out.LastKnownELR = append([]int32{}, p.ELR...), append([]int32{}, p.LastKnownELR...)
	for _, r := range p.Replicas {
		if !b.reachable(c, p, r) {
			out.OfflineReplicas = append(out.OfflineReplicas, r)
		}
	}
	if leader := c.image.Broker(p.Leader); p.Leader < 0 || leader == nil || leader.Fenced {
		out.ErrorCode, out.LeaderID = kerr.LeaderNotAvailable.Code, -1
	} else if _, ok := b.endpointFor(c.Conn, leader); !ok {
		out.ErrorCode, out.LeaderID = kerr.ListenerNotFound.Code, -1
	}
	return out
}
