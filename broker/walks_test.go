package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/storage/batch"
)

// serving starts a broker on loopback and a temporary directory, and returns
// a raw connection to it.
func serving(t testing.TB) net.Conn {
	t.Helper()
	return servingWith(t, Options{})
}

// servingWith is serving with options of the test's own.
func servingWith(t testing.TB, o Options) net.Conn {
	t.Helper()
	static, _, err := config.ParseStatic(map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan Info, 1), make(chan error, 1)
	o.Config, o.Ready = static, func(i Info) { ready <- i }
	go func() { done <- Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case i := <-ready:
		nc, err := net.Dial("tcp", i.Bootstrap[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	case err := <-done:
		t.Fatal(err)
	}
	return nil
}

func frameOf(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("walk")).AppendRequest(nil, req, 7)
}

// exchange sends a frame and reads its answer into buf, without allocating.
func exchange(t testing.TB, nc net.Conn, frame, buf []byte) []byte {
	if _, err := nc.Write(frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, buf[:4]); err != nil {
		t.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(buf))
	if _, err := io.ReadFull(nc, buf[:n]); err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// walkable makes a topic and returns the frames of the two walks: a Produce of
// one batch of so many bytes, and a Fetch that finds as much.
func walkable(t testing.TB, nc net.Conn, size int) (produce, fetch []byte) {
	buf := make([]byte, 1<<20)
	meta := kmsg.NewPtrMetadataRequest()
	meta.AllowAutoTopicCreation = true
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr("walk")
	meta.Topics = append(meta.Topics, mt)
	exchange(t, nc, frameOf(meta, 9), buf)

	u := batch.NewBuilder(batch.BuilderOptions{})
	for range max(1, size/1024) {
		u.Add(1, nil, make([]byte, min(size, 1024)))
	}
	p := kmsg.NewPtrProduceRequest()
	p.Acks, p.TimeoutMillis = -1, 1000
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "walk"
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Records = u.Bytes()
	pt.Partitions = append(pt.Partitions, pp)
	p.Topics = append(p.Topics, pt)

	f := kmsg.NewPtrFetchRequest()
	f.ReplicaID, f.MinBytes, f.MaxBytes, f.SessionEpoch = -1, 1, 1<<30, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "walk"
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.CurrentLeaderEpoch, fp.LastFetchedEpoch, fp.LogStartOffset = -1, -1, -1
	fp.PartitionMaxBytes = int32(len(pp.Records))
	ft.Partitions = append(ft.Partitions, fp)
	f.Topics = append(f.Topics, ft)
	return frameOf(p, 9), frameOf(f, 11)
}

func TestWalks(t *testing.T) {
	nc := serving(t)
	produce, fetch := walkable(t, nc, 1024)
	buf := make([]byte, 1<<20)
	pr := kmsg.NewPtrProduceResponse()
	pr.Version = 9
	for want := range int64(3) {
		if err := pr.ReadFrom(exchange(t, nc, produce, buf)[5:]); err != nil {
			t.Fatal(err)
		}
		if p := pr.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != want {
			t.Fatalf("produce %d: %+v", want, p)
		}
	}
	fr := kmsg.NewPtrFetchResponse()
	fr.Version = 11
	if err := fr.ReadFrom(exchange(t, nc, fetch, buf)[4:]); err != nil {
		t.Fatal(err)
	}
	if p := fr.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.HighWatermark != 3 || len(p.RecordBatches) < 1024 {
		t.Fatalf("fetch: code %d, high watermark %d, %d bytes", p.ErrorCode, p.HighWatermark, len(p.RecordBatches))
	}
}

// The allocations of the two walks, over a real socket and a real disk. Growth
// here is a decision, not an accident. Metrics being served may not cost one more.
func TestWalkAllocations(t *testing.T) {
	var without, with [2]float64
	t.Run("no metrics", func(t *testing.T) { without = walkAllocations(t, serving(t)) })
	t.Run("metrics", func(t *testing.T) {
		with = walkAllocations(t, servingWith(t, Options{Monitoring: Monitoring{Address: "127.0.0.1:0"}}))
	})
	for i, name := range [...]string{"produce", "fetch"} {
		if with[i] > without[i]+raceAllocations {
			t.Errorf("%s: %.0f allocations, with metrics %.0f", name, without[i], with[i])
		}
	}
}

func walkAllocations(t *testing.T, nc net.Conn) (got [2]float64) {
	produce, fetch := walkable(t, nc, 1024)
	return walksWithin(t, nc, produce, fetch, produceAllocations, fetchAllocations)
}

func walksWithin(t *testing.T, nc net.Conn, produce, fetch []byte, produceLimit, fetchLimit float64) (got [2]float64) {
	buf := make([]byte, 1<<20)
	for i, w := range []struct {
		name  string
		frame []byte
		limit float64
	}{{"produce", produce, produceLimit}, {"fetch", fetch, fetchLimit}} {
		for range 100 {
			exchange(t, nc, w.frame, buf)
		}
		got[i] = testing.AllocsPerRun(500, func() { exchange(t, nc, w.frame, buf) })
		t.Logf("%s: %.1f allocations", w.name, got[i])
		if limit := w.limit + raceAllocations; got[i] > limit {
			t.Errorf("%s: %.1f allocations, the limit is %.0f", w.name, got[i], limit)
		}
	}
	return got
}

const (
	produceAllocations = 5
	fetchAllocations   = 13
	// Of requests for twelve partitions.
	wideProduceAllocations = 18
	wideFetchAllocations   = 17
)

// A request for many partitions costs few allocations more for each.
func TestWideWalkAllocations(t *testing.T) {
	nc := serving(t)
	produce, fetch := wide(t, nc, 12)
	// The race detector adds for the partitions too.
	walksWithin(t, nc, produce, fetch, wideProduceAllocations+2*raceAllocations, wideFetchAllocations+raceAllocations)
}

// wide makes a topic of so many partitions and returns a Produce and a Fetch of
// all of them, 1 KiB each.
func wide(t testing.TB, nc net.Conn, partitions int32) (produce, fetch []byte) {
	buf := make([]byte, 1<<20)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10000
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "wide", partitions, 1
	create.Topics = append(create.Topics, ct)
	exchange(t, nc, frameOf(create, 4), buf)

	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, make([]byte, 1024))
	p := kmsg.NewPtrProduceRequest()
	p.Acks, p.TimeoutMillis = -1, 1000
	pt := kmsg.NewProduceRequestTopic()
	f := kmsg.NewPtrFetchRequest()
	f.ReplicaID, f.MinBytes, f.MaxBytes, f.SessionEpoch = -1, 1, 1<<30, -1
	ft := kmsg.NewFetchRequestTopic()
	pt.Topic, ft.Topic = "wide", "wide"
	for i := range partitions {
		pp := kmsg.NewProduceRequestTopicPartition()
		pp.Partition, pp.Records = i, u.Bytes()
		pt.Partitions = append(pt.Partitions, pp)
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.CurrentLeaderEpoch, fp.LastFetchedEpoch, fp.LogStartOffset = i, -1, -1, -1
		fp.PartitionMaxBytes = int32(len(pp.Records))
		ft.Partitions = append(ft.Partitions, fp)
	}
	p.Topics, f.Topics = append(p.Topics, pt), append(f.Topics, ft)
	produce, fetch = frameOf(p, 9), frameOf(f, 11)
	pr, fr := kmsg.NewPtrProduceResponse(), kmsg.NewPtrFetchResponse()
	pr.Version, fr.Version = 9, 11
	if err := pr.ReadFrom(exchange(t, nc, produce, buf)[5:]); err != nil {
		t.Fatal(err)
	}
	if err := fr.ReadFrom(exchange(t, nc, fetch, buf)[4:]); err != nil {
		t.Fatal(err)
	}
	for i := range partitions {
		if p := pr.Topics[0].Partitions[i]; p.ErrorCode != 0 || p.Partition != i {
			t.Fatalf("produce: %+v", p)
		}
		if p := fr.Topics[0].Partitions[i]; p.ErrorCode != 0 || p.Partition != i || len(p.RecordBatches) < 1024 {
			t.Fatalf("fetch of %d: code %d, %d bytes", p.Partition, p.ErrorCode, len(p.RecordBatches))
		}
	}
	return produce, fetch
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 896 << 10} {
		b.Run(sizeName(size), func(b *testing.B) {
			nc := serving(b)
			produce, _ := walkable(b, nc, size)
			buf := make([]byte, 1<<20)
			b.SetBytes(int64(len(produce)))
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, nc, produce, buf)
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 896 << 10} {
		b.Run(sizeName(size), func(b *testing.B) {
			nc := serving(b)
			produce, fetch := walkable(b, nc, size)
			buf := make([]byte, 2<<20)
			exchange(b, nc, produce, buf)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, nc, fetch, buf)
			}
		})
	}
}

func sizeName(n int) string { return itoa(int32((n+1023)/1024)) + "KiB" }
