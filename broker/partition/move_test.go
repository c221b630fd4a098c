package partition

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// mover is a partition in a store of several directories, and what is done to it.
type mover struct {
	t      *testing.T
	chance *rand.Rand
	fs     *disktest.FS
	clock  clock
	s      *storage.Store
	p      *Partition
	epoch  batch.LeaderEpoch
	pepoch int32
	next   [3]int32 // sequence, by producer
	open   [3]bool  // a transaction, by producer

	exchanged, called, resumed, overtaken, cut, crashed, again int
}

func (m *mover) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mover) start() {
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{"/a", "/b", "/c"}, FS: m.fs, NodeID: 1, Now: m.clock.now})
	m.ok(err)
	m.ok(s.WriteMeta("cluster", 1))
	m.s = s
	l, err := s.Log("t", [16]byte{1}, 0, log.Config{SegmentBytes: 600, SegmentMs: 1 << 40, IndexBytes: 1 << 16, IndexIntervalBytes: 100, RetentionMs: -1, RetentionBytes: -1, FileDeleteDelayMs: 10, Delete: true, FlushMessages: 1 << 40, FlushMs: 1 << 40})
	m.ok(err)
	m.p = New(Options{Log: l, Topic: "t", ID: [16]byte{1}, Self: self, Now: m.clock.now})
	f, err := s.ResumeMove("t", [16]byte{1}, 0)
	m.ok(err)
	if f != nil {
		m.ok(m.p.BeginMove(f))
		m.resumed++
	}
	m.lead()
}

func (m *mover) lead() {
	m.epoch++
	m.pepoch++
	m.ok(m.p.BecomeLeader(assign(self, m.epoch, m.pepoch, []int32{self}, self)))
}

// append appends a plain batch, or one of a producer, in or out of a transaction.
func (m *mover) append() {
	who := m.chance.IntN(4)
	o := batch.BuilderOptions{}
	r := producer.Rules{Verified: true}
	var k, v []byte
	if who < 3 {
		o.Producer, o.ProducerID, o.BaseSequence, o.Transactional = true, batch.ProducerID(who), m.next[who], who > 0
		if m.open[who] && m.chance.IntN(3) == 0 {
			o.Control, o.BaseSequence, r.Origin = true, -1, producer.Coordinator
			kind := batch.Commit
			if m.chance.IntN(2) == 0 {
				kind = batch.Abort
			}
			k, v = batch.Marker{Type: kind}.KeyAndValue()
		}
	}
	u := batch.NewBuilder(o)
	if o.Control {
		u.Add(m.clock.t.UnixMilli(), k, v)
	} else {
		for range 1 + m.chance.IntN(3) {
			u.Add(m.clock.t.UnixMilli(), []byte("key"), make([]byte, m.chance.IntN(100)))
		}
	}
	h, err := batch.ParseHeader(u.Bytes())
	m.ok(err)
	_, err = m.p.Append(u.Bytes(), h, AppendOptions{LeaderEpoch: AnyEpoch, Producer: r})
	m.ok(err)
	if who < 3 {
		m.open[who] = o.Transactional && !o.Control
		if !o.Control {
			m.next[who] += h.Count
		}
	}
}

// looks is all that can be seen of the partition: every byte and everything that is remembered.
func (m *mover) looks() string {
	v := m.p.Log().View()
	out := fmt.Sprintf("%d %d %d %d %v\n", v.LogStart(), v.LastStable(), v.HighWatermark(), v.LogEnd(), v.Epochs())
	for _, e := range m.p.Producers() {
		out += fmt.Sprintf("%+v\n", e)
	}
	aborted, err := v.Aborted(v.LogStart(), v.LogEnd())
	m.ok(err)
	slices.SortFunc(aborted, func(a, b log.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	hidden := map[batch.ProducerID]bool{}
	for at := v.LogStart(); at < v.LogEnd(); {
		b, err := m.p.Records(at, 1)
		m.ok(err)
		h, err := batch.ParseHeader(b)
		m.ok(err)
		for len(aborted) > 0 && aborted[0].FirstOffset <= h.LastOffset() {
			hidden[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		out += fmt.Sprintf("%x hidden: %v\n", b, hidden[h.ProducerID] && !h.Attributes.Control())
		if h.Attributes.Control() {
			delete(hidden, h.ProducerID)
		}
		at = h.NextOffset()
	}
	return out
}

func (m *mover) step() {
	m.clock.pass(time.Millisecond)
	at, to := m.s.PlaceOf("t", 0)
	switch n := m.chance.IntN(100); {
	case n < 40:
		m.append()
	case n < 55:
		if to != "" {
			f, end := m.p.future.Load(), m.p.Log().View().LogStart()
			if f.View().LogEnd() < end {
				m.overtaken++
			}
			_, err := m.p.Fill(1 + m.chance.IntN(400))
			m.ok(err)
		}
	case n < 65:
		if to == "" {
			dirs := []string{"/a", "/b", "/c"}
			dir := dirs[m.chance.IntN(3)]
			if dir == at {
				return
			}
			f, err := m.s.BeginMove("t", [16]byte{1}, 0, dir)
			m.ok(err)
			m.ok(m.p.BeginMove(f))
		}
	case n < 72:
		if to == "" {
			return
		}
		before := m.looks()
		done, err := m.p.Exchange(func() (*log.Log, error) {
			l, _, err := m.s.FinishMove("t", [16]byte{1}, 0)
			return l, err
		})
		m.ok(err)
		if after := m.looks(); after != before {
			a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					m.t.Fatalf("before %s\nafter (exchanged: %v) %s", a[i], done, b[i])
				}
			}
			m.t.Fatalf("%d lines before, %d after", len(a), len(b))
		}
		if done {
			m.exchanged++
		} else {
			m.again++
		}
	case n < 75:
		if to != "" {
			m.p.EndMove()
			m.ok(m.s.CancelMove("t", 0))
			m.called++
		}
	case n < 82:
		v := m.p.Log().View()
		_, err := m.p.DeleteRecords(v.LogStart() + batch.Offset(m.chance.Int64N(int64(v.HighWatermark()-v.LogStart())/2+1)))
		m.ok(err)
	case n < 86:
		_, err := m.p.Retain()
		m.ok(err)
		m.ok(m.s.Housekeep(m.clock.now()))
	case n < 90:
		// Another one leads for a while, and this log is cut. What was cut is not appended again in its epoch.
		m.epoch++
		m.pepoch++
		m.ok(m.p.BecomeFollower(Assignment{LeaderID: 2, LeaderEpoch: m.epoch, PartitionEpoch: m.pepoch}))
		v := m.p.Log().View()
		m.ok(m.p.Truncate(m.epoch, v.LogEnd()-batch.Offset(m.chance.Int64N(int64(v.LogEnd()-v.LogStart())/4+1))))
		m.forget()
		m.lead()
		m.cut++
	case n < 95:
		m.ok(m.p.Log().Flush())
		m.ok(m.s.Checkpoint())
	default:
		m.p.Close()
		switch m.chance.IntN(3) {
		case 0:
			m.ok(m.s.Close(true))
		case 1:
			m.fs.Kill()
		case 2:
			m.fs.Crash(m.chance)
		}
		m.crashed++
		m.start()
		m.forget()
	}
}

// forget takes the producers' state from the log, which has lost some of it.
func (m *mover) forget() {
	m.next, m.open = [3]int32{}, [3]bool{}
	for _, e := range m.p.Producers() {
		if e.LastSequence >= 0 {
			m.next[e.ProducerID] = e.LastSequence + 1
		} else {
			m.next[e.ProducerID] = 0
		}
		m.open[e.ProducerID] = e.TxnFirstOffset >= 0
	}
}

// soak makes the tests with crashes go on for longer.
var soak = flag.Uint64("soak", 1, "how many times the tests with crashes are as long as usual")

// A partition that is moved about, written, cut, deleted from and lost power with looks after each exchange as before.
func TestMovesChangeNothing(t *testing.T) {
	var sum mover
	var o disktest.Outcomes
	for seed := range *soak * 60 {
		m := &mover{t: t, chance: rand.New(rand.NewPCG(seed, 34)), fs: disktest.New(), clock: clock{time.UnixMilli(1_700_000_000_000)}}
		for _, d := range []string{"/a", "/b", "/c"} {
			m.fs.Put(d+"/lost+found", nil)
		}
		m.start()
		for i := range 150 {
			m.step()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, i)
			}
		}
		m.p.Close()
		m.ok(m.s.Close(true))
		sum.exchanged += m.exchanged
		sum.called += m.called
		sum.resumed += m.resumed
		sum.overtaken += m.overtaken
		sum.cut += m.cut
		sum.crashed += m.crashed
		sum.again += m.again
		o = o.Plus(m.fs.Outcomes())
	}
	t.Logf("%d exchanged, %d called off, %d resumed, %d overtaken by deletion, %d cut, %d crashed, %d not yet filled", sum.exchanged, sum.called, sum.resumed, sum.overtaken, sum.cut, sum.crashed, sum.again)
	for what, n := range map[string]int{"exchanged": sum.exchanged, "called off": sum.called, "resumed": sum.resumed, "overtaken": sum.overtaken, "cut": sum.cut, "crashed": sum.crashed} {
		if n < 20*int(*soak) {
			t.Errorf("%s: %d only", what, n)
		}
	}
	t.Logf("%+v", o)
	n := 20 * int(*soak)
	for _, few := range o.Under(disktest.Outcomes{Crashes: 5 * n, Lost: 4 * n, Torn: 3 * n, Reordered: 3 * n, Names: 3 * n}) {
		t.Error(few)
	}
}

// Writers and readers see nothing of moves that go on meanwhile.
func TestMovesBesideEverything(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	s, err := storage.Open(storage.StoreOptions{Dirs: dirs, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log("t", [16]byte{1}, 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg := defaults()
	cfg.FlushMessages, cfg.SegmentBytes = 3, 4096
	p := New(Options{Log: l, Topic: "t", ID: [16]byte{1}, Self: self, Config: cfg})
	if err := p.BecomeLeader(assign(self, 1, 1, []int32{self}, self)); err != nil {
		t.Fatal(err)
	}
	const writers, each, moves = 2, 400, 12
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				b, h := records(2)
				a, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch})
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				acks := NewAcks(1)
				if done, err := p.Await(acks, 0, a, 1); !done {
					acks.Seal()
					<-acks.Done()
				} else if err != nil {
					t.Errorf("await: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		for at := batch.Offset(0); at < writers*each*2; {
			r, err := p.Read(ReadRequest{Offset: at, MaxBytes: 1000, MinOne: true, Replica: -1, CurrentLeaderEpoch: AnyEpoch, LastFetchedEpoch: AnyEpoch})
			if err != nil {
				t.Errorf("read at %d: %v", at, err)
				return
			}
			b := make([]byte, r.Records.Len())
			_, err = r.Records.ReadAt(b, 0)
			r.Records.Release()
			if err != nil && len(b) > 0 {
				t.Errorf("read at %d: %v", at, err)
				return
			}
			for len(b) >= batch.HeaderSize {
				h, err := batch.ParseHeader(b)
				if err != nil || h.Size() > len(b) {
					break
				}
				if h.BaseOffset != at {
					t.Errorf("batch at %d, want %d", h.BaseOffset, at)
					return
				}
				at, b = h.NextOffset(), b[h.Size():]
			}
			if _, err := p.ListOffset(ListRequest{Timestamp: MaxTimestamp, CurrentLeaderEpoch: AnyEpoch}); err != nil {
				t.Errorf("list offsets: %v", err)
			}
		}
	})
	wg.Go(func() {
		for i := range moves {
			f, err := s.BeginMove("t", [16]byte{1}, 0, dirs[(i+1)%2])
			if err == nil {
				err = p.BeginMove(f)
			}
			for done := false; !done && err == nil; {
				if _, err = p.Fill(10000); err == nil {
					done, err = p.Exchange(func() (*log.Log, error) {
						l, _, err := s.FinishMove("t", [16]byte{1}, 0)
						return l, err
					})
				}
			}
			if err != nil {
				t.Errorf("move %d: %v", i, err)
				return
			}
			if err := s.Housekeep(time.Now()); err != nil {
				t.Errorf("housekeeping: %v", err)
			}
		}
	})
	wg.Wait()
	if end := p.Log().View().LogEnd(); end != writers*each*2 {
		t.Errorf("the log ends at %d", end)
	}
	if _, err := p.Fill(1); !errors.Is(err, ErrNoMove) {
		t.Errorf("filled without a move: %v", err)
	}
	p.Close()
	if err := s.Close(true); err != nil {
		t.Error(err)
	}
}
