package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/move"
)

// AlterReplicaLogDirs (34), versions 0-2; 4.x dropped v0. KIP-113, KIP-482
// (flexible, v2), KIP-1066 (cordoned directories).
//
// Each partition is to lie in the data directory it is named under, by its
// absolute path, from now on: what is copied and when it is exchanged goes on
// behind the answer, while the partition is written and read. DescribeLogDirs
// tells how far it is. Asked back to where it lies, a partition stays there. One
// that is not here is refused, and made in that directory if it comes later. A
// partition named several times counts as named the last time.

func (b *Broker) alterReplicaLogDirs(c *call, req *kmsg.AlterReplicaLogDirsRequest) *kmsg.AlterReplicaLogDirsResponse {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	type place struct {
		topic string
		index int32
	}
	asked := 0
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			asked += len(t.Partitions)
		}
	}
	if !c.padsPartitions(asked) {
		return resp
	}
	var order []place
	to := map[place]string{}
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			for _, index := range t.Partitions {
				k := place{t.Topic, index}
				if _, again := to[k]; !again {
					order = append(order, k)
				}
				to[k] = d.Dir
			}
		}
	}
	allowed := c.allowed(auth.Alter, auth.Cluster, auth.ClusterName)
	rows := map[string]int{}
	b.moves.asking.Lock()
	defer b.moves.asking.Unlock()
	for _, k := range order {
		i, ok := rows[k.topic]
		if !ok {
			i = len(resp.Topics)
			rows[k.topic] = i
			t := kmsg.NewAlterReplicaLogDirsResponseTopic()
			t.Topic = k.topic
			resp.Topics = append(resp.Topics, t)
		}
		p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		p.Partition, p.ErrorCode = k.index, kerr.ClusterAuthorizationFailed.Code
		if allowed {
			p.ErrorCode = b.haveIn(c, k.topic, k.index, to[k])
		}
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, p)
	}
	return resp
}

// haveIn has a partition lie in a directory, and gives the error code.
func (b *Broker) haveIn(c *call, topic string, index int32, dir string) int16 {
	for {
		s, part := b.moveState(c.image, topic, index, dir)
		d := move.Decide(dir, s)
		if d.Prefer {
			b.store.Prefer(topic, index, dir)
		}
		if d.Cancel || d.Begin {
			to := ""
			if d.Begin {
				to = dir
			}
			if _, on := b.store.PlaceOf(topic, index); b.moves.redirect(part, to, on) {
				return d.Code
			}
		}
		if d.Cancel {
			if err := b.cancelMove(part); err != nil {
				b.log.Error("what was copied of a partition is left behind", zap.Stringer("partition", part), zap.Error(err))
				return codeOf(err)
			}
			if at, _ := b.store.PlaceOf(topic, index); at != s.At {
				continue // it had just arrived
			}
		}
		if d.Begin {
			if err := b.beginMove(part, dir); err != nil {
				b.log.Error("a partition does not begin to move", zap.Stringer("partition", part), zap.String("dir", dir), zap.Error(err))
				return codeOf(err)
			}
		}
		return d.Code
	}
}
