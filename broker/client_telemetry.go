package broker

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"millrace/broker/metrics"
	"millrace/broker/telemetry"
	"millrace/controller/image"
)

const telemetryMaxBytes = "telemetry.max.bytes"

// clientTelemetry guards the machine that answers pushing clients. The lock is
// held for no wait.
type clientTelemetry struct {
	b       *Broker
	mu      sync.Mutex
	machine *telemetry.Machine
	watched map[uint64]bool // connections whose end is waited for
	swept   time.Time
}

func (t *clientTelemetry) init(b *Broker) {
	t.b, t.machine, t.watched = b, telemetry.New(int(b.config.Int(telemetryMaxBytes))), map[uint64]bool{}
}

// subscribed says whether somebody wants metrics of clients: any client-metrics
// resource with anything set is a subscription, as in Kafka, whoever it fits and
// whatever it asks for. Else clients are not told that they could push: librdkafka
// asks wherever it can, and says on its standard error what it was given.
func subscribed(img *image.Image) bool { return img.HasConfigs(image.ClientMetricsResource) }

// client is who asks, as subscriptions match it.
func (c *call) client() telemetry.Client {
	return telemetry.Client{
		ClientID: c.clientID(), SoftwareName: c.Conn.SoftwareName, SoftwareVersion: c.Conn.SoftwareVersion,
		Address: c.Conn.Remote.Addr().Unmap().String(), Port: int(c.Conn.Remote.Port()), Connection: c.Conn.ID,
	}
}

func (t *clientTelemetry) get(c *call, id, fresh telemetry.ID) telemetry.Answer {
	client := c.client()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(c.Conn.Context(), c.Conn.ID)
	return t.machine.Get(t.b.now(), client, id, fresh)
}

func (t *clientTelemetry) push(c *call, p telemetry.Push) (int16, error) {
	client := c.client()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(c.Conn.Context(), c.Conn.ID)
	return t.machine.Push(t.b.now(), client, p)
}

// watch forgets the instance of a connection when it ends. That is waited for once
// on each connection, however many instances are heard of there.
func (t *clientTelemetry) watch(ctx context.Context, connection uint64) {
	if t.watched[connection] {
		return
	}
	t.watched[connection] = true
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watched, connection)
		t.machine.Disconnected(connection)
	})
}

// configure takes over the subscriptions that an image holds.
func (t *clientTelemetry) configure(img *image.Image) {
	var list []telemetry.Subscription
	for _, name := range img.ConfigResources(image.ClientMetricsResource) {
		get := dynamic(img, image.ClientMetricsResource, name)
		value := func(key string) string { v, _ := get(key); return v }
		s, err := telemetry.Parse(name, value("metrics"), value("interval.ms"), value("match"))
		if err != nil {
			t.b.log.Warn("a client metrics subscription is for nobody", zap.String("name", name), zap.Error(err))
		}
		list = append(list, s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.machine.Configure(list)
}

// telemetrySweep is how often clients are forgotten that were not heard of.
const telemetrySweep = 10 * time.Second

func (t *clientTelemetry) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) >= telemetrySweep {
		t.swept = now
		t.machine.Expire(now)
	}
}

// GatherClients tells what clients have pushed.
func (b *Broker) GatherClients(emit func(name, help string, kind metrics.Kind, value float64, labels []string)) {
	b.telemetry.mu.Lock()
	list, _ := b.telemetry.machine.Series()
	b.telemetry.mu.Unlock()
	for i := range list {
		kind := metrics.Gauge
		if list[i].Counter {
			kind = metrics.Counter
		}
		emit(list[i].Name, "Pushed by clients (KIP-714).", kind, list[i].Value, list[i].Labels)
	}
}

func (t *clientTelemetry) gather(emit metrics.Emit) {
	t.mu.Lock()
	instances, lost := t.machine.Instances(), t.machine.Lost()
	t.mu.Unlock()
	emit(metrics.Instances, float64(instances))
	emit(metrics.SeriesLost, float64(lost))
}
