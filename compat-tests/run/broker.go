package run

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// helper is the driver's own hand at the broker, for what a client has no call for and for looking at what is there.
type helper struct {
	client *kgo.Client
	admin  *kadm.Client
}

func newHelper(bootstrap string) (*helper, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &helper{client, kadm.NewClient(client)}, nil
}

func (h *helper) close() { h.client.Close() }

func (h *helper) createTopic(ctx context.Context, topic string, partitions int32, configs map[string]string) error {
	c := make(map[string]*string)
	for k, v := range configs {
		c[k] = &v
	}
	_, err := h.admin.CreateTopic(ctx, partitions, 1, c, topic)
	return err
}

func (h *helper) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	listed, err := h.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends := make(map[int32]int64)
	for p, l := range listed[topic] {
		if l.Err != nil {
			return nil, fmt.Errorf("end of %s-%d: %w", topic, p, l.Err)
		}
		ends[p] = l.Offset
	}
	return ends, nil
}

// committed returns the group's committed offsets of a topic.
func (h *helper) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	all, err := h.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64)
	for p, o := range all[topic] {
		if o.Err != nil {
			return nil, fmt.Errorf("committed offset of %s-%d: %w", topic, p, o.Err)
		}
		if o.At >= 0 {
			offsets[p] = o.At
		}
	}
	return offsets, nil
}

// topicExists asks by name, without creating it.
func (h *helper) topicExists(ctx context.Context, topic string) (bool, error) {
	topics, err := h.admin.ListTopics(ctx, topic)
	if err != nil {
		return false, err
	}
	switch err := topics[topic].Err; err {
	case nil:
		return true, nil
	case kerr.UnknownTopicOrPartition:
		return false, nil
	default:
		return false, err
	}
}

func (h *helper) groupExists(ctx context.Context, group string) (bool, error) {
	groups, err := h.admin.ListGroups(ctx)
	if err != nil {
		return false, err
	}
	_, ok := groups[group]
	return ok, nil
}

// serves says whether the broker has an API at all.
func (h *helper) serves(ctx context.Context, api kmsg.Key) (bool, error) {
	all, err := h.admin.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if one.Err != nil {
			return false, one.Err
		}
		if _, ok := one.KeyMaxVersion(api.Int16()); !ok {
			return false, nil
		}
	}
	return len(all) > 0, nil
}

// groupType is "classic" or "consumer".
func (h *helper) groupType(ctx context.Context, group string) (string, error) {
	groups, err := h.admin.ListGroups(ctx)
	if err != nil {
		return "", err
	}
	return strings.ToLower(groups[group].GroupType), nil
}

// codecs counts, by codec, the records in the batches of a topic from the given offsets on. It looks at the batch headers
// alone: which codec a client really used shows nowhere else.
func (h *helper) codecs(ctx context.Context, topic string, from map[int32]int64) (map[string]int, error) {
	ends, err := h.ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	topics, err := h.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	id := topics[topic].ID
	counts := make(map[string]int)
	for p, end := range ends {
		for at := from[p]; at < end; {
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 8<<20, 1, 1000
			req.SessionEpoch = -1
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic, rt.TopicID = topic, id
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, at, 8<<20
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			leader := topics[topic].Partitions[p].Leader
			resp, err := h.client.Broker(int(leader)).RetriableRequest(ctx, req)
			if err != nil {
				return nil, err
			}
			fr := resp.(*kmsg.FetchResponse)
			if err := kerr.ErrorForCode(fr.ErrorCode); err != nil {
				return nil, err
			}
			if len(fr.Topics) != 1 || len(fr.Topics[0].Partitions) != 1 {
				return nil, fmt.Errorf("fetch of one partition was answered with %d topics", len(fr.Topics))
			}
			part := fr.Topics[0].Partitions[0]
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return nil, err
			}
			next, err := countCodecs(part.RecordBatches, at, counts)
			if err != nil {
				return nil, fmt.Errorf("%s-%d at %d: %w", topic, p, at, err)
			}
			if next <= at {
				return nil, fmt.Errorf("%s-%d: a fetch at %d before the end %d gave no batch", topic, p, at, end)
			}
			at = next
		}
	}
	return counts, nil
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// countCodecs walks over whole batches (or the old message sets) and returns the offset after the last one.
func countCodecs(b []byte, from int64, counts map[string]int) (next int64, err error) {
	next = from
	for len(b) >= 17 {
		base, size := int64(binary.BigEndian.Uint64(b)), int(binary.BigEndian.Uint32(b[8:]))+12
		if size < 26 {
			return next, fmt.Errorf("batch of %d bytes", size)
		}
		if len(b) < size {
			break // the last one may be cut off
		}
		var codec, records int
		switch magic := b[16]; magic {
		case 2:
			if size < 61 {
				return next, fmt.Errorf("batch of %d bytes", size)
			}
			codec, records = int(b[22]&7), int(int32(binary.BigEndian.Uint32(b[57:])))
			base += int64(int32(binary.BigEndian.Uint32(b[23:])))
		case 0, 1:
			codec, records = int(b[17]&7), 1
		default:
			return next, fmt.Errorf("magic %d", magic)
		}
		if codec >= len(codecNames) {
			return next, fmt.Errorf("codec %d", codec)
		}
		if base >= from {
			counts[codecNames[codec]] += records
		}
		next = max(next, base+1)
		b = b[size:]
	}
	return next, nil
}

// checkCodec wants every record since from to be in batches of one codec. Clients leave a batch alone that compression
// would make larger, so a few uncompressed ones are let through.
func (h *helper) checkCodec(ctx context.Context, topic string, from map[int32]int64, codec string) error {
	counts, err := h.codecs(ctx, topic, from)
	if err != nil {
		return fmt.Errorf("looking at the batches: %w", err)
	}
	total := 0
	var seen []string
	for _, name := range codecNames {
		if n := counts[name]; n > 0 {
			total += n
			seen = append(seen, fmt.Sprintf("%s %d", name, n))
		}
	}
	if other := total - counts[codec]; total == 0 || other > counts["none"] || other > total/10 {
		return fmt.Errorf("asked for %s, the log has %s", codec, strings.Join(seen, ", "))
	}
	return nil
}

// eventually asks every 100 ms until the condition holds, the client turns out to have no such call, the
// context ends, or the time is up.
func eventually(ctx context.Context, limit time.Duration, what string, ask func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		ok, err := ask()
		if ok && err == nil {
			return nil
		}
		var unsupported UnsupportedError
		if errors.As(err, &unsupported) {
			return err
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return fmt.Errorf("after %v still not: %s", limit, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
