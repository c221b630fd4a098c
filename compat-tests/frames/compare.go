// Package frames asks Millrace and Apache Kafka the same raw frames, one after
// another in sequences that change the servers' state, and compares the decoded
// answers field by field: per API and version at least one that succeeds and
// one that fails.
//
// Answers are normalised by what a field is, never by API: ids made at random,
// addresses, times and throttle times, metadata offsets and broker epochs. An
// array whose order Kafka leaves open is compared as a multiset; the table of
// those says why. How an answer came is compared too: decoded, connection
// closed, or none.
package frames

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
)

// field is what a normalised field is, by its name in kmsg's structs.
var fields = map[string]string{
	"ThrottleMillis": "time", "ClusterID": "id", "TopicID": "id", "Host": "address", "Port": "address", "MemberID": "id", "LeaderID": "", "ProducerID": "id",
	"FinalizedFeaturesEpoch": "epoch", "SessionID": "id", "ErrorMessage": "text", "Documentation": "text", "Timestamp": "", "UnknownTags": "tags",
	"LogAppendTime": "time", "ClientHost": "address", "Leader": "", "ClientID": "",
	"ApiKeys": "table", "SupportedFeatures": "table", "FinalizedFeatures": "table",
}

// unordered names the arrays whose order Kafka leaves open, and why.
var unordered = map[string]string{
	"MetadataResponse.Topics":                   "a Java hash map",
	"MetadataResponse.Brokers":                  "a Java hash map",
	"CreateTopicsResponse.Topics":               "a Java hash map of names",
	"CreateTopicsResponseTopic.Configs":         "built from a hash map",
	"DeleteTopicsResponse.Topics":               "shuffled on purpose (KafkaApis.deleteTopics)",
	"CreatePartitionsResponse.Topics":           "a Java hash map",
	"ListOffsetsResponse.Topics":                "a Java hash map",
	"ListOffsetsResponseTopic.Partitions":       "a Java hash map",
	"ProduceResponse.Topics":                    "a Scala map",
	"ProduceResponseTopic.Partitions":           "a Scala map",
	"FetchResponse.Topics":                      "a Scala map",
	"DescribeConfigsResponseResource.Configs":   "built from a hash map",
	"DescribeConfigsResponse.Resources":         "a Java hash map",
	"ListGroupsResponse.Groups":                 "groups of several coordinators",
	"DescribeGroupsResponse.Groups":             "joined futures",
	"DescribeGroupsResponseGroup.Members":       "a Java hash map",
	"JoinGroupResponse.Members":                 "a Java hash map",
	"DeleteGroupsResponse.Groups":               "joined futures",
	"OffsetFetchResponseGroup.Topics":           "a Java hash map",
	"OffsetFetchResponse.Topics":                "a Java hash map",
	"OffsetFetchResponse.Groups":                "joined futures",
	"OffsetCommitResponse.Topics":               "valid topics first",
	"IncrementalAlterConfigsResponse.Resources": "a Java hash map",
	"OffsetForLeaderEpochResponse.Topics":       "a Scala map",
	"FindCoordinatorResponse.Coordinators":      "",
}

// Normal is an answer with everything taken out that two servers may differ in.
// Ids are numbered in order of appearance, so that "the same id twice" is
// still seen.
func Normal(resp any) any {
	n := &normaliser{ids: map[string]int{}}
	return n.value(reflect.ValueOf(resp), "", "")
}

type normaliser struct{ ids map[string]int }

func (n *normaliser) value(v reflect.Value, owner, name string) any {
	switch fields[name] {
	case "time", "epoch":
		return "<" + fields[name] + ">"
	case "address":
		return "<address>"
	case "text":
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return nil
		}
		return "<text>"
	case "tags", "table":
		return nil
	case "id":
		return n.id(v)
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
			return fmt.Sprintf("%x", v.Bytes())
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = n.value(v.Index(i), owner, name+"[]")
		}
		if _, open := unordered[owner+"."+name]; open {
			sort.Slice(list, func(i, j int) bool { return text(list[i]) < text(list[j]) })
		}
		return list
	case reflect.Array:
		return n.id(v)
	default:
		return v.Interface()
	}
}

func (n *normaliser) id(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.IsZero() {
		return "<no id>"
	}
	if v.CanInt() && v.Int() < 0 {
		return v.Int()
	}
	return "<id>"
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
