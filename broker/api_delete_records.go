package broker

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// DeleteRecords (21), versions 0-2. KIP-107, KIP-482 (flexible, v2).
//
// The leader moves its log start; the answer waits, up to the request's
// time-out, until every live replica has followed, and tells the lowest log
// start. Offset -1 stands for the high watermark. An offset below the log start
// changes nothing and is answered with where that is. Internal topics are
// refused, and topics that are compacted and nothing else. A partition named
// twice counts as named the last time. The files themselves go with the next
// retention.
//
// Kafka may forget a deletion when it is killed within a minute of it: its log
// starts are stored once a minute. Here they are stored before the answer.

func (b *Broker) deleteRecords(c *call, req *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	asked := 0
	for _, rt := range req.Topics {
		asked += len(rt.Partitions)
	}
	if !c.padsPartitions(asked) {
		return resp
	}
	type place struct {
		topic string
		index int32
	}
	rows, at := map[string]int{}, map[place]int{}
	var topics []string
	offsets := map[string][]kmsg.DeleteRecordsRequestTopicPartition{}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			if _, ok := rows[rt.Topic]; !ok {
				rows[rt.Topic] = len(topics)
				topics = append(topics, rt.Topic)
			}
			k := place{rt.Topic, rp.Partition}
			if i, again := at[k]; again {
				offsets[rt.Topic][i].Offset = rp.Offset
				continue
			}
			at[k] = len(offsets[rt.Topic])
			offsets[rt.Topic] = append(offsets[rt.Topic], rp)
		}
	}
	d := deletion{b: b}
	for i, name := range topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = name
		allowed := c.allowed(auth.Delete, auth.Topic, name)
		for j, rp := range offsets[name] {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = rp.Partition, -1
			if allowed {
				d.one(c, name, rp, &p, i, j)
			} else {
				p.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	d.store(resp)
	d.wait(c, resp, millis(req.TimeoutMillis))
	return resp
}

// deletion is the deletions of one request.
type deletion struct {
	b     *Broker
	named []storage.Name // whose log start is as asked
	rows  []deleting
}

// deleting is a partition whose log start has moved as asked, and where its
// answer stands.
type deleting struct {
	part       *partition.Partition
	asked      batch.Offset
	topic, row int
}

func (d *deletion) one(c *call, name string, rp kmsg.DeleteRecordsRequestTopicPartition, p *kmsg.DeleteRecordsResponseTopicPartition, topic, row int) {
	t := c.image.TopicByName(name)
	if t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions) {
		p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return
	}
	if isInternal(name) {
		p.ErrorCode = kerr.InvalidTopicException.Code
		return
	}
	part := d.b.replicas.served(t.ID, rp.Partition)
	if part == nil {
		p.ErrorCode = d.b.absent(t.ID, rp.Partition)
		return
	}
	done, err := part.DeleteRecords(batch.Offset(rp.Offset))
	if err != nil {
		p.ErrorCode = codeOf(err)
		return
	}
	d.named = append(d.named, storage.Name{Topic: name, Partition: rp.Partition})
	p.LowWatermark = int64(done.LowWatermark)
	d.rows = append(d.rows, deleting{part: part, asked: done.Asked, topic: topic, row: row})
}

// store makes the log starts durable: those that an earlier request moved as well,
// which may not have come to that. A directory that fails is given up, and its
// partitions say so; where there is no descriptor to write with, all do.
func (d *deletion) store(resp *kmsg.DeleteRecordsResponse) {
	if len(d.named) == 0 {
		return
	}
	err := d.b.store.StoreLogStarts(d.named)
	for n := 0; log.AwaitDescriptor(err, n); n++ {
		err = d.b.store.StoreLogStarts(d.named)
	}
	if err == nil {
		return
	}
	lacking := errors.Is(err, log.ErrNoDescriptor)
	if lacking {
		d.b.refused.Error("no file descriptor is left to store where logs start: records that were to be deleted come back if the broker stops now", zap.Error(err))
	}
	kept := d.rows[:0]
	for _, x := range d.rows {
		why := x.part.Log().Offline()
		if why == nil && lacking {
			why = err
		}
		if why != nil {
			p := &resp.Topics[x.topic].Partitions[x.row]
			p.ErrorCode, p.LowWatermark = codeOf(why), -1
			continue
		}
		kept = append(kept, x)
	}
	d.rows = kept
}

// wait waits until every low watermark has reached what was asked.
func (d *deletion) wait(c *call, resp *kmsg.DeleteRecordsResponse, timeout time.Duration) {
	if d.look(resp) {
		return
	}
	c.Waiting()
	w := partition.NewWaiter()
	places := make([]partition.Watching, len(d.rows))
	for i, x := range d.rows {
		x.part.Watch(&places[i], w, partition.OnLowWatermark)
	}
	defer func() {
		for i, x := range d.rows {
			x.part.Unwatch(&places[i])
		}
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for !d.look(resp) {
		select {
		case <-w.C():
			continue
		case <-timer.C:
		case <-c.ctx.Done():
		}
		for _, x := range d.rows {
			if p := &resp.Topics[x.topic].Partitions[x.row]; p.ErrorCode == 0 && p.LowWatermark < int64(x.asked) {
				p.ErrorCode = kerr.RequestTimedOut.Code
			}
		}
		return
	}
}

// look takes the low watermarks into the answer, and says whether there is
// nothing left to wait for.
func (d *deletion) look(resp *kmsg.DeleteRecordsResponse) bool {
	all := true
	for _, x := range d.rows {
		p := &resp.Topics[x.topic].Partitions[x.row]
		if p.ErrorCode != 0 || p.LowWatermark >= int64(x.asked) {
			continue
		}
		low, err := x.part.LowWatermark()
		p.LowWatermark, p.ErrorCode = int64(low), codeOf(err)
		all = all && (err != nil || low >= x.asked)
	}
	return all
}
