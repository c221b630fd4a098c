package image

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"millrace/wire/records"
)

// naive is the model: plain maps, copied whole.
type naive struct {
	offset   int64
	cluster  string
	producer int64
	topics   map[string]naiveTopic
	brokers  map[int32]Broker
	configs  map[Resource]map[string]string
	levels   map[string]int16
}

type naiveTopic struct {
	id         [16]byte
	partitions []Partition
}

func (n naive) clone() naive {
	c := n
	c.topics, c.brokers, c.levels = maps.Clone(n.topics), maps.Clone(n.brokers), maps.Clone(n.levels)
	for name, t := range c.topics {
		t.partitions = slices.Clone(t.partitions)
		c.topics[name] = t
	}
	c.configs = map[Resource]map[string]string{}
	for r, m := range n.configs {
		c.configs[r] = maps.Clone(m)
	}
	return c
}

func newNaive() naive {
	return naive{topics: map[string]naiveTopic{}, brokers: map[int32]Broker{}, configs: map[Resource]map[string]string{}, levels: map[string]int16{}}
}

func (n *naive) nameOf(id [16]byte) string {
	for name, t := range n.topics {
		if t.id == id {
			return name
		}
	}
	panic("no such topic")
}

func (n *naive) apply(r records.Metadata) {
	switch r := r.(type) {
	case *records.TopicRecord:
		n.topics[r.Name] = naiveTopic{id: r.TopicId}
	case *records.PartitionRecord:
		name := n.nameOf(r.TopicId)
		t := n.topics[name]
		t.partitions = append(t.partitions, Partition{Index: r.PartitionId, Replicas: r.Replicas, ISR: r.Isr, Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch})
		n.topics[name] = t
	case *records.PartitionChangeRecord:
		p := &n.topics[n.nameOf(r.TopicId)].partitions[r.PartitionId]
		p.PartitionEpoch++
		if r.Isr != nil {
			p.ISR = r.Isr
		}
		if r.Leader != -2 {
			p.Leader = r.Leader
			p.LeaderEpoch++
		}
	case *records.RemoveTopicRecord:
		name := n.nameOf(r.TopicId)
		delete(n.topics, name)
		delete(n.configs, Resource{TopicResource, name})
	case *records.ConfigRecord:
		key := Resource{ResourceType(r.ResourceType), r.ResourceName}
		if n.configs[key] == nil {
			n.configs[key] = map[string]string{}
		}
		if r.Value == nil {
			delete(n.configs[key], r.Name)
		} else {
			n.configs[key][r.Name] = *r.Value
		}
		if len(n.configs[key]) == 0 {
			delete(n.configs, key)
		}
	case *records.RegisterBrokerRecord:
		n.brokers[r.BrokerId] = Broker{ID: r.BrokerId, Epoch: r.BrokerEpoch, Fenced: r.Fenced}
	case *records.UnregisterBrokerRecord:
		delete(n.brokers, r.BrokerId)
	case *records.BrokerRegistrationChangeRecord:
		b := n.brokers[r.BrokerId]
		b.Fenced = r.Fenced > 0 || r.Fenced == 0 && b.Fenced
		b.InControlledShutdown = r.InControlledShutdown > 0 || r.InControlledShutdown == 0 && b.InControlledShutdown
		n.brokers[r.BrokerId] = b
	case *records.FeatureLevelRecord:
		n.levels[r.Name] = r.FeatureLevel
		if r.FeatureLevel == 0 {
			delete(n.levels, r.Name)
		}
	case *records.ProducerIdsRecord:
		n.producer = r.NextProducerId
	}
}

// check compares an image with the model through the image's methods.
func (n naive) check(i *Image) error {
	if i.Offset() != n.offset || i.ClusterID() != n.cluster || i.NextProducerID() != n.producer || i.NumTopics() != len(n.topics) || i.NumBrokers() != len(n.brokers) {
		return fmt.Errorf("offset %d, cluster %q, producer %d, %d topics, %d brokers; the model: %+v", i.Offset(), i.ClusterID(), i.NextProducerID(), i.NumTopics(), i.NumBrokers(), n)
	}
	var names []string
	for t := range i.Topics() {
		names = append(names, t.Name)
		want, there := n.topics[t.Name]
		if !there || want.id != t.ID || len(want.partitions) != len(t.Partitions) || i.TopicByID(t.ID) != t || i.TopicByName(t.Name) != t {
			return fmt.Errorf("topic %+v, the model: %+v", t, want)
		}
		for at, p := range t.Partitions {
			w := want.partitions[at]
			if p.Index != w.Index || p.Leader != w.Leader || p.LeaderEpoch != w.LeaderEpoch || p.PartitionEpoch != w.PartitionEpoch ||
				!slices.Equal(p.ISR, w.ISR) || !slices.Equal(p.Replicas, w.Replicas) || t.Partition(int32(at)) != p {
				return fmt.Errorf("partition %+v, the model: %+v", p, w)
			}
		}
	}
	if want := slices.Sorted(maps.Keys(n.topics)); !slices.Equal(names, want) {
		return fmt.Errorf("topics %v, the model: %v", names, want)
	}
	for _, t := range n.topics {
		if i.TopicByID(t.id) == nil {
			return fmt.Errorf("topic id %x is not found", t.id)
		}
	}
	for b := range i.Brokers() {
		w := n.brokers[b.ID]
		if b.Epoch != w.Epoch || b.Fenced != w.Fenced || b.InControlledShutdown != w.InControlledShutdown || i.Broker(b.ID) != b {
			return fmt.Errorf("broker %+v, the model: %+v", b, w)
		}
	}
	for _, kind := range []ResourceType{TopicResource, BrokerResource, ClientMetricsResource, GroupResource} {
		var want []string
		for r := range n.configs {
			if r.Type == kind {
				want = append(want, r.Name)
			}
		}
		slices.Sort(want)
		if got := i.ConfigResources(kind); !slices.Equal(got, want) {
			return fmt.Errorf("resources of type %d: %v, the model: %v", kind, got, want)
		}
		if got := i.HasConfigs(kind); got != (len(want) > 0) {
			return fmt.Errorf("resources of type %d: there are some: %v, the model: %v", kind, got, want)
		}
	}
	for r, m := range n.configs {
		c := i.Configs(r.Type, r.Name)
		got := map[string]string{}
		for _, pair := range c.All() {
			got[pair.Key] = pair.Value
			if v, set := c.Get(pair.Key); !set || v != pair.Value {
				return fmt.Errorf("Get(%q) of %v is %q, %t", pair.Key, r, v, set)
			}
		}
		if !maps.Equal(got, m) || !slices.IsSortedFunc(c.All(), func(a, b Config) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) }) {
			return fmt.Errorf("configs of %v: %v, the model: %v", r, got, m)
		}
	}
	got := map[string]int16{}
	for _, l := range i.Features() {
		got[l.Name] = l.Level
	}
	if !maps.Equal(got, n.levels) {
		return fmt.Errorf("features %v, the model: %v", got, n.levels)
	}
	return nil
}

// next draws a record that fits the model's state.
func (n *naive) next(t *rapid.T, offset int64) records.Metadata {
	topics := slices.Sorted(maps.Keys(n.topics))
	brokers := slices.Sorted(maps.Keys(n.brokers))
	ints := func(label string) []int32 {
		return rapid.SliceOfN(rapid.Int32Range(0, 5), 1, 3).Draw(t, label)
	}
	for {
		switch rapid.IntRange(0, 11).Draw(t, "record") {
		case 0:
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
			if _, there := n.topics[name]; there {
				continue
			}
			// Ids whose first half is the same meet in one bucket.
			id := [16]byte{byte(rapid.IntRange(0, 2).Draw(t, "half")), 8: byte(offset >> 8), 9: byte(offset), 10: byte(len(n.topics)), 11: name[0]}
			return &records.TopicRecord{Name: name, TopicId: id}
		case 1, 2, 3:
			if len(topics) == 0 {
				continue
			}
			topic := n.topics[rapid.SampledFrom(topics).Draw(t, "topic")]
			r := records.NewPartitionRecord()
			r.TopicId, r.PartitionId, r.Replicas, r.Isr, r.Leader, r.LeaderEpoch, r.PartitionEpoch = topic.id, int32(len(topic.partitions)), ints("replicas"), ints("isr"), 0, 0, 0
			return r
		case 4, 5, 6:
			if len(topics) == 0 {
				continue
			}
			topic := n.topics[rapid.SampledFrom(topics).Draw(t, "topic")]
			if len(topic.partitions) == 0 {
				continue
			}
			r := records.NewPartitionChangeRecord()
			r.TopicId, r.PartitionId = topic.id, int32(rapid.IntRange(0, len(topic.partitions)-1).Draw(t, "partition"))
			r.Leader = rapid.Int32Range(-2, 5).Draw(t, "leader")
			if rapid.Bool().Draw(t, "isr?") {
				r.Isr = ints("isr")
			}
			return r
		case 7:
			if len(topics) == 0 {
				continue
			}
			return &records.RemoveTopicRecord{TopicId: n.topics[rapid.SampledFrom(topics).Draw(t, "topic")].id}
		case 8, 9:
			r := &records.ConfigRecord{
				ResourceType: rapid.SampledFrom([]int8{2, 4, 16, 32}).Draw(t, "type"), ResourceName: rapid.SampledFrom([]string{"", "a", "b", "1"}).Draw(t, "resource"),
				Name: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "key"),
			}
			if rapid.IntRange(0, 2).Draw(t, "set?") > 0 {
				v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")
				r.Value = &v
			}
			return r
		case 10:
			if len(brokers) == 0 || rapid.Bool().Draw(t, "register") {
				r := records.NewRegisterBrokerRecord()
				r.BrokerId, r.BrokerEpoch, r.Fenced = rapid.Int32Range(0, 3).Draw(t, "broker"), offset, rapid.Bool().Draw(t, "fenced")
				return r
			}
			b := n.brokers[rapid.SampledFrom(brokers).Draw(t, "broker")]
			if rapid.IntRange(0, 3).Draw(t, "unregister") == 0 {
				return &records.UnregisterBrokerRecord{BrokerId: b.ID, BrokerEpoch: b.Epoch}
			}
			return &records.BrokerRegistrationChangeRecord{
				BrokerId: b.ID, BrokerEpoch: b.Epoch, Fenced: int8(rapid.IntRange(-1, 1).Draw(t, "fence")), InControlledShutdown: int8(rapid.IntRange(0, 1).Draw(t, "shutdown")),
			}
		case 11:
			if rapid.Bool().Draw(t, "feature") {
				return &records.FeatureLevelRecord{Name: rapid.SampledFrom([]string{"f", "g"}).Draw(t, "feature"), FeatureLevel: int16(rapid.IntRange(0, 3).Draw(t, "level"))}
			}
			return &records.ProducerIdsRecord{BrokerEpoch: -1, NextProducerId: n.producer + 1000}
		}
	}
}

// TestAgainstModel applies random records, and at the end checks every image
// that ever was: none may have changed since. Deltas must name exactly what
// differs, also when merged over several steps.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model, now := newNaive(), New()
		models, images, deltas := []naive{model}, []*Image{now}, []*Delta{nil}
		for range rapid.IntRange(1, 25).Draw(t, "entries") {
			model = model.clone()
			model.offset++
			var recs []records.Metadata
			for range rapid.IntRange(0, 6).Draw(t, "records") {
				r := model.next(t, model.offset)
				model.apply(r)
				recs = append(recs, r)
			}
			var delta *Delta
			now, delta = now.Apply(model.offset, recs)
			models, images, deltas = append(models, model), append(images, now), append(deltas, delta)
		}
		for at := range images {
			if err := models[at].check(images[at]); err != nil {
				t.Fatalf("image %d: %v", at, err)
			}
			e, err := DecodeEntry(images[at].Snapshot().Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			if again := FromSnapshot(images[at].Offset(), e); !Equal(again, images[at]) {
				t.Fatalf("image %d is another one after a snapshot", at)
			}
		}
		from := rapid.IntRange(0, len(images)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(images)-1).Draw(t, "to")
		var merged *Delta
		for _, d := range deltas[from+1 : to+1] {
			merged = merged.Then(d)
		}
		if err := covers(merged, Diff(images[from], images[to]), images[to]); err != nil {
			t.Fatalf("images %d to %d: %v", from, to, err)
		}
	})
}

// Thousands of configs of one resource in one entry, as a client may set on a
// broker, cost as much as they are, not the square of it.
func TestManyConfigsOfOneResource(t *testing.T) {
	const n = 4000
	var recs []records.Metadata
	for i := range n {
		v := "v"
		recs = append(recs, &records.ConfigRecord{ResourceType: int8(BrokerResource), ResourceName: "1", Name: fmt.Sprintf("%d.key", i), Value: &v})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	img, _ := New().Apply(1, recs)
	runtime.ReadMemStats(&after)
	if got := img.Configs(BrokerResource, "1"); got.Len() != n || !slices.IsSortedFunc(got.All(), func(a, b Config) int { return strings.Compare(a.Key, b.Key) }) {
		t.Fatalf("%d configs, sorted or not", got.Len())
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1024*n {
		t.Errorf("%d bytes were allocated for %d configs", took, n)
	}
}

// covers says whether a merged delta names all that a direct comparison finds,
// and no topic that is not there.
func covers(merged, direct *Delta, to *Image) error {
	if merged == nil {
		merged = &Delta{}
	}
	for _, name := range direct.Topics {
		if !slices.Contains(merged.Topics, name) {
			return fmt.Errorf("topic %q changed and is not named in %+v", name, merged)
		}
	}
	for _, name := range merged.Topics {
		if to.TopicByName(name) == nil {
			return fmt.Errorf("topic %q is named and not there", name)
		}
	}
	for _, d := range direct.DeletedTopics {
		if !slices.Contains(merged.DeletedTopics, d) {
			return fmt.Errorf("topic %v was deleted and is not named in %+v", d, merged)
		}
	}
	for _, r := range direct.Configs {
		if !slices.Contains(merged.Configs, r) {
			return fmt.Errorf("configs of %v changed and are not named in %+v", r, merged)
		}
	}
	for _, b := range direct.Brokers {
		if !slices.Contains(merged.Brokers, b) {
			return fmt.Errorf("broker %d changed and is not named in %+v", b, merged)
		}
	}
	if direct.Features && !merged.Features {
		return fmt.Errorf("features changed unnamed")
	}
	if !slices.IsSorted(merged.Topics) || !slices.IsSorted(merged.Brokers) {
		return fmt.Errorf("unsorted: %+v", merged)
	}
	return nil
}

// TestManyChangeOneImage: images derived from one another share trees; deriving
// and reading at once must not meet in memory (run with -race).
func TestManyChangeOneImage(t *testing.T) {
	base := New()
	for i := range 500 {
		base, _ = base.Apply(int64(i+1), []records.Metadata{&records.TopicRecord{Name: fmt.Sprintf("t%03d", i), TopicId: [16]byte{byte(i), byte(i >> 8), 1}}})
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			mine := base
			for i := range 100 {
				id := [16]byte{byte(i), byte(g), 2}
				mine, _ = mine.Apply(mine.Offset()+1, []records.Metadata{
					&records.TopicRecord{Name: fmt.Sprintf("g%d-%d", g, i), TopicId: id}, &records.RemoveTopicRecord{TopicId: [16]byte{byte(i), 0, 1}},
				})
				if mine.TopicByID(id) == nil || base.TopicByID([16]byte{byte(i), 0, 1}) == nil {
					t.Error("a change is missing, or is where it must not be")
				}
			}
			if mine.NumTopics() != 500 || base.NumTopics() != 500 {
				t.Errorf("%d topics in mine, %d in the base", mine.NumTopics(), base.NumTopics())
			}
		})
	}
	wg.Wait()
}

func TestImpossibleRecordsPanic(t *testing.T) {
	one, _ := New().Apply(1, []records.Metadata{&records.TopicRecord{Name: "a", TopicId: [16]byte{1}}})
	for name, r := range map[string]records.Metadata{
		"topic twice":            &records.TopicRecord{Name: "a", TopicId: [16]byte{2}},
		"id twice":               &records.TopicRecord{Name: "b", TopicId: [16]byte{1}},
		"partition of no topic":  &records.PartitionRecord{TopicId: [16]byte{9}},
		"partition out of order": &records.PartitionRecord{TopicId: [16]byte{1}, PartitionId: 1},
		"no such topic":          &records.RemoveTopicRecord{TopicId: [16]byte{9}},
		"no such broker":         &records.FenceBrokerRecord{Id: 7},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: applied", name)
				}
			}()
			one.Apply(2, []records.Metadata{r})
		}()
	}
}

func TestClusterAndNodes(t *testing.T) {
	e := &Entry{Term: 3, ClusterID: "abc", Nodes: []Node{{ID: 1, Incarnation: 2, Directory: [16]byte{9}}}}
	decoded, err := DecodeEntry(e.Append(nil))
	if err != nil || decoded.Term != 3 || decoded.ClusterID != "abc" || len(decoded.Nodes) != 1 || decoded.Nodes[0] != e.Nodes[0] {
		t.Fatalf("%v: %+v", err, decoded)
	}
	i, d := New().ApplyEntry(5, decoded)
	if i.ClusterID() != "abc" || *i.Node(1) != e.Nodes[0] || i.Node(2) != nil || !d.Cluster {
		t.Fatalf("%+v, %+v", i, d)
	}
	if !Equal(i, FromSnapshot(5, i.Snapshot())) {
		t.Fatal("the snapshot lost it")
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add((&Entry{Term: 1, ClusterID: "x", Nodes: []Node{{ID: 1}}, Records: []records.Metadata{&records.TopicRecord{Name: "a"}}}).Append(nil))
	f.Add([]byte{1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			return
		}
		again, err := DecodeEntry(e.Append(nil))
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if !bytes.Equal(again.Append(nil), e.Append(nil)) {
			t.Fatal("it encodes to something else the second time")
		}
	})
}

func BenchmarkApplyPartitionChange(b *testing.B) {
	base := New()
	for i := range 10000 {
		id := [16]byte{byte(i), byte(i >> 8), 1}
		p := records.NewPartitionRecord()
		p.TopicId, p.PartitionId, p.Leader, p.LeaderEpoch, p.PartitionEpoch = id, 0, 1, 0, 0
		base, _ = base.Apply(int64(i+1), []records.Metadata{&records.TopicRecord{Name: fmt.Sprintf("topic-%05d", i), TopicId: id}, p})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c := records.NewPartitionChangeRecord()
		c.TopicId, c.PartitionId, c.Isr = [16]byte{byte(i), byte(i >> 8), 1}, 0, []int32{1}
		base, _ = base.Apply(base.Offset()+1, []records.Metadata{c})
		i = (i + 7) % 10000
	}
}

func BenchmarkTopicByID(b *testing.B) {
	base := New()
	for i := range 10000 {
		base, _ = base.Apply(int64(i+1), []records.Metadata{&records.TopicRecord{Name: fmt.Sprintf("topic-%05d", i), TopicId: [16]byte{byte(i), byte(i >> 8), 1}}})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if base.TopicByID([16]byte{byte(i), byte(i >> 8), 1}) == nil {
			b.Fatal("not found")
		}
		i = (i + 7) % 10000
	}
}
