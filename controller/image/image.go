// Package image is the cluster as it stands at one metadata offset: topics with
// their partitions, brokers, configs, feature levels, producer ids, and the
// identities of the controllers.
//
// It is a pure room. An Image never changes: Apply gives the next one and shares
// with it all that stayed the same (copy-on-write trees; one immutable value for
// each topic, broker and config resource), so that a change costs O(log n) and a
// working image beside the committed one is cheap. Any number of goroutines may
// read any number of images.
//
// The room knows how metadata records change an image. It does not know why a
// record was written (controller/state decides) nor how it came here (the
// controller's raft log). A record that cannot apply is a broken invariant and
// panics: records come only from a leader that decided on the image before.
package image

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// ResourceType says what a config belongs to, in the numbers of Kafka's protocol.
type ResourceType int8

// The resource types that the metadata holds configs for. A broker's configs
// under the empty name are the cluster's defaults.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Image is the cluster at one metadata offset. The zero value is not usable;
// start from New.
type Image struct {
	offset         int64
	clusterID      string
	nextProducerID int64

	topics  btree.Map[string, *Topic]
	ids     btree.Map[uint64, []*Topic] // by the first half of the topic id; more than one is chance
	brokers btree.Map[int32, *Broker]
	configs btree.Map[configName, *Configs]
	levels  btree.Map[string, int16]
	nodes   btree.Map[int32, *Node]
}

// configName orders config resources by type, then name. The type is one byte
// in front of the name, so that a tree keyed by it can be walked by type.
type configName string

func nameConfig(t ResourceType, name string) configName {
	return configName([]byte{byte(t)}) + configName(name)
}

// Topic is one topic. Read only.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []*Partition // by index
}

// Partition is one partition. Read only.
type Partition struct {
	Index               int32
	Replicas            []int32
	ISR                 []int32
	Adding, Removing    []int32
	ELR, LastKnownELR   []int32 // KIP-966
	Directories         [][16]byte
	Leader              int32 // NoLeader when there is none
	LeaderEpoch         int32 // grows whenever a leader is set, the same one too
	PartitionEpoch      int32 // grows with every change
	LeaderRecoveryState int8  // 0 recovered, 1 recovering from an unclean election
}

// Endpoint is one advertised listener of a broker or a controller.
type Endpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// FeatureRange is a range of levels of a feature that a broker supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Broker is one registered broker. Read only.
type Broker struct {
	ID                   int32
	Epoch                int64 // the metadata offset of its registration
	Incarnation          [16]byte
	Fenced               bool
	InControlledShutdown bool
	Rack                 *string
	Endpoints            []Endpoint
	Features             []FeatureRange
	Directories          [][16]byte // those that work (KIP-858)
	Cordoned             [][16]byte // nil when unknown (KIP-1066)
}

// Active says whether the broker may lead and be in sync: it lives and is not
// on its way down.
func (b *Broker) Active() bool { return b != nil && !b.Fenced && !b.InControlledShutdown }

// lostDirectory is the id that stands for a directory that is gone for good.
var lostDirectory = [16]byte{15: 1}

// Holds says whether the broker's replica of a partition lies in a directory that
// works, or nobody has said yet where it lies (KIP-858).
func (b *Broker) Holds(p *Partition) bool {
	i := slices.Index(p.Replicas, b.ID)
	if i < 0 || i >= len(p.Directories) {
		return i >= 0
	}
	dir := p.Directories[i]
	if ReservedDirectory(dir) {
		return dir != lostDirectory
	}
	return slices.Contains(b.Directories, dir)
}

// ReservedDirectory says whether an id is one of the hundred that name no directory.
func ReservedDirectory(dir [16]byte) bool {
	for _, b := range dir[:15] {
		if b != 0 {
			return false
		}
	}
	return dir[15] < 100
}

// Node is the recorded identity of a controller: which directory stands behind
// its node id, and in which incarnation. Read only.
type Node struct {
	ID          int32
	Incarnation uint32 // grows when the directory is another one
	Directory   [16]byte
}

// New gives an image with nothing in it at offset 0.
func New() *Image { return &Image{} }

// Offset is the metadata offset of the last record applied.
func (i *Image) Offset() int64 { return i.offset }

// ClusterID is empty until the cluster's first record was applied.
func (i *Image) ClusterID() string { return i.clusterID }

// NextProducerID is the first producer id that was not given to a broker yet.
func (i *Image) NextProducerID() int64 { return i.nextProducerID }

// TopicByName is nil for an unknown topic.
func (i *Image) TopicByName(name string) *Topic {
	t, _ := i.topics.Get(name)
	return t
}

// TopicByID is nil for an unknown topic.
func (i *Image) TopicByID(id [16]byte) *Topic {
	same, _ := i.ids.Get(idKey(id))
	for _, t := range same {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func idKey(id [16]byte) uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Topics walks the topics by name.
func (i *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		i.topics.Scan(func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicsFrom walks the topics by name, from the first name that is not smaller.
func (i *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		i.topics.Ascend(name, func(_ string, t *Topic) bool { return yield(t) })
	}
}

// NumTopics is the number of topics.
func (i *Image) NumTopics() int { return i.topics.Len() }

// Partition is nil for an unknown index.
func (t *Topic) Partition(index int32) *Partition {
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[index]
}

// Broker is nil for a broker that is not registered.
func (i *Image) Broker(id int32) *Broker {
	b, _ := i.brokers.Get(id)
	return b
}

// Brokers walks the registered brokers by id, fenced ones too.
func (i *Image) Brokers() iter.Seq[*Broker] {
	return func(yield func(*Broker) bool) {
		i.brokers.Scan(func(_ int32, b *Broker) bool { return yield(b) })
	}
}

// NumBrokers is the number of registered brokers, fenced ones too.
func (i *Image) NumBrokers() int { return i.brokers.Len() }

// Feature is the finalized level of a feature, 0 when it has none.
func (i *Image) Feature(name string) int16 {
	level, _ := i.levels.Get(name)
	return level
}

// Level is a finalized feature level.
type Level struct {
	Name  string
	Level int16
}

// Features lists the finalized levels above 0, by name.
func (i *Image) Features() []Level {
	out := make([]Level, 0, i.levels.Len())
	i.levels.Scan(func(name string, level int16) bool {
		out = append(out, Level{Name: name, Level: level})
		return true
	})
	return out
}

// Node is nil for a controller that has no identity recorded.
func (i *Image) Node(id int32) *Node {
	n, _ := i.nodes.Get(id)
	return n
}

// Nodes walks the recorded identities by node id.
func (i *Image) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		i.nodes.Scan(func(_ int32, n *Node) bool { return yield(n) })
	}
}

// Configs is nil for a resource with no config set; a nil *Configs answers as
// an empty one.
func (i *Image) Configs(kind ResourceType, name string) *Configs {
	c, _ := i.configs.Get(nameConfig(kind, name))
	return c
}

// ConfigResources lists the names of the resources of a type that have at least
// one config set, sorted.
func (i *Image) ConfigResources(kind ResourceType) []string {
	var out []string
	i.configs.Ascend(nameConfig(kind, ""), func(key configName, _ *Configs) bool {
		if key[0] != byte(kind) {
			return false
		}
		out = append(out, string(key[1:]))
		return true
	})
	return out
}

// HasConfigs says whether any resource of a type has configs.
func (i *Image) HasConfigs(kind ResourceType) bool {
	has := false
	i.configs.Ascend(nameConfig(kind, ""), func(key configName, _ *Configs) bool {
		has = key[0] == byte(kind)
		return false
	})
	return has
}

// Configs are the configs set on one resource. Read only; the nil value is empty.
type Configs struct {
	pairs []Config // by key
}

// Config is one key with its value.
type Config struct {
	Key   string
	Value string
}

// Get gives the value of a key and whether it is set. As a function value it
// serves where controller/config asks for a lookup.
func (c *Configs) Get(key string) (string, bool) {
	if c == nil {
		return "", false
	}
	at, found := c.find(key)
	if !found {
		return "", false
	}
	return c.pairs[at].Value, true
}

// All lists the configs by key.
func (c *Configs) All() []Config {
	if c == nil {
		return nil
	}
	return c.pairs
}

// Len is the number of configs set.
func (c *Configs) Len() int {
	if c == nil {
		return 0
	}
	return len(c.pairs)
}

func (c *Configs) find(key string) (int, bool) {
	low, high := 0, len(c.pairs)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if c.pairs[mid].Key < key {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(c.pairs) && c.pairs[low].Key == key
}

// with gives the configs with some keys set (values) or removed (nil); nil when
// nothing is left.
func (c *Configs) with(set map[string]*string) *Configs {
	next := make([]Config, 0, c.Len()+len(set))
	for _, old := range c.All() {
		if _, changed := set[old.Key]; !changed {
			next = append(next, old)
		}
	}
	// any order: sorted below.
	for key, value := range set {
		if value != nil {
			next = append(next, Config{Key: key, Value: *value})
		}
	}
	if len(next) == 0 {
		return nil
	}
	slices.SortFunc(next, func(a, b Config) int { return cmp.Compare(a.Key, b.Key) })
	return &Configs{pairs: next}
}
