package wire

import (
	"slices"
	"sync"
	"time"
)

// shelves hold the buffers of large frames, which come from the system and not
// from Go's heap: what a burst of them took goes back a moment after it has ended,
// not when Go next looks for garbage. A buffer that nobody needed for a whole
// shelfTime goes, and one goes at once that would be too much: frames of ever other
// lengths would else fill shelf after shelf. Each server and each client has its own.
type shelves struct {
	mu      sync.Mutex
	bytes   int                                        // of those that are free
	free    [len(bufferSizes) - smallClasses][]*buffer // the last used at the end
	least   [len(bufferSizes) - smallClasses]int       // how many were there all the time since the last look
	looking bool                                       // look runs
	closed  bool
	stopped chan struct{}
	running sync.WaitGroup
}

const (
	shelfTime = time.Second
	// shelfMost is how many bytes lie on shelves at most.
	shelfMost = 64 << 20
	// keepStep is how much of a frame is in memory twice while it is copied.
	keepStep = 1 << 20
)

func newShelves() *shelves { return &shelves{stopped: make(chan struct{})} }

// takes is how much memory a buffer on a shelf takes.
func (b *buffer) takes() int {
	if b.own {
		return b.used
	}
	return len(b.b)
}

// get returns a buffer for n bytes, all of which may take memory. It goes back
// with put.
func (s *shelves) get(n int) *buffer {
	class := classFor(n)
	if class < 0 {
		if b := s.growing(n); b != nil {
			return b
		}
		return &buffer{b: make([]byte, n), class: single}
	}
	if class < smallClasses {
		return getClass(class)
	}
	if b := s.take(class - smallClasses); b != nil {
		if b.own && b.used > n+n/8 {
			// A longer frame was in it; what that took is more than this one pays for.
			discardBytes(b.b, n)
			b.used = n
		}
		return b
	}
	if b := s.growing(n); b != nil {
		return b
	}
	return &buffer{b: make([]byte, bufferSizes[class]), class: class}
}

func (s *shelves) take(i int8) *buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free[i]) - 1
	if last < 0 {
		return nil
	}
	b := s.free[i][last]
	s.free[i][last] = nil
	s.free[i] = s.free[i][:last]
	s.bytes -= b.takes()
	s.least[i] = min(s.least[i], last)
	return b
}

// growing returns a buffer for n bytes that takes memory only as it is written to,
// or nil where there is none. It goes back with put.
func (s *shelves) growing(n int) *buffer {
	class := classFor(n)
	if class >= smallClasses {
		n = bufferSizes[class]
	} else {
		class = single
	}
	if b := mapBytes(n); b != nil {
		return &buffer{b: b, class: class, own: true}
	}
	return nil
}

// release gives a buffer's memory back.
func (b *buffer) release() {
	if b.own {
		unmapBytes(b.b)
	}
	b.b = nil
}

// put takes back a buffer of which the first n bytes were written to.
func (s *shelves) put(b *buffer, n int) {
	switch {
	case b.class == kept:
		return
	case b.class == single:
		b.release()
		return
	case b.class < smallClasses:
		putBuffer(b)
		return
	}
	b.used = max(b.used, n)
	i := b.class - smallClasses
	s.mu.Lock()
	if s.closed || s.bytes+b.takes() > shelfMost {
		s.mu.Unlock()
		b.release()
		return
	}
	s.free[i] = append(s.free[i], b)
	s.bytes += b.takes()
	if !s.looking {
		s.looking = true
		s.running.Go(s.look)
	}
	s.mu.Unlock()
}

// keep returns the first n bytes of a buffer in memory of Go's, and takes the
// buffer back.
func (s *shelves) keep(b *buffer, n int) []byte {
	if b.class == kept {
		return b.b[:n:n]
	}
	out := make([]byte, n)
	for end := n; end > 0; {
		from := max(end-keepStep, 0)
		copy(out[from:end], b.b[from:end])
		if b.own {
			discardBytes(b.b[:end], from)
		}
		end = from
	}
	if b.own {
		b.used = 0
	}
	s.put(b, 0)
	return out
}

// look empties the shelves of what is not needed, and ends when nothing is left.
func (s *shelves) look() {
	t := time.NewTicker(shelfTime)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.stopped:
			return
		}
		if !s.trim() {
			return
		}
	}
}

// trim gives back what nobody needed since it was last called, and says whether
// something is left.
func (s *shelves) trim() bool {
	var unused []*buffer
	left := 0
	s.mu.Lock()
	for i, n := range s.least {
		unused = append(unused, s.free[i][:n]...)
		s.free[i] = slices.Delete(s.free[i], 0, n)
		s.least[i] = len(s.free[i])
		left += len(s.free[i])
	}
	for _, b := range unused {
		s.bytes -= b.takes()
	}
	s.looking = left > 0
	s.mu.Unlock()
	for _, b := range unused {
		b.release()
	}
	return left > 0
}

// close gives back all there is, and what is put later at once.
func (s *shelves) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stopped)
	}
	free := s.free
	clear(s.free[:])
	clear(s.least[:])
	s.bytes = 0
	s.mu.Unlock()
	s.running.Wait()
	for _, list := range free {
		for _, b := range list {
			b.release()
		}
	}
}
