package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memSection is a section of bytes in memory that counts its releases.
type memSection struct {
	b        []byte
	announce int // more than len(b): a section that turns out short
	released int
}

func (s *memSection) Len() int { return max(len(s.b), s.announce) }
func (s *memSection) ReadAt(p []byte, off int64) (int, error) {
	if off > int64(len(s.b)) {
		return 0, fmt.Errorf("offset %d of %d", off, len(s.b))
	}
	return copy(p, s.b[off:]), nil
}
func (s *memSection) SysFile() (*os.File, int64) { return nil, 0 }
func (s *memSection) Release()                   { s.released++ }

// fetchMaker makes a response of ours and the same one of kmsg's from a source
// of numbers.
type fetchMaker struct {
	rng      *rand.Rand
	version  int16
	sections []*memSection
}

func (m *fetchMaker) str() string { return string(m.bytes(m.rng.IntN(40))) }

func (m *fetchMaker) bytes(n int) []byte { return noise(m.rng, n) }

func (m *fetchMaker) number() int64 {
	switch m.rng.IntN(4) {
	case 0:
		return -1
	case 1:
		return int64(m.rng.Uint64())
	}
	return int64(m.rng.IntN(1000))
}

func (m *fetchMaker) response() (*FetchResponse, *kmsg.FetchResponse) {
	v := m.version
	ours := &FetchResponse{ThrottleMillis: int32(m.number()), ErrorCode: int16(m.number()), SessionID: int32(m.number())}
	theirs := kmsg.NewPtrFetchResponse()
	theirs.Version = v
	if v >= 1 {
		theirs.ThrottleMillis = ours.ThrottleMillis
	}
	if v >= 7 {
		theirs.ErrorCode, theirs.SessionID = ours.ErrorCode, ours.SessionID
	}
	topics := m.rng.IntN(4)
	if m.rng.IntN(10) == 0 {
		topics = 130 // a length of two varint bytes
	}
	for range topics {
		t := FetchTopic{Topic: m.str(), TopicID: [16]byte(m.bytes(16))}
		k := kmsg.NewFetchResponseTopic()
		if v >= 13 {
			k.TopicID = t.TopicID
		} else {
			k.Topic = t.Topic
		}
		for range m.rng.IntN(4) {
			p, kp := m.partition()
			t.Partitions = append(t.Partitions, p)
			k.Partitions = append(k.Partitions, kp)
		}
		ours.Topics = append(ours.Topics, t)
		theirs.Topics = append(theirs.Topics, k)
	}
	for range m.rng.IntN(3) {
		b := FetchBroker{NodeID: int32(m.number()), Host: m.str(), Port: int32(m.number())}
		if m.rng.IntN(2) == 0 {
			rack := m.str()
			if m.rng.IntN(3) == 0 {
				rack = string(m.bytes(200))
			}
			b.Rack = &rack
		}
		ours.Brokers = append(ours.Brokers, b)
		if v >= 16 {
			k := kmsg.NewFetchResponseBroker()
			k.NodeID, k.Host, k.Port, k.Rack = b.NodeID, b.Host, b.Port, b.Rack
			theirs.Brokers = append(theirs.Brokers, k)
		}
	}
	return ours, theirs
}

func (m *fetchMaker) partition() (FetchPartition, kmsg.FetchResponseTopicPartition) {
	v := m.version
	p := NewFetchPartition(int32(m.number()))
	k := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.HighWatermark = int16(m.number()), m.number()
	p.LastStableOffset, p.LogStartOffset = m.number(), m.number()
	p.PreferredReadReplica = int32(m.number())
	k.Partition, k.ErrorCode, k.HighWatermark = p.Partition, p.ErrorCode, p.HighWatermark
	if v >= 4 {
		k.LastStableOffset = p.LastStableOffset
	}
	if v >= 5 {
		k.LogStartOffset = p.LogStartOffset
	}
	if v >= 11 {
		k.PreferredReadReplica = p.PreferredReadReplica
	}
	if n := m.rng.IntN(4); n < 3 {
		p.AbortedTransactions = make([]FetchAborted, n)
		if v >= 4 {
			k.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, n)
		}
		for i := range n {
			a := &p.AbortedTransactions[i]
			a.ProducerID, a.FirstOffset = m.number(), m.number()
			if v >= 4 {
				k.AbortedTransactions[i].ProducerID, k.AbortedTransactions[i].FirstOffset = a.ProducerID, a.FirstOffset
			}
		}
	}
	k.RecordBatches = []byte{}
	if m.rng.IntN(2) == 0 {
		p.Records = m.bytes(m.rng.IntN(2 * inlineRecords))
		k.RecordBatches = append(k.RecordBatches, p.Records...)
	}
	if m.rng.IntN(2) == 0 {
		s := &memSection{b: m.bytes(m.rng.IntN(3000))}
		m.sections = append(m.sections, s)
		p.Section = s
		k.RecordBatches = append(k.RecordBatches, s.b...)
	}
	if m.rng.IntN(3) == 0 {
		p.DivergingEpoch = &FetchEpochEnd{int32(m.number()), m.number()}
		if v >= 12 {
			k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
		}
	}
	if m.rng.IntN(3) == 0 {
		p.CurrentLeader = &FetchCurrentLeader{int32(m.number()), int32(m.number())}
		if v >= 12 {
			k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch
		}
	}
	if m.rng.IntN(3) == 0 {
		p.SnapshotID = &FetchSnapshotID{m.number(), int32(m.number())}
		if v >= 12 {
			k.SnapshotID.EndOffset, k.SnapshotID.Epoch = p.SnapshotID.EndOffset, p.SnapshotID.Epoch
		}
	}
	return p, k
}

// checkFetchReply compares our encoder with kmsg's decoder, and its bytes with
// those of kmsg's encoder.
func checkFetchReply(t *testing.T, seed uint64, version int16) {
	t.Helper()
	m := &fetchMaker{rng: rand.New(rand.NewPCG(seed, uint64(version))), version: version}
	ours, want := m.response()
	body := EncodeFetch(ours, version)
	b, err := body.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != body.Len() {
		t.Fatalf("v%d: Len is %d, the body has %d bytes", version, body.Len(), len(b))
	}
	body.Release()
	for i, s := range m.sections {
		if s.released != 1 {
			t.Fatalf("v%d: section %d of %d bytes was released %d times", version, i, len(s.b), s.released)
		}
	}
	got := kmsg.NewPtrFetchResponse()
	got.Version = version
	if err := got.ReadFrom(b); err != nil {
		t.Fatalf("v%d: kmsg cannot read our reply: %v", version, err)
	}
	// kmsg does not tell null from empty transactions, nor a tag of defaults from
	// none, when it decodes: compare what both encode to, and the bytes where
	// kmsg can say the same.
	if a, b := got.AppendTo(nil), decoded(t, want).AppendTo(nil); !bytes.Equal(a, b) {
		t.Fatalf("v%d: kmsg reads\n%s\nwant\n%s", version, dump(got), dump(want))
	}
	if !tagOfDefaults(ours) {
		if w := want.AppendTo(nil); !bytes.Equal(b, w) {
			t.Fatalf("v%d: encoded as\n%x\nkmsg encodes\n%x", version, b, w)
		}
	}
}

func decoded(t *testing.T, r *kmsg.FetchResponse) *kmsg.FetchResponse {
	out := kmsg.NewPtrFetchResponse()
	out.Version = r.Version
	if err := out.ReadFrom(r.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return out
}

func dump(r *kmsg.FetchResponse) string { return fmt.Sprintf("%+v", reflect.ValueOf(r).Elem()) }

// tagOfDefaults tells whether a tagged field is present that kmsg leaves out.
func tagOfDefaults(r *FetchResponse) bool {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.DivergingEpoch != nil && *p.DivergingEpoch == (FetchEpochEnd{-1, -1}) ||
				p.CurrentLeader != nil && *p.CurrentLeader == (FetchCurrentLeader{-1, -1}) ||
				p.SnapshotID != nil && *p.SnapshotID == (FetchSnapshotID{-1, -1}) {
				return true
			}
		}
	}
	return false
}

func TestFetchReply(t *testing.T) {
	for version := range int16(19) {
		for seed := range uint64(60) {
			checkFetchReply(t, seed, version)
		}
	}
}

func FuzzFetchReply(f *testing.F) {
	for v := range uint8(19) {
		f.Add(uint64(v)*31, v)
	}
	f.Fuzz(func(t *testing.T, seed uint64, version uint8) {
		checkFetchReply(t, seed, int16(version%19))
	})
}

// A Body that went back to the pool carries nothing into its next life.
func TestBodyPool(t *testing.T) {
	for range 100 {
		s := &memSection{b: []byte("section")}
		p := NewFetchPartition(0)
		p.Section = s
		body := EncodeFetch(&FetchResponse{Topics: []FetchTopic{{Topic: "t", Partitions: []FetchPartition{p}}}}, 4)
		body.Release()
		if s.released != 1 {
			t.Fatalf("released %d times", s.released)
		}
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = 27
		b, err := Encode(resp).Bytes()
		if err != nil || !bytes.Equal(b, []byte{0, 27}) {
			t.Fatalf("encoded a Heartbeat as %x, error %v", b, err)
		}
	}
}

// heldSection is one that is made in memory.
type heldSection struct {
	memSection
	held int
}

func (s *heldSection) Memory() int { return s.held }

// TestBodyMemory: what a reply holds while it is sent counts its bytes, small
// sections, which are copied, and what sections hold that are made in memory.
func TestBodyMemory(t *testing.T) {
	large, small := &memSection{b: make([]byte, 1<<20)}, &memSection{b: make([]byte, 1000)}
	for _, c := range []struct {
		body *Body
		want int64
	}{
		{NewBody(make([]byte, 700)), 700},
		{func() *Body {
			b := NewBody(make([]byte, 700))
			b.AppendSection(large)
			b.AppendSection(small)
			return b
		}(), 1700},
		{func() *Body {
			b := NewBody(nil)
			b.AppendSection(&heldSection{memSection{b: make([]byte, 1<<20)}, 5000})
			b.AppendSection(&heldSection{memSection{b: make([]byte, 100)}, 0})
			return b
		}(), 5100},
	} {
		if got := c.body.memory(); got != c.want {
			t.Errorf("%d bytes, want %d", got, c.want)
		}
	}
}
