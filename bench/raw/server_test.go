package raw

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// faults are what a server may do wrong.
type faults struct {
	drop    int  // every so-manieth batch is acknowledged and not stored
	alter   bool // one byte of each batch that is not its last
	refuse  int16
	gap     bool // a fetch leaves a batch out
	foreign bool // an answer bears another request's id
}

// server is as much of a broker as the driver needs.
type server struct {
	faults
	mu   sync.Mutex
	logs [][]byte // of each partition
	ends []int64
	seen int
}

func serve(t *testing.T, partitions int, f faults) (*server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &server{faults: f, logs: make([][]byte, partitions), ends: make([]int64, partitions)}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.connection(nc)
		}
	}()
	return s, l.Addr().String()
}

func (s *server) connection(nc net.Conn) {
	defer nc.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(nc, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(nc, b); err != nil {
			return
		}
		req := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(b)))
		req.SetVersion(int16(binary.BigEndian.Uint16(b[2:])))
		id := b[4:8]
		body := b[10+binary.BigEndian.Uint16(b[8:]):]
		if req.IsFlexible() {
			body = body[1:]
		}
		if err := req.ReadFrom(body); err != nil {
			return
		}
		out := append([]byte{0, 0, 0, 0}, id...)
		if s.foreign {
			out[7]++
		}
		resp := s.answer(req)
		resp.SetVersion(req.GetVersion())
		if resp.IsFlexible() {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

func (s *server) answer(req kmsg.Request) kmsg.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		resp := kmsg.NewPtrProduceResponse()
		out := kmsg.NewProduceResponseTopic()
		for _, p := range req.Topics[0].Partitions {
			row := kmsg.NewProduceResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, s.refuse
			s.append(int(p.Partition), p.Records)
			out.Partitions = append(out.Partitions, row)
		}
		resp.Topics = append(resp.Topics, out)
		return resp
	case *kmsg.ListOffsetsRequest:
		resp := kmsg.NewPtrListOffsetsResponse()
		out := kmsg.NewListOffsetsResponseTopic()
		for i, end := range s.ends {
			row := kmsg.NewListOffsetsResponseTopicPartition()
			row.Partition, row.Offset = int32(i), end
			out.Partitions = append(out.Partitions, row)
		}
		resp.Topics = append(resp.Topics, out)
		return resp
	case *kmsg.FetchRequest:
		resp := kmsg.NewPtrFetchResponse()
		out := kmsg.NewFetchResponseTopic()
		out.Topic = req.Topics[0].Topic
		for _, p := range req.Topics[0].Partitions {
			row := kmsg.NewFetchResponseTopicPartition()
			row.Partition, row.ErrorCode = p.Partition, s.refuse
			row.RecordBatches = s.from(p.Partition, p.FetchOffset, int(p.PartitionMaxBytes))
			out.Partitions = append(out.Partitions, row)
		}
		resp.Topics = append(resp.Topics, out)
		return resp
	}
	panic(req)
}

func (s *server) append(p int, batch []byte) {
	s.seen++
	if s.drop > 0 && s.seen%s.drop == 0 {
		return
	}
	batch = append([]byte(nil), batch...)
	binary.BigEndian.PutUint64(batch, uint64(s.ends[p]))
	binary.BigEndian.PutUint32(batch[leaderEpochAt:], 7)
	if s.alter {
		batch[len(batch)-2]++
	}
	s.ends[p] += span(batch)
	s.logs[p] = append(s.logs[p], batch...)
}

// from is the part of a log from an offset on, its last batch cut off where the
// limit is, but for the first.
func (s *server) from(p int32, offset int64, limit int) []byte {
	log, skip := s.logs[p], s.gap && offset > 0
	for at := int64(0); len(log) > 0 && (at < offset || skip); {
		if at >= offset {
			skip = false
		}
		size := leaderEpochAt + int(binary.BigEndian.Uint32(log[lengthAt:]))
		at += span(log)
		log = log[size:]
	}
	if len(log) == 0 {
		return nil
	}
	first := leaderEpochAt + int(binary.BigEndian.Uint32(log[lengthAt:]))
	return log[:min(len(log), max(limit, first))]
}
