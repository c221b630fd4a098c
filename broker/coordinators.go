package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/coordinator"
	"millrace/broker/group"
	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/storage"
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
	late   atomic.Bool     // some load still although the start has ended

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

// loaded waits until the shard of a partition led here has loaded, or could not:
// then it says so itself. It is soon done for a topic that was just made; a shard
// with much to read may take longer than the wait, and clients are then told to
// ask again.
func (s *coordinators) loaded(ctx context.Context, partition int32) error {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
	defer cancel()
	shard := s.get(partition)
	if shard == nil {
		return nil
	}
	err := shard.AwaitLoaded(ctx)
	if errors.As(err, new(*coordinator.LoadError)) {
		return nil
	}
	return err
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

// partitions lists those whose shards are as asked for, in order.
func (s *coordinators) partitions(which func(*coordinator.Shard) bool) []int32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []int32
	for p, shard := range s.shards { // any order: they are sorted
		if which(shard) {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// unsettled lists the partitions whose shards have not loaded yet. Those whose
// logs do not load are not among them.
func (s *coordinators) unsettled() []int32 {
	return s.partitions(func(shard *coordinator.Shard) bool { return !shard.Settled() })
}

// awaitSettled waits until no shard is loading for the first time.
func (s *coordinators) awaitSettled(ctx context.Context) error {
	for {
		list := s.unsettled()
		if len(list) == 0 {
			return nil
		}
		if shard := s.get(list[0]); shard != nil {
			_ = shard.AwaitLoaded(ctx) // one that was stopped is listed no more
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// notServed says why groups are not served by whom the cluster has for their
// coordinator; nil: they are.
func (s *coordinators) notServed() error {
	failed := s.partitions(func(shard *coordinator.Shard) bool { return shard.Failure() != nil })
	if len(failed) > 0 {
		return fmt.Errorf("groups are not served: what %s holds of them does not load", ofOffsetsTopic(failed))
	}
	if !s.late.Load() {
		return nil
	}
	if list := s.unsettled(); len(list) > 0 {
		return fmt.Errorf("groups are not served yet: what %s holds of them is being loaded", ofOffsetsTopic(list))
	}
	return nil
}

// ofOffsetsTopic names partitions of __consumer_offsets.
func ofOffsetsTopic(partitions []int32) string {
	names := make([]storage.Name, len(partitions))
	for i, p := range partitions {
		names[i] = storage.Name{Topic: offsetsTopic, Partition: p}
	}
	return someNames(names)
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
				Log:           &coordinatorLog{part: part, epoch: batch.LeaderEpoch(p.LeaderEpoch), seen: b.seen},
				Machine:       b.newGroupMachine,
				Image:         img,
				Logger:        b.log.With(zap.String("topic", offsetsTopic), zap.Int32("partition", p.Index)),
				Now:           b.now,
				WriteTimeout:  millis(b.config.Int("offsets.commit.timeout.ms")),
				ToldElsewhere: func(err error) bool { return errors.As(err, new(*log.OfflineError)) },
				LoadBytes:     int(b.config.Int("offsets.load.buffer.size")),
				Scratch:       log.WithScratch,
				Batches:       batch.BuilderOptions{Codec: codec.Kind(b.config.Int("offsets.topic.compression.codec"))},
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
