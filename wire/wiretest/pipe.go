package wiretest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of a connection: a queue of what was written, each piece
// with the time at which it arrives.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	limit   int
	size    int // bytes queued
	pieces  []piece
	delay   time.Duration
	cut     bool
	wake    *time.Timer // broadcasts when the first piece arrives
	wakeAt  time.Time

	readClosed  bool // by the reader's Close
	writeClosed bool // by the writer
	writerGone  bool // the writer closed its whole end
	finAt       time.Time
	broken      bool // reset

	readDeadline, writeDeadline deadline
}

type piece struct {
	at time.Time
	b  []byte
}

// deadline is the deadline of one direction. Its lock is the pipe's.
type deadline struct {
	p     *pipe
	at    time.Time
	timer *time.Timer
}

// newPipe makes a pipe between a pair of hosts. The network's lock is held; it
// comes before the pipe's.
func newPipe(n *Network, pr pair, limit int) *pipe {
	p := &pipe{limit: limit, delay: n.delays[pr], cut: n.cuts[pr]}
	p.changed.L = &p.mu
	p.readDeadline.p = p
	p.writeDeadline.p = p
	return p
}

func (d *deadline) set(t time.Time) {
	p := d.p
	p.mu.Lock()
	defer p.mu.Unlock()
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !t.IsZero() {
		if wait := time.Until(t); wait > 0 {
			d.timer = time.AfterFunc(wait, p.broadcast)
		}
	}
	p.changed.Broadcast()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (p *pipe) broadcast() {
	p.mu.Lock()
	p.changed.Broadcast()
	p.mu.Unlock()
}

// wakeWhen sees to it that waiters look again at a time. The lock is held.
func (p *pipe) wakeWhen(at time.Time) {
	if p.wake != nil {
		if p.wakeAt.Equal(at) {
			return
		}
		p.wake.Stop()
	}
	p.wakeAt = at
	p.wake = time.AfterFunc(time.Until(at), func() {
		p.mu.Lock()
		if p.wakeAt.Equal(at) {
			p.wake = nil
		}
		p.changed.Broadcast()
		p.mu.Unlock()
	})
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readClosed:
			return 0, net.ErrClosed
		case p.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		case p.broken:
			return 0, os.NewSyscallError("read", syscall.ECONNRESET)
		case len(b) == 0:
			return 0, nil
		}
		if !p.cut {
			now := time.Now()
			if n := p.take(b, now); n > 0 {
				return n, nil
			}
			if len(p.pieces) > 0 {
				p.wakeWhen(p.pieces[0].at)
			} else if p.writeClosed {
				if !now.Before(p.finAt) {
					return 0, io.EOF
				}
				p.wakeWhen(p.finAt)
			}
		}
		p.changed.Wait()
	}
}

// take moves what has arrived into b. The lock is held.
func (p *pipe) take(b []byte, now time.Time) int {
	n := 0
	for n < len(b) && len(p.pieces) > 0 && !now.Before(p.pieces[0].at) {
		m := copy(b[n:], p.pieces[0].b)
		n += m
		if m == len(p.pieces[0].b) {
			p.pieces[0].b = nil
			p.pieces = p.pieces[1:]
		} else {
			p.pieces[0].b = p.pieces[0].b[m:]
		}
	}
	if n > 0 {
		p.size -= n
		p.changed.Broadcast()
	}
	return n
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for {
		switch {
		case p.writerGone:
			return n, net.ErrClosed
		case p.writeDeadline.passed():
			return n, os.ErrDeadlineExceeded
		case p.writeClosed, p.readClosed:
			return n, os.NewSyscallError("write", syscall.EPIPE)
		case p.broken:
			return n, os.NewSyscallError("write", syscall.ECONNRESET)
		}
		if room := p.limit - p.size; room > 0 {
			m := min(room, len(b)-n)
			if m > 0 {
				p.pieces = append(p.pieces, piece{time.Now().Add(p.delay), append([]byte(nil), b[n:n+m]...)})
				p.size += m
				n += m
				p.changed.Broadcast()
			}
		}
		if n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// state says whether the writer's end has arrived, read or not, and whether the pipe
// is broken.
func (p *pipe) state() (ended, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken || p.writeClosed && !p.cut && !time.Now().Before(p.finAt), p.broken
}

// closeWrite ends the stream, after what was written.
func (p *pipe) closeWrite(gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writeClosed {
		p.writeClosed = true
		p.finAt = time.Now().Add(p.delay)
	}
	if gone {
		p.writerGone = true
		p.writeDeadline.stop()
	}
	p.changed.Broadcast()
}

// closeRead drops what was not read.
func (p *pipe) closeRead() (unread, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readClosed {
		return false, false
	}
	unread = p.size > 0
	p.readClosed = true
	p.pieces, p.size = nil, 0
	p.readDeadline.stop()
	if p.wake != nil {
		p.wake.Stop()
		p.wake = nil
	}
	p.changed.Broadcast()
	return unread, true
}

func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = true
	p.pieces, p.size = nil, 0
	p.readDeadline.stop()
	p.writeDeadline.stop()
	p.changed.Broadcast()
}

func (p *pipe) setCut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *pipe) setDelay(d time.Duration) {
	p.mu.Lock()
	p.delay = d
	p.mu.Unlock()
}
