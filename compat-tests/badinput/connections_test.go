//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// open opens n connections and has them send something.
func (v *victim) open(t *testing.T, n int, send func(i int, nc net.Conn)) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	index := make([]int, n)
	for i := range index {
		index[i] = i
	}
	inParallel(index, func(i int) {
		nc, err := net.DialTimeout("tcp", v.Bootstrap, prompt)
		if err != nil {
			t.Errorf("connection %d: %v", i, err)
			return
		}
		conns[i] = nc
		nc.SetDeadline(time.Now().Add(prompt))
		send(i, nc)
	})
	t.Cleanup(func() {
		for _, nc := range conns {
			if nc != nil {
				nc.Close()
			}
		}
	})
	return conns
}

// TestThousandsOfConnections: idle ones, and such as come and go.
func TestThousandsOfConnections(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	const n = 5000
	ask := sized((&frame.Conn{ClientID: "x"}).Encode(sample(int16(kmsg.ApiVersions), 3)))
	begun := time.Now()
	conns := v.open(t, n, func(i int, nc net.Conn) {
		nc.Write(ask)
		if _, err := io.ReadFull(nc, make([]byte, 8)); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	})
	t.Logf("%d connections in %v", n, time.Since(begun).Round(time.Millisecond))
	v.check(t, budget+allowance)
	for _, nc := range conns {
		nc.Close()
	}
	v.open(t, n, func(i int, nc net.Conn) { nc.Close() })
	v.check(t, budget+allowance)
	v.ends(t)
}

// TestHalfRequests: connections that send half of a request and stay. They keep
// neither memory nor others waiting, and do not hold up the end.
func TestHalfRequests(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	half := func(length, sent int) func(int, net.Conn) {
		b := binary.BigEndian.AppendUint32(nil, uint32(length))
		b = append(b, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff)
		b = append(b, make([]byte, sent)...)
		return func(_ int, nc net.Conn) { nc.Write(b) }
	}
	// Of every length: one byte; what is always read; small frames, 1500 of which
	// are more than their reserve; large ones, four of which are the budget.
	v.open(t, 500, func(i int, nc net.Conn) { nc.Write([]byte{0, 0, 0, 100}[:1+i%4]) })
	v.open(t, 500, half(4000, 3000))
	v.check(t, budget+allowance)
	v.open(t, 1500, half(60_000, 50))
	v.open(t, 100, half(20*mib, 50))
	v.check(t, budget+allowance)
	// These hold the budget: they have sent much. Others give up sending when
	// nothing more is taken. A producer waits until they give way.
	halfway := half(20*mib, 8*mib)
	v.open(t, 16, func(i int, nc net.Conn) {
		nc.SetDeadline(time.Now().Add(time.Second))
		halfway(i, nc)
	})
	begun := time.Now()
	cl := v.client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	value := make([]byte, 900<<10)
	for i := range 5 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr(); err != nil {
			t.Errorf("large record %d: %v", i, err)
		}
	}
	if took := time.Since(begun); took > 3*prompt {
		t.Errorf("large records took %v", took)
	} else {
		t.Logf("five large records took %v", took.Round(time.Millisecond))
	}
	if !strings.Contains(v.Log(), "its request does not come") {
		t.Error("the log does not say that connections were closed")
	}
	v.open(t, 100, half(20*mib, 50))
	v.check(t, budget+allowance)
	v.ends(t)
}

// fill produces records to a topic, mib of them.
func (v *victim) fill(t *testing.T, to string, size, n int) {
	t.Helper()
	cl := v.client(t, kgo.DefaultProduceTopic(to), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	var failed atomic.Int64
	for range n {
		cl.Produce(t.Context(), &kgo.Record{Value: make([]byte, size)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil || failed.Load() > 0 {
		t.Fatalf("filling %s: %v, %d failed", to, err, failed.Load())
	}
}

// TestReadersThatNeverRead: connections that ask for much and read nothing.
func TestReadersThatNeverRead(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	v.fill(t, topic, 100<<10, 640)
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("small-%d", i)
	}
	v.create(t, many...)
	c := &frame.Conn{ClientID: "x"}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxBytes, fetch.MaxWaitMillis, fetch.SessionEpoch = 11, 50*mib, 100, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes, part.CurrentLeaderEpoch = 50*mib, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, part)
	fetch.Topics = append(fetch.Topics, rt)
	large := sized(c.Encode(fetch))

	// What is answered with megabytes out of memory.
	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.Version, describe.IncludeDocumentation, describe.IncludeSynonyms = 3, true, true
	for _, name := range many {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		describe.Resources = append(describe.Resources, r)
	}
	configs := sized(c.Encode(describe))
	reply := v.raw(t, configs, prompt)
	if reply.Closed || reply.Silent {
		t.Fatalf("DescribeConfigs: %s", reply)
	}
	v.peak(t)

	begun := time.Now()
	v.open(t, 1000, func(_ int, nc net.Conn) {
		nc.(*net.TCPConn).SetReadBuffer(4 << 10)
		nc.Write(large)
	})
	v.check(t, budget+allowance)
	v.open(t, 500, func(_ int, nc net.Conn) {
		nc.(*net.TCPConn).SetReadBuffer(4 << 10)
		for range 3 {
			nc.Write(configs)
		}
	})
	time.Sleep(time.Second)
	v.check(t, 2*budget+allowance)
	t.Logf("1500 readers that do not read, in %v", time.Since(begun).Round(time.Millisecond))

	// One that reads, slowly, gets all.
	slow, err := net.Dial("tcp", v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	slow.Write(large)
	var size [4]byte
	if _, err := io.ReadFull(slow, size[:]); err != nil {
		t.Fatalf("a slow reader: %v", err)
	}
	left := int(binary.BigEndian.Uint32(size[:]))
	buf := make([]byte, 1<<20)
	for left > 0 {
		n, err := io.ReadFull(slow, buf[:min(left, len(buf))])
		if err != nil {
			t.Fatalf("a slow reader, %d bytes before the end: %v", left, err)
		}
		left -= n
		time.Sleep(20 * time.Millisecond)
	}
	v.ends(t)
}

// TestPipelines: requests sent without waiting for their answers, thousands on a
// connection, with a bad one among them.
func TestPipelines(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	c := &frame.Conn{ClientID: "x"}
	var all []byte
	const n = 20_000
	for range n {
		all = append(all, sized(c.Encode(sample(int16(kmsg.Metadata), 9)))...)
	}
	all = append(all, 0xff, 0xff, 0xff, 0xff)
	nc, err := net.Dial("tcp", v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(3 * prompt))
	var wg sync.WaitGroup
	wg.Go(func() { nc.Write(all) })
	answers := 0
	for {
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			break
		}
		if _, err := io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
			break
		}
		answers++
	}
	wg.Wait()
	if answers != n {
		t.Errorf("%d of %d requests before a bad frame were answered", answers, n)
	}
	// The same, never read, from many.
	v.open(t, 50, func(_ int, nc net.Conn) {
		nc.SetDeadline(time.Now().Add(200 * time.Millisecond))
		nc.Write(all)
	})
	v.check(t, budget+allowance)
	v.ends(t)
}
