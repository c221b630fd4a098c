package broker

import (
	"crypto/rand"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/telemetry"
)

// GetTelemetrySubscriptions (71), version 0. KIP-714: which of a client's own
// metrics this broker wants, and how often. Kafka advertises it only where a
// plugin takes the metrics; here the broker itself shows them at /metrics, and it
// is advertised while there is a subscription. Anybody may ask at any time, as in
// Kafka. The decisions are broker/telemetry's.

func (b *Broker) getTelemetrySubscriptions(c *call, req *kmsg.GetTelemetrySubscriptionsRequest) *kmsg.GetTelemetrySubscriptionsResponse {
	resp := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	resp.AcceptedCompressionTypes, resp.RequestedMetrics = []int8{}, []string{}
	var fresh telemetry.ID
	rand.Read(fresh[:])
	got := b.telemetry.get(c, telemetry.ID(req.ClientInstanceID), fresh)
	if resp.ErrorCode = got.Code; got.Code != 0 {
		return resp
	}
	resp.ClientInstanceID, resp.SubscriptionID = got.Instance, got.SubscriptionID
	resp.AcceptedCompressionTypes = telemetry.Compressions
	resp.PushIntervalMillis = int32(got.Interval.Milliseconds())
	resp.TelemetryMaxBytes = b.config.Int(telemetryMaxBytes)
	resp.DeltaTemporality = true
	resp.RequestedMetrics = got.Metrics
	return resp
}
