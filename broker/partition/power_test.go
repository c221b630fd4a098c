package partition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// flushing is a partition with flush.messages=1 on a disk that can lose power.
func flushing(t testing.TB, fs disk.FS) *Partition {
	t.Helper()
	if err := errors.Join(fs.MkdirAll("/data"), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	l, _, err := log.Open(log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	c.FlushMessages = 1
	p := newPartition(t, Options{Log: l, Config: c})
	if err := p.BecomeLeader(assign(self, 1, 1, []int32{1}, 1)); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAcknowledgedSurvivesPowerLoss lets producers append with every acks there is, several batches of several producers
// at a time and over the ends of small segments, takes the power at some operation of the disk, and looks for what was
// acknowledged.
func TestAcknowledgedSurvivesPowerLoss(t *testing.T) {
	if n := powerLoss(t, t.Errorf); n > 0 {
		t.Errorf("lost in %d runs", n)
	}
}

// powerLoss says in how many runs something acknowledged was lost.
func powerLoss(t *testing.T, tell func(string, ...any)) (broken int) {
	counts := map[string]int{}
	var o disktest.Outcomes
	for seed := range *soak * 40 {
		chance := rand.New(rand.NewPCG(seed, 1))
		fs := disktest.New()
		p := flushing(t, fs)
		c := defaults()
		c.FlushMessages, c.SegmentBytes = 1, 4000
		p.SetConfig(c)
		fs.StopAt(5 + chance.IntN(250))
		var mu sync.Mutex
		acked := map[batch.Offset][]byte{} // batches
		sent := batch.Offset(0)
		var wg sync.WaitGroup
		for i := range 4 {
			s := &sender{p: p, acks: int16(1), chance: rand.New(rand.NewPCG(seed, uint64(100+i))), first: batch.ProducerID(3 * i)}
			if i%2 == 0 {
				s.acks = -1
			}
			wg.Go(func() {
				for going := true; going; {
					var done []Entry
					var end batch.Offset
					done, end, going = s.send()
					mu.Lock()
					sent = max(sent, end)
					for _, e := range done {
						acked[e.Appended.Base] = e.Batch
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		// Of checkpoints there is the newest that could be, or none yet.
		point := p.Log().RecoveryPoint()
		if seed%2 == 0 {
			point = -1
		}
		p.Close()
		fs.Crash(chance)
		o = o.Plus(fs.Outcomes())
		found, err := survivors(fs, point)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		lost := 0
		for base, b := range acked { // any order: they are counted
			if !bytes.Equal(found.batches[base], b) {
				lost++
			}
		}
		if lost > 0 || found.wrong != "" {
			broken++
			if tell != nil {
				tell("seed %d: %d of %d acknowledged batches are not there; the log ends at %d; %s", seed, lost, len(acked), found.end, found.wrong)
			}
		}
		if found.end < sent {
			counts["lost"]++
		}
		if len(acked) > 0 {
			counts["acknowledged"]++
		}
		if found.segments > 2 {
			counts["rolled"]++
		}
	}
	t.Logf("%v, %+v", counts, o)
	if tell == nil {
		return broken
	}
	n := int(*soak)
	for what, least := range map[string]int{"acknowledged": 15, "lost": 5, "rolled": 10} {
		if counts[what] < least*n {
			t.Errorf("an idle world: %q in %d runs of %d", what, counts[what], 40*n)
		}
	}
	for _, few := range o.Under(disktest.Outcomes{Crashes: 40 * n, Lost: 6 * n, Torn: 6 * n, Reordered: 4 * n}) {
		t.Error(few)
	}
	return broken
}

// sender appends batches of three producers, several together.
type sender struct {
	p         *Partition
	acks      int16
	chance    *rand.Rand
	first     batch.ProducerID
	sequences [3]int32
	rounds    int
}

// send appends 2 to 5 batches together and waits for them. It returns those that were acknowledged, where those that were
// appended end, and whether to go on.
func (s *sender) send() (acked []Entry, end batch.Offset, going bool) {
	entries := make([]Entry, 2+s.chance.IntN(4))
	for i := range entries {
		n := s.chance.IntN(len(s.sequences))
		u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: s.first + batch.ProducerID(n), BaseSequence: s.sequences[n]})
		for range 1 + s.chance.IntN(2) {
			value := make([]byte, 200+s.chance.IntN(500)) // of more than a sector, so that it can tear
			for j := range value {
				value[j] = byte(s.chance.Uint32())
			}
			u.Add(time.Now().UnixMilli(), nil, value)
			s.sequences[n]++
		}
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			panic(err)
		}
		entries[i] = Entry{Batch: u.Bytes(), Header: h, Options: AppendOptions{LeaderEpoch: AnyEpoch, Acks: s.acks}}
	}
	if s.rounds%4 != 3 { // nobody waits: the power may take it
		for i := range entries {
			entries[i].Options.Acks = 0
		}
	}
	s.p.AppendTogether(entries, new(int))
	a := NewAcks(len(entries))
	going = s.rounds < 40
	s.rounds++
	waits := make([]error, len(entries))
	for i, e := range entries {
		if waits[i] = e.Err; e.Err == nil {
			end = e.Appended.Last + 1
			_, waits[i] = s.p.Await(a, i, e.Appended, e.Options.Acks)
		}
	}
	a.Seal()
	<-a.Done()
	for i, e := range entries {
		if waits[i] == nil {
			waits[i] = a.Err(i)
		}
		if waits[i] != nil {
			going = false // the power is gone
		} else if e.Options.Acks != 0 {
			acked = append(acked, e)
		}
	}
	return acked, end, going
}

// survived is what a recovery has found.
type survived struct {
	batches  map[batch.Offset][]byte
	end      batch.Offset
	segments int
	wrong    string // "": each producer's batches follow each other, and the log knows the last of each
}

// survivors opens the log after a crash and reads it.
func survivors(fs *disktest.FS, point batch.Offset) (survived, error) {
	out := survived{batches: map[batch.Offset][]byte{}}
	l, r, err := log.Open(log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: point, LogStart: -1, HighWatermark: -1})
	if err != nil {
		return out, err
	}
	defer l.Close()
	if r.Lost != 0 || len(r.Damage) != 0 {
		out.wrong = fmt.Sprintf("recovery reports %+v", r)
	}
	names, err := fs.ReadDir("/data/t-0")
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return out, err
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, ".log") {
			out.segments++
		}
	}
	v := l.View()
	out.end = v.LogEnd()
	last := map[batch.ProducerID]int32{}
	for at := batch.Offset(0); at < out.end; {
		s, err := v.Read(at, out.end, 1<<20, true)
		if err != nil {
			return out, err
		}
		b := make([]byte, s.Len())
		_, err = s.ReadAt(b, 0)
		s.Release()
		if err != nil && err != io.EOF {
			return out, err
		}
		for len(b) > 0 {
			h, err := batch.ParseHeader(b)
			if err == nil {
				err = batch.CheckCRC(b[:h.Size()])
			}
			if err != nil {
				return out, err
			}
			if before, ok := last[h.ProducerID]; h.BaseOffset != at || ok && h.BaseSequence != before+1 || !ok && h.BaseSequence != 0 {
				out.wrong = fmt.Sprintf("batch %d of producer %d begins with sequence %d after %d (%v), %d was due", h.BaseOffset, h.ProducerID, h.BaseSequence, before, ok, at)
			}
			last[h.ProducerID] = h.LastSequence()
			out.batches[h.BaseOffset] = b[:h.Size()]
			at, b = h.NextOffset(), b[h.Size():]
		}
	}
	known := l.Producers()
	for _, e := range known {
		if e.LastSequence != last[e.ProducerID] {
			out.wrong = fmt.Sprintf("producer %d is known with sequence %d, its last batch ends with %d", e.ProducerID, e.LastSequence, last[e.ProducerID])
		}
	}
	if len(known) != len(last) {
		out.wrong = fmt.Sprintf("%d producers are known, %d have written", len(known), len(last))
	}
	return out, nil
}

// TestAnUnsyncedAcknowledgementIsSeen shows that the test above would notice: on a disk that only says that it synced,
// what was acknowledged is lost.
func TestAnUnsyncedAcknowledgementIsSeen(t *testing.T) {
	fs := disktest.New()
	fs.Deaf(func(op, name string) bool { return true })
	p := flushing(t, fs)
	ap := appendTo(t, p, 1, -1)
	a := NewAcks(1)
	p.Await(a, 0, ap, -1)
	a.Seal()
	<-a.Done()
	if a.Err(0) != nil {
		t.Fatal(a.Err(0))
	}
	p.Close()
	fs.Crash(rand.New(rand.NewPCG(1, 1)))
	l, _, err := log.Open(log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1})
	if err == nil && l.View().LogEnd() > ap.Last {
		t.Error("the record survived a disk that keeps nothing")
	}
}

// TestGroupCommit: appends that come while the disk syncs are made durable together, with one sync more.
func TestGroupCommit(t *testing.T) {
	var syncs atomic.Int64
	entered, block := make(chan struct{}, 100), make(chan struct{})
	fs := disktest.New()
	fs.HoldSyncs(".log", func(string) {
		syncs.Add(1)
		entered <- struct{}{}
		<-block
	})
	p := flushing(t, fs)
	const n = 50
	a := NewAcks(n)
	for i := range n {
		ap := appendTo(t, p, 1, 1)
		if done, err := p.Await(a, i, ap, 1); done || err != nil {
			t.Fatalf("append %d did not wait for the disk: %v", i, err)
		}
		if i == 0 {
			<-entered // the others come while this one is made durable
		}
	}
	a.Seal()
	if hw := p.State().HighWatermark; hw != 0 {
		t.Errorf("the high watermark is %d before anything is durable", hw)
	}
	close(block)
	<-a.Done()
	for i := range n {
		if a.Err(i) != nil {
			t.Fatal(a.Err(i))
		}
	}
	if hw := p.State().HighWatermark; hw != n {
		t.Errorf("the high watermark is %d", hw)
	}
	p.Close() // and whoever flushes has ended
	if s := syncs.Load(); s != 2 {
		t.Errorf("%d syncs for an append and %d that came meanwhile, not 2", s, n-1)
	}
}
