package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/storage"
)

// DescribeLogDirs (35), versions 0-5; 4.x dropped v0. KIP-113, KIP-482
// (flexible, v2), KIP-784 (error for the whole, v3), KIP-827 (total and usable
// bytes, v4), KIP-1066 (IsCordoned, v5).
//
// Every data directory is listed, with those of the asked partitions that lie
// in it; null topics ask for all. A partition's size is that of its segments,
// without indexes. A directory that was given up says so and names no
// partition. A replica on its way to another directory is named in that one too,
// as IsFuture, and its lag is how far it is behind.

func (b *Broker) describeLogDirs(c *call, req *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if !c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	}
	count := 0
	for _, rt := range req.Topics {
		count += len(rt.Partitions)
	}
	if !c.padsPartitions(count) {
		return resp
	}
	asked := map[storage.Name]bool{}
	for _, rt := range req.Topics {
		for _, p := range rt.Partitions {
			asked[storage.Name{Topic: rt.Topic, Partition: p}] = true
		}
	}
	for _, d := range b.store.Describe(func(n storage.Name) bool { return req.Topics == nil || asked[n] }) {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.TotalBytes, out.UsableBytes, out.IsCordoned = d.Path, d.Total, d.Usable, d.Cordoned
		if d.Err != nil {
			out.ErrorCode = kerr.KafkaStorageError.Code
		}
		for _, l := range d.Logs {
			if n := len(out.Topics); n == 0 || out.Topics[n-1].Topic != l.Topic {
				out.Topics = append(out.Topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: l.Topic})
			}
			t := &out.Topics[len(out.Topics)-1]
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size, p.OffsetLag, p.IsFuture = l.Partition, l.Size, l.Lag, l.Future
			t.Partitions = append(t.Partitions, p)
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return resp
}
