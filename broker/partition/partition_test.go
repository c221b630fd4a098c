package partition

import (
	"errors"
	"testing"
	"time"

	"millrace/broker/replica"
	"millrace/controller/config"
	"millrace/storage/batch"
	"millrace/storage/log"
)

const self = 1

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

func brokers(ids ...int32) []replica.Broker {
	var bs []replica.Broker
	for _, id := range ids {
		bs = append(bs, replica.Broker{ID: id, Epoch: int64(100 + id), Live: true})
	}
	return bs
}

func assign(leader int32, epoch batch.LeaderEpoch, pepoch int32, isr []int32, replicas ...int32) Assignment {
	return Assignment{LeaderID: leader, LeaderEpoch: epoch, PartitionEpoch: pepoch, ISR: isr, Brokers: brokers(replicas...)}
}

// defaults are a topic's configs as Kafka has them.
func defaults() *config.TopicConfig {
	c, err := config.Topic(nil, nil, nil, func(string) (string, bool) { return "", false })
	if err != nil {
		panic(err)
	}
	return c
}

func newPartition(t testing.TB, o Options) *Partition {
	t.Helper()
	if o.Log == nil {
		l, _, err := log.Open(log.Options{Dir: t.TempDir() + "/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		o.Log = l
	}
	o.Topic, o.ID, o.Self = "t", [16]byte{1}, self
	p := New(o)
	t.Cleanup(p.Close)
	return p
}

// records builds a batch of n records.
func records(n int) ([]byte, batch.Header) {
	u := batch.NewBuilder(batch.BuilderOptions{})
	for range n {
		u.Add(time.Now().UnixMilli(), []byte("key"), []byte("value"))
	}
	b := u.Bytes()
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	return b, h
}

func appendTo(t testing.TB, p *Partition, n int, acks int16) Appended {
	t.Helper()
	b, h := records(n)
	a, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: acks})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAloneEverythingIsCommittedAtOnce(t *testing.T) {
	p := newPartition(t, Options{})
	if _, err := p.Append(nil, batch.Header{}, AppendOptions{LeaderEpoch: AnyEpoch}); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("append without a leader: %v", err)
	}
	if err := p.BecomeLeader(assign(self, 3, 1, []int32{self}, self)); err != nil {
		t.Fatal(err)
	}
	a := appendTo(t, p, 5, -1)
	if a.Base != 0 || a.Last != 4 || a.HighWatermark != 5 || a.LeaderEpoch != 3 {
		t.Fatalf("%+v", a)
	}
	acks := NewAcks(1)
	if done, err := p.Await(acks, 0, a, -1); !done || err != nil {
		t.Fatalf("await: %v %v", done, err)
	}
	r, err := p.Read(ReadRequest{Offset: 2, MaxBytes: 1000, Replica: -1, CurrentLeaderEpoch: 3, LastFetchedEpoch: AnyEpoch})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Records.Release()
	if r.Records.Len() == 0 || r.HighWatermark != 5 || r.LogStart != 0 {
		t.Fatalf("%+v", r)
	}
	for epoch, want := range map[batch.LeaderEpoch]error{2: ErrFencedLeaderEpoch, 4: ErrUnknownLeaderEpoch} {
		if _, err := p.Read(ReadRequest{Replica: -1, CurrentLeaderEpoch: epoch, LastFetchedEpoch: AnyEpoch}); !errors.Is(err, want) {
			t.Errorf("read in epoch %d: %v, want %v", epoch, err, want)
		}
	}
}
