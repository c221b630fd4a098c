package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/image"
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
	req.Listeners = b.registered()
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

// registered are the listeners that a registration tells of.
func (b *Broker) registered() []kmsg.BrokerRegistrationRequestListener {
	var list []kmsg.BrokerRegistrationRequestListener
	for _, l := range b.listeners() {
		if l.kind == onBroker {
			list = append(list, l.registered())
		}
	}
	return list
}

// misnamed says whether the cluster knows this life of the broker by other
// listeners than are bound.
func (b *Broker) misnamed() bool {
	own := b.applied().Broker(b.nodeID)
	return own != nil && own.Epoch == b.brokerEpoch.Load() && !slices.EqualFunc(own.Endpoints, b.registered(), func(e image.Endpoint, l kmsg.BrokerRegistrationRequestListener) bool {
		return e == image.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol}
	})
}

// beat sends one heartbeat to the controller and waits for what it
// changes: the first one ends the fence.
func (b *Broker) beat(ctx context.Context, timeout time.Duration) error {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = req.MaxVersion()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = b.nodeID, b.brokerEpoch.Load(), b.applied().Offset()
	req.CordonedLogDirs, req.OfflineLogDirs = b.store.CordonedIDs(), b.store.OfflineIDs()
	got, err := b.change(ctx, "", req, timeout)
	if err != nil {
		return fmt.Errorf("telling the controller that this broker lives: %w", err)
	}
	return kerr.ErrorForCode(got.(*kmsg.BrokerHeartbeatResponse).ErrorCode)
}

// heartbeats tells the controller that this broker lives, and where, as long as it
// does. A registration of the same life keeps the broker epoch and all that is led
// under it: only the listeners are new. Kafka leaves them to the next start, and
// its Metadata names no broker to who comes by a listener that was added.
func (b *Broker) heartbeats(ctx context.Context) {
	timeout := millis(b.config.Int("broker.session.timeout.ms"))
	tick := time.NewTicker(millis(b.config.Int("broker.heartbeat.interval.ms")))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := b.beat(ctx, timeout); err != nil && ctx.Err() == nil {
				b.log.Warn("a heartbeat to the controller failed", zap.Error(err))
			}
		case <-b.relisted:
		}
		if b.misnamed() {
			within, cancel := context.WithTimeout(ctx, timeout)
			if err := b.register(within); err != nil && ctx.Err() == nil {
				b.log.Warn("the cluster does not hear of the listeners; it is told again at the next heartbeat", zap.Error(err))
			}
			cancel()
		}
	}
}
