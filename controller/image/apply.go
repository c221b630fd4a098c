package image

import (
	"fmt"

	"github.com/tidwall/btree"

	"millrace/wire/records"
)

// Apply gives the image after the records of one metadata offset, and what they
// changed. The image itself stays as it is.
func (i *Image) Apply(offset int64, recs []records.Metadata) (*Image, *Delta) {
	return i.ApplyEntry(offset, &Entry{Records: recs})
}

// Replay is ApplyEntry for an entry that comes from a disk or a peer: that it does
// not fit is an error.
func (i *Image) Replay(offset int64, e *Entry) (next *Image, delta *Delta, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case misfitError:
			err = p
		default:
			panic(p)
		}
	}()
	next, delta = i.ApplyEntry(offset, e)
	return next, delta, nil
}

// misfitError is why records cannot be those that follow in the metadata.
type misfitError struct{ error }

func misfit(format string, v ...any) { panic(misfitError{fmt.Errorf(format, v...)}) }

// ApplyEntry is Apply for all that an entry of the metadata log can hold. It panics
// where a record does not fit: whoever decides one has looked.
func (i *Image) ApplyEntry(offset int64, e *Entry) (*Image, *Delta) {
	if offset < i.offset {
		misfit("entry at offset %d applied to the image of offset %d", offset, i.offset)
	}
	c := change{next: *i, delta: &deltaBuilder{}}
	next := &c.next
	next.offset = offset
	if e.ClusterID != "" {
		if next.clusterID != "" && next.clusterID != e.ClusterID {
			misfit("cluster %q renamed to %q", next.clusterID, e.ClusterID)
		}
		next.clusterID = e.ClusterID
		c.delta.cluster = true
	}
	for _, n := range e.Nodes {
		c.nodes().Set(n.ID, &n)
		c.delta.cluster = true
	}
	for _, r := range e.Records {
		c.apply(r)
	}
	c.settleConfigs()
	return next, c.delta.build()
}

// change is an image under construction. Each tree is isolated before its first
// change, and each topic copied once however many of its partitions change.
type change struct {
	next  Image
	delta *deltaBuilder

	isolated struct{ topics, ids, brokers, configs, levels, nodes bool }
	drafts   map[[16]byte]*Topic // topics that this change may write to
	// set holds what changes of one resource's configs while its records follow each
	// other: thousands of them are put in order once, not one by one.
	set map[string]*string
	of  configName // the resource of set
}

// isolate makes the tree at m private. The copy is taken from a copy of the
// tree's head: taking it marks the head it is taken from, and the head that
// other images share must not be written to while others read.
func isolate[K int32 | uint64 | string | configName, V any](m *btree.Map[K, V], done *bool) *btree.Map[K, V] {
	if !*done {
		head := *m
		*m = *head.IsoCopy()
		*done = true
	}
	return m
}

func (c *change) topics() *btree.Map[string, *Topic] {
	return isolate(&c.next.topics, &c.isolated.topics)
}
func (c *change) ids() *btree.Map[uint64, []*Topic] { return isolate(&c.next.ids, &c.isolated.ids) }
func (c *change) brokers() *btree.Map[int32, *Broker] {
	return isolate(&c.next.brokers, &c.isolated.brokers)
}
func (c *change) configs() *btree.Map[configName, *Configs] {
	return isolate(&c.next.configs, &c.isolated.configs)
}
func (c *change) levels() *btree.Map[string, int16] {
	return isolate(&c.next.levels, &c.isolated.levels)
}
func (c *change) nodes() *btree.Map[int32, *Node] { return isolate(&c.next.nodes, &c.isolated.nodes) }

func (c *change) apply(r records.Metadata) {
	switch r := r.(type) {
	case *records.TopicRecord:
		c.addTopic(r)
	case *records.PartitionRecord:
		c.setPartition(r)
	case *records.PartitionChangeRecord:
		c.changePartition(r)
	case *records.RemoveTopicRecord:
		c.removeTopic(r.TopicId)
	case *records.ConfigRecord:
		c.setConfig(r)
	case *records.ClearElrRecord:
		c.clearELR(r.TopicName)
	case *records.RegisterBrokerRecord:
		c.registerBroker(r)
	case *records.UnregisterBrokerRecord:
		c.broker(r.BrokerId, r.BrokerEpoch)
		c.brokers().Delete(r.BrokerId)
	case *records.BrokerRegistrationChangeRecord:
		c.changeBroker(r)
	case *records.FenceBrokerRecord:
		c.broker(r.Id, r.Epoch).Fenced = true
	case *records.UnfenceBrokerRecord:
		c.broker(r.Id, r.Epoch).Fenced = false
	case *records.FeatureLevelRecord:
		if r.FeatureLevel == 0 {
			c.levels().Delete(r.Name)
		} else {
			c.levels().Set(r.Name, r.FeatureLevel)
		}
		c.delta.features = true
	case *records.ProducerIdsRecord:
		c.next.nextProducerID = r.NextProducerId
	case *records.NoOpRecord, *records.BeginTransactionRecord, *records.EndTransactionRecord:
		// An entry is atomic by itself; it needs no bracket.
	default:
		misfit("no rule for a %s at offset %d", records.Name(r), c.next.offset)
	}
}

func (c *change) addTopic(r *records.TopicRecord) {
	if old := c.next.TopicByName(r.Name); old != nil {
		misfit("topic %q with id %x created again with id %x", r.Name, old.ID, r.TopicId)
	}
	if old := c.next.TopicByID(r.TopicId); old != nil {
		misfit("id %x of topic %q used again for %q", r.TopicId, old.Name, r.Name)
	}
	t := &Topic{Name: r.Name, ID: r.TopicId}
	c.keepDraft(t)
	c.store(t)
}

// draft gives a topic's value that this change owns and may write to.
func (c *change) draft(id [16]byte) *Topic {
	if t := c.drafts[id]; t != nil {
		return t
	}
	old := c.next.TopicByID(id)
	if old == nil {
		misfit("a record at offset %d is for topic id %x, which does not exist", c.next.offset, id)
	}
	t := &Topic{Name: old.Name, ID: id, Partitions: append([]*Partition(nil), old.Partitions...)}
	c.keepDraft(t)
	c.store(t)
	return t
}

func (c *change) keepDraft(t *Topic) {
	if c.drafts == nil {
		c.drafts = map[[16]byte]*Topic{}
	}
	c.drafts[t.ID] = t
	c.delta.topics = append(c.delta.topics, t.Name)
}

// store puts a topic's value in place of the one with its id.
func (c *change) store(t *Topic) {
	c.topics().Set(t.Name, t)
	c.setID(t.ID, t)
}

// setID points a topic id at t, or at nothing.
func (c *change) setID(id [16]byte, t *Topic) {
	key := idKey(id)
	old, _ := c.next.ids.Get(key)
	next := make([]*Topic, 0, len(old)+1)
	for _, o := range old {
		if o.ID != id {
			next = append(next, o)
		}
	}
	if t != nil {
		next = append(next, t)
	}
	if len(next) == 0 {
		c.ids().Delete(key)
		return
	}
	c.ids().Set(key, next)
}

func (c *change) removeTopic(id [16]byte) {
	t := c.next.TopicByID(id)
	if t == nil {
		misfit("topic id %x removed at offset %d does not exist", id, c.next.offset)
	}
	c.topics().Delete(t.Name)
	c.setID(id, nil)
	delete(c.drafts, id)
	c.settleConfigs()
	if key := nameConfig(TopicResource, t.Name); c.has(key) {
		c.configs().Delete(key)
		c.delta.configs = append(c.delta.configs, Resource{Type: TopicResource, Name: t.Name})
	}
	c.delta.removeTopic(t)
}

func (c *change) has(key configName) bool {
	_, found := c.next.configs.Get(key)
	return found
}

func (c *change) setPartition(r *records.PartitionRecord) {
	t := c.draft(r.TopicId)
	p := &Partition{
		Index: r.PartitionId, Replicas: r.Replicas, ISR: r.Isr, Adding: r.AddingReplicas, Removing: r.RemovingReplicas,
		ELR: r.EligibleLeaderReplicas, LastKnownELR: r.LastKnownElr, Directories: r.Directories,
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, LeaderRecoveryState: r.LeaderRecoveryState,
	}
	switch at := int(r.PartitionId); {
	case at >= 0 && at < len(t.Partitions):
		t.Partitions[at] = p
	case at == len(t.Partitions):
		t.Partitions = append(t.Partitions, p)
	default:
		misfit("partition %d of %q created when there are %d", at, t.Name, len(t.Partitions))
	}
}

func (c *change) changePartition(r *records.PartitionChangeRecord) {
	t := c.draft(r.TopicId)
	old := t.Partition(r.PartitionId)
	if old == nil {
		misfit("change of partition %d of %q, which has %d", r.PartitionId, t.Name, len(t.Partitions))
	}
	t.Partitions[r.PartitionId] = old.With(r)
}

// With gives the partition after a change.
func (p *Partition) With(r *records.PartitionChangeRecord) *Partition {
	next := *p
	next.PartitionEpoch++
	if r.Leader != LeaderUnchanged {
		next.Leader = r.Leader
		next.LeaderEpoch++
	}
	if r.Isr != nil {
		next.ISR = r.Isr
	}
	if r.Replicas != nil {
		next.Replicas = r.Replicas
	}
	if r.AddingReplicas != nil {
		next.Adding = r.AddingReplicas
	}
	if r.RemovingReplicas != nil {
		next.Removing = r.RemovingReplicas
	}
	if r.EligibleLeaderReplicas != nil {
		next.ELR = r.EligibleLeaderReplicas
	}
	if r.LastKnownElr != nil {
		next.LastKnownELR = r.LastKnownElr
	}
	if r.Directories != nil {
		next.Directories = r.Directories
	}
	if r.LeaderRecoveryState >= 0 {
		next.LeaderRecoveryState = r.LeaderRecoveryState
	}
	return &next
}

// LeaderUnchanged in a PartitionChangeRecord keeps leader and leader epoch.
const LeaderUnchanged int32 = -2

func (c *change) setConfig(r *records.ConfigRecord) {
	kind := ResourceType(r.ResourceType)
	key := nameConfig(kind, r.ResourceName)
	if key != c.of {
		c.settleConfigs()
		c.of = key
	}
	if c.set == nil {
		c.set = map[string]*string{}
		c.delta.configs = append(c.delta.configs, Resource{Type: kind, Name: r.ResourceName})
	}
	c.set[r.Name] = r.Value
}

// settleConfigs takes over what set holds.
func (c *change) settleConfigs() {
	if c.set == nil {
		return
	}
	old, _ := c.next.configs.Get(c.of)
	if next := old.with(c.set); next != nil {
		c.configs().Set(c.of, next)
	} else if old != nil {
		c.configs().Delete(c.of)
	}
	c.set = nil
}

// clearELR empties the eligible leader replicas of one topic, or of all when no
// name is given (KIP-966: a changed min.insync.replicas voids them).
func (c *change) clearELR(name string) {
	var ids [][16]byte
	c.next.topics.Scan(func(_ string, t *Topic) bool {
		if name != "" && t.Name != name {
			return true
		}
		for _, p := range t.Partitions {
			if len(p.ELR) > 0 || len(p.LastKnownELR) > 0 {
				ids = append(ids, t.ID)
				break
			}
		}
		return true
	})
	for _, id := range ids {
		t := c.draft(id)
		for at, p := range t.Partitions {
			next := *p
			next.ELR, next.LastKnownELR = nil, nil
			t.Partitions[at] = &next
		}
	}
}

func (c *change) registerBroker(r *records.RegisterBrokerRecord) {
	b := &Broker{
		ID: r.BrokerId, Epoch: r.BrokerEpoch, Incarnation: r.IncarnationId, Fenced: r.Fenced,
		InControlledShutdown: r.InControlledShutdown, Rack: r.Rack, Directories: r.LogDirs, Cordoned: r.CordonedLogDirs,
		Endpoints: make([]Endpoint, 0, len(r.EndPoints)), Features: make([]FeatureRange, 0, len(r.Features)),
	}
	for _, e := range r.EndPoints {
		b.Endpoints = append(b.Endpoints, Endpoint{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
	}
	for _, f := range r.Features {
		b.Features = append(b.Features, FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	c.brokers().Set(b.ID, b)
	c.delta.brokers = append(c.delta.brokers, b.ID)
}

// broker gives a copy of a broker's value, already in place, to write to.
func (c *change) broker(id int32, epoch int64) *Broker {
	old := c.next.Broker(id)
	if old == nil {
		misfit("change of broker %d, which is not registered", id)
	}
	if old.Epoch != epoch {
		misfit("change of broker %d of epoch %d, which is at epoch %d", id, epoch, old.Epoch)
	}
	b := *old
	c.brokers().Set(id, &b)
	c.delta.brokers = append(c.delta.brokers, id)
	return &b
}

func (c *change) changeBroker(r *records.BrokerRegistrationChangeRecord) {
	b := c.broker(r.BrokerId, r.BrokerEpoch)
	if r.Fenced != 0 {
		b.Fenced = r.Fenced > 0
	}
	if r.InControlledShutdown != 0 {
		b.InControlledShutdown = r.InControlledShutdown > 0
	}
	if len(r.LogDirs) > 0 {
		b.Directories = r.LogDirs
	}
	if r.CordonedLogDirs != nil {
		b.Cordoned = r.CordonedLogDirs
	}
}
