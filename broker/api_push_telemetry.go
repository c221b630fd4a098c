package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/telemetry"
)

// PushTelemetry (72), version 0. KIP-714: a client's own metrics, as OTLP. They
// are kept for each client instance and shown at /metrics under kafka_client_*.

func (b *Broker) pushTelemetry(c *call, req *kmsg.PushTelemetryRequest) *kmsg.PushTelemetryResponse {
	resp := kmsg.NewPtrPushTelemetryResponse()
	var err error
	resp.ErrorCode, err = b.telemetry.push(c, telemetry.Push{
		Instance: telemetry.ID(req.ClientInstanceID), SubscriptionID: req.SubscriptionID, Terminating: req.Terminating,
		Compression: req.CompressionType, Metrics: req.Metrics,
	})
	if b.log.Core().Enabled(zap.DebugLevel) {
		b.log.Debug("a client has pushed metrics", zap.Stringer("instance", telemetry.ID(req.ClientInstanceID)), zap.String("client", c.clientID()),
			zap.Int("bytes", len(req.Metrics)), zap.Bool("terminating", req.Terminating), zap.Int16("code", resp.ErrorCode), zap.Error(err))
	}
	return resp
}
