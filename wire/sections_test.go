package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// segment is a file to take sections of.
type segment struct {
	file *os.File
	b    []byte
	refs atomic.Int64
}

func newSegment(t testing.TB, n int) *segment {
	s := &segment{b: make([]byte, n)}
	for i := range s.b {
		s.b[i] = byte(i>>8) ^ byte(i*7)
	}
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, s.b, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.file, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.file.Close()
		if n := s.refs.Load(); n != 0 {
			t.Errorf("%d sections were not released", n)
		}
	})
	return s
}

func (s *segment) section(pos, n int) *fileSection {
	s.refs.Add(1)
	return &fileSection{s, pos, n}
}

type fileSection struct {
	s      *segment
	pos, n int
}

func (f *fileSection) Len() int { return f.n }
func (f *fileSection) ReadAt(p []byte, off int64) (int, error) {
	return f.s.file.ReadAt(p, int64(f.pos)+off)
}
func (f *fileSection) SysFile() (*os.File, int64) { return f.s.file, int64(f.pos) }
func (f *fileSection) Release()                   { f.s.refs.Add(-1) }

// serveTCP serves on loopback and returns the address.
func serveTCP(t testing.TB, o ServerOptions) (*Server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(o)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(context.Background(), "PLAINTEXT", l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Close()
		wg.Wait()
	})
	return s, l.Addr().String()
}

func dialTCP(t testing.TB, addr string) net.Conn {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

// fetchHandler answers a Fetch with sections of the lengths that the test asks.
func fetchHandler(make func() *FetchResponse) fake {
	return fake{handle: func(_ context.Context, r *Request) Reply {
		return Reply{Body: EncodeFetch(make(), r.Version)}
	}}
}

func response(parts ...FetchPartition) *FetchResponse {
	return &FetchResponse{Topics: []FetchTopic{{Topic: "t", Partitions: parts}}}
}

func fetchRequest(id int32) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, id)
}

func readFrame(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		t.Fatalf("reading a frame: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("reading a frame of %d bytes: %v", len(b), err)
	}
	return b
}

func partitionOf(i int, records []byte, sec Section) FetchPartition {
	p := NewFetchPartition(int32(i))
	p.Records, p.Section = records, sec
	return p
}

func checkRecords(t *testing.T, frame []byte, want [][]byte) {
	t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	if err := resp.ReadFrom(frame[4:]); err != nil {
		t.Fatal(err)
	}
	for i, p := range resp.Topics[0].Partitions {
		if !bytes.Equal(p.RecordBatches, want[i]) {
			t.Fatalf("partition %d: got %d bytes of records, want %d; or they differ", i, len(p.RecordBatches), len(want[i]))
		}
	}
}

func TestSectionsOverTCP(t *testing.T) {
	seg := newSegment(t, 8<<20)
	cases := map[string][]int{ // lengths of sections; negative: bytes
		"one small":            {100},
		"one at the crossover": {sectionCopyMax},
		"one above it":         {sectionCopyMax + 1},
		"one large":            {5 << 20},
		"many small":           repeat(200, 700),
		"many large":           repeat(20, 100<<10),
		"mixed":                {10, 300 << 10, 5000, 8192, 8193, -100, 64 << 10, -70000, 1, -600000, 2 << 20, -300},
	}
	for name, lengths := range cases {
		t.Run(name, func(t *testing.T) {
			var want [][]byte
			large, largeBytes := 0, 0
			for i, n := range lengths {
				pos := i * 1000
				want = append(want, seg.b[pos:pos+max(n, -n)])
				if n > sectionCopyMax {
					large++
					largeBytes += n
				}
			}
			make := func() *FetchResponse {
				var parts []FetchPartition
				for i, n := range lengths {
					if n < 0 {
						parts = append(parts, partitionOf(i, want[i], nil))
					} else {
						parts = append(parts, partitionOf(i, nil, seg.section(i*1000, n)))
					}
				}
				return response(parts...)
			}
			calls := countSendfile(t)
			s, addr := serveTCP(t, ServerOptions{Handler: fetchHandler(make)})
			nc := dialTCP(t, addr)
			for round := range 3 {
				before := calls()
				if _, err := nc.Write(fetchRequest(int32(round))); err != nil {
					t.Fatal(err)
				}
				checkRecords(t, readFrame(t, nc), want)
				if runtime.GOOS != "linux" {
					continue
				}
				n := calls() - before
				if large == 0 && n != 0 || n < large {
					t.Errorf("%d sections above the crossover took %d sendfile calls", large, n)
				}
			}
			if runtime.GOOS == "linux" {
				// The client has the last bytes before the server has counted them.
				want, got := int64(3*largeBytes), int64(0)
				for range 1000 {
					if got = s.Stats().SendfileBytes; got >= want {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if got != want {
					t.Errorf("%d bytes went by sendfile, want %d", got, want)
				}
			}
		})
	}
}

func repeat(times, n int) []int {
	s := make([]int, times)
	for i := range s {
		s[i] = n
	}
	return s
}

// A receiver with a small window makes the socket say EAGAIN in the middle of
// header and section.
func TestSectionsToSlowReader(t *testing.T) {
	seg := newSegment(t, 4<<20)
	big := bytes.Repeat([]byte("b"), 200<<10) // less than what is flushed before the section
	make := func() *FetchResponse {
		return response(partitionOf(0, big, nil), partitionOf(1, nil, seg.section(77, 3<<20)), partitionOf(2, big, seg.section(0, 50<<10)))
	}
	_, addr := serveTCP(t, ServerOptions{Handler: fetchHandler(make), SendBuffer: 16 << 10})
	nc := dialTCP(t, addr)
	nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	if _, err := nc.Write(fetchRequest(1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	frame := readFrame(t, &trickle2{nc, 10000})
	checkRecords(t, frame, [][]byte{big, seg.b[77 : 77+3<<20], append(bytes.Clone(big), seg.b[:50<<10]...)})
}

// trickle2 reads at most n bytes at a time.
type trickle2 struct {
	r io.Reader
	n int
}

func (r *trickle2) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), r.n)]) }

// A section that yields less than it announced ends the connection; its length
// is on the wire already. Others in the reply are released all the same.
func TestShortSection(t *testing.T) {
	for _, n := range []int{1000, 1 << 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			seg := newSegment(t, n+10)
			logger, logs := observed()
			make := func() *FetchResponse {
				return response(partitionOf(0, nil, seg.section(0, 100)), partitionOf(1, nil, seg.section(100, n)), partitionOf(2, nil, seg.section(0, n)))
			}
			s, addr := serveTCP(t, ServerOptions{Handler: fetchHandler(make), Logger: logger})
			nc := dialTCP(t, addr)
			if _, err := nc.Write(fetchRequest(1)); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(nc)
			if err != nil || len(b) >= 2*n {
				t.Errorf("got %d bytes and error %v, want a reply cut short and the end", len(b), err)
			}
			s.Close()
			if logs.Len() != 1 {
				t.Errorf("logged %v, want one line", logs.All())
			}
		})
	}
}

// A peer that goes away in the middle of a section leaves nothing behind.
func TestPeerGoneInSection(t *testing.T) {
	seg := newSegment(t, 8<<20)
	s, addr := serveTCP(t, ServerOptions{Handler: fetchHandler(func() *FetchResponse {
		return response(partitionOf(0, nil, seg.section(0, 8<<20)), partitionOf(1, nil, seg.section(0, 8<<20)))
	})})
	for range 5 {
		nc := dialTCP(t, addr)
		if _, err := nc.Write(fetchRequest(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for s.Stats().Connections["PLAINTEXT"] > 0 {
		if time.Now().After(deadline) {
			t.Fatal("connections are left")
		}
		time.Sleep(time.Millisecond)
	}
}

// The last reply of a connection that the server ends arrives, although the peer
// has sent more, which is never read.
func TestLastReplyArrives(t *testing.T) {
	const size = 3 << 20
	_, addr := serveTCP(t, ServerOptions{Handler: fake{handle: func(context.Context, *Request) Reply {
		return Reply{Body: NewBody(make([]byte, size))}
	}}})
	for range 10 {
		nc := dialTCP(t, addr)
		out := append(frame(3, 1, 1, "x"), 0xff, 0xff, 0xff, 0xff)
		if _, err := nc.Write(append(out, make([]byte, 100<<10)...)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if n, err := io.Copy(io.Discard, nc); n != size+8 || err != nil {
			t.Fatalf("got %d bytes, error %v, want %d", n, err, size+8)
		}
		nc.Close()
	}
}

// Replies that were read too late are released too: the connection is closed
// while a handler runs.
func TestReplyToClosedConnection(t *testing.T) {
	seg := newSegment(t, 1<<20)
	started := make(chan struct{})
	s, addr := serveTCP(t, ServerOptions{Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
		close(started)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrClosed) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return Reply{Body: EncodeFetch(response(partitionOf(0, nil, seg.section(0, 1<<20)), partitionOf(0, nil, seg.section(0, 100))), r.Version)}
	}}})
	nc := dialTCP(t, addr)
	if _, err := nc.Write(fetchRequest(1)); err != nil {
		t.Fatal(err)
	}
	<-started
	s.Close()
}

// Sections of a file that sendfile cannot read are copied.
func TestSendfileNotSupported(t *testing.T) {
	seg := newSegment(t, 1<<20)
	failSendfile(t)
	s, addr := serveTCP(t, ServerOptions{Handler: fetchHandler(func() *FetchResponse {
		return response(partitionOf(0, nil, seg.section(5, 500<<10)), partitionOf(1, nil, seg.section(0, 500<<10)))
	})})
	nc := dialTCP(t, addr)
	if _, err := nc.Write(fetchRequest(1)); err != nil {
		t.Fatal(err)
	}
	checkRecords(t, readFrame(t, nc), [][]byte{seg.b[5 : 5+500<<10], seg.b[:500<<10]})
	if n := s.Stats().SendfileBytes; n != 0 {
		t.Errorf("%d bytes went by sendfile", n)
	}
}
