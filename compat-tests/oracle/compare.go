package oracle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frames"
)

// kind is what a field holds, where two servers may differ in its value.
type kind string

const (
	// An id that a server makes up: numbered in order of appearance, so that the
	// same id twice is still seen.
	anID kind = "id"
	// A leader's or a broker's epoch: numbered like an id, as restarts raise it by
	// more in one server than in another.
	anEpoch kind = "epoch"
	// The term of the metadata's quorum.
	aTerm kind = "term"
	// An offset of the metadata log: whether it is known.
	aMetadataOffset kind = "metadata offset"
	// Where something listens or lies: whether it is told.
	anAddress kind = "address"
	// How large the disk is, and how much of it is free: whether it is told.
	aDisk kind = "disk"
	// How much room a log takes: exact, but where the broker has compressed it anew.
	// Two compressors' bytes are not the same; the records are compared.
	aSize kind = "size"
	// A moment: now, or else exact.
	aMoment kind = "moment"
	// How long to hold back: quotas are the servers' own.
	aThrottle kind = "throttle"
	// Words: null, empty, or some.
	words kind = "words"
	// Record batches: header and records of each.
	batches kind = "batches"
	// What each server is able to do, compared by package frames.
	versions kind = "versions"
)

// kinds says what a field is, by its name in kmsg's structs, or by the struct's
// name and its own where one name means several things.
var kinds = map[string]kind{
	"ClusterID": anID, "TopicID": anID, "MemberID": anID, "ProducerID": anID, "SessionID": anID,
	"ClientInstanceID": anID, "SubscriptionID": anID, "ReplicaDirectoryID": anID,
	"JoinGroupResponse.LeaderID": anID,

	"LeaderEpoch": anEpoch, "CurrentLeaderEpoch": anEpoch, "BrokerEpoch": anEpoch,
	"FetchResponseTopicPartitionDivergingEpoch.Epoch":               anEpoch,
	"DescribeQuorumResponseTopicPartition.LeaderEpoch":              aTerm,
	"DescribeQuorumResponseTopicPartition.HighWatermark":            aMetadataOffset,
	"DescribeQuorumResponseTopicPartitionReplicaState.LogEndOffset": aMetadataOffset,
	"FinalizedFeaturesEpoch":                                        aMetadataOffset,

	"Host": anAddress, "Port": anAddress, "ClientHost": anAddress, "Dir": anAddress,
	"TotalBytes": aDisk, "UsableBytes": aDisk,
	"DescribeLogDirsResponseDirTopicPartition.Size": aSize,
	"ThrottleMillis": aThrottle,
	"LogAppendTime":  aMoment, "Timestamp": aMoment, "LastTimestamp": aMoment,
	"LastFetchTimestamp": aMoment, "LastCaughtUpTimestamp": aMoment,
	"ErrorMessage": words, "Documentation": words,
	"RecordBatches": batches,
	"ApiKeys":       versions, "SupportedFeatures": versions, "FinalizedFeatures": versions,
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

// normaliser takes out of one server's answers what two servers may differ in.
// An id keeps its number through all answers of a play.
type normaliser struct {
	// run begins the names of everything a run makes; own those of this play.
	run, own string
	// old: the peer is Kafka 3.9, which leaves the order of more lists open.
	old bool
	ids map[kind]map[any]string
	now time.Time
	// packed are the topics that a broker may have compressed anew; topic is the one
	// whose logs are being normalised.
	packed map[string]bool
	topic  string
}

// asked takes note of what a request says of compression, and takes out of it what
// would be answered by how well a server compresses.
func (n *normaliser) asked(req kmsg.Request) {
	note := func(topic, key string, value *string) {
		if key == "compression.type" && (value == nil || *value != "producer") {
			n.packed[topic] = true
		}
	}
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		n.unmeasured(r)
	case *kmsg.CreateTopicsRequest:
		for _, t := range r.Topics {
			for _, c := range t.Configs {
				note(t.Topic, c.Name, c.Value)
			}
		}
	case *kmsg.AlterConfigsRequest:
		for _, x := range r.Resources {
			for _, c := range x.Configs {
				note(x.ResourceName, c.Name, c.Value)
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, x := range r.Resources {
			for _, c := range x.Configs {
				note(x.ResourceName, c.Name, c.Value)
			}
		}
	}
}

// unmeasured has a Fetch of topics that a broker may have compressed anew ask for
// one batch or for as much as there is: how many come within a limit between the
// two depends on the bytes that a codec's implementation makes of them.
func (n *normaliser) unmeasured(r *kmsg.FetchRequest) {
	extreme := func(limit *int32) {
		if *limit > 1 && *limit < 1<<20 {
			*limit = 1
		}
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		if !n.packed[t.Topic] {
			continue
		}
		extreme(&r.MaxBytes)
		extreme(&r.MinBytes)
		for j := range t.Partitions {
			extreme(&t.Partitions[j].PartitionMaxBytes)
		}
	}
}

func newNormaliser(run, own string) *normaliser {
	return &normaliser{run: run, own: own, ids: map[kind]map[any]string{"TopicID": {strangerID: "<stranger>"}}, now: time.Now(), packed: map[string]bool{}}
}

// unnumbered is an id that has no number yet: all of them are alike while lists
// are sorted, so that the order does not depend on chance.
type unnumbered struct {
	kind  kind
	value any
}

// MarshalJSON is part of json.Marshaler.
func (u unnumbered) MarshalJSON() ([]byte, error) { return json.Marshal("<" + string(u.kind) + ">") }

// normal is a decoded answer, normalised.
func (n *normaliser) normal(resp kmsg.Response) any {
	n.now = time.Now()
	return n.number(n.value(reflect.ValueOf(resp), "", ""))
}

func (n *normaliser) number(v any) any {
	switch x := v.(type) {
	case map[string]any:
		list := make([]string, 0, len(x))
		for k := range x {
			list = append(list, k)
		}
		sort.Strings(list)
		for _, k := range list {
			x[k] = n.number(x[k])
		}
	case []any:
		for i := range x {
			x[i] = n.number(x[i])
		}
	case unnumbered:
		return n.named(x.kind, x.value)
	}
	return v
}

// named is the number of an id, a new one if it has none.
func (n *normaliser) named(k kind, value any) string {
	m := n.ids[k]
	if m == nil {
		m = map[any]string{}
		n.ids[k] = m
	}
	name, ok := m[value]
	if !ok {
		name = fmt.Sprintf("<%s %d>", k, len(m)+1)
		m[value] = name
	}
	return name
}

// noID says that what stands in an id's place says that there is none.
func noID(k kind, v reflect.Value) bool {
	switch {
	case !v.CanInt():
		return v.IsZero()
	case k == "SessionID" || k == "SubscriptionID":
		return v.Int() == 0
	}
	return v.Int() < 0
}

func kindOf(owner, name string) kind {
	if k, ok := kinds[owner+"."+name]; ok {
		return k
	}
	return kinds[name]
}

func (n *normaliser) value(v reflect.Value, owner, name string) any {
	switch k := kindOf(owner, name); k {
	case anID, anEpoch, aTerm:
		if k == anID {
			k = kind(name)
			if name == "LeaderID" {
				k = "MemberID"
			}
		}
		return n.identity(k, v)
	case aSize:
		if n.packed[n.topic] {
			return v.Int() > 0
		}
		return v.Int()
	case aMetadataOffset, aDisk:
		return v.Int() >= 0
	case anAddress:
		return !v.IsZero()
	case aMoment:
		return n.moment(v.Int())
	case aThrottle:
		return nil
	case words:
		return sentence(v)
	case versions:
		return nil
	case batches:
		return n.batches(v)
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

func (n *normaliser) list(v reflect.Value, owner, name string) any {
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
	if _, open := frames.Unordered[owner+"."+name]; open || n.old && oldUnordered[owner+"."+name] != "" {
		// By name first, so that what differs stands beside what it differs from.
		sort.SliceStable(list, func(i, j int) bool {
			a, b := nameOf(list[i]), nameOf(list[j])
			return a < b || a == b && text(list[i]) < text(list[j])
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
			return text(name)
		}
	}
	return ""
}

// foreign says that a list's element is of another sequence, or of one of the
// topics that the servers keep for themselves in a list of what lies on disk.
func (n *normaliser) foreign(e reflect.Value, list string) bool {
	if e.Kind() != reflect.Struct {
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
		if strings.HasPrefix(s, n.run) && !strings.HasPrefix(s, n.own) {
			return true
		}
	}
	return false
}

// byKey is a list as a map; false where two elements have the same key.
func byKey(list []any, key string) (map[string]any, bool) {
	m := map[string]any{}
	for _, e := range list {
		k := text(e.(map[string]any)[key])
		if _, twice := m[k]; twice {
			return nil, false
		}
		m[k] = e
	}
	return m, true
}

// moment is a time in milliseconds: "now" stands for all near the present.
func (n *normaliser) moment(ms int64) any {
	if d := n.now.Sub(time.UnixMilli(ms)).Abs(); d < time.Hour {
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

func (n *normaliser) identity(k kind, v reflect.Value) any {
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
	if name, ok := n.ids[k][value]; ok {
		return name
	}
	return unnumbered{k, value}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
