package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// halting gives all it has at once, and is waited for where there is nothing left.
type halting struct {
	bytes.Reader
	waits func()
}

func (h *halting) Read(p []byte) (int, error) {
	h.waits()
	return 0, io.EOF
}

func (h *halting) try(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// TestLittleIsHeldInTheMiddleOfAFrame: who waits for the rest of one has a buffer that it
// fits, whatever was read ahead into before; and a wide one again afterwards.
func TestLittleIsHeldInTheMiddleOfAFrame(t *testing.T) {
	for _, c := range []struct {
		size int
		want int8
	}{{100, 0}, {5000, 1}, {20_000, 2}} {
		rest := frame(keyProduce, 7, 9, strings.Repeat("r", c.size))
		stream := append(manyFrames(100, 3000), rest[:len(rest)-10]...)
		var f *frameReader
		waited := int8(-1)
		h := &halting{waits: func() { waited = f.ahead.class }}
		h.Reset(stream)
		f = newFrameReader(h, 1<<20)
		f.try = h.try
		f.first = func(class int8) (*buffer, int, error) {
			b := getClass(class)
			n, err := h.try(b.b)
			return b, n, err
		}
		f.class = wide
		for range 100 {
			if _, _, err := f.next(); err != nil {
				t.Fatal(err)
			}
			b, buf, err := f.body(true)
			if err != nil {
				t.Fatal(err)
			}
			f.done(b, buf)
		}
		if _, _, err := f.next(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.body(true); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		if waited != c.want {
			t.Errorf("%d bytes: waited with a buffer of class %d, want %d", c.size, waited, c.want)
		}
		if f.class != wide {
			t.Errorf("%d bytes: the next is of class %d", c.size, f.class)
		}
		f.close()
	}
}
