package wire

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceFrame(size int) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Acks = 1
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = bytes.Repeat([]byte("r"), size)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 7)
}

// produceHandler answers every Produce with the same bytes, without decoding, so
// that what is measured is this package.
func produceHandler() fake {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "topic"
	topic.Partitions = append(topic.Partitions, kmsg.NewProduceResponseTopicPartition())
	resp.Topics = append(resp.Topics, topic)
	return fake{
		serves: func(string, int16, int16) bool { return true },
		handle: func(context.Context, *Request) Reply { return Reply{Body: Encode(resp)} },
	}
}

// exchange sends the same frames and reads as many replies, n times.
func exchange(tb testing.TB, nc net.Conn, out []byte, replies, n int) {
	in := bufio.NewReaderSize(nc, 64<<10)
	buf := make([]byte, 2<<20)
	for range n {
		if _, err := nc.Write(out); err != nil {
			tb.Fatal(err)
		}
		for range replies {
			if _, err := io.ReadFull(in, buf[:4]); err != nil {
				tb.Fatal(err)
			}
			size := int(buf[0])<<24 | int(buf[1])<<16 | int(buf[2])<<8 | int(buf[3])
			if _, err := io.ReadFull(in, buf[:size]); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			_, addr := serveTCP(b, ServerOptions{Handler: produceHandler(), Budget: 64 << 20})
			nc := dialTCP(b, addr)
			out := produceFrame(size)
			exchange(b, nc, out, 1, 10)
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			b.ResetTimer()
			exchange(b, nc, out, 1, b.N)
		})
	}
}

// Thirty-two small Produces at a time.
func BenchmarkProducePipelined(b *testing.B) {
	_, addr := serveTCP(b, ServerOptions{Handler: produceHandler(), Budget: 64 << 20})
	nc := dialTCP(b, addr)
	out := bytes.Repeat(produceFrame(1<<10), 32)
	exchange(b, nc, out, 32, 10)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	b.ResetTimer()
	exchange(b, nc, out, 32, b.N)
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 8 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			seg := newSegment(b, 1<<20)
			resp := response(NewFetchPartition(0))
			sec := &fileSection{seg, 0, size}
			_, addr := serveTCP(b, ServerOptions{Budget: 64 << 20, Handler: fake{
				serves: func(string, int16, int16) bool { return true },
				handle: func(_ context.Context, r *Request) Reply {
					seg.refs.Add(1)
					resp.Topics[0].Partitions[0].Section = sec
					return Reply{Body: EncodeFetch(resp, 11)}
				},
			}})
			nc := dialTCP(b, addr)
			out := fetchRequest(1)
			exchange(b, nc, out, 1, 10)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			exchange(b, nc, out, 1, b.N)
		})
	}
}

func BenchmarkEncodeFetch(b *testing.B) {
	resp := &FetchResponse{}
	for range 10 {
		t := FetchTopic{Topic: "topic"}
		for i := range 12 {
			t.Partitions = append(t.Partitions, NewFetchPartition(int32(i)))
		}
		resp.Topics = append(resp.Topics, t)
	}
	b.ReportAllocs()
	for b.Loop() {
		EncodeFetch(resp, 18).Release()
	}
}

// The server's share of allocations on the two walks. The handler of a Produce
// allocates nothing here; a Fetch allocates its frame, which belongs to the
// handler.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items on purpose under the race detector")
	}
	seg := newSegment(t, 1<<20)
	fetched := response(NewFetchPartition(0))
	var size int
	for _, c := range []struct {
		name string
		h    fake
		out  []byte
		size int
		most float64
	}{
		{"Produce 1 KiB", produceHandler(), produceFrame(1 << 10), 0, 1},
		{"Produce 1 MiB", produceHandler(), produceFrame(1 << 20), 0, 1},
		{"Fetch 1 KiB", fake{}, fetchRequest(1), 1 << 10, 2},
		{"Fetch 1 MiB", fake{}, fetchRequest(1), 1 << 20, 2},
	} {
		h := c.h
		if h.handle == nil {
			h.serves = func(string, int16, int16) bool { return true }
			h.handle = func(_ context.Context, r *Request) Reply {
				seg.refs.Add(1)
				fetched.Topics[0].Partitions[0].Section = &fileSection{seg, 0, size}
				return Reply{Body: EncodeFetch(fetched, 11)}
			}
		}
		size = c.size
		_, addr := serveTCP(t, ServerOptions{Handler: h, Budget: 64 << 20})
		nc := dialTCP(t, addr)
		buf := make([]byte, 2<<20)
		once := func() {
			nc.Write(c.out)
			io.ReadFull(nc, buf[:4])
			io.ReadFull(nc, buf[:int(buf[1])<<16|int(buf[2])<<8|int(buf[3])])
		}
		for range 100 {
			once()
		}
		got := testing.AllocsPerRun(500, once)
		if c.size > 0 {
			got-- // the section, which is the handler's
		}
		t.Logf("%s: %.1f allocations", c.name, got)
		if got > c.most {
			t.Errorf("%s: %.1f allocations, want at most %.0f", c.name, got, c.most)
		}
	}
}

// An idle connection, one that has been used before, takes at most 8 KiB of
// resident memory.
func TestIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	const conns = 2000
	_, addr := serveTCP(t, ServerOptions{Handler: produceHandler()})
	peers := make([]net.Conn, conns)
	out := produceFrame(1 << 10)
	buf := make([]byte, 1<<10)
	use := func(nc net.Conn) {
		nc.Write(out)
		if _, err := nc.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	use(dialTCP(t, addr))
	// This end's part is what connections take that nobody accepts.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	const unaccepted = 1000 // a listener's queue is longer
	var before, here int
	for range 2 { // the first pays for what is taken once
		before = resident(t)
		for range unaccepted {
			nc, err := net.Dial("tcp", silent.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
		}
		here = (resident(t) - before) / unaccepted
	}
	before = resident(t)
	for i := range peers {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		peers[i] = nc
		use(nc)
	}
	per := (resident(t)-before)/conns - here
	t.Logf("%d bytes of resident memory for each idle connection, and %d for its other end", per, here)
	if per > 8<<10 {
		t.Errorf("an idle connection takes %d bytes", per)
	}
}

func resident(t *testing.T) int {
	for range 4 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	return residentNow(t)
}

func residentNow(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
