// Package normal compares decoded answers of two servers: it takes out of each what
// two servers may differ in, by what a field is (a Kind), never by API, and lists
// where they differ then. Arrays whose order Kafka leaves open are compared as
// multisets; Unordered says which, and why.
//
// It knows what answers are made of, but not what was asked nor who was.
package normal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kind is what a field holds, where two servers may differ in its value.
type Kind string

const (
	// An id that a server makes up: numbered in order of appearance, so that the
	// same id twice is still seen.
	ID Kind = "id"
	// A leader's or a broker's epoch: numbered like an id, as restarts raise it by
	// more in one server than in another.
	Epoch Kind = "epoch"
	// The term of the metadata's quorum.
	Term Kind = "term"
	// An offset of the metadata log: whether it is known.
	MetadataOffset Kind = "metadata offset"
	// Where something listens or lies: whether it is told.
	Address Kind = "address"
	// How large the disk is, and how much of it is free: whether it is told.
	Disk Kind = "disk"
	// How much room a log takes: exact, but where the broker has written its batches
	// anew in bytes of its own (resized); the records are compared.
	Size Kind = "size"
	// A moment: now, or else exact.
	Moment Kind = "moment"
	// How long to hold back: quotas are the servers' own.
	Throttle Kind = "throttle"
	// Words: null, empty, or some.
	Words Kind = "words"
	// Record batches: header and records of each.
	Batches Kind = "batches"
	// What is compared somewhere else: of what each server is able to do, package
	// frames has tables.
	Elsewhere Kind = "versions"
)

// kinds says what a field is, by its name in kmsg's structs, or by the struct's
// name and its own where one name means several things.
var kinds = map[string]Kind{
	"ClusterID": ID, "TopicID": ID, "MemberID": ID, "ProducerID": ID, "SessionID": ID,
	"ClientInstanceID": ID, "SubscriptionID": ID, "ReplicaDirectoryID": ID,
	"JoinGroupResponse.LeaderID": ID,

	"LeaderEpoch": Epoch, "CurrentLeaderEpoch": Epoch, "BrokerEpoch": Epoch,
	"FetchResponseTopicPartitionDivergingEpoch.Epoch":               Epoch,
	"DescribeQuorumResponseTopicPartition.LeaderEpoch":              Term,
	"DescribeQuorumResponseTopicPartition.HighWatermark":            MetadataOffset,
	"DescribeQuorumResponseTopicPartitionReplicaState.LogEndOffset": MetadataOffset,
	"FinalizedFeaturesEpoch":                                        MetadataOffset,

	"Host": Address, "Port": Address, "ClientHost": Address, "Dir": Address,
	"TotalBytes": Disk, "UsableBytes": Disk,
	"DescribeLogDirsResponseDirTopicPartition.Size": Size,
	"ThrottleMillis": Throttle,
	"LogAppendTime":  Moment, "Timestamp": Moment, "LastTimestamp": Moment,
	"LastFetchTimestamp": Moment, "LastCaughtUpTimestamp": Moment,
	"ErrorMessage": Words, "Documentation": Words,
	"RecordBatches": Batches,
	"ApiKeys":       Elsewhere, "SupportedFeatures": Elsewhere, "FinalizedFeatures": Elsewhere,
}

// keyed names the lists whose elements are told apart by a field: differences
// are those of one element then.
var keyed = map[string]string{
	"CreateTopicsResponseTopic.Configs":       "Name",
	"DescribeConfigsResponseResource.Configs": "Name",
	"MetadataResponse.Topics":                 "Topic",
}

// names are the fields that name a topic, a group or the like. What bears the
// name of another sequence is left out of lists.
var names = []string{"Topic", "Group", "Name", "ResourceName"}

// Normaliser takes out of one server's answers what two servers may differ in.
// An id keeps its number through all answers of a play (ids).
type Normaliser struct {
	// Run begins the names of everything a run makes, own those of this play; "" where
	// nobody plays beside it.
	Run, own string
	// Old: the peer is Kafka 3.9, which leaves the order of more lists open.
	Old bool
	// Now is what moments are held against; Normal and Alike set it.
	Now time.Time
	// Packed are the topics that a broker may have compressed anew, Stamped those whose
	// records may bear its own time, and Cleaned those that it may have compacted.
	Packed, Stamped, Cleaned map[string]bool

	kinds map[string]Kind
	ids   ids
	topic string // whose logs are being normalised
}

// resized says that the bytes of a topic's batches may be a server's own: two
// compressors do not make the same ones, and cleaning a batch that has tombstones makes
// the time at which they may go its base (KIP-534), so that how long the records'
// times are depends on how long after their append that was.
func (n *Normaliser) resized(topic string) bool {
	return n.Packed[topic] || n.Stamped[topic] && n.Cleaned[topic]
}

// Asked takes note of what a request says of compression and times, and takes out of it
// what would be answered by how large a server makes its batches.
func (n *Normaliser) Asked(req kmsg.Request) {
	note := func(topic, key string, value *string) {
		switch {
		case key == "compression.type" && (value == nil || *value != "producer"):
			n.Packed[topic] = true
		case key == "message.timestamp.type" && value != nil && *value == "LogAppendTime":
			n.Stamped[topic] = true
		case key == "cleanup.policy" && value != nil && strings.Contains(*value, "compact"):
			n.Cleaned[topic] = true
		}
	}
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		n.unmeasured(r)
	case *kmsg.ListOffsetsRequest:
		n.untimed(r)
	case *kmsg.CreateTopicsRequest:
		for _, t := range r.Topics {
			for _, c := range t.Configs {
				note(t.Topic, c.Name, c.Value)
			}
		}
	case *kmsg.AlterConfigsRequest:
		for _, x := range r.Resources {
			for i, c := range x.Configs {
				note(x.ResourceName, c.Name, c.Value)
				x.Configs[i].Value = n.unlimited(x.ResourceName, c.Name, c.Value)
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, x := range r.Resources {
			for i, c := range x.Configs {
				note(x.ResourceName, c.Name, c.Value)
				x.Configs[i].Value = n.unlimited(x.ResourceName, c.Name, c.Value)
			}
		}
	}
}

// unlimited has a topic whose batches a broker compresses anew take any of them or none:
// which of them a limit between the two lets in depends on the bytes that a codec's
// implementation makes of them.
func (n *Normaliser) unlimited(topic, key string, value *string) *string {
	if key != "max.message.bytes" || value == nil || !n.Packed[topic] {
		return value
	}
	if limit, err := strconv.Atoi(*value); err == nil && limit > 1 && limit < 1<<20 {
		return kmsg.StringPtr("1")
	}
	return value
}

// unmeasured has a Fetch of topics that are resized ask for one batch or for as much as
// there is: how many come within a limit between the two depends on their bytes.
func (n *Normaliser) unmeasured(r *kmsg.FetchRequest) {
	extreme := func(limit *int32) {
		if *limit > 1 && *limit < 1<<20 {
			*limit = 1
		}
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		if !n.resized(t.Topic) {
			continue
		}
		extreme(&r.MaxBytes)
		extreme(&r.MinBytes)
		for j := range t.Partitions {
			extreme(&t.Partitions[j].PartitionMaxBytes)
		}
	}
}

// untimed has a ListOffsets by time of topics that are resized and cleaned ask for their
// beginning: which batches a cleaning notes the times of together, and so which of two
// records of one time is found, depends on their bytes.
func (n *Normaliser) untimed(r *kmsg.ListOffsetsRequest) {
	const beginning, latestTime = -2, -3
	for i := range r.Topics {
		t := &r.Topics[i]
		if !n.resized(t.Topic) || !n.Cleaned[t.Topic] {
			continue
		}
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.Timestamp >= 0 || p.Timestamp == latestTime {
				p.Timestamp = beginning
			}
		}
	}
}

// New is a normaliser of plays beside which others are played: what they have made is
// left out of lists. run begins all their names, own those of this one.
func New(run, own string) *Normaliser {
	n := With(kinds)
	n.Run, n.own = run, own
	return n
}

// With is a normaliser of plays that meet nobody, by kinds of its own: of fields by
// name, or by the struct's name and their own.
func With(kinds map[string]Kind) *Normaliser {
	n := &Normaliser{kinds: kinds, Now: time.Now(), Packed: map[string]bool{}, Stamped: map[string]bool{}, Cleaned: map[string]bool{}}
	n.ids = ids{map[Kind]map[any]string{}, map[Kind]map[any]bool{}, map[Kind]int{}}
	n.ids.name("TopicID", Stranger, "<stranger>", false)
	return n
}

// Stranger is a topic's id that no server gives out; it has a name from the start.
var Stranger = [16]byte{0xde, 0xad, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}

// noID says that what stands in an id's place says that there is none.
func noID(k Kind, v reflect.Value) bool {
	switch {
	case !v.CanInt():
		return v.IsZero()
	case k == "SessionID" || k == "SubscriptionID":
		return v.Int() == 0
	}
	return v.Int() < 0
}

func kindOf(kinds map[string]Kind, owner, name string) Kind {
	if k, ok := kinds[owner+"."+name]; ok {
		return k
	}
	return kinds[name]
}

func (n *Normaliser) value(v reflect.Value, owner, name string) any {
	switch k := kindOf(n.kinds, owner, name); k {
	case ID, Epoch, Term:
		if k == ID {
			k = Kind(name)
			if name == "LeaderID" {
				k = "MemberID"
			}
		}
		return n.identity(k, v)
	case Size:
		if n.resized(n.topic) {
			return v.Int() > 0
		}
		return v.Int()
	case MetadataOffset, Disk:
		return v.Int() >= 0
	case Address:
		return !v.IsZero()
	case Moment:
		return n.moment(v.Int())
	case Throttle:
		return nil
	case Words:
		return sentence(v)
	case Elsewhere:
		return nil
	case Batches:
		return n.Batches(v)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return n.value(v.Elem(), owner, name)
	case reflect.Struct:
		if tags, ok := v.Interface().(kmsg.Tags); ok {
			return tags.Len()
		}
		m := map[string]any{}
		t := v.Type()
		if x, ok := v.Interface().(kmsg.DescribeLogDirsResponseDirTopic); ok {
			n.topic = x.Topic
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || f.Name == "Version" {
				continue
			}
			m[f.Name] = n.value(v.Field(i), t.Name(), f.Name)
		}
		return m
	case reflect.Slice:
		return n.list(v, owner, name)
	case reflect.Array:
		return n.identity("TopicID", v)
	default:
		return v.Interface()
	}
}

func (n *Normaliser) list(v reflect.Value, owner, name string) any {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.IsNil() {
			return nil
		}
		return fmt.Sprintf("%x", v.Bytes())
	}
	list := make([]any, 0, v.Len())
	for i := range v.Len() {
		if e := v.Index(i); !n.foreign(e, owner+"."+name) {
			list = append(list, n.value(e, owner, name+"[]"))
		}
	}
	if key, ok := keyed[owner+"."+name]; ok {
		if m, ok := byKey(list, key); ok {
			return m
		}
	}
	if _, open := Unordered[owner+"."+name]; open || n.Old && oldUnordered[owner+"."+name] != "" {
		// By name first, so that what differs stands beside what it differs from.
		sort.SliceStable(list, func(i, j int) bool {
			a, b := nameOf(list[i]), nameOf(list[j])
			return a < b || a == b && Text(list[i]) < Text(list[j])
		})
	}
	// A list of others' alone is as one that is empty; kmsg reads that as none.
	if v.IsNil() || len(list) == 0 && v.Len() > 0 {
		return nil
	}
	return list
}

// nameOf is what tells an element from others; "" if nothing does.
func nameOf(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for _, n := range append(slices.Clone(names), "Partition") {
		if name, ok := m[n]; ok {
			return Text(name)
		}
	}
	return ""
}

// foreign says that a list's element is of another sequence, or of one of the
// topics that the servers keep for themselves in a list of what lies on disk.
func (n *Normaliser) foreign(e reflect.Value, list string) bool {
	if n.Run == "" || e.Kind() != reflect.Struct {
		return false
	}
	for _, f := range namesOf(e.Type()) {
		v := e.Field(f)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.String {
			continue
		}
		s := v.String()
		if list == "DescribeLogDirsResponseDir.Topics" && strings.HasPrefix(s, "__") {
			return true
		}
		if strings.HasPrefix(s, n.Run) && !strings.HasPrefix(s, n.own) {
			return true
		}
	}
	return false
}

// byKey is a list as a map; false where two elements have the same key.
func byKey(list []any, key string) (map[string]any, bool) {
	m := map[string]any{}
	for _, e := range list {
		k := Text(e.(map[string]any)[key])
		if _, twice := m[k]; twice {
			return nil, false
		}
		m[k] = e
	}
	return m, true
}

// moment is a time in milliseconds: "now" stands for all near the present.
func (n *Normaliser) moment(ms int64) any {
	if d := n.Now.Sub(time.UnixMilli(ms)).Abs(); d < time.Hour {
		return "<now>"
	}
	return ms
}

// sentence says whether a text is null, empty, or says something.
func sentence(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.String() == "" {
		return ""
	}
	return "<text>"
}

func (n *Normaliser) identity(k Kind, v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if noID(k, v) {
		if v.CanInt() {
			return v.Int()
		}
		return "<none>"
	}
	value := v.Interface()
	if v.CanInt() {
		value = v.Int()
	}
	return id{k, value, n}
}

// Text is a value as JSON.
func Text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
