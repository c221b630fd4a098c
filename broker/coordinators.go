package broker

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/coordinator"
	"millrace/broker/group"
	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/log"
)

// coordinators holds a shard for each partition of __consumer_offsets that
// this broker leads.
type coordinators struct {
	b      *Broker
	mu     sync.RWMutex
	shards map[int32]*coordinator.Shard
	epochs map[int32]int32 // the leader epoch each shard was made for

	// creating is not nil while this broker creates __consumer_offsets; it is
	// closed when the attempt is over.
	creatingMu sync.Mutex
	creating   chan struct{}
}

// groupPartition is the partition of __consumer_offsets that coordinates a
// group: Java's String.hashCode over UTF-16, made positive, modulo their
// number.
func groupPartition(group string, partitions int) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(unit)
	}
	if h < 0 {
		h = -h
		if h < 0 {
			h = 0 // Kafka counts the absolute value of the least integer as 0.
		}
	}
	return h % int32(partitions)
}

var errNoOffsetsTopic = errors.New("__consumer_offsets is not there")

// offsetsTopic finds __consumer_offsets and creates it on first need: once, by
// whoever comes first, while the others wait.
func (b *Broker) offsetsTopic(ctx context.Context) (*image.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
	defer cancel()
	for {
		if t := b.applied().TopicByName(offsetsTopic); t != nil {
			return t, nil
		}
		s := &b.coordinators
		s.creatingMu.Lock()
		busy := s.creating
		if busy == nil {
			s.creating = make(chan struct{})
		}
		s.creatingMu.Unlock()
		if busy != nil {
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		err := b.createOffsetsTopic(ctx)
		s.creatingMu.Lock()
		close(s.creating)
		s.creating = nil
		s.creatingMu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

func (b *Broker) createOffsetsTopic(ctx context.Context) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(autoCreateTimeout.Milliseconds())
	req.Topics = []kmsg.CreateTopicsRequestTopic{b.newTopic(offsetsTopic)}
	got, err := b.change(ctx, "", req, autoCreateTimeout)
	if err != nil {
		return err
	}
	for _, t := range got.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 && t.ErrorCode != kerr.TopicAlreadyExists.Code {
			b.log.Error("creating "+offsetsTopic, zap.Error(kerr.ErrorForCode(t.ErrorCode)), zap.Stringp("message", t.ErrorMessage))
			return errNoOffsetsTopic
		}
	}
	if b.applied().TopicByName(offsetsTopic) == nil {
		return errNoOffsetsTopic
	}
	return nil
}

// shardOf finds the shard that coordinates a group here. The code says why
// there is none: NOT_COORDINATOR elsewhere, COORDINATOR_NOT_AVAILABLE nowhere.
func (b *Broker) shardOf(c *call, group string) (*coordinator.Shard, int16) {
	topic := c.image.TopicByName(offsetsTopic)
	if topic == nil {
		c.Waiting()
		var err error
		if topic, err = b.offsetsTopic(c.ctx); err != nil {
			return nil, kerr.CoordinatorNotAvailable.Code
		}
		c.image = b.applied()
		if err := b.coordinators.loaded(c.ctx, groupPartition(group, len(topic.Partitions))); err != nil {
			return nil, kerr.CoordinatorLoadInProgress.Code
		}
	}
	p := groupPartition(group, len(topic.Partitions))
	shard := b.coordinators.get(p)
	if shard == nil {
		return nil, kerr.NotCoordinator.Code
	}
	return shard, 0
}

func (s *coordinators) get(partition int32) *coordinator.Shard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shards[partition]
}

// loaded waits until the shard of a partition led here has loaded. It is soon
// done for a topic that was just made; a shard with much to read may take
// longer than the wait, and clients are then told to ask again.
func (s *coordinators) loaded(ctx context.Context, partition int32) error {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
	defer cancel()
	if shard := s.get(partition); shard != nil {
		return shard.AwaitLoaded(ctx)
	}
	return nil
}

// all lists the shards by partition.
func (s *coordinators) all() []*coordinator.Shard {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*coordinator.Shard, 0, len(s.shards))
	var top int32 = -1
	for p := range s.shards {
		top = max(top, p)
	}
	for p := int32(0); p <= top; p++ {
		if shard := s.shards[p]; shard != nil {
			list = append(list, shard)
		}
	}
	return list
}

// imageChanged brings the shards in line with an image about to be applied: a
// shard for each partition of __consumer_offsets led here, none for the
// others; and all of them hear what changed.
func (s *coordinators) imageChanged(img *image.Image, delta *image.Delta) {
	b := s.b
	topic := img.TopicByName(offsetsTopic)
	var stopped, kept []*coordinator.Shard
	s.mu.Lock()
	if topic != nil {
		for _, p := range topic.Partitions {
			shard := s.shards[p.Index]
			if shard != nil && (!b.leads(img, p) || p.LeaderEpoch != s.epochs[p.Index]) {
				stopped = append(stopped, shard)
				delete(s.shards, p.Index)
				shard = nil
			}
			if shard != nil {
				kept = append(kept, shard)
				continue
			}
			part := b.replicas.get(topic.ID, p.Index)
			if part == nil || !b.leads(img, p) {
				continue
			}
			s.shards[p.Index] = coordinator.NewShard(coordinator.Options{
				Log:          &coordinatorLog{part: part, epoch: batch.LeaderEpoch(p.LeaderEpoch), seen: b.seen},
				Machine:      b.newGroupMachine,
				Image:        img,
				Logger:       b.log.With(zap.Int32("coordinator", p.Index)),
				Now:          b.now,
				WriteTimeout: millis(b.config.Int("offsets.commit.timeout.ms")),
				LoadBytes:    int(b.config.Int("offsets.load.buffer.size")),
				Scratch:      log.WithScratch,
				Batches:      batch.BuilderOptions{Codec: codec.Kind(b.config.Int("offsets.topic.compression.codec"))},
			})
			s.epochs[p.Index] = p.LeaderEpoch
		}
	}
	s.mu.Unlock()
	for _, shard := range stopped {
		shard.Stop()
	}
	for _, shard := range kept {
		shard.ImageChanged(img, delta)
	}
}

// newGroupMachine makes the machine of a coordinator's shard.
func (b *Broker) newGroupMachine() machine.Machine {
	ms := func(key string) time.Duration { return time.Duration(b.config.Long(key)) * time.Millisecond }
	return group.New(group.Config{
		MinSessionTimeout: ms("group.min.session.timeout.ms"), MaxSessionTimeout: ms("group.max.session.timeout.ms"),
		InitialRebalanceDelay: ms("group.initial.rebalance.delay.ms"), MaxSize: int(b.config.Int("group.max.size")),
		OffsetsRetention:       time.Duration(b.config.Int("offsets.retention.minutes")) * time.Minute,
		RetentionCheckInterval: ms("offsets.retention.check.interval.ms"),
		OffsetMetadataMaxBytes: int(b.config.Int("offset.metadata.max.bytes")),
	})
}

// removeTopic ends the shards of a deleted __consumer_offsets.
func (s *coordinators) removeTopic(name string) {
	if name == offsetsTopic {
		s.stop()
	}
}

// stop ends every shard; whoever waits in one is told to look elsewhere.
func (s *coordinators) stop() {
	list := s.all()
	s.mu.Lock()
	clear(s.shards)
	s.mu.Unlock()
	for _, shard := range list {
		shard.Stop()
	}
}
