package wire

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SendBuffer and ReceiveBuffer are the sizes of a connection's socket buffers.
// Linux tells twice what was asked for.
func TestSocketBuffers(t *testing.T) {
	sizes := func(o ServerOptions) (send, receive int) {
		o.Handler = nobody{}
		s := NewServer(o)
		_, end := overTCP(t, s)
		defer end()
		for s.Stats().Accepted == 0 {
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		for c := range s.conns {
			raw, err := c.nc.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if err := raw.Control(func(fd uintptr) {
				send, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
				receive, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
			}); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Unlock()
		return send, receive
	}
	if send, receive := sizes(ServerOptions{SendBuffer: 30000, ReceiveBuffer: 40000}); send != 60000 || receive != 80000 {
		t.Errorf("buffers of %d and %d bytes", send, receive)
	}
	if send, receive := sizes(ServerOptions{}); send == 60000 || receive == 80000 {
		t.Errorf("not set: buffers of %d and %d bytes", send, receive)
	}
}

// nobody serves nothing.
type nobody struct{}

func (nobody) Serves(string, int16, int16) bool { return false }

func (nobody) Handle(context.Context, *Request) Reply { return Reply{Close: true} }

// Produces that are too large for a pool leave Go no garbage that it holds until
// it looks for some, and what a large frame of another kind grew in none either.
func TestLargestFramesLeaveNoGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has pools forget what they hold")
	}
	const size, frames = 40 << 20, 8
	read := func(key int16) uint64 {
		big := frame(key, 7, 1, strings.Repeat("x", size))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range frames {
			f := newFrameReader(&trickle{big, func() int { return 1 << 20 }}, 100<<20)
			if _, _, err := f.next(); err != nil {
				t.Fatal(err)
			}
			b, buf, err := f.body(key == keyProduce)
			if err != nil || !bytes.Equal(b, big[4:]) {
				t.Fatalf("the frame is not what was sent: %v", err)
			}
			if key == keyProduce {
				f.done(b, buf)
			}
			f.close()
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	read(keyProduce) // fills the pools
	if n := read(keyProduce); n > size {
		t.Errorf("%d Produces of %d bytes made it allocate %d bytes", frames, size, n)
	}
	if n := read(3); n > (frames+1)*(size+1<<10) {
		t.Errorf("%d requests of %d bytes, which may be kept, made it allocate %d bytes", frames, size, n)
	}
}

// What the largest frames pass through while they come does not stay in pools,
// which no budget knows of, but for small buffers.
func TestLargestFramesLeaveNoLargeBuffers(t *testing.T) {
	emptyPools := func() (largest int) {
		for i := range bufferPools {
			for {
				b, ok := bufferPools[i].Get().(*buffer)
				if !ok {
					break
				}
				largest = max(largest, len(b.b))
			}
		}
		return largest
	}
	emptyPools()
	trusted := 0
	for _, key := range []int16{keyProduce, 3} {
		f := newFrameReader(&trickle{bytes.Repeat(frame(key, 7, 1, strings.Repeat("x", 40<<20)), 2), func() int { return 1 << 20 }}, 100<<20)
		for range 2 { // the second is trusted
			if _, _, err := f.next(); err != nil {
				t.Fatal(err)
			}
			trusted = max(trusted, f.trust)
			b, buf, err := f.body(key == keyProduce)
			if err != nil {
				t.Fatal(err)
			}
			if key == keyProduce {
				f.done(b, buf)
			}
		}
		f.close()
		if n := emptyPools(); n > 2<<20 {
			t.Errorf("key %d: buffers of %d bytes stay", key, n)
		}
	}
	if trusted != maxTrust {
		t.Errorf("a second frame began with %d bytes", trusted)
	}
}
