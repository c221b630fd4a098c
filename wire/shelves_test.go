package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

func (s *shelves) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.free {
		n += len(list)
	}
	return n
}

func (s *shelves) lying() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Of what a burst took, what is used on stays and the rest goes; when nothing is
// used any more, that goes too, and nobody looks on.
func TestShelves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelves()
		defer s.close()
		for range 2 {
			var burst []*buffer
			for i := range 30 {
				burst = append(burst, s.get(100<<10+i*50<<10))
			}
			for _, b := range burst {
				s.put(b, len(b.b))
			}
			if n := s.count(); n != len(burst) {
				t.Fatalf("%d of %d buffers are there", n, len(burst))
			}
			for range 30 {
				one, two := s.get(1<<20), s.get(1<<20)
				one.b[0], two.b[0] = 1, 2
				time.Sleep(shelfTime / 10)
				s.put(one, 1<<20)
				s.put(two, 1<<20)
			}
			if n := s.count(); n != 2 {
				t.Errorf("%d buffers are there, and 2 are used", n)
			}
			time.Sleep(3 * shelfTime)
			s.mu.Lock()
			looking := s.looking
			s.mu.Unlock()
			if n := s.count(); n != 0 || looking {
				t.Errorf("%d buffers are there, and none is used; looking: %v", n, looking)
			}
		}
		b := s.get(1 << 20)
		s.put(s.get(1<<20), 0)
		s.close()
		s.put(b, 0)
		if n := s.count(); n != 0 || b.b != nil {
			t.Errorf("%d buffers stay for ever", n)
		}
	})
}

// A buffer that a longer frame was in holds no more than the next one needs.
func TestShelvesHoldNoMoreThanNeeded(t *testing.T) {
	s := newShelves()
	defer s.close()
	b := s.get(16 << 20)
	if !b.own {
		t.Skip("memory is Go's here")
	}
	for i := range b.b {
		b.b[i] = 1
	}
	s.put(b, len(b.b))
	again := s.get(9 << 20)
	defer s.put(again, 9<<20)
	if again != b {
		t.Fatal("the buffer is not used again")
	}
	if again.b[9<<20-1] != 1 || again.b[10<<20] != 0 {
		t.Error("a frame of 9 MiB holds what one of 16 MiB took")
	}
}

// However many lengths frames have, one burst after another, what lies on the shelves
// is bounded, and all of it goes.
func TestShelvesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelves()
		defer s.close()
		most := 0
		for size := 100 << 10; size < 16<<20; size *= 2 {
			var burst []*buffer
			for n := 0; n < shelfMost; n += size {
				burst = append(burst, s.get(size))
			}
			for _, b := range burst {
				s.put(b, size)
			}
			most = max(most, s.lying())
		}
		if most > shelfMost || most < shelfMost/2 {
			t.Errorf("up to %d bytes lie on the shelves", most)
		}
		time.Sleep(3 * shelfTime)
		if s.lying() != 0 || s.count() != 0 {
			t.Errorf("%d bytes are counted, of %d buffers", s.lying(), s.count())
		}
		s.put(s.get(1<<20), 1<<20)
		if s.count() != 1 || s.lying() < 1<<20 {
			t.Errorf("%d bytes are counted, of %d buffers", s.lying(), s.count())
		}
		b := s.get(1 << 20)
		if s.lying() != 0 {
			t.Errorf("%d bytes are counted when nothing is there", s.lying())
		}
		s.put(b, 1<<20)
	})
}
