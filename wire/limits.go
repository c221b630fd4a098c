package wire

import (
	"context"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"
)

// Limits are the limits on connections; 0 means none, a negative number that
// nobody is admitted. They may change while the server runs.
type Limits struct {
	// MaxConnections is max.connections, over all listeners that are not
	// reserved. PerListener is the listener's own. Over the limit a connection is
	// not served before another closes.
	MaxConnections int
	PerListener    map[string]int
	// MaxConnectionsPerIP is max.connections.per.ip, PerIP its overrides, of
	// which 0 admits nobody. Over the limit a new connection is closed at once.
	MaxConnectionsPerIP int
	PerIP               map[netip.Addr]int
	// MaxCreationRate is max.connection.creation.rate, per second, over all
	// listeners that are not reserved; PerListenerRate is the listener's own.
	// Over the rate an accept is delayed; ten seconds' worth may come at once.
	MaxCreationRate float64
	PerListenerRate map[string]float64
}

// SetLimits changes the limits. Connections that are open stay open.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	s.limits = l
	s.changed.Broadcast()
	close(s.relimited)
	s.relimited = make(chan struct{})
	s.mu.Unlock()
}

// waitForSlot waits until the limits allow one more connection. It wants server.mu held.
func (s *Server) waitForSlot(ctx context.Context, ln *listener) bool {
	for {
		if ctx.Err() != nil || s.draining.Load() || ln.ended {
			return false
		}
		most := s.limits.PerListener[ln.name]
		full := most != 0 && ln.count >= most
		if !ln.reserved && s.limits.MaxConnections != 0 && s.total >= s.limits.MaxConnections {
			full = true
		}
		if !full {
			return true
		}
		s.changed.Wait()
	}
}

// waitForRate waits until the creation rate allows one more connection: the rate
// there is by then, which may have changed meanwhile.
func (s *Server) waitForRate(ctx context.Context, ln *listener) bool {
	for {
		s.mu.Lock()
		now := s.clock()
		wait := ln.rate.wait(now, s.limits.PerListenerRate[ln.name])
		if !ln.reserved {
			wait = max(wait, s.rate.wait(now, s.limits.MaxCreationRate))
		}
		if wait <= 0 {
			ln.rate.take()
			if !ln.reserved {
				s.rate.take()
			}
			s.mu.Unlock()
			return true
		}
		changed := s.relimited
		s.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-changed:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return false
		case <-s.stopped:
			t.Stop()
			return false
		}
	}
}

// admit enters a connection into the books once there is a place, unless its address has
// too many, or its listener ends meanwhile. Several sockets of a listener take connections,
// and each of them may hold one that waits: as many are served as may be.
func (s *Server) admit(ctx context.Context, c *connection, from net.Listener) bool {
	ip := c.Remote.Addr()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waitForSlot(ctx, c.listener) {
		return false
	}
	if _, open := s.open[from]; !open || s.draining.Load() {
		return false
	}
	if ip.IsValid() {
		most, overridden := s.limits.PerIP[ip]
		if !overridden {
			most = s.limits.MaxConnectionsPerIP
		}
		if (most != 0 || overridden) && s.perIP[ip] >= most {
			s.counters.refusedPerIP.Add(1)
			s.logLimited("closing a connection: too many from its address", zap.Stringer("address", ip), zap.Int("limit", most))
			return false
		}
		s.perIP[ip]++
	}
	s.lastID++
	c.ID = s.lastID
	c.listener.count++
	c.listener.accepted++
	if !c.listener.reserved {
		s.total++
	}
	c.touch() // it may have waited for its place
	s.conns[c] = struct{}{}
	s.counters.accepted.Add(1)
	s.running.Add(1)
	return true
}

// forget ends a connection's entry in the books.
func (s *Server) forget(c *connection) {
	ip := c.Remote.Addr()
	s.mu.Lock()
	delete(s.conns, c)
	c.listener.count--
	s.dropEnded(c.listener)
	if !c.listener.reserved {
		s.total--
	}
	if ip.IsValid() {
		if s.perIP[ip]--; s.perIP[ip] == 0 {
			delete(s.perIP, ip)
		}
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.running.Done()
}

// dropEnded ends the listener's entry in the books, when nothing is served there.
// It wants server.mu held.
func (s *Server) dropEnded(ln *listener) {
	if ln.ended && ln.count == 0 && s.listeners[ln.name] == ln {
		delete(s.listeners, ln.name)
	}
}
