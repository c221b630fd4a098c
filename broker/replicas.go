package broker

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// replicas holds this broker's partitions.
type replicas struct {
	b  *Broker
	mu sync.RWMutex
	at map[replicaKey]*partition.Partition
	// offline are the replicas whose log did not open; they are tried again at
	// the next start, those in lacking (see lacking.go) before.
	offline map[replicaKey]error
	lacking lacking
	// ahead are replicas whose logs have a newer leader epoch than they are led in.
	ahead []storage.Name
}

type replicaKey struct {
	topic [16]byte
	index int32
}

// get finds a local replica.
func (r *replicas) get(topic [16]byte, index int32) *partition.Partition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.at[replicaKey{topic, index}]
}

// served finds a local replica, unless its directory was given up.
func (r *replicas) served(topic [16]byte, index int32) *partition.Partition {
	if p := r.get(topic, index); p != nil && p.Log().Offline() == nil {
		return p
	}
	return nil
}

// broken says whether a replica is here, but its log did not open, or its
// directory was given up since.
func (r *replicas) broken(topic [16]byte, index int32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k := replicaKey{topic, index}
	return r.offline[k] != nil || r.at[k] != nil && r.at[k].Log().Offline() != nil
}

// fail gives up a replica whose log is lost until the next start.
func (r *replicas) fail(p *partition.Partition, why error) {
	k := replicaKey{p.ID(), p.Index()}
	r.mu.Lock()
	if r.at[k] == p {
		delete(r.at, k)
		r.offline[k] = why
	}
	r.mu.Unlock()
	p.Close()
	r.b.log.Error("a partition lost its log on the way to another directory: it is offline here", zap.Stringer("partition", p), zap.Error(why))
}

// elsewhere counts the replicas that lie in data directories that are not there, by the directories' ids.
func (r *replicas) elsewhere() map[[16]byte]int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out map[[16]byte]int
	for _, err := range r.offline {
		var e *storage.ElsewhereError
		if errors.As(err, &e) {
			if out == nil {
				out = map[[16]byte]int{}
			}
			out[e.Directory]++
		}
	}
	return out
}

// all lists the local replicas in no order.
func (r *replicas) all() []*partition.Partition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]*partition.Partition, 0, len(r.at))
	for _, p := range r.at {
		list = append(list, p)
	}
	return list
}

func (r *replicas) configure(t *image.Topic, tc *config.TopicConfig) {
	for _, p := range t.Partitions {
		if part := r.get(t.ID, p.Index); part != nil {
			part.SetConfig(tc)
		}
	}
}

func (r *replicas) removeTopic(name string, id [16]byte) {
	r.remove(name, func(k replicaKey) bool { return k.topic == id })
}

// remove gives up replicas of a topic and what they have on disk.
func (r *replicas) remove(name string, which func(replicaKey) bool) {
	r.mu.Lock()
	var gone []*partition.Partition
	var files []int32
	for k, p := range r.at {
		if which(k) {
			gone = append(gone, p)
			files = append(files, k.index)
			delete(r.at, k)
		}
	}
	for k := range r.offline {
		if which(k) {
			files = append(files, k.index) // what did not open goes too, or it would stand in a later replica's place
			delete(r.lacking.keys, k)
			delete(r.offline, k)
		}
	}
	r.mu.Unlock()
	for _, p := range gone {
		p.Close()
	}
	for _, index := range files {
		if n := (storage.Name{Topic: name, Partition: index}); !r.b.recoveries.forsake(n) {
			r.b.deleteFiles(n)
		}
	}
}

// assign brings the replicas in line with an image: those that are no longer
// this broker's go, then come followers, then leaders.
func (r *replicas) assign(img *image.Image, delta *image.Delta) {
	topics := r.touched(img, delta)
	for _, t := range topics {
		r.remove(t.Name, func(k replicaKey) bool {
			return k.topic == t.ID && int(k.index) < len(t.Partitions) && !hosts(t.Partitions[k.index], r.b.nodeID)
		})
	}
	r.openAll(img, topics)
	for _, leaders := range []bool{false, true} {
		for _, t := range topics {
			// A topic's configs are read once, and only where a log is opened.
			tc := sync.OnceValue(func() *config.TopicConfig { return r.b.topicConfig(img, t.Name) })
			for _, p := range t.Partitions {
				if r.b.leads(img, p) == leaders && hosts(p, r.b.nodeID) {
					r.assignOne(img, t, p, tc)
				}
			}
		}
	}
}

// openAll opens the logs on disk that the topics' replicas want, side by side: at a
// start that is all there are.
func (r *replicas) openAll(img *image.Image, topics []*image.Topic) {
	var list []storage.Wanted
	for _, t := range topics {
		var c func() log.Config
		for _, p := range t.Partitions {
			if !hosts(p, r.b.nodeID) || r.get(t.ID, p.Index) != nil || r.broken(t.ID, p.Index) {
				continue
			}
			if c == nil {
				c = sync.OnceValue(func() log.Config { return partition.LogConfig(r.b.topicConfig(img, t.Name)) })
			}
			list = append(list, storage.Wanted{Where: r.b.where(img, p), Topic: t.Name, ID: t.ID, Partition: p.Index, Config: c})
		}
	}
	if len(list) > 0 {
		r.b.store.OpenLogs(list, r.b.recoveryThreads(img))
	}
}

// recoveryThreads is num.recovery.threads.per.data.dir, which may change at any
// time.
func (b *Broker) recoveryThreads(img *image.Image) int {
	const name = "num.recovery.threads.per.data.dir"
	if text, ok := b.setting(img)(name); ok {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			return n
		}
	}
	return int(b.config.Int(name))
}

// touched lists the topics that a change is of interest to: those that changed,
// and those led here with a replica on another broker that has changed. A leader
// takes nobody into the ISR who is not alive, and nobody's earlier life.
func (r *replicas) touched(img *image.Image, delta *image.Delta) []*image.Topic {
	var list []*image.Topic
	for _, name := range delta.Topics {
		if t := img.TopicByName(name); t != nil {
			list = append(list, t)
		}
	}
	others := slices.DeleteFunc(slices.Clone(delta.Brokers), func(id int32) bool { return id == r.b.nodeID })
	if len(others) == 0 {
		return list
	}
	isOther := func(id int32) bool { return slices.Contains(others, id) }
	for t := range img.Topics() {
		if slices.Contains(list, t) {
			continue
		}
		for _, p := range t.Partitions {
			if p.Leader == r.b.nodeID && slices.ContainsFunc(p.Replicas, isOther) {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

func hosts(p *image.Partition, node int32) bool { return slices.Contains(p.Replicas, node) }

// leads says whether this broker leads a partition in its present life. What the
// cluster still has from an earlier one ends with the registration: to append in
// its epoch would be to use offsets again that a power cut may have freed.
func (b *Broker) leads(img *image.Image, p *image.Partition) bool {
	if p.Leader != b.nodeID {
		return false
	}
	own := img.Broker(b.nodeID)
	return own != nil && own.Incarnation == b.incarnation
}

func (r *replicas) assignOne(img *image.Image, t *image.Topic, p *image.Partition, tc func() *config.TopicConfig) {
	part := r.get(t.ID, p.Index)
	if part == nil {
		if r.broken(t.ID, p.Index) {
			return
		}
		if part = r.open(img, t, p, tc()); part == nil {
			return
		}
	}
	if err := r.b.take(img, part, p); err != nil {
		r.b.log.Error("a partition does not take its new role", zap.String("topic", t.Name), zap.Int32("partition", p.Index), zap.Error(err))
	}
}

// open makes a replica's log be here, or offline: nil.
func (r *replicas) open(img *image.Image, t *image.Topic, p *image.Partition, tc *config.TopicConfig) *partition.Partition {
	k := replicaKey{t.ID, p.Index}
	if r.b.recoveries.under(storage.Name{Topic: t.Name, Partition: p.Index}) {
		r.lacking.lookAgain(r.b)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.offline[k], r.lacking.keys[k] = errNameTaken, true
		return nil
	}
	part, err := r.b.openPartition(img, t, p, tc)
	lacks := errors.Is(err, log.ErrNoDescriptor)
	if lacks {
		r.lacking.note(r.b, t.Name, p.Index, err)
	} else if _, away := awayWith(err); away && r.b.phase.Load() == phaseStarting {
		// tellAway tells of it, together with what else lies there.
	} else if err != nil {
		r.b.log.Error("a partition's log does not open: it is offline here", zap.String("topic", t.Name), zap.Int32("partition", p.Index), zap.Error(err))
	} else {
		r.b.resumeMove(part)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lacking.keys, k)
	if err != nil {
		r.offline[k] = err
		if lacks {
			r.lacking.keys[k] = true
		}
		return nil
	}
	delete(r.offline, k)
	r.at[k] = part
	return part
}

// openPartition opens a replica's log, or makes a new one, which has no files
// before its first append.
func (b *Broker) openPartition(img *image.Image, t *image.Topic, p *image.Partition, tc *config.TopicConfig) (*partition.Partition, error) {
	at := b.where(img, p)
	l, err := b.store.LogAt(at, t.Name, t.ID, p.Index, partition.LogConfig(tc))
	if err != nil {
		return nil, err
	}
	if dir := b.store.DirectoryOf(t.Name, p.Index); dir != at.Directory {
		b.directories.chosen(replicaKey{t.ID, p.Index}, dir)
	}
	return partition.New(partition.Options{
		Log: l, Topic: t.Name, ID: t.ID, Index: p.Index, Self: b.nodeID, Config: tc,
		LagMax: time.Duration(b.config.Long("replica.lag.time.max.ms")) * time.Millisecond, Now: b.now,
	}), nil
}

// isAhead notes a replica that was written to in leaderships of which the metadata
// knows nothing: they are an older copy.
func (r *replicas) isAhead(n storage.Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = append(r.ahead, n)
}

// take gives a replica the role that an image says.
func (b *Broker) take(img *image.Image, part *partition.Partition, p *image.Partition) error {
	a := partition.Assignment{LeaderID: p.Leader, LeaderEpoch: batch.LeaderEpoch(p.LeaderEpoch), PartitionEpoch: p.PartitionEpoch, ISR: p.ISR}
	for _, id := range p.Replicas {
		r := replica.Broker{ID: id, Epoch: -1}
		if br := img.Broker(id); br != nil {
			r.Epoch, r.Live = br.Epoch, br.Active()
		}
		a.Brokers = append(a.Brokers, r)
	}
	switch {
	case b.leads(img, p):
		if part.Log().LatestEpoch() > a.LeaderEpoch {
			b.replicas.isAhead(storage.Name{Topic: part.Topic(), Partition: part.Index()})
		}
		if was := b.applied().TopicByID(part.ID()); was != nil && b.seen != nil {
			if q := was.Partition(p.Index); q != nil {
				b.seen.isr(len(q.ISR), len(p.ISR))
			}
		}
		return part.BecomeLeader(a)
	case p.Leader == b.nodeID:
		a.LeaderID = image.NoLeader
	}
	return part.BecomeFollower(a)
}

// absent is why a partition is not here: it is another broker's, its log did not
// open, or its directory was given up.
func (b *Broker) absent(id [16]byte, index int32) int16 {
	if b.replicas.broken(id, index) {
		return kerr.KafkaStorageError.Code
	}
	return kerr.NotLeaderForPartition.Code
}

// leaderOf says who leads a partition (KIP-951): by the local replica, which
// learns of a change before the image that says so is the applied one, else by
// that image.
func (b *Broker) leaderOf(c *call, name string, id [16]byte, index int32) (leader, epoch int32, ok bool) {
	t := c.image.TopicByName(name)
	if id != ([16]byte{}) {
		t = c.image.TopicByID(id)
	}
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return 0, 0, false
	}
	p := t.Partitions[index]
	leader, epoch = p.Leader, p.LeaderEpoch
	if part := b.replicas.get(t.ID, index); part != nil {
		if _, known, at := part.Leading(); int32(at) > epoch {
			leader, epoch = known, int32(at)
		}
	}
	return leader, epoch, leader >= 0
}

// putAsideStrays renames what lies in the data directories and is no replica of
// this broker's, as Kafka does: it may be of a topic that was deleted while the
// broker was down.
func (r *replicas) putAsideStrays() {
	for _, f := range r.b.store.Unopened() {
		r.b.log.Warn("a partition on disk is not assigned to this broker: it is put aside", zap.String("topic", f.Topic), zap.Int32("partition", f.Partition))
		if err := r.b.store.PutAside(f.Topic, f.Partition); err != nil {
			r.b.log.Error("putting a stray partition aside failed", zap.String("topic", f.Topic), zap.Int32("partition", f.Partition), zap.Error(err))
		}
	}
	r.b.store.DropFutures(func(topic string, index int32) bool {
		t := r.b.applied().TopicByName(topic)
		return t != nil && r.broken(t.ID, index)
	})
}
