package brokertest

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs replaces all that a resource has set, and is visible to the next
// request.
func TestAlterConfigsReplaces(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		defer c.Close()
		adm, ctx := kadm.NewClient(c), context.Background()
		if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"segment.ms": kmsg.StringPtr("9")}, "events"); err != nil {
			t.Fatal(err)
		}
		own := func() []string {
			t.Helper()
			got, err := adm.DescribeTopicConfigs(ctx, "events")
			if err != nil || got[0].Err != nil {
				t.Fatal(err, got)
			}
			var list []string
			for _, e := range got[0].Configs {
				if e.Source == kmsg.ConfigSourceDynamicTopicConfig {
					list = append(list, e.Key+"="+*e.Value)
				}
			}
			return list
		}
		replace := func(key, value string) error {
			t.Helper()
			got, err := adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: key, Value: &value}}, "events")
			if err != nil {
				t.Fatal(err)
			}
			return got[0].Err
		}
		if err := replace("retention.ms", "5"); err != nil || !slices.Equal(own(), []string{"retention.ms=5"}) {
			t.Errorf("%v, and it has %v", err, own())
		}
		if err := replace("no.such", "5"); err != kerr.InvalidConfig || !slices.Equal(own(), []string{"retention.ms=5"}) {
			t.Errorf("an unknown key: %v, and it has %v", err, own())
		}
	})
}

// ListConfigResources names topics and live brokers as they are, groups and
// subscriptions if they have configs.
func TestListConfigResources(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client(kgo.AllowAutoTopicCreation())
		defer c.Close()
		ctx := context.Background()
		Produce(t, c, "events", "v", 1)
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for _, r := range []struct {
			kind             kmsg.ConfigResourceType
			name, key, value string
		}{{kmsg.ConfigResourceTypeGroupConfig, "readers", "consumer.session.timeout.ms", "50000"}, {kmsg.ConfigResourceTypeClientMetrics, "all", "interval.ms", "1000"}} {
			a := kmsg.NewIncrementalAlterConfigsRequestResource()
			a.ResourceType, a.ResourceName = r.kind, r.name
			cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			cfg.Name, cfg.Value = r.key, &r.value
			a.Configs = append(a.Configs, cfg)
			alter.Resources = append(alter.Resources, a)
		}
		if got, err := alter.RequestWith(ctx, c); err != nil || got.Resources[0].ErrorCode != 0 || got.Resources[1].ErrorCode != 0 {
			t.Fatalf("%v, %+v", err, got)
		}
		for _, ask := range []struct {
			types []int8
			want  []string
		}{
			{[]int8{2}, []string{"events"}}, {[]int8{4, 8}, []string{strconv.Itoa(int(n.Info.NodeID)), strconv.Itoa(int(n.Info.NodeID))}}, {[]int8{16, 32}, []string{"all", "readers"}},
			{nil, []string{strconv.Itoa(int(n.Info.NodeID)), strconv.Itoa(int(n.Info.NodeID)), "all", "events", "readers"}},
		} {
			req := kmsg.NewPtrListConfigResourcesRequest()
			req.ResourceTypes = ask.types
			got, err := req.RequestWith(ctx, c)
			if err != nil || got.ErrorCode != 0 {
				t.Fatalf("%v, %+v", err, got)
			}
			var names []string
			for _, r := range got.ConfigResources {
				names = append(names, r.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, ask.want) {
				t.Errorf("types %d: %q, want %q", ask.types, names, ask.want)
			}
		}
	})
}
