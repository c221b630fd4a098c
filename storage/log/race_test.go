package log

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
)

// TestReadersBesideWriter runs readers and a flusher beside a writer that appends, truncates, rolls and removes. Readers
// must only ever see whole, intact batches in the order of their offsets.
func TestReadersBesideWriter(t *testing.T) {
	for name, at := range map[string]struct {
		fs  disk.FS
		dir string
	}{"os": {disk.OS{}, t.TempDir()}, "memory": {disktest.New(), ""}} {
		t.Run(name, func(t *testing.T) { readersBesideWriter(t, at.fs, at.dir+"/t-0") })
	}
}

func readersBesideWriter(t *testing.T, fs disk.FS, dir string) {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes, c.FileDeleteDelayMs = 20000, 300, 100000, 0
	l, _, err := Open(Options{FS: fs, Dir: dir, Topic: "t", Config: c, Files: NewFiles(2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var reads, flushes atomic.Int64
	var failed atomic.Pointer[error]
	fail := func(err error) {
		if err != nil && failed.CompareAndSwap(nil, &err) {
			done.Store(true)
		}
	}
	var wg sync.WaitGroup
	run := func(f func() error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for !done.Load() {
				fail(f())
			}
		}()
	}
	for i := range 3 {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		var kept []Section
		defer func() {
			for _, s := range kept {
				s.Release()
			}
		}()
		run(func() error {
			n, s, err := readSome(l, r)
			reads.Add(int64(n))
			if err != nil {
				return err
			}
			kept = append(kept, s)
			if len(kept) > 4 {
				err = intact(kept[0])
				kept[0].Release()
				kept = kept[1:]
			}
			return err
		})
	}
	run(func() error { flushes.Add(1); return l.Flush() })

	r := rand.New(rand.NewPCG(1, 2))
	var epoch batch.LeaderEpoch
	stop := time.Now().Add(2 * time.Second)
	for i := 0; !done.Load() && time.Now().Before(stop); i++ {
		switch n := r.IntN(200); {
		case n == 0:
			v := l.View()
			if span := int(v.LogEnd() - v.LogStart()); span > 0 {
				fail(l.Truncate(v.LogEnd() - batch.Offset(r.IntN(min(span, 60)+1))))
			}
			epoch++
			fail(l.AssignEpoch(epoch))
		case n == 1:
			fail(l.Roll())
		case n == 2:
			_, err := l.Retain(time.Now())
			fail(err)
		case n == 3 && r.IntN(20) == 0:
			fail(l.TruncateFully(l.View().LogEnd()))
			epoch++
			fail(l.AssignEpoch(epoch))
		default:
			b := batch.NewBuilder(batch.BuilderOptions{})
			for range 1 + r.IntN(5) {
				b.Add(time.Now().UnixMilli(), nil, make([]byte, r.IntN(300)))
			}
			h, _ := batch.ParseHeader(b.Bytes())
			_, err := l.Append(b.Bytes(), h, time.Now().UnixMilli())
			fail(err)
			l.SetHighWatermark(l.View().LogEnd())
		}
	}
	done.Store(true)
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	if reads.Load() < 100 || flushes.Load() < 1 {
		t.Fatalf("%d batches read, %d flushes: too little happened", reads.Load(), flushes.Load())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenFilesAreBounded reads more segments than may stay open.
func TestOpenFilesAreBounded(t *testing.T) {
	w := newWorld()
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	w.log.files.read.max = 3
	for len(w.log.segs) < 12 {
		if err := w.append(fromSeed(uint64(w.end))); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		for _, seg := range w.log.segs {
			s, err := w.log.View().Read(seg.base, w.end, 100, true)
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
		}
	}
	open := 0
	for _, seg := range w.log.segs[:len(w.log.segs)-1] {
		if seg.log.pins.Load() >= 0 {
			open++
		}
	}
	for _, seg := range w.log.segs {
		if f := seg.offsets.file.Load(); f != nil && f.pins.Load() >= 0 {
			open++
		}
	}
	read, written := w.log.files.Open()
	if open == 0 || open > 3 || open != read || written != 1 {
		t.Fatalf("%d files of closed segments are open, %d are counted, and %d that are written to", open, read, written)
	}
}

// readSome reads a random stretch and returns how many batches it saw; the section is still held.
func readSome(l *Log, r *rand.Rand) (int, Section, error) {
	v := l.View()
	span := int(v.LogEnd() - v.LogStart())
	if span == 0 {
		return 0, Section{}, nil
	}
	from := v.LogStart() + batch.Offset(r.IntN(span))
	if r.IntN(3) == 0 {
		from = max(v.LogEnd()-batch.Offset(r.IntN(10)), v.LogStart())
	}
	if _, _, err := l.OffsetForTime(time.Now().UnixMilli()-int64(r.IntN(2000)), v.LogEnd()); err != nil {
		return 0, Section{}, err
	}
	if _, _, err := l.OffsetOfMaxTimestamp(); err != nil {
		return 0, Section{}, err
	}
	if _, err := v.Aborted(from, v.LogEnd()); err != nil {
		return 0, Section{}, err
	}
	v.Size(from, v.HighWatermark())
	s, err := v.Read(from, v.HighWatermark(), 5000, true)
	if errors.Is(err, ErrOffsetOutOfRange) {
		return 0, Section{}, nil // removed or truncated in the meantime
	}
	if err != nil {
		return 0, Section{}, err
	}
	n, err := batchesIn(s)
	return n, s, err
}

func intact(s Section) error {
	_, err := batchesIn(s)
	return err
}

func batchesIn(s Section) (int, error) {
	p := make([]byte, s.Len())
	if n, err := s.ReadAt(p, 0); n != len(p) || (err != nil && err != io.EOF) {
		return 0, fmt.Errorf("section of %d bytes gives %d: %w", len(p), n, err)
	}
	n, next := 0, batch.Offset(0)
	for len(p) >= batch.HeaderSize {
		h, err := batch.ParseHeader(p)
		if err != nil {
			return n, err
		}
		if h.Size() > len(p) {
			break
		}
		if err := batch.CheckCRC(p[:h.Size()]); err != nil {
			return n, err
		}
		if h.BaseOffset < next {
			return n, fmt.Errorf("batch %d follows %d", h.BaseOffset, next-1)
		}
		next = h.NextOffset()
		p = p[h.Size():]
		n++
	}
	return n, nil
}

// TestFlushBesideAppends: whoever has flushed what it appended has it durable, whoever else flushes.
func TestFlushBesideAppends(t *testing.T) {
	fs := disktest.New()
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var lock sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				b := batch.NewBuilder(batch.BuilderOptions{})
				b.Add(1, nil, []byte("x"))
				h, _ := batch.ParseHeader(b.Bytes())
				lock.Lock()
				a, err := l.Append(b.Bytes(), h, 1)
				lock.Unlock()
				if err == nil {
					err = l.Flush()
				}
				if err == nil && l.FlushedOffset() <= a.Last {
					err = fmt.Errorf("flushed offset is %d after the flush of %d", l.FlushedOffset(), a.Last)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	if got := l.FlushedOffset(); got != 320 {
		t.Fatalf("flushed to %d", got)
	}
}

// TestGroupCommit: callers of Flush that come while another's sync runs are served together by one more.
func TestGroupCommit(t *testing.T) {
	var syncs, flushes atomic.Int64
	entered, block := make(chan struct{}, 100), make(chan struct{})
	fs := disktest.New()
	fs.HoldSyncs(suffixLog, func(string) {
		syncs.Add(1)
		entered <- struct{}{}
		<-block
	})
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t", Flushed: func(time.Duration) { flushes.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	flush := func() {
		b := batch.NewBuilder(batch.BuilderOptions{})
		b.Add(1, nil, []byte("x"))
		h, _ := batch.ParseHeader(b.Bytes())
		a, err := l.Append(b.Bytes(), h, 1)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := l.Flush(); err != nil || l.FlushedOffset() <= a.Last {
				t.Errorf("flushed to %d after the flush of %d: %v", l.FlushedOffset(), a.Last, err)
			}
		})
	}
	flush()
	<-entered
	const n = 16
	for range n {
		flush()
	}
	// They wait behind the first, so that each has to find for itself that another's sync was its own too.
	stacks := make([]byte, 1<<20)
	for waiting, deadline := 0, time.Now().Add(10*time.Second); waiting < n && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		waiting = 0
		for _, g := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(g, "[sync.Mutex.Lock") && strings.Contains(g, ".(*Log).flush(") {
				waiting++
			}
		}
	}
	if l.FlushedOffset() != 0 {
		t.Errorf("flushed to %d before anything is", l.FlushedOffset())
	}
	close(block)
	wg.Wait()
	if syncs.Load() != 2 || flushes.Load() != 2 || l.FlushedOffset() != n+1 {
		t.Errorf("%d syncs in %d flushes to %d, for one caller and %d that came meanwhile", syncs.Load(), flushes.Load(), l.FlushedOffset(), n)
	}
}
