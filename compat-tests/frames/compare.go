// Package frames asks Millrace and Apache Kafka the same raw frames, one after
// another in sequences that change the servers' state, and compares the decoded
// answers field by field: per API and version at least one that succeeds and
// one that fails.
//
// Answers are normalised by what a field is, never by API: ids made at random,
// addresses, moments, metadata offsets, the words of messages. An array whose
// order Kafka leaves open is compared as a multiset; the table of those says
// why. How an answer came is compared too: decoded, connection closed, or none.
//
// A difference that is meant is in the table in explained.go, with its reason;
// any other fails.
package frames

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"
)

// fields says what a field is, by its name in kmsg's structs, where two servers
// may differ in its value.
var fields = map[string]string{
	// Ids made at random, or counted by each server: numbered in order of
	// appearance within a case, so that the same id twice is still seen.
	"ClusterID": "id", "TopicID": "id", "MemberID": "id", "ProducerID": "id", "SessionID": "id",
	// An address: whether there is one.
	"Host": "address", "Port": "address", "ClientHost": "address", "Dir": "address",
	// The disk of each server's own.
	"TotalBytes": "size", "UsableBytes": "size",
	// A moment: now, or else exact.
	"ThrottleMillis": "time", "LogAppendTime": "time",
	// Metadata offsets: whether known.
	"FinalizedFeaturesEpoch": "epoch",
	// Sentences: whether there are words, none, or null.
	"ErrorMessage": "text", "Documentation": "text",
	// Compared by a test of their own.
	"ApiKeys": "table", "SupportedFeatures": "table", "FinalizedFeatures": "table",
	"UnknownTags": "table",
}

// Unordered names the arrays whose order Kafka leaves open, and why.
var Unordered = map[string]string{
	"MetadataResponse.Topics":                     "a Java hash map",
	"MetadataResponse.Brokers":                    "a Java hash map",
	"CreateTopicsResponse.Topics":                 "a Java hash map of names",
	"DeleteTopicsResponse.Topics":                 "shuffled on purpose (KafkaApis.deleteTopics)",
	"CreatePartitionsResponse.Topics":             "a Java hash map",
	"ListOffsetsResponse.Topics":                  "a Java hash map",
	"ListOffsetsResponseTopic.Partitions":         "a Java hash map",
	"ProduceResponse.Topics":                      "a Scala map",
	"ProduceResponseTopic.Partitions":             "a Scala map",
	"DescribeConfigsResponse.Resources":           "a Java hash map",
	"ListGroupsResponse.Groups":                   "groups of several coordinators",
	"DescribeGroupsResponse.Groups":               "joined futures",
	"DescribeGroupsResponseGroup.Members":         "a Java hash map",
	"JoinGroupResponse.Members":                   "a Java hash map",
	"DeleteGroupsResponse.Groups":                 "joined futures",
	"OffsetFetchResponseGroup.Topics":             "a Java hash map",
	"OffsetFetchResponse.Topics":                  "a Java hash map",
	"OffsetFetchResponseTopic.Partitions":         "a Java hash map, where all are asked for",
	"OffsetFetchResponseGroupTopic.Partitions":    "a Java hash map, where all are asked for",
	"OffsetFetchResponse.Groups":                  "joined futures",
	"OffsetCommitResponse.Topics":                 "valid topics first",
	"IncrementalAlterConfigsResponse.Resources":   "a Java hash map",
	"AlterConfigsResponse.Resources":              "a Java hash map",
	"ListConfigResourcesResponse.ConfigResources": "Java sets of names",
	"OffsetForLeaderEpochResponse.Topics":         "a Scala map",
	"ElectLeadersResponse.Topics":                 "a Java hash map, where all are asked for",
}

// keyed names the unordered arrays (built from hash maps) whose elements are
// told apart by a field: differences are those of one element then.
var keyed = map[string]string{
	"CreateTopicsResponseTopic.Configs":       "Name",
	"DescribeConfigsResponseResource.Configs": "Name",
}

// Normal is an answer with everything taken out that two servers may differ in.
func Normal(resp any) any { return newNormaliser().normal(resp) }

// normaliser normalises the answers of one play; an id keeps its number
// through all of them.
type normaliser struct {
	ids map[any]string
	now time.Time
}

func newNormaliser() *normaliser {
	return &normaliser{ids: map[any]string{stranger: "<stranger>"}, now: time.Now()}
}

// normal works in two steps: an id stands unnumbered while arrays are sorted,
// so that the order does not depend on chance.
func (n *normaliser) normal(resp any) any {
	return n.number(n.value(reflect.ValueOf(resp), "", ""))
}

// id is an id that has no number yet. All of them are alike for sorting.
type id struct{ value any }

// MarshalJSON is part of json.Marshaler.
func (id) MarshalJSON() ([]byte, error) { return []byte(`"<id>"`), nil }

func (n *normaliser) number(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range keys(x, nil) {
			x[k] = n.number(x[k])
		}
	case []any:
		for i := range x {
			x[i] = n.number(x[i])
		}
	case id:
		name, ok := n.ids[x.value]
		if !ok {
			name = fmt.Sprintf("<id %d>", len(n.ids)+1)
			n.ids[x.value] = name
		}
		return name
	}
	return v
}

func (n *normaliser) value(v reflect.Value, owner, name string) any {
	switch fields[name] {
	case "time":
		return n.time(v)
	case "epoch":
		return v.Int() >= 0
	case "size":
		return v.Int() > 0
	case "address":
		return !v.IsZero()
	case "text":
		return words(v)
	case "table":
		return nil
	case "id":
		return n.identity(v)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return n.value(v.Elem(), owner, name)
	case reflect.Struct:
		m := map[string]any{}
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || f.Name == "Version" {
				continue
			}
			m[f.Name] = n.value(v.Field(i), t.Name(), f.Name)
		}
		return m
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return nil
			}
			return fmt.Sprintf("%x", v.Bytes())
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = n.value(v.Index(i), owner, name+"[]")
		}
		if key, ok := keyed[owner+"."+name]; ok {
			if m, ok := byKey(list, key); ok {
				return m
			}
		}
		if _, open := Unordered[owner+"."+name]; open {
			sort.SliceStable(list, func(i, j int) bool { return text(list[i]) < text(list[j]) })
		}
		if v.IsNil() && len(list) == 0 {
			return nil
		}
		return list
	case reflect.Array:
		return n.identity(v)
	default:
		return v.Interface()
	}
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

// time is a moment in milliseconds: "now" stands for all near the present.
func (n *normaliser) time(v reflect.Value) any {
	at := time.UnixMilli(v.Int())
	if d := n.now.Sub(at).Abs(); d < time.Hour {
		return "<now>"
	}
	return v.Int()
}

// words says whether a text is null, empty, or says something.
func words(v reflect.Value) any {
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

func (n *normaliser) identity(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.CanInt() && v.Int() <= 0 && (v.Int() < 0 || v.Kind() == reflect.Int32) {
		return v.Int() // none; producer ids, which are int64, begin at 0
	}
	if !v.CanInt() && v.IsZero() {
		return "<no id>"
	}
	if name, ok := n.ids[v.Interface()]; ok {
		return name
	}
	return id{v.Interface()}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Diff lists where two normalised answers differ, one line a place.
func Diff(a, b any) []string {
	var out []string
	diff(&out, "", a, b)
	return out
}

func diff(out *[]string, at string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, k := range keys(x, y) {
			diff(out, at+"."+k, x[k], y[k])
		}
		return
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		if len(x) != len(y) {
			*out = append(*out, fmt.Sprintf("%s: %d elements against %d: %s against %s", at, len(x), len(y), short(a), short(b)))
			return
		}
		for i := range x {
			diff(out, fmt.Sprintf("%s[%d]", at, i), x[i], y[i])
		}
		return
	}
	if text(a) != text(b) {
		*out = append(*out, fmt.Sprintf("%s: %s against %s", at, short(a), short(b)))
	}
}

func keys(a, b map[string]any) []string {
	var list []string
	for k := range a {
		list = append(list, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			list = append(list, k)
		}
	}
	sort.Strings(list)
	return list
}

func short(v any) string {
	s := text(v)
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.ReplaceAll(s, "\n", " ")
}
