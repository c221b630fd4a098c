package brokertest

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked sends one request on a connection of its own, whatever the broker tells of
// what it serves, and decodes the answer.
func asked(t *testing.T, n *Node, req kmsg.Request) kmsg.Response {
	t.Helper()
	nc, err := n.Net.Dial(context.Background(), "tcp", "broker:9092")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		t.Fatal(err)
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(nc, size); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(nc, body); err != nil {
		t.Fatal(err)
	}
	body = body[4:] // behind the correlation id
	if req.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:] // no tags
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// The APIs of KIP-714 are told of while there is a subscription, in every version of
// ApiVersions and after a restart, and served at any time.
func TestTelemetryIsToldOfWhileSubscribed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		check := func(when string, want bool) {
			t.Helper()
			for v := range int16(6) {
				req := kmsg.NewPtrApiVersionsRequest()
				req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = v, "test", "1"
				var told []int16
				for _, k := range asked(t, n, req).(*kmsg.ApiVersionsResponse).ApiKeys {
					if k.ApiKey == 71 || k.ApiKey == 72 {
						told = append(told, k.ApiKey)
					}
					if k.MinVersion > k.MaxVersion {
						t.Errorf("%s: key %d in versions %d to %d", when, k.ApiKey, k.MinVersion, k.MaxVersion)
					}
				}
				if want != slices.Equal(told, []int16{71, 72}) || !want && len(told) > 0 {
					t.Errorf("%s, version %d: told of %d", when, v, told)
				}
			}
			got := asked(t, n, kmsg.NewPtrGetTelemetrySubscriptionsRequest()).(*kmsg.GetTelemetrySubscriptionsResponse)
			if got.ErrorCode != 0 || got.ClientInstanceID == [16]byte{} {
				t.Errorf("%s: asking for the subscriptions: %+v", when, got)
			}
			push := kmsg.NewPtrPushTelemetryRequest()
			push.ClientInstanceID, push.SubscriptionID = got.ClientInstanceID, got.SubscriptionID
			if got := asked(t, n, push).(*kmsg.PushTelemetryResponse); got.ErrorCode != 0 {
				t.Errorf("%s: pushing: code %d", when, got.ErrorCode)
			}
		}
		c := n.Client()
		adm := kadm.NewClient(c)
		set := func(name, key string, value *string) {
			t.Helper()
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, name
			one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			if one.Name, one.Value = key, value; value == nil {
				one.Op = kmsg.IncrementalAlterConfigOpDelete
			}
			r.Configs = append(r.Configs, one)
			req.Resources = append(req.Resources, r)
			if got, err := req.RequestWith(context.Background(), c); err != nil || got.Resources[0].ErrorCode != 0 {
				t.Fatalf("%v, %+v", err, got)
			}
		}
		check("nobody has subscribed", false)
		if _, err := adm.CreateTopic(context.Background(), 1, 1, map[string]*string{"segment.ms": kmsg.StringPtr("9")}, "events"); err != nil {
			t.Fatal(err)
		}
		check("something else has configs", false)
		set("few", "interval.ms", kmsg.StringPtr("1000"))
		check("a subscription that asks for nothing", true)
		set("all", "metrics", kmsg.StringPtr("*"))
		set("few", "interval.ms", nil)
		check("one of two is gone", true)
		n.Stop()
		n.Start()
		c = n.Client()
		check("after a restart", true)
		set("all", "metrics", nil)
		check("both are gone", false)
		c.Close()
	})
}
