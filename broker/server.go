package broker

import (
	"context"
	"fmt"
	"time"

	"millrace/controller/config"
	"millrace/wire"
)

// The network: one server for all listeners, made before the first image that
// may change its limits, opened when everything else is ready.

func (b *Broker) makeServer(ctx context.Context) error {
	b.applyListeners(ctx, b.applied())
	limits, err := b.connectionLimits(ctx, b.applied())
	if err != nil {
		return err
	}
	var reserved []string
	for _, l := range b.listeners() {
		if l.kind == onController || l.name == b.config.InterBrokerListener() && len(b.listeners()) > 1 {
			reserved = append(reserved, l.name)
		}
	}
	b.server = wire.NewServer(wire.ServerOptions{
		Handler: dispatcher{b}, Logger: b.log.Named("wire"),
		MaxRequestBytes:   b.config.Int("socket.request.max.bytes"),
		Budget:            requestBudget(b.config),
		IdleTimeout:       time.Duration(b.config.Long("connections.max.idle.ms")) * time.Millisecond,
		Limits:            limits,
		ReservedListeners: reserved,
		SendBuffer:        b.socketBuffer("socket.send.buffer.bytes"),
		ReceiveBuffer:     b.socketBuffer("socket.receive.buffer.bytes"),
		Observe:           b.observer(),
	})
	return nil
}

// serve opens the network: who has connected before waited in the backlog.
func (b *Broker) serve() {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.open = true
	for _, l := range b.listeners() {
		b.serveListener(&l)
	}
}

func (b *Broker) serveListener(l *listener) {
	name := l.name
	for _, s := range l.sockets {
		b.background(func(running context.Context) {
			ctx, end := context.WithCancel(running)
			defer end()
			defer context.AfterFunc(s.ctx, end)()
			if err := b.server.Serve(ctx, name, s.Listener); err != nil && ctx.Err() == nil && s.ctx.Err() == nil {
				b.fail(fmt.Errorf("listener %s: %w", name, err))
			}
		})
	}
}

// defaultRequestBudget is what queued.max.request.bytes is when it is -1. Kafka
// then has no limit but its heap; a process without a heap of fixed size needs
// one, or a few clients that send what they may would take all memory.
const defaultRequestBudget = 256 << 20

func requestBudget(c *config.Static) int64 {
	if n := c.Long("queued.max.request.bytes"); n > 0 {
		return n
	}
	return max(defaultRequestBudget, int64(c.Int("socket.request.max.bytes")))
}

// socketBuffer is the size of a socket's buffer where one was set. A buffer of a
// fixed size is one the system does not grow: with Kafka's default of 100 KiB a
// Produce of 1 MiB comes in several round trips, and an answer of 256 KiB goes out
// in several, each with its wake-ups on both sides.
func (b *Broker) socketBuffer(name string) int {
	if _, set := b.config.Set(name); !set {
		return 0
	}
	return int(b.config.Int(name))
}
