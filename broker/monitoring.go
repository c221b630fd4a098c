package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/broker/monitor"
	"millrace/wire"
)

// The phases of a broker's life, with the numbers that Kafka's BrokerState has.
const (
	phaseStarting = 1
	phaseRunning  = 3
	phaseStopping = 6
)

// Monitoring says what is shown of a broker over HTTP.
type Monitoring struct {
	// Address is HOST:PORT, :PORT or PORT, without a host on loopback; "": there
	// is no HTTP, and nothing is counted for it.
	Address string
	// Profiles serves /debug/pprof too.
	Profiles bool
	// Listening is told the address that is listened on; nil: nobody is.
	Listening func(address string)
}

// startMonitor opens the HTTP side. It comes first at the start and goes last
// at the end: that a broker is not ready is to be seen.
func (b *Broker) startMonitor(ctx context.Context, o Monitoring) error {
	if o.Address == "" {
		return nil
	}
	b.seen = newObservation(func(topic string) bool { return b.applied().TopicByName(topic) != nil })
	m, err := monitor.Start(ctx, monitor.Options{Address: o.Address, Profiles: o.Profiles}, b)
	if err != nil {
		return err
	}
	b.monitor = m
	if o.Listening != nil {
		o.Listening(m.Address())
	}
	return nil
}

func (b *Broker) stopMonitor() error {
	if b.monitor == nil {
		return nil
	}
	return b.monitor.Stop()
}

// Ready says why clients are not served: the broker starts or stops, a data
// directory has failed or is not there although partitions lie in it, groups have
// no coordinator because its log does not load, or the cluster does not know this
// broker any more.
func (b *Broker) Ready() error {
	switch b.phase.Load() {
	case phaseStarting:
		return errors.New("starting")
	case phaseStopping:
		return errors.New("stopping")
	}
	if failures := b.store.Failures(); len(failures) > 0 {
		return fmt.Errorf("a data directory has failed: %w", errors.Join(failures...))
	}
	if missing := b.replicas.elsewhere(); len(missing) > 0 {
		n := 0
		for _, m := range missing { // any order: they are added up
			n += m
		}
		if n == 1 {
			return errors.New("1 partition is offline: it lies in a data directory that is not there")
		}
		return fmt.Errorf("%d partitions are offline: they lie in data directories that are not there", n)
	}
	if err := b.coordinators.notServed(); err != nil {
		return err
	}
	if err := b.controller.Err(); err != nil {
		return fmt.Errorf("the controller has stopped: %w", err)
	}
	switch own := b.applied().Broker(b.nodeID); {
	case own == nil || own.Epoch != b.brokerEpoch.Load():
		return errors.New("this broker was unregistered; a restart registers it again")
	case own.Fenced:
		return errors.New("this broker is fenced")
	}
	return nil
}

// observer is what the network tells of requests; nil where nobody counts.
func (b *Broker) observer() func(wire.Timing) {
	if b.seen == nil {
		return nil
	}
	return b.seen.request
}

// controllerObserver is what the controller tells of its turns.
func (b *Broker) controllerObserver() func(time.Duration) {
	o := b.seen
	if o == nil {
		return nil
	}
	last := int32(-1)
	return func(committed time.Duration) {
		o.turns.Add(1)
		if committed > 0 {
			o.commits.Duration(committed)
		}
		if now := b.leaderID(); now >= 0 && now != last {
			last = now
			o.elections.Add(1)
		}
	}
}

// leaderID is the active controller's node id; -1 while the controller starts.
func (b *Broker) leaderID() int32 {
	if c := b.started.Load(); c != nil {
		return c.LeaderID()
	}
	return -1
}

// flushObserver is what the logs tell of their flushes.
func (b *Broker) flushObserver() func(time.Duration) {
	if b.seen == nil {
		return nil
	}
	return b.seen.flushes.Duration
}

// CheckHTTPAddress says what is wrong with an address for HTTP.
func CheckHTTPAddress(address string) error {
	_, err := monitor.Loopback(address)
	return err
}
