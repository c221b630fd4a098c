package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/broker/faulttest"
	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// TestOffsetsAgainstModel does random operations on the offsets of simple
// consumers and compares every answer with a model that keeps the history as a
// list and looks through all of it each time.
func TestOffsetsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { offsetsProperty(rt, t, nil) })
}

func offsetsProperty(rt *rapid.T, t testing.TB, wrap func(machine.Machine) machine.Machine) {
	m := &offsetsModel{t: rt, topicIDs: map[string]byte{}}
	m.w = newWorld(t, Config{OffsetsRetention: time.Hour})
	m.w.wrap = wrap
	m.w.fail = func(format string, args ...any) { rt.Fatalf(format, args...) }
	m.w.onSend = func(r machine.Reply) { m.answer = r.Body }
	m.w.refuse = func(machine.Decision) error {
		err := m.fault
		m.fault = nil
		return err
	}
	m.w.image = image.New()
	for _, topic := range modelTopics {
		m.makeTopic(topic)
	}
	m.w.load()
	m.checks = m.w.now.Add(10 * time.Minute)
	rt.Repeat(map[string]func(*rapid.T){
		"commit":         m.commit,
		"commit refused": m.commitRefused,
		"txn":            m.txnCommit,
		"marker":         m.marker,
		"fetch":          m.fetch,
		"fetch all":      m.fetchAll,
		"delete offsets": m.deleteOffsets,
		"delete group":   m.deleteGroup,
		"reload":         m.reload,
		"wait":           m.wait,
		"recreate topic": m.recreateTopic,
		"":               m.list,
	})
}

// TestOffsetsModelCatchesFaults plants faults around the machine; the model must
// find each.
func TestOffsetsModelCatchesFaults(t *testing.T) {
	for name, plan := range offsetFaults {
		t.Run(name, func(t *testing.T) {
			if !faulttest.Noticed(t, "500", "7", func(q rapid.TB) {
				rapid.Check(q, func(rt *rapid.T) {
					offsetsProperty(rt, t, func(m machine.Machine) machine.Machine {
						return &planted{Machine: m, s: &sim{}, f: plan}
					})
				})
			}) {
				t.Fatal("nobody noticed")
			}
		})
	}
}

var offsetFaults = map[string]faultPlan{
	"a record is dropped": {record: func(p *planted, rec machine.Record) (machine.Record, bool) {
		return rec, !isOffset(rec) || !p.nth(20)
	}},
	"a tombstone is dropped": {record: func(p *planted, rec machine.Record) (machine.Record, bool) {
		return rec, rec.Value != nil || !p.nth(3)
	}},
	"a transaction's offset counts at once": {record: func(p *planted, rec machine.Record) (machine.Record, bool) {
		rec.Producer = nil
		return rec, true
	}},
	"a refused commit counts": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, rec := range d.Records {
			m.Replay(rec)
		}
	}},
	"an unstable offset is shown": {decided: func(p *planted, m *Machine, d *machine.Decision) {
		for _, r := range d.Replies {
			if resp, ok := r.Body.(*kmsg.OffsetFetchResponse); ok && len(resp.Groups) > 0 && len(resp.Groups[0].Topics) > 0 {
				resp.Groups[0].Topics[0].Partitions[0].ErrorCode = none
			}
		}
	}},
	"a topic's end is not heard of": {event: func(p *planted, ev machine.Event) machine.Event {
		if c, ok := ev.(machine.ImageChanged); ok && c.Delta != nil {
			c.Delta = &image.Delta{}
			return c
		}
		return ev
	}},
	"nothing expires": {event: func(p *planted, ev machine.Event) machine.Event {
		m := p.Machine.(*Machine)
		m.checkAt = p.Machine.(*Machine).checkAt.Add(24 * time.Hour)
		return ev
	}},
}

var (
	modelGroups = []string{"g", "h"}
	modelTopics = []string{"t", "u"}
)

// event is one thing that happened to an offset, in the order of the log.
type event struct {
	group, topic string
	partition    int32
	gone         bool // a tombstone
	offset       int64
	metadata     string
	at, expires  time.Time
	topicID      byte
	producer     int64 // 0: none
	ended        bool  // the transaction ended
	committed    bool  // and was committed
}

type offsetsModel struct {
	t        *rapid.T
	w        *world
	answer   any
	fault    error
	history  []event
	groups   []string // that are there
	topicIDs map[string]byte
	meta     int64
	checks   time.Time // the next retention check
}

// effective is what counts for a partition: the last event of the log that is no
// open or aborted transaction's.
func (m *offsetsModel) effective(group, topic string, p int32) *event {
	var found *event
	for i := range m.history {
		e := &m.history[i]
		if e.group != group || e.topic != topic || e.partition != p {
			continue
		}
		switch {
		case e.gone:
			found = nil
		case e.producer == 0 || e.committed:
			found = e
		}
	}
	return found
}

// open says whether a transaction that has not ended holds the partition.
func (m *offsetsModel) open(group, topic string, p int32) bool {
	held := false
	for _, e := range m.history {
		if e.group != group || e.topic != topic || e.partition != p {
			continue
		}
		switch {
		case e.gone:
			held = false
		case e.producer != 0 && !e.ended:
			held = true
		}
	}
	return held
}

func (m *offsetsModel) exists(group string) bool { return slices.Contains(m.groups, group) }

func (m *offsetsModel) add(e event) {
	m.history = append(m.history, e)
	if !e.gone && !m.exists(e.group) {
		m.groups = append(m.groups, e.group)
	}
}

func (m *offsetsModel) makeTopic(name string) {
	m.meta++
	m.topicIDs[name] = byte(m.meta)
	img, _ := m.w.image.Apply(m.meta, []records.Metadata{&records.TopicRecord{Name: name, TopicId: [16]byte{byte(m.meta)}}})
	m.w.image = img
}

func (m *offsetsModel) place(t *rapid.T) (group, topic string, p int32) {
	return rapid.SampledFrom(modelGroups).Draw(t, "group"), rapid.SampledFrom(modelTopics).Draw(t, "topic"), rapid.Int32Range(0, 2).Draw(t, "partition")
}

func (m *offsetsModel) request(t *rapid.T) (*kmsg.OffsetCommitRequest, event) {
	group, topic, p := m.place(t)
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version = rapid.SampledFrom([]int16{2, 4, 9, 10}).Draw(t, "version")
	r.Group = group
	e := event{group: group, topic: topic, partition: p, offset: rapid.Int64Range(0, 1000).Draw(t, "offset"), metadata: rapid.SampledFrom([]string{"", "x"}).Draw(t, "metadata"), at: m.w.now, topicID: m.topicIDs[topic]}
	r.RetentionTimeMillis = -1
	if r.Version <= 4 {
		keep := rapid.SampledFrom([]time.Duration{-1, 5 * time.Minute, 3 * time.Hour}).Draw(t, "retention")
		if keep > 0 {
			r.RetentionTimeMillis = keep.Milliseconds()
			e.expires = m.w.now.Add(keep)
			e.topicID = 0 // the older value version has no place for it
		}
	}
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, [16]byte{m.topicIDs[topic]}
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = p, e.offset, &e.metadata
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r, e
}

func (m *offsetsModel) ask(body any) any {
	m.answer = nil
	m.w.ask(body, "", [16]byte{})
	return m.answer
}

func (m *offsetsModel) commit(t *rapid.T) {
	r, e := m.request(t)
	got := m.ask(r).(*kmsg.OffsetCommitResponse)
	if code := got.Topics[0].Partitions[0].ErrorCode; code != none {
		t.Fatalf("commit: error %d", code)
	}
	m.add(e)
}

func (m *offsetsModel) commitRefused(t *rapid.T) {
	r, _ := m.request(t)
	m.fault = errRefused
	if got := m.ask(r); got != errRefused {
		t.Fatalf("a refused commit is answered %v", got)
	}
}

func (m *offsetsModel) txnCommit(t *rapid.T) {
	group, topic, p := m.place(t)
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version, r.Group, r.ProducerID, r.Generation = 4, group, rapid.Int64Range(1, 3).Draw(t, "producer"), -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, [16]byte{m.topicIDs[topic]}
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = p, rapid.Int64Range(0, 1000).Draw(t, "offset")
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	got := m.ask(r).(*kmsg.TxnOffsetCommitResponse)
	if code := got.Topics[0].Partitions[0].ErrorCode; code != none {
		t.Fatalf("transactional commit: error %d", code)
	}
	m.add(event{group: group, topic: topic, partition: p, offset: rp.Offset, at: m.w.now, topicID: m.topicIDs[topic], producer: r.ProducerID})
}

func (m *offsetsModel) marker(t *rapid.T) {
	id := rapid.Int64Range(1, 3).Draw(t, "producer")
	commit := rapid.Bool().Draw(t, "commit")
	m.w.mark(machine.Marker{Producer: machine.Producer{ID: id}, Commit: commit})
	for i := range m.history {
		if e := &m.history[i]; e.producer == id && !e.ended {
			e.ended, e.committed = true, commit
		}
	}
}

// want is the answer for one partition.
func (m *offsetsModel) want(group, topic string, p int32, stable bool) string {
	if stable && m.open(group, topic, p) {
		return "unstable"
	}
	e := m.effective(group, topic, p)
	if e == nil || e.topicID != 0 && e.topicID != m.topicIDs[topic] {
		return "nothing"
	}
	return fmt.Sprintf("%d/%s", e.offset, e.metadata)
}

func toText(offset int64, metadata *string, code int16) string {
	switch {
	case code == unstableOffsetCommit && offset == -1:
		return "unstable"
	case code != none:
		return fmt.Sprint("error ", code)
	case offset == -1:
		return "nothing"
	}
	return fmt.Sprintf("%d/%s", offset, *metadata)
}

func (m *offsetsModel) fetch(t *rapid.T) {
	group, topic, p := m.place(t)
	stable := rapid.Bool().Draw(t, "stable")
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.RequireStable = rapid.SampledFrom([]int16{7, 9, 10}).Draw(t, "version"), stable
	var got string
	if r.Version < 8 {
		r.Group = group
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{p}
		r.Topics = append(r.Topics, rt)
		a := m.ask(r).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
		got = toText(a.Offset, a.Metadata, a.ErrorCode)
	} else {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = group
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, [16]byte{m.topicIDs[topic]}, []int32{p}
		rg.Topics = append(rg.Topics, rt)
		r.Groups = append(r.Groups, rg)
		a := m.ask(r).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
		got = toText(a.Offset, a.Metadata, a.ErrorCode)
	}
	if want := m.want(group, topic, p, stable); got != want {
		t.Fatalf("%s %s-%d is %s, want %s", group, topic, p, got, want)
	}
}

func (m *offsetsModel) fetchAll(t *rapid.T) {
	group := rapid.SampledFrom(modelGroups).Draw(t, "group")
	stable := rapid.Bool().Draw(t, "stable")
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.RequireStable = 9, stable
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	r.Groups = append(r.Groups, rg)
	var got, want []string
	for _, rt := range m.ask(r).(*kmsg.OffsetFetchResponse).Groups[0].Topics {
		for _, p := range rt.Partitions {
			got = append(got, fmt.Sprintf("%s-%d=%s", rt.Topic, p.Partition, toText(p.Offset, p.Metadata, p.ErrorCode)))
		}
	}
	for _, topic := range modelTopics {
		for p := range int32(3) {
			// What a transaction is about to change is told of where something is committed, as unstable.
			if w := m.want(group, topic, p, stable); w != "nothing" && m.want(group, topic, p, false) != "nothing" {
				want = append(want, fmt.Sprintf("%s-%d=%s", topic, p, w))
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %v, want %v", group, got, want)
	}
}

func (m *offsetsModel) deleteOffsets(t *rapid.T) {
	group, topic, p := m.place(t)
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = group
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic = topic
	rt.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: p}}
	r.Topics = append(r.Topics, rt)
	got := m.ask(r).(*kmsg.OffsetDeleteResponse)
	if m.exists(group) != (got.ErrorCode == none) {
		t.Fatalf("deleting offsets of %s: error %d", group, got.ErrorCode)
	}
	if m.effective(group, topic, p) != nil {
		m.add(event{group: group, topic: topic, partition: p, gone: true})
	}
}

// forget drops all of a group.
func (m *offsetsModel) forget(group string) {
	m.history = slices.DeleteFunc(m.history, func(e event) bool { return e.group == group })
	m.groups = slices.DeleteFunc(m.groups, func(g string) bool { return g == group })
}

func (m *offsetsModel) deleteGroup(t *rapid.T) {
	group := rapid.SampledFrom(modelGroups).Draw(t, "group")
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Version, r.Groups = 2, []string{group}
	got := m.ask(r).(*kmsg.DeleteGroupsResponse)
	if m.exists(group) != (got.Groups[0].ErrorCode == none) {
		t.Fatalf("deleting %s: error %d", group, got.Groups[0].ErrorCode)
	}
	m.forget(group)
}

// used says whether anything of a group is in the log.
func (m *offsetsModel) used(group string) bool {
	for _, topic := range modelTopics {
		for p := range int32(3) {
			if m.effective(group, topic, p) != nil || m.open(group, topic, p) {
				return true
			}
		}
	}
	return false
}

func (m *offsetsModel) reload(t *rapid.T) {
	m.w.load()
	m.checks = m.w.now.Add(10 * time.Minute)
}

func (m *offsetsModel) wait(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Minute, 9 * time.Minute, 40 * time.Minute}).Draw(t, "time")
	end := m.w.now.Add(d)
	m.w.advance(d)
	for ; !m.checks.After(end); m.checks = m.checks.Add(10 * time.Minute) {
		for _, g := range modelGroups {
			for _, topic := range modelTopics {
				for p := range int32(3) {
					e := m.effective(g, topic, p)
					if e == nil || m.open(g, topic, p) {
						continue
					}
					until := e.at.Add(time.Hour)
					if !e.expires.IsZero() {
						until = e.expires
					}
					if !until.After(m.checks) {
						m.add(event{group: g, topic: topic, partition: p, gone: true})
					}
				}
			}
			if m.exists(g) && !m.used(g) {
				m.forget(g)
			}
		}
	}
}

// recreateTopic deletes a topic and makes another of that name, in one image or
// in two.
func (m *offsetsModel) recreateTopic(t *rapid.T) {
	topic := rapid.SampledFrom(modelTopics).Draw(t, "topic")
	old := m.topicIDs[topic]
	m.meta++
	img, delta := m.w.image.Apply(m.meta, []records.Metadata{&records.RemoveTopicRecord{TopicId: [16]byte{old}}})
	m.w.image = img
	if rapid.Bool().Draw(t, "at once") {
		was := img
		m.makeTopic(topic)
		_, second := was.Apply(m.meta, []records.Metadata{&records.TopicRecord{Name: topic, TopicId: [16]byte{byte(m.meta)}}})
		delta = delta.Then(second)
		m.w.tell(machine.ImageChanged{Image: m.w.image, Delta: delta})
	} else {
		m.w.tell(machine.ImageChanged{Image: m.w.image, Delta: delta})
		m.makeTopic(topic)
		m.w.tell(machine.ImageChanged{Image: m.w.image, Delta: &image.Delta{Topics: []string{topic}}})
	}
	for _, g := range modelGroups {
		for p := range int32(3) {
			if m.effective(g, topic, p) != nil || m.open(g, topic, p) {
				m.add(event{group: g, topic: topic, partition: p, gone: true})
			}
		}
	}
}

// list compares the groups, and how many offsets they have, after every operation.
func (m *offsetsModel) list(t *rapid.T) {
	r := kmsg.NewPtrListGroupsRequest()
	r.Version = 4
	var got []string
	for _, g := range m.ask(r).(*kmsg.ListGroupsResponse).Groups {
		got = append(got, g.Group)
	}
	want := slices.Clone(m.groups)
	slices.SortFunc(want, strings.Compare)
	if !slices.Equal(got, want) {
		t.Fatalf("groups %v, want %v", got, want)
	}
	offsets := 0
	for _, g := range modelGroups {
		f := kmsg.NewPtrOffsetFetchRequest()
		f.Version, f.Groups = 9, []kmsg.OffsetFetchRequestGroup{{Group: g}}
		for _, topic := range m.ask(f).(*kmsg.OffsetFetchResponse).Groups[0].Topics {
			offsets += len(topic.Partitions)
		}
	}
	if got := m.ask(CountOffsets{}); got != CountedOffsets(offsets) {
		t.Fatalf("%v offsets, want %d", got, offsets)
	}
}
