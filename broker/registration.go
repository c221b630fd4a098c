package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// register tells the cluster of this broker's new life and waits until the
// image that says so is applied. The new broker epoch ends every leadership
// held under the old one.
func (b *Broker) register(ctx context.Context) error {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = req.MaxVersion()
	req.BrokerID, req.ClusterID = b.nodeID, b.applied().ClusterID()
	req.IncarnationID = b.incarnation
	req.Rack = b.config.Rack()
	req.PreviousBrokerEpoch = b.store.PreviousBrokerEpoch()
	req.LogDirs = b.store.DirectoryIDs()
	for _, l := range b.listeners() {
		if l.kind == onBroker {
			req.Listeners = append(req.Listeners, l.registered())
		}
	}
	for _, f := range b.features {
		bf := kmsg.NewBrokerRegistrationRequestFeature()
		bf.Name, bf.MinSupportedVersion, bf.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, bf)
	}
	got, err := b.change(ctx, "", req, startTimeout)
	if err != nil {
		return fmt.Errorf("registering with the controller: %w", err)
	}
	resp := got.(*kmsg.BrokerRegistrationResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("registering with the controller: %w", err)
	}
	b.brokerEpoch.Store(resp.BrokerEpoch)
	b.store.SetBrokerEpoch(resp.BrokerEpoch)
	return nil
}

// beat sends one heartbeat to the controller and waits for what it
// changes: the first one ends the fence.
func (b *Broker) beat(ctx context.Context, timeout time.Duration) error {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = req.MaxVersion()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = b.nodeID, b.brokerEpoch.Load(), b.applied().Offset()
	req.CordonedLogDirs = b.store.CordonedIDs()
	got, err := b.change(ctx, "", req, timeout)
	if err != nil {
		return fmt.Errorf("telling the controller that this broker lives: %w", err)
	}
	return kerr.ErrorForCode(got.(*kmsg.BrokerHeartbeatResponse).ErrorCode)
}

func (b *Broker) heartbeats(ctx context.Context) {
	tick := time.NewTicker(millis(b.config.Int("broker.heartbeat.interval.ms")))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := b.beat(ctx, millis(b.config.Int("broker.session.timeout.ms"))); err != nil && ctx.Err() == nil {
				b.log.Warn("a heartbeat to the controller failed", zap.Error(err))
			}
		}
	}
}
