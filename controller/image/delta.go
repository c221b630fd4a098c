package image

import (
	"cmp"
	"slices"
)

// Delta names what changed between two images. Whoever reads it looks the new
// values up in the later image; a broker or config resource that is not there
// any more was removed. Removals come before the rest: a name in DeletedTopics
// and Topics is a topic deleted and created anew.
type Delta struct {
	Topics        []string // created or changed, by name
	DeletedTopics []DeletedTopic
	Configs       []Resource // by type, then name
	Brokers       []int32
	Features      bool
	Cluster       bool // the cluster id or a controller's identity
}

// DeletedTopic is a topic that is gone.
type DeletedTopic struct {
	Name string
	ID   [16]byte
}

// Resource is what a config belongs to.
type Resource struct {
	Type ResourceType
	Name string
}

// Empty says that nothing changed but the offset.
func (d *Delta) Empty() bool {
	return d == nil || len(d.Topics) == 0 && len(d.DeletedTopics) == 0 && len(d.Configs) == 0 && len(d.Brokers) == 0 && !d.Features && !d.Cluster
}

// Then gives the delta of both changes, d first. Either may be nil.
func (d *Delta) Then(later *Delta) *Delta {
	if d.Empty() {
		if later == nil {
			return &Delta{}
		}
		return later
	}
	if later.Empty() {
		return d
	}
	gone := make(map[string]bool, len(later.DeletedTopics))
	for _, t := range later.DeletedTopics {
		gone[t.Name] = true
	}
	b := &deltaBuilder{features: d.Features || later.Features, cluster: d.Cluster || later.Cluster}
	for _, name := range d.Topics {
		if !gone[name] {
			b.topics = append(b.topics, name)
		}
	}
	b.topics = append(b.topics, later.Topics...)
	b.deleted = append(append(b.deleted, d.DeletedTopics...), later.DeletedTopics...)
	b.configs = append(append(b.configs, d.Configs...), later.Configs...)
	b.brokers = append(append(b.brokers, d.Brokers...), later.Brokers...)
	return b.build()
}

// Diff names all that differs between two images, as a snapshot that replaces
// one by the other has no records to tell it.
func Diff(from, to *Image) *Delta {
	b := &deltaBuilder{}
	for t := range from.Topics() {
		if now := to.TopicByID(t.ID); now == nil {
			b.deleted = append(b.deleted, DeletedTopic{Name: t.Name, ID: t.ID})
		}
	}
	for t := range to.Topics() {
		if from.TopicByID(t.ID) != t {
			b.topics = append(b.topics, t.Name)
		}
	}
	for broker := range from.Brokers() {
		if to.Broker(broker.ID) == nil {
			b.brokers = append(b.brokers, broker.ID)
		}
	}
	for broker := range to.Brokers() {
		if from.Broker(broker.ID) != broker {
			b.brokers = append(b.brokers, broker.ID)
		}
	}
	from.configs.Scan(func(key configName, _ *Configs) bool {
		if !(&change{next: *to}).has(key) {
			b.configs = append(b.configs, resourceOf(key))
		}
		return true
	})
	to.configs.Scan(func(key configName, c *Configs) bool {
		if old, _ := from.configs.Get(key); old != c {
			b.configs = append(b.configs, resourceOf(key))
		}
		return true
	})
	b.features = !slices.Equal(from.Features(), to.Features())
	b.cluster = from.clusterID != to.clusterID
	for n := range to.Nodes() {
		if old := from.Node(n.ID); old == nil || *old != *n {
			b.cluster = true
		}
	}
	return b.build()
}

func resourceOf(key configName) Resource {
	return Resource{Type: ResourceType(key[0]), Name: string(key[1:])}
}

// deltaBuilder collects names in the order of the records; build sorts them and
// drops repetitions.
type deltaBuilder struct {
	topics            []string
	deleted           []DeletedTopic
	configs           []Resource
	brokers           []int32
	features, cluster bool
}

func (b *deltaBuilder) removeTopic(t *Topic) {
	b.topics = slices.DeleteFunc(b.topics, func(name string) bool { return name == t.Name })
	b.deleted = append(b.deleted, DeletedTopic{Name: t.Name, ID: t.ID})
}

func (b *deltaBuilder) build() *Delta {
	slices.Sort(b.topics)
	slices.Sort(b.brokers)
	slices.SortFunc(b.configs, func(x, y Resource) int {
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Name, y.Name))
	})
	return &Delta{
		Topics: slices.Compact(b.topics), DeletedTopics: b.deleted, Configs: slices.Compact(b.configs),
		Brokers: slices.Compact(b.brokers), Features: b.features, Cluster: b.cluster,
	}
}
