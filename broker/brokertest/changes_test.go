package brokertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestChangesWithoutTime: a change of metadata that is given no time is timed
// out without words, and does not happen.
func TestChangesWithoutTime(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		id := makeTopic(t, n, c, "a", 1)
		for _, ms := range []int32{0, -1} {
			create := kmsg.NewPtrCreateTopicsRequest()
			create.TimeoutMillis = ms
			create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "b", NumPartitions: 1, ReplicationFactor: 1}}
			if got := ask[*kmsg.CreateTopicsResponse](t, n, c, create).Topics[0]; got.ErrorCode != 7 || got.ErrorMessage != nil {
				t.Errorf("creating in %d ms: %+v", ms, got)
			}
			grow := kmsg.NewPtrCreatePartitionsRequest()
			grow.TimeoutMillis = ms
			grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 2}}
			if got := ask[*kmsg.CreatePartitionsResponse](t, n, c, grow).Topics[0]; got.ErrorCode != 7 || got.ErrorMessage != nil {
				t.Errorf("growing in %d ms: %+v", ms, got)
			}
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TimeoutMillis = ms
			del.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
			if got := ask[*kmsg.DeleteTopicsResponse](t, n, c, del).Topics[0]; got.ErrorCode != 7 || got.ErrorMessage != nil {
				t.Errorf("deleting in %d ms: %+v", ms, got)
			}
		}
		m := kmsg.NewPtrMetadataRequest()
		for _, name := range []string{"a", "b"} {
			m.Topics = append(m.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		}
		var there []string
		for _, mt := range ask[*kmsg.MetadataResponse](t, n, c, m).Topics {
			there = append(there, fmt.Sprintf("%s %d %d", *mt.Topic, mt.ErrorCode, len(mt.Partitions)))
		}
		if got := strings.Join(there, ", "); got != "a 0 1, b 3 0" {
			t.Errorf("afterwards: %s", got)
		}
	})
}

// alter changes configs of one resource, "KEY=VALUE" or "KEY" to delete, and
// gives the codes.
func alter(t *testing.T, n *Node, c *kgo.Client, resources ...kmsg.IncrementalAlterConfigsRequestResource) string {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = resources
	var codes []string
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](t, n, c, req).Resources {
		codes = append(codes, fmt.Sprint(r.ErrorCode))
	}
	return strings.Join(codes, " ")
}

func change(kind kmsg.ConfigResourceType, name string, changes ...string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
	for _, s := range changes {
		key, value, set := strings.Cut(s, "=")
		one := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: kmsg.IncrementalAlterConfigOpDelete}
		if set {
			one.Op, one.Value = kmsg.IncrementalAlterConfigOpSet, &value
		}
		r.Configs = append(r.Configs, one)
	}
	return r
}

func TestAlteringConfigs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 1)
		const topic, broker, logger = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger
		null := change(logger, "1", "root=INFO")
		null.Configs[0].Value = nil
		for _, s := range []struct {
			name      string
			resources []kmsg.IncrementalAlterConfigsRequestResource
			want      string
		}{
			{"a resource twice", []kmsg.IncrementalAlterConfigsRequestResource{change(topic, "a", "retention.ms=1"), change(topic, "a", "retention.ms=2")}, "42 42"},
			{"another broker", []kmsg.IncrementalAlterConfigsRequestResource{change(broker, "2", "log.retention.ms=1")}, "42"},
			{"this broker", []kmsg.IncrementalAlterConfigsRequestResource{change(broker, "1", "log.retention.ms=1")}, "0"},
			{"a logger", []kmsg.IncrementalAlterConfigsRequestResource{change(logger, "1", "root=WARN")}, "0"},
			{"in small letters", []kmsg.IncrementalAlterConfigsRequestResource{change(logger, "1", "root=debug")}, "40"},
			{"twice", []kmsg.IncrementalAlterConfigsRequestResource{change(logger, "1", "root=ERROR", "root=INFO")}, "42"},
			{"null", []kmsg.IncrementalAlterConfigsRequestResource{null}, "42"},
			{"one good, one not", []kmsg.IncrementalAlterConfigsRequestResource{change(logger, "1", "root=ERROR", "no.such=INFO")}, "40"},
		} {
			if got := alter(t, n, c, s.resources...); got != s.want {
				t.Errorf("%s: %s, want %s", s.name, got, s.want)
			}
		}
		for _, asked := range []bool{true, false} {
			d := kmsg.NewPtrDescribeConfigsRequest()
			d.IncludeDocumentation = asked
			d.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: logger, ResourceName: "1"}}
			got := ask[*kmsg.DescribeConfigsResponse](t, n, c, d).Resources[0].Configs[0]
			if got.Value == nil || *got.Value != "WARN" || got.Documentation == nil || *got.Documentation != "" {
				t.Errorf("the logger is %+v", got)
			}
		}
	})
}

func TestClusterIsDescribed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		for kind, want := range map[int8]int16{1: 0, 2: 114, 3: 115} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = kind
			if got := ask[*kmsg.DescribeClusterResponse](t, n, c, req); got.ErrorCode != want || got.EndpointType != 1 || (len(got.Brokers) == 1) != (want == 0) {
				t.Errorf("endpoint type %d: %+v", kind, got)
			}
		}
		id := makeTopic(t, n, c, "a", 1)
		m := kmsg.NewPtrMetadataRequest()
		m.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {}}
		if got := ask[*kmsg.MetadataResponse](t, n, c, m); got.ErrorCode != 0 || len(got.Topics) != 1 || got.Topics[0].TopicID != id || len(got.Brokers) != 1 {
			t.Errorf("an id and nothing: %+v", got)
		}
		m.Topics = m.Topics[1:]
		if got := ask[*kmsg.MetadataResponse](t, n, c, m); got.ErrorCode != -1 || len(got.Topics) != 1 || len(got.Brokers) != 0 {
			t.Errorf("nothing: %+v", got)
		}
	})
}
