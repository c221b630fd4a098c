package raw

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic makes a topic and waits until each of its partitions has a
// leader.
func CreateTopic(addr, topic string, partitions int, configs map[string]string) error {
	c, err := dial(addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 60000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), 1
	for k, v := range configs {
		e := kmsg.NewCreateTopicsRequestTopicConfig()
		e.Name, e.Value = k, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, e)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	if code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		return failed("create topic "+topic, code)
	}
	if err := awaitLeaders(c, topic, partitions, false); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := ends(c, topic, partitions); !unready(err) || time.Now().After(deadline) {
			return err
		}
	}
}

// awaitLeaders asks for a topic's metadata until all partitions have leaders.
func awaitLeaders(c *conn, topic string, partitions int, create bool) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		meta := kmsg.NewPtrMetadataRequest()
		meta.Version, meta.AllowAutoTopicCreation = 9, create
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		meta.Topics = append(meta.Topics, t)
		resp, err := c.ask(meta)
		if err != nil {
			return fmt.Errorf("ask for topic %s: %w", topic, err)
		}
		got := resp.(*kmsg.MetadataResponse).Topics[0]
		led := 0
		for _, p := range got.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
		if got.ErrorCode == 0 && led == partitions {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s has %d of %d leaders: %w", topic, led, partitions, kerr.ErrorForCode(got.ErrorCode))
		}
		time.Sleep(time.Millisecond)
	}
}

// unready is an error of a partition whose leader does not know yet that it is:
// Kafka tells others first.
func unready(err error) bool {
	return errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.LeaderNotAvailable)
}

// DeleteTopic asks for a topic's removal.
func DeleteTopic(addr, topic string) error {
	c, err := dial(addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 4, 60000, []string{topic}
	resp, err := c.ask(req)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	if code := resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 {
		return failed("delete topic "+topic, code)
	}
	return nil
}

// Ends tells the log end of each partition.
func Ends(addr, topic string, partitions int) ([]int64, error) {
	c, err := dial(addr, nil)
	if err != nil {
		return nil, err
	}
	defer c.nc.Close()
	return ends(c, topic, partitions)
}

func ends(c *conn, topic string, partitions int) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 5, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(i), -1, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of %s: %w", topic, err)
	}
	out := make([]int64, partitions)
	for _, p := range resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return nil, failed("ask for the ends of "+topic, p.ErrorCode)
		}
		out[p.Partition] = p.Offset
	}
	return out, nil
}

// Verify shows that a topic holds a batch so many times in each partition, and
// nothing else: the log ends are as expected, and the bytes of every batch, or
// of each partition's first and last, are those that were sent.
func Verify(addr, topic string, partitions int, b Batch, times int64, every bool) error {
	ends, err := Ends(addr, topic, partitions)
	if err != nil {
		return err
	}
	c, err := dial(addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	n := int64(b.Records)
	for p, end := range ends {
		if want := times * n; end != want {
			return fmt.Errorf("%s-%d ends at %d, not %d: what was acknowledged is not what is stored", topic, p, end, want)
		}
		at := []int64{0, max(end-n, 0)}
		if every {
			at = []int64{0}
		}
		for _, from := range at {
			for offset := from; offset < end; {
				next, err := verifyAt(c, topic, int32(p), offset, b)
				if err != nil {
					return fmt.Errorf("%s-%d at offset %d: %w", topic, p, offset, err)
				}
				if offset = next; !every {
					break
				}
			}
		}
	}
	return nil
}

func verifyAt(c *conn, topic string, partition int32, offset int64, b Batch) (next int64, err error) {
	f := newFetch(topic, 1, len(b.Bytes)+64<<10, 1, 0)
	f.at[0] = cursor{partition: partition, offset: offset}
	if err := c.write(f.frame()); err != nil {
		return 0, err
	}
	body, err := c.read()
	if err != nil {
		return 0, err
	}
	next = offset
	err = walkAnswer(body, func(_ int32, records []byte) error {
		return walkBatches(records, next, func(base int64, stored []byte) error {
			if !bytes.Equal(stored[lengthAt:leaderEpochAt], b.Bytes[lengthAt:leaderEpochAt]) || !bytes.Equal(stored[magicAt:], b.Bytes[magicAt:]) {
				return errors.New("the batch is not the one that was sent")
			}
			next = base + int64(b.Records)
			return nil
		})
	})
	if err == nil && next == offset {
		err = errors.New("nothing is there")
	}
	return next, err
}

// AlterTopic sets configs of a topic.
func AlterTopic(addr, topic string, configs map[string]string) error {
	c, err := dial(addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for k, v := range configs { // any order: they are set together
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Value = k, kmsg.StringPtr(v)
		res.Configs = append(res.Configs, e)
	}
	req.Resources = append(req.Resources, res)
	resp, err := c.ask(req)
	if err != nil {
		return fmt.Errorf("alter topic %s: %w", topic, err)
	}
	if code := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode; code != 0 {
		return failed("alter topic "+topic, code)
	}
	return nil
}
