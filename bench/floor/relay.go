package floor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A relay is the least that a Kafka client's records can go through to another: what is
// produced is handed to the reader who waits, by the goroutine that received it, before
// it is acknowledged. There is one partition of any topic, which is kept in memory as it
// came; nothing is checked. What a record takes beyond that through a broker is the
// broker's, and the rest the clients' own and the system's.
type relay struct {
	mu     sync.Mutex
	topics map[string]*relayed
}

// relayed is a topic's partition.
type relayed struct {
	mu      sync.Mutex
	batches [][]byte // with their base offsets
	next    int64    // offset of the next record
	readers []*parked
}

// parked is a Fetch that waits.
type parked struct {
	c      *relayConn
	id     int32
	req    *kmsg.FetchRequest
	offset int64
	timer  *time.Timer
	done   bool // under the topic's lock
}

// relayConn is a client's connection.
type relayConn struct {
	nc *net.TCPConn
	mu sync.Mutex // of writes
}

// relayVersions are what a relay speaks.
var relayVersions = map[kmsg.Key][2]int16{
	kmsg.ApiVersions: {0, 3}, kmsg.Metadata: {4, 9}, kmsg.Produce: {3, 9}, kmsg.Fetch: {4, 12}, kmsg.ListOffsets: {1, 6}, kmsg.InitProducerID: {0, 4},
}

// longestRelayed is the length of a frame that a relay takes.
const longestRelayed = 1 << 20

// serve answers a client, of whose first frame the start has been read.
func (r *relay) serve(nc *net.TCPConn, start []byte) error {
	c := &relayConn{nc: nc}
	in := io.MultiReader(bytes.NewReader(start), nc)
	var head [4]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < 10 || n > longestRelayed {
			return fmt.Errorf("a frame of %d bytes", n)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if err := r.handle(c, frame); err != nil {
			return err
		}
	}
}

func (r *relay) handle(c *relayConn, frame []byte) error {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	id, rest := int32(binary.BigEndian.Uint32(frame[4:])), frame[8:]
	client := int16(binary.BigEndian.Uint16(rest))
	if rest = rest[2:]; client > 0 {
		if int(client) > len(rest) {
			return errors.New("a header that ends early")
		}
		rest = rest[client:]
	}
	served, ok := relayVersions[kmsg.Key(key)]
	if key == int16(kmsg.ApiVersions) && version > served[1] {
		return c.answer(id, r.versions(0, 35)) // UNSUPPORTED_VERSION, KIP-511
	}
	if !ok || version < served[0] || version > served[1] {
		return fmt.Errorf("key %d, version %d", key, version)
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if req.IsFlexible() {
		if len(rest) == 0 || rest[0] != 0 {
			return errors.New("a header with tags")
		}
		rest = rest[1:]
	}
	if err := req.ReadFrom(rest); err != nil {
		return err
	}
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return c.answer(id, r.versions(version, 0))
	case *kmsg.MetadataRequest:
		return c.answer(id, r.metadata(c, req))
	case *kmsg.InitProducerIDRequest:
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = 1
		return c.answer(id, resp)
	case *kmsg.ListOffsetsRequest:
		return c.answer(id, r.offsets(req))
	case *kmsg.ProduceRequest:
		return r.produce(c, id, req)
	case *kmsg.FetchRequest:
		return r.fetch(c, id, req)
	}
	return fmt.Errorf("key %d", key)
}

func (r *relay) versions(version, code int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version, resp.ErrorCode = version, code
	for key, v := range relayVersions { // any order: they are looked up by key
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MinVersion: v[0], MaxVersion: v[1]})
	}
	return resp
}

func (r *relay) metadata(c *relayConn, req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	host, port, _ := net.SplitHostPort(c.nc.LocalAddr().String())
	n, _ := strconv.Atoi(port)
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, host, int32(n)
	resp.Brokers, resp.ControllerID = append(resp.Brokers, b), 1
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = req.Topics[i].Topic
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Leader, p.Replicas, p.ISR = 1, []int32{1}, []int32{1}
		t.Partitions = append(t.Partitions, p)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (r *relay) topic(name string) *relayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.topics[name]
	if t == nil {
		t = &relayed{}
		r.topics[name] = t
	}
	return t
}

func (r *relay) offsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for i := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			out := kmsg.NewListOffsetsResponseTopicPartition()
			out.Partition, out.Offset = p.Partition, 0
			if p.Timestamp == -1 {
				of := r.topic(t.Topic)
				of.mu.Lock()
				out.Offset = of.next
				of.mu.Unlock()
			}
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// produce hands the batches to those who wait, then acknowledges them.
func (r *relay) produce(c *relayConn, id int32, req *kmsg.ProduceRequest) error {
	const lastOffsetDelta = 23
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for i := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic = req.Topics[i].Topic
		of := r.topic(t.Topic)
		for _, p := range req.Topics[i].Partitions {
			if len(p.Records) < lastOffsetDelta+4 {
				return errors.New("no batch")
			}
			out := kmsg.NewProduceResponseTopicPartition()
			of.mu.Lock()
			out.BaseOffset = of.next
			binary.BigEndian.PutUint64(p.Records, uint64(of.next))
			of.next += int64(binary.BigEndian.Uint32(p.Records[lastOffsetDelta:])) + 1
			of.batches = append(of.batches, p.Records)
			waiting := of.readers
			of.readers = nil
			for _, w := range waiting {
				w.done = true
				w.timer.Stop()
			}
			of.mu.Unlock()
			for _, w := range waiting {
				if err := w.c.answer(w.id, fetched(w.req, out.BaseOffset, p.Records)); err != nil {
					w.c.nc.Close() // the reader's concern, not the producer's
				}
			}
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return c.answer(id, resp)
}

// fetch answers with what there is, or waits for what comes.
func (r *relay) fetch(c *relayConn, id int32, req *kmsg.FetchRequest) error {
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		return c.answer(id, req.ResponseKind())
	}
	offset := req.Topics[0].Partitions[0].FetchOffset
	of := r.topic(req.Topics[0].Topic)
	of.mu.Lock()
	if offset < of.next {
		var all []byte
		for i := len(of.batches) - 1; i >= 0; i-- {
			if base := int64(binary.BigEndian.Uint64(of.batches[i])); base <= offset {
				for _, b := range of.batches[i:] {
					all = append(all, b...)
				}
				break
			}
		}
		of.mu.Unlock()
		return c.answer(id, fetched(req, offset, all))
	}
	w := &parked{c: c, id: id, req: req, offset: offset}
	w.timer = time.AfterFunc(time.Duration(req.MaxWaitMillis)*time.Millisecond, func() { of.expire(w) })
	of.readers = append(of.readers, w)
	of.mu.Unlock()
	return nil
}

// expire answers one for whom nothing has come.
func (of *relayed) expire(w *parked) {
	of.mu.Lock()
	done := w.done
	for i := range of.readers {
		if of.readers[i] == w {
			of.readers = append(of.readers[:i], of.readers[i+1:]...)
			break
		}
	}
	of.mu.Unlock()
	if !done {
		if err := w.c.answer(w.id, fetched(w.req, w.offset, nil)); err != nil {
			w.c.nc.Close()
		}
	}
}

// fetched is the answer of one partition.
func fetched(req *kmsg.FetchRequest, offset int64, batches []byte) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	t := kmsg.NewFetchResponseTopic()
	t.Topic = req.Topics[0].Topic
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.RecordBatches = req.Topics[0].Partitions[0].Partition, batches
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = offset+1, offset+1, 0
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return resp
}

// answer writes an answer.
func (c *relayConn) answer(id int32, resp kmsg.Response) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 4, 512), uint32(id))
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.nc.Write(b)
	return err
}
