package wire

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
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

func (n nobody) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	return oneByOne(n.Handle, ctx, requests, replies)
}

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

// What a frame holds while it grows is paid for, at any length and however it
// comes.
func TestGrowingFramesHoldWhatIsPaid(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const slack = 5 << 20 // of Go's heap, and keepStep
	for _, size := range []int{10 << 20, 18 << 20, 50 << 20} {
		for _, key := range []int16{keyProduce, 3} {
			big := frame(key, 7, 1, strings.Repeat("x", size))
			debug.FreeOSMemory() // else what is free there goes meanwhile
			before := resident(t)
			f := newFrameReader(&trickle{big, func() int { return 1 << 20 }}, 100<<20)
			paid, most := 0, 0
			f.grow = func(n int) error { paid = n; return nil }
			f.progress = func(int) { most = max(most, residentNow(t)-before-paid) }
			if _, _, err := f.next(); err != nil {
				t.Fatal(err)
			}
			b, buf, err := f.body(key == keyProduce)
			if err != nil {
				t.Fatal(err)
			}
			f.progress(0)
			if !bytes.Equal(b, big[4:]) {
				t.Error("the frame is not what was sent")
			}
			if paid != len(b) || most > slack {
				t.Errorf("a frame of %d bytes, key %d, was paid for with %d and held %d more than was paid", len(b), key, paid, most)
			}
			if buf != nil {
				f.done(b, buf)
			}
			f.close()
		}
	}
}

// Where the system gives no memory that can grow, both buffers are paid for.
func TestGrowingFramesPayForBoth(t *testing.T) {
	f := newFrameReader(nil, 100<<20)
	var paid []int
	f.grow = func(n int) error { paid = append(paid, n); return nil }
	f.size = 10 << 20
	room, buf, err := f.enlarge(1<<20, &buffer{b: make([]byte, 1<<20), class: kept}, true)
	if err != nil || room != 4<<20 || len(buf.b) != room {
		t.Fatalf("a buffer of %d bytes with room for %d: %v", len(buf.b), room, err)
	}
	if room, buf, err = f.enlarge(room, buf, true); err != nil || room != f.size || len(buf.b) < room {
		t.Fatalf("a buffer of %d bytes with room for %d: %v", len(buf.b), room, err)
	}
	f.shelves.put(buf, 0)
	if want := []int{5 << 20, 4 << 20, 14 << 20, 10 << 20}; !slices.Equal(paid, want) {
		t.Errorf("paid %d, want %d", paid, want)
	}
}

// What a burst of large frames took goes back to the system soon after it, though
// nobody collects garbage.
func TestBurstGivesItsMemoryBack(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const conns, size = 64, 2 << 20
	var inside atomic.Int32
	let := make(chan struct{})
	_, addr := serveTCP(t, ServerOptions{Budget: 256 << 20, Handler: fake{
		serves: func(string, int16, int16) bool { return true },
		handle: func(context.Context, *Request) Reply {
			inside.Add(1)
			<-let
			return answer("done")
		},
	}})
	debug.FreeOSMemory() // else what is free there goes meanwhile
	before := resident(t)
	out := frame(keyProduce, 7, 1, strings.Repeat("x", size))
	var peers []*peer
	for range conns {
		p := &peer{t: t, nc: dialTCP(t, addr)}
		if _, err := p.nc.Write(out); err != nil { // send would leave garbage
			t.Fatal(err)
		}
		peers = append(peers, p)
	}
	for inside.Load() < conns {
		time.Sleep(time.Millisecond)
	}
	if held := residentNow(t) - before; held < conns*size {
		t.Errorf("%d frames of %d bytes hold %d", conns, size, held)
	}
	close(let)
	for _, p := range peers {
		p.expect(1, "done")
	}
	left := 0
	for range 600 { // a long time, on a busy machine
		if left = residentNow(t) - before; left < conns*size/4 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d bytes are held long after %d frames of %d bytes", left, conns, size)
}
