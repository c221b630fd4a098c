package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// trickle is a stream that arrives in pieces of given sizes.
type trickle struct {
	b     []byte
	sizes func() int
}

func (r *trickle) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b[:min(len(r.b), max(r.sizes(), 1))])
	r.b = r.b[n:]
	return n, nil
}

// newFrameReader returns one whose large buffers are made anew each time.
func newFrameReader(src io.Reader, max int) *frameReader {
	closed := newShelves()
	closed.close()
	return &frameReader{src: src, max: max, poison: true, progress: func(int) {}, grow: func(int) error { return nil }, shelves: closed}
}

// readAll reads every frame; it copies those of Produces before they are
// poisoned.
func readAll(f *frameReader) (frames [][]byte, err error) {
	defer f.close()
	for {
		size, key, err := f.next()
		if err != nil {
			return frames, err
		}
		if f.first != nil {
			f.shrink() // as one that waits for the budget does
		}
		b, buf, err := f.body(key == keyProduce)
		if err != nil {
			return frames, err
		}
		if len(b) != size {
			return frames, errors.New("the frame has not the length it announced")
		}
		if key != keyProduce {
			frames = append(frames, b)
			continue
		}
		kept := bytes.Clone(b)
		f.done(b, buf)
		if buf == nil && bytes.Count(b, []byte{poisonByte}) != len(b) {
			return frames, errors.New("the body was not poisoned")
		}
		frames = append(frames, kept)
	}
}

// cutFrames is the obvious way to cut a stream.
func cutFrames(b []byte, max int) (frames [][]byte, bad bool) {
	for len(b) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < minHeader || n > max {
			return frames, true
		}
		if len(b) < 4+n {
			break
		}
		frames = append(frames, b[4:4+n])
		b = b[4+n:]
	}
	return frames, false
}

var block = func() []byte {
	b := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

// noise is n bytes, at most half a mebibyte, that differ from call to call.
func noise(rng *rand.Rand, n int) []byte {
	at := rng.IntN(len(block) / 2)
	return bytes.Clone(block[at : at+n])
}

func checkFrames(t *testing.T, stream []byte, max int, sizes func() int) {
	t.Helper()
	want, bad := cutFrames(stream, max)
	for _, waits := range []bool{false, true} {
		f := newFrameReader(&trickle{bytes.Clone(stream), sizes}, max)
		if waits {
			f.first = firstOf(f.src)
			f.grow = func(int) error { f.shrink(); return nil }
		}
		got, err := readAll(f)
		sameFrames(t, got, want, err, bad)
	}
}

// firstOf reads a stream's first bytes as a socketReader does those of a connection.
func firstOf(src io.Reader) func(class int8) (*buffer, int, error) {
	return func(class int8) (*buffer, int, error) {
		b := getClass(class)
		n, err := src.Read(b.b)
		if n == 0 {
			putBuffer(b)
			return nil, 0, err
		}
		return b, n, nil
	}
}

func sameFrames(t *testing.T, got, want [][]byte, err error, bad bool) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("read %d frames, want %d; error %v", len(got), len(want), err)
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d of %d bytes differs", i, len(want[i]))
		}
	}
	var fe *frameError
	if errors.As(err, &fe) != bad {
		t.Fatalf("error %v, bad length expected: %v", err, bad)
	}
	if !bad && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("the stream ended with %v", err)
	}
}

func TestFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		var stream []byte
		for range 1 + rng.IntN(12) {
			key := int16(rng.IntN(2) * 3)
			n := []int{0, 10, 1000, 5000, 20000, 70000, 200000}[rng.IntN(7)]
			if n > 0 {
				n += rng.IntN(n)
			}
			stream = append(stream, frame(key, 7, 1, string(noise(rng, n)))...)
		}
		switch round % 3 {
		case 1:
			stream = stream[:max(len(stream)-rng.IntN(20)-1, 0)]
		case 2:
			stream = append(stream, 0xff, 0xff, 0xff, 0xff)
		}
		most := []int{1, 7, 100, 4096, 1 << 20}[rng.IntN(5)]
		if len(stream) > 100<<10 {
			most = max(most, 4096)
		}
		checkFrames(t, stream, 1<<20, func() int { return 1 + rng.IntN(most) })
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(append(frame(0, 7, 1, "a"), frame(3, 1, 2, "b")...), uint8(3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(1))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint8(16))
	f.Add([]byte{0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0}, uint8(2))
	f.Add(frame(0, 7, 1, strings.Repeat("x", 5000)), uint8(255))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		checkFrames(t, stream, 1<<16, func() int { return int(step) })
	})
}

// A length alone makes nobody allocate what it announces.
func TestNoMemoryOnTheWordOfALength(t *testing.T) {
	for _, key := range []byte{0, 3} {
		stream := append([]byte{0x06, 0, 0, 0, 0, key, 0, 7}, make([]byte, 100<<10)...)
		f := newFrameReader(bytes.NewReader(stream), 100<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readAll(f)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error %v", err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
			t.Errorf("key %d: 100 KiB of a frame of 96 MiB made it allocate %d bytes", key, n)
		}
	}
}

// A connection that has sent large frames is trusted with one read, which takes
// the head of what comes behind it along.
func TestTrust(t *testing.T) {
	big := frame(0, 7, 1, strings.Repeat("x", 1<<20))
	small := frame(3, 1, 2, "behind")
	reads := 0
	f := newFrameReader(&trickle{bytes.Join([][]byte{big, big, small}, nil), func() int { reads++; return 4 << 20 }}, 100<<20)
	for i, want := range [][]byte{big, big, small} {
		reads = 0
		_, key, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		b, buf, err := f.body(key == keyProduce)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want[4:]) {
			t.Errorf("frame %d is not what was sent", i)
		}
		if key == keyProduce {
			f.done(b, buf)
		}
		if i > 0 && reads != 1 {
			t.Errorf("frame %d, of %d bytes, took %d reads, want 1", i, len(want), reads)
		}
	}
}

// All of a large frame is paid for before it is read, whatever came before it.
func TestLargeFramesArePaidFor(t *testing.T) {
	for _, key := range []int16{keyProduce, 3} {
		var stream []byte
		sizes := []int{70 << 10, 120 << 10, 100 << 10, 300 << 10, 9 << 20, 16 << 20, 17 << 20, 30 << 20}
		for i, n := range sizes {
			stream = append(stream, frame(key, 7, int32(i), strings.Repeat("x", n))...)
		}
		f := newFrameReader(bytes.NewReader(stream), 100<<20)
		paid, read := 0, 0
		f.grow = func(n int) error { paid = n; return nil }
		f.progress = func(n int) {
			if read += n; paid > 0 && read > paid+4+headSize {
				t.Errorf("%d bytes were read, and %d paid for", read, paid)
			}
		}
		for range sizes {
			size, _, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			read = len(f.buffered())
			b, buf, err := f.body(key == keyProduce)
			if err != nil {
				t.Fatal(err)
			}
			if paid != size {
				t.Errorf("key %d: a frame of %d bytes was paid for with %d", key, size, paid)
			}
			if key == keyProduce {
				f.done(b, buf)
			}
			paid = 0
		}
	}
}

func TestLooksLike(t *testing.T) {
	for start, want := range map[string]string{
		"GET / HTTP/1.1": "HTTP request", "POST /": "HTTP request", "PRI * HTTP/2": "HTTP/2",
		"\x16\x03\x01\x02\x00": "TLS hello", "\x15\x03\x03\x00\x02": "TLS alert", "SSH-2.0-": "SSH", "\xff\xff\xff\xff": "",
	} {
		_, err := readAll(newFrameReader(strings.NewReader(start), 100<<20))
		var fe *frameError
		if !errors.As(err, &fe) {
			t.Errorf("%q: error %v", start, err)
			continue
		}
		if has := strings.Contains(err.Error(), "looks like"); has != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a hint at %q", start, err, want)
		}
	}
}

// A connection that has sent less than a head holds no buffer, and one that waits for the budget no more than what came needs.
func TestWaitingHoldsLittle(t *testing.T) {
	whole := frame(0, 7, 1, strings.Repeat("x", 40<<10))
	for _, c := range []struct{ came, held int }{{1, 0}, {headSize - 1, 0}, {headSize, 0}, {100, bufferSizes[0]}, {20 << 10, bufferSizes[2]}} {
		src := &trickle{bytes.Clone(whole), func() int { return c.came }}
		f := newFrameReader(src, 1<<20)
		f.first, f.class = firstOf(src), 2
		if c.came < headSize {
			if err := f.begin(); err != nil {
				t.Fatal(err)
			}
		} else if _, _, err := f.next(); err != nil {
			t.Fatal(err)
		}
		f.shrink()
		held := 0
		if f.ahead != nil {
			held = len(f.ahead.b)
		}
		if held != c.held || !bytes.Equal(f.buffered(), whole[:c.came]) {
			t.Errorf("of %d bytes %d are there, in a buffer of %d, want %d", c.came, len(f.buffered()), held, c.held)
		}
		f.close()
	}
}
