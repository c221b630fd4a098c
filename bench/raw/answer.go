package raw

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cursor is where a fetch reads a partition.
type cursor struct {
	partition int32
	offset    int64
}

// fetch is a Fetch request that is encoded anew for each send, in one buffer.
type fetch struct {
	req *kmsg.FetchRequest
	at  []cursor
	buf []byte
	id  int32
}

// newFetch asks for so many bytes of each of some partitions from their starts.
func newFetch(topic string, partitions, bytes int, minBytes, waitMillis int32) *fetch {
	f := &fetch{req: kmsg.NewPtrFetchRequest()}
	f.req.Version, f.req.ReplicaID, f.req.MinBytes, f.req.MaxWaitMillis, f.req.MaxBytes, f.req.SessionEpoch = fetchVersion, -1, minBytes, waitMillis, 1<<30, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = -1, -1, -1, int32(bytes)
		t.Partitions = append(t.Partitions, p)
		f.at = append(f.at, cursor{partition: int32(i)})
	}
	f.req.Topics = append(f.req.Topics, t)
	return f
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

func (f *fetch) frame() []byte {
	ps := f.req.Topics[0].Partitions
	for i := range ps {
		ps[i].Partition, ps[i].FetchOffset = f.at[i].partition, f.at[i].offset
	}
	f.id++
	f.buf = formatter.AppendRequest(f.buf[:0], f.req, f.id)
	return f.buf
}

var errShort = errors.New("an answer that ends early, or late")

// walkAnswer goes through a Fetch answer of the version that is asked,
// allocating nothing, and shows each partition's records.
func walkAnswer(b []byte, show func(partition int32, records []byte) error) error {
	r := reader{b: b}
	r.skip(4 + 4) // correlation, throttle
	if code := r.int16(); code != 0 {
		return failed("fetch", code)
	}
	r.skip(4) // session
	for topics := r.int32(); topics > 0 && !r.short; topics-- {
		r.skip(int(r.int16()))
		for partitions := r.int32(); partitions > 0 && !r.short; partitions-- {
			partition := r.int32()
			code := r.int16()
			r.skip(8 + 8 + 8) // high watermark, last stable, log start
			if aborted := r.int32(); aborted > 0 {
				r.skip(int(aborted) * 16)
			}
			r.skip(4) // preferred replica
			records := r.bytes(int(r.int32()))
			if r.short {
				return errShort
			}
			if code != 0 {
				return failed(fmt.Sprintf("fetch partition %d", partition), code)
			}
			if err := show(partition, records); err != nil {
				return err
			}
		}
	}
	if r.short || len(r.b) != 0 {
		return errShort
	}
	return nil
}

// walkProduced goes through a Produce answer of the version that is asked, without its
// header, allocating nothing, and returns how many partitions it has, none of which is
// refused.
func walkProduced(b []byte) (partitions int, err error) {
	r := reader{b: b}
	for topics := r.length(); topics > 0 && !r.short; topics-- {
		r.skip(r.length())
		n := r.length()
		for range n {
			partition := r.int32()
			code := r.int16()
			r.skip(8 + 8 + 8) // base offset, time, log start
			if code != 0 {
				return partitions, failed(fmt.Sprintf("partition %d", partition), code)
			}
			if errors, message, tags := r.length(), r.length(), r.uvarint(); r.short || errors > 0 || message > 0 || tags > 0 {
				return partitions, errShort
			}
			partitions++
		}
		if r.uvarint() > 0 {
			return partitions, errShort // there are no tags
		}
	}
	r.skip(4) // throttle
	if tags := r.uvarint(); r.short || tags > 0 || len(r.b) != 0 {
		return partitions, errShort
	}
	return partitions, nil
}

// walkBatches goes through the whole batches among records, which begin with
// the one at an offset, each where the one before it ended. What is cut off at
// the end is left.
func walkBatches(records []byte, offset int64, show func(base int64, batch []byte) error) error {
	for len(records) >= batchHeader {
		base := int64(binary.BigEndian.Uint64(records))
		size := leaderEpochAt + int(int32(binary.BigEndian.Uint32(records[lengthAt:])))
		if size < batchHeader {
			return fmt.Errorf("a batch of %d bytes", size)
		}
		if size > len(records) {
			return nil
		}
		if base != offset {
			return fmt.Errorf("a batch at offset %d, not %d", base, offset)
		}
		offset = base + int64(int32(binary.BigEndian.Uint32(records[lastOffsetDelta:]))) + 1
		if err := show(base, records[:size]); err != nil {
			return err
		}
		records = records[size:]
	}
	return nil
}

// reader takes fields from the front of bytes.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if n < 0 {
		return nil
	}
	if n > len(r.b) {
		r.b, r.short = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) skip(n int) { r.bytes(n) }

func (r *reader) int16() int16 {
	if b := r.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.short = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// length is that of a compact string or list; of none it is 0.
func (r *reader) length() int { return max(int(r.uvarint())-1, 0) }

// span is how many offsets a batch takes.
func span(batch []byte) int64 {
	return int64(int32(binary.BigEndian.Uint32(batch[lastOffsetDelta:]))) + 1
}
