package brokertest

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Names as long as the protocol has them make error messages that are longer: the
// answer is still one that a client can read, in every version.
func TestAnswersToLongNames(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		long, odd := strings.Repeat("x", 32767), strings.Repeat("\n", 32767)
		makeTopic(t, n, n.Client(), "a", 1)
		var all []kmsg.Request
		for _, name := range []string{long, odd} {
			for _, kind := range []kmsg.ConfigResourceType{2, 4, 8, 16, 32, 3} {
				for v := range int16(5) {
					r := kmsg.NewPtrDescribeConfigsRequest()
					r.Version, r.Resources = v, []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name}}
					all = append(all, r)
				}
				for v := range int16(2) {
					r := kmsg.NewPtrIncrementalAlterConfigsRequest()
					r.Version, r.Resources = v, []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: name,
						Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &name}}}}
					all = append(all, r)
				}
				for v := range int16(3) {
					r := kmsg.NewPtrAlterConfigsRequest()
					r.Version, r.Resources = v, []kmsg.AlterConfigsRequestResource{{ResourceType: kind, ResourceName: name,
						Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: name, Value: &name}}}}
					all = append(all, r)
				}
			}
			for v := range int16(2) {
				r := kmsg.NewPtrIncrementalAlterConfigsRequest()
				r.Version, r.Resources = v, []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "a",
					Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &name}}}}
				all = append(all, r)
			}
			for v := range int16(8) {
				r := kmsg.NewPtrCreateTopicsRequest()
				r.Version, r.TimeoutMillis = v, 1000
				r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}, {Topic: "b", NumPartitions: 1, ReplicationFactor: 1,
					Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: &name}}}}
				all = append(all, r)
			}
			for v := range int16(3) {
				r := kmsg.NewPtrUpdateFeaturesRequest()
				r.Version, r.FeatureUpdates = v, []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: name, MaxVersionLevel: 3, UpgradeType: 1}}
				all = append(all, r)
			}
		}
		for _, r := range all {
			versions := kversion.Stable()
			versions.SetMaxKeyVersion(r.Key(), r.GetVersion())
			c := n.Client(kgo.RetryTimeout(0), kgo.RequestRetries(0), kgo.MaxVersions(versions))
			got, err := c.Broker(int(n.Info.NodeID)).Request(context.Background(), r)
			c.Close()
			if err != nil {
				t.Errorf("%T v%d: %v", r, r.GetVersion(), err)
				continue
			}
			switch got := got.(type) {
			case *kmsg.DescribeConfigsResponse:
				if len(got.Resources) != 1 || len(got.Resources[0].ResourceName) != 32767 {
					t.Errorf("%T v%d: %.200v", r, r.GetVersion(), got)
				}
			case *kmsg.CreateTopicsResponse:
				if len(got.Topics) != 2 || got.Topics[0].ErrorCode == 0 || got.Topics[1].ErrorCode == 0 {
					t.Errorf("%T v%d: %.200v", r, r.GetVersion(), got)
				}
			}
		}
	})
}
