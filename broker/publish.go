package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"millrace/controller"
	"millrace/controller/config"
	"millrace/controller/image"
)

// publisher turns committed images into a broker: one goroutine applies each
// image in a written order (configs, removals, followers, leaders,
// coordinators) and then stores it as the applied one. Handlers read the
// applied image, never a newer one, so what an image names is there.
type publisher struct {
	b       *Broker
	current atomic.Pointer[image.Image]
	// The publisher's goroutine's own: the offset of the newest image taken, and
	// the configs that were said to have no effect.
	after  int64
	warned map[string]bool

	mu      sync.Mutex
	waiters map[int64][]chan struct{} // by the offset they wait for
}

// catchUp applies images until one names the cluster: the first record of its
// first leader.
func (p *publisher) catchUp(ctx context.Context, src controller.Source) error {
	for p.after = -1; p.current.Load().ClusterID() == ""; {
		if err := p.next(ctx, src); err != nil {
			return err
		}
	}
	return nil
}

// run applies images until ctx ends.
func (p *publisher) run(ctx context.Context, src controller.Source) {
	for {
		if err := p.next(ctx, src); err != nil {
			if ctx.Err() == nil && !errors.Is(err, controller.ErrStopped) {
				p.b.fail(err) // why a controller has stopped, it says itself
			}
			return
		}
	}
}

func (p *publisher) next(ctx context.Context, src controller.Source) error {
	until, stop := p.b.replicas.openLacking(ctx)
	defer stop()
	u, err := src.Next(until, p.after)
	if until != ctx && ctx.Err() == nil && until.Err() != nil && errors.Is(err, until.Err()) {
		return nil // logs that did not open are due to be tried again, or one has opened since
	}
	if err != nil {
		return err
	}
	p.apply(u)
	p.after = u.Image.Offset()
	return nil
}

func (p *publisher) apply(u controller.Update) {
	b, old := p.b, p.current.Load()
	b.applyConfigs(old, u)
	for _, t := range u.Delta.DeletedTopics {
		b.coordinators.removeTopic(t.Name)
		b.replicas.removeTopic(t.Name, t.ID)
	}
	b.replicas.assign(u.Image, u.Delta)
	b.coordinators.imageChanged(u.Image, u.Delta)
	p.current.Store(u.Image)
	for _, t := range u.Delta.DeletedTopics {
		b.seen.forget(t.Name)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for offset, list := range p.waiters {
		if offset <= u.Image.Offset() {
			for _, ch := range list {
				close(ch)
			}
			delete(p.waiters, offset)
		}
	}
}

// wait returns when the image at offset, or a later one, has been applied.
func (p *publisher) wait(ctx context.Context, offset int64) error {
	p.mu.Lock()
	if p.current.Load().Offset() >= offset {
		p.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	p.waiters[offset] = append(p.waiters[offset], ch)
	p.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// applyConfigs gives changed topic configs to the partitions they govern. A
// change of the broker's own or the cluster's defaults touches every topic.
func (b *Broker) applyConfigs(old *image.Image, u controller.Update) {
	every, clients := false, false
	for _, r := range u.Delta.Configs {
		b.publisher.warn(u.Image, r)
		switch {
		case r.Type == image.ClientMetricsResource:
			clients = true
		case r.Type == image.TopicResource:
			if t := old.TopicByName(r.Name); t != nil {
				b.replicas.configure(t, b.topicConfig(u.Image, r.Name))
			}
		case r.Type == image.BrokerResource && (r.Name == "" || r.Name == itoa(b.nodeID)):
			every = true
			b.applyBrokerConfigs(u.Image)
		}
	}
	if clients {
		b.telemetry.configure(u.Image)
	}
	if every {
		for t := range old.Topics() {
			b.replicas.configure(t, b.topicConfig(u.Image, t.Name))
		}
	}
}

// mostWarnings bounds how many configs without effect the log names: anything can
// be set on a broker.
const mostWarnings = 200

// mostLogged bounds a client's text in the log.
const mostLogged = 256

// warn says of each config that is set and has no effect that it has none, once.
func (p *publisher) warn(img *image.Image, r image.Resource) {
	scope := config.TopicScope
	switch r.Type {
	case image.TopicResource:
	case image.BrokerResource:
		scope = config.BrokerScope
	case image.GroupResource:
		scope = config.GroupScope
	case image.ClientMetricsResource:
		scope = config.ClientMetricsScope
	default:
		return
	}
	for _, c := range img.Configs(r.Type, r.Name).All() {
		name := scope.String() + " " + c.Key
		if p.warned[name] || len(p.warned) > mostWarnings {
			continue
		}
		why := config.WithoutEffect(scope, c.Key)
		if why == "" {
			continue
		}
		if p.warned[name] = true; len(p.warned) > mostWarnings {
			p.b.log.Warn("many configs are set that have no effect: no more of them are told", zap.Int("told", mostWarnings))
			continue
		}
		p.b.log.Warn("a "+scope.String()+" config "+why, zap.String("config", clippedTo(c.Key, mostLogged)), zap.String("resource", clippedTo(r.Name, mostLogged)))
	}
}

// topicConfig is what governs a topic: its own configs over the broker's
// dynamic ones, the cluster's dynamic defaults, and the static file.
func (b *Broker) topicConfig(img *image.Image, name string) *config.TopicConfig {
	tc, err := config.Topic(b.config, dynamic(img, image.BrokerResource, ""), dynamic(img, image.BrokerResource, itoa(b.nodeID)), dynamic(img, image.TopicResource, name))
	if err != nil {
		// The controller checked every value before it wrote it.
		panic("broker: committed configs of topic " + name + " do not hold: " + err.Error())
	}
	return tc
}

// setting looks up what is set of the broker's own configs, by an image: for this
// broker, for all of the cluster, or in its file.
func (b *Broker) setting(img *image.Image) config.Lookup {
	own, cluster := dynamic(img, image.BrokerResource, itoa(b.nodeID)), dynamic(img, image.BrokerResource, "")
	return over(own, cluster, b.config.Set)
}

// over looks a config up in one place after another.
func over(levels ...config.Lookup) config.Lookup {
	return func(name string) (string, bool) {
		for _, from := range levels {
			if text, ok := from(name); ok {
				return text, true
			}
		}
		return "", false
	}
}

// applyBrokerConfigs takes over what changed in the broker's own dynamic
// configs; topic defaults among them reach the topics by themselves.
func (b *Broker) applyBrokerConfigs(img *image.Image) {
	b.cordon(b.setting(img))
	b.configureCleaner(b.setting(img))
	if b.server == nil {
		return // the first images come before it, and it begins with what they say
	}
	b.applyListeners(b.running, img)
	limits, err := b.connectionLimits(b.running, img)
	if err != nil {
		b.log.Warn("limits of connections stay as they were", zap.Error(err))
		return
	}
	b.server.SetLimits(limits)
}
