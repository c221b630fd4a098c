package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/compact"
	"millrace/storage/disk"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// washed is a log with a lock, as a partition has one.
type washed struct {
	mu     sync.Mutex
	topic  string
	log    *log.Log
	inside func() // called within Exclusive
}

func (w *washed) Topic() string { return w.topic }
func (w *washed) Index() int32  { return 0 }
func (w *washed) Log() *log.Log { return w.log }
func (w *washed) Exclusive(f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside != nil {
		w.inside()
	}
	return f()
}
func (w *washed) Retain() { w.mu.Lock(); defer w.mu.Unlock(); _, _ = w.log.Retain(time.Now()) }

func (w *washed) put(t *testing.T, key string, value []byte) {
	t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(time.Now().UnixMilli(), []byte(key), value)
	b := u.Bytes()
	h, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.log.Append(b, h, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	w.log.SetHighWatermark(w.log.View().LogEnd())
}

func compacted() log.Config {
	c := log.DefaultConfig()
	c.Compact, c.Delete = true, false
	return c
}

// laundry opens a store with some compacted logs.
func laundry(t *testing.T, fs disk.FS, dir string, topics ...string) (*Store, []*washed) {
	t.Helper()
	s, err := Open(StoreOptions{Dirs: []string{dir}, FS: fs, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	var all []*washed
	for _, name := range topics {
		l, err := s.Log(name, [16]byte{1}, 0, compacted())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &washed{topic: name, log: l})
	}
	return s, all
}

func listed(all []*washed) func() []Cleanable {
	return func() []Cleanable {
		var out []Cleanable
		for _, w := range all {
			out = append(out, w)
		}
		return out
	}
}

func roll(t *testing.T, w *washed) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.log.Roll(); err != nil {
		t.Fatal(err)
	}
}

var ordinary = CleanerSettings{Threads: 1, KeyBytes: 1 << 20, KeyLoad: 0.9, BufferBytes: 1 << 16, BytesPerSecond: 1e308, Backoff: time.Millisecond}

// TestCleanerSettings shows what the buffers and threads of the cleaner do.
func TestCleanerSettings(t *testing.T) {
	t.Run("room for keys", func(t *testing.T) {
		for _, x := range []struct {
			bytes int64
			load  float64
			want  string
		}{{1 << 20, 0.9, "whole"}, {48 << 10, 0.9, "part"}, {96 << 10, 0.9, "more"}, {96 << 10, 0.3, "less"}} {
			s, all := laundry(t, nil, t.TempDir(), "t")
			for i := range 4000 {
				all[0].put(t, fmt.Sprint(i), []byte("v"))
			}
			roll(t, all[0])
			set := ordinary
			set.KeyBytes, set.KeyLoad = x.bytes, x.load
			c := s.NewCleaner(listed(all), set)
			if !c.CleanOnce(t.Context()) {
				t.Fatal("nothing was cleaned")
			}
			to := all[0].log.CleanedTo()
			got := "whole"
			switch {
			case to < 1200:
				got = "less"
			case to < 2500:
				got = "part"
			case to < 4000:
				got = "more"
			}
			if got != x.want {
				t.Errorf("%d bytes, filled to %v: cleaned to %d of 4000 (%s), want %s", x.bytes, x.load, to, got, x.want)
			}
			if err := s.Close(true); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("buffer", func(t *testing.T) {
		for _, size := range []int{2 << 10, 64 << 10} {
			s, all := laundry(t, nil, t.TempDir(), "t")
			for i := range 400 {
				all[0].put(t, fmt.Sprint(i), bytes.Repeat([]byte("v"), 200))
			}
			roll(t, all[0])
			var most atomic.Int64
			if _, err := all[0].log.Clean(log.CleanOptions{
				Range: must(all[0].log.Cleanable(time.Now().UnixMilli())), Now: time.Now().UnixMilli(), Keys: compact.NewKeys(1<<20, 0.9), Buffer: size, Exclusive: all[0].Exclusive,
				Throttle: func(_ <-chan struct{}, n int) error { most.Store(max(most.Load(), int64(n))); return nil },
			}); err != nil {
				t.Fatal(err)
			}
			if n := most.Load(); n > int64(size)+400 || n < int64(size)/2 {
				t.Errorf("a buffer of %d moves %d bytes at a time", size, n)
			}
			if err := s.Close(true); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("threads", func(t *testing.T) {
		for _, threads := range []int{1, 2} {
			s, all := laundry(t, nil, t.TempDir(), "t", "u")
			var now, most atomic.Int32
			both := make(chan struct{})
			for _, w := range all {
				w.put(t, "a", []byte("1"))
				w.put(t, "a", []byte("2"))
				roll(t, w)
				first := true
				w.inside = func() {
					if !first {
						return
					}
					first = false
					if n := now.Add(1); n == 2 {
						most.Store(2)
						close(both)
					}
					if threads == 2 {
						<-both // it comes, or the test hangs
					}
				}
			}
			if threads == 1 {
				for _, w := range all {
					inside := w.inside
					w.inside = func() { inside(); now.Store(0) }
				}
			}
			set := ordinary
			set.Threads = 1
			c := s.NewCleaner(listed(all), set)
			set.Threads = threads
			c.Configure(set)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { c.Run(ctx); close(done) }()
			for _, w := range all {
				for w.log.CleanedTo() < 2 {
					time.Sleep(time.Millisecond)
				}
			}
			stop()
			<-done
			if want := int32(2 * (threads - 1)); most.Load() != want {
				t.Errorf("with %d threads %d logs were cleaned at a time", threads, most.Load())
			}
			if err := s.Close(true); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestCleanerCheckpoint follows the offset to which a log was cleaned through a stop, a crash and a truncation.
func TestCleanerCheckpoint(t *testing.T) {
	dir := t.TempDir()
	s, all := laundry(t, nil, dir, "t")
	w := all[0]
	for i := range 6 {
		w.put(t, fmt.Sprint(i%2), []byte("v"))
		roll(t, w)
	}
	c := s.NewCleaner(listed(all), ordinary)
	if !c.CleanOnce(t.Context()) || c.CleanOnce(t.Context()) {
		t.Fatal("it is to be cleaned once")
	}
	stored := func() string {
		b, err := disk.ReadFile(disk.OS{}, dir+"/"+cleanerFile, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := stored(); got != "0\n1\nt 0 6\n" {
		t.Fatalf("checkpoint is %q", got)
	}
	points := string(must(disk.ReadFile(disk.OS{}, dir+"/"+recoveryPointFile, 1<<10)))
	if !strings.Contains(points, "t 0 6\n") {
		t.Errorf("recovery points are %q", points)
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	s, all = laundry(t, nil, dir, "t")
	w = all[0]
	if got := w.log.CleanedTo(); got != 6 {
		t.Errorf("after a crash it is cleaned to %d", got)
	}
	w.put(t, "0", []byte("w"))
	if err := w.log.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if got := stored(); got != "0\n1\nt 0 5\n" {
		t.Errorf("after a truncation the checkpoint is %q", got)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	s, all = laundry(t, nil, dir, "t")
	if got := all[0].log.CleanedTo(); got != 5 {
		t.Errorf("after a stop it is cleaned to %d", got)
	}
	if err := s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if got := stored(); got != "0\n0\n" {
		t.Errorf("after the log was deleted the checkpoint is %q", got)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestUncleanable damages a log below its recovery point: it is left as it is, and others are cleaned.
func TestUncleanable(t *testing.T) {
	dir := t.TempDir()
	s, all := laundry(t, nil, dir, "bad", "good")
	for _, w := range all {
		for range 3 {
			w.put(t, "a", []byte("value"))
			roll(t, w)
		}
		if err := w.log.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	path := dir + "/bad-0/00000000000000000001.log"
	f, err := disk.OS{}.Open(path, disk.Write)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("X"), batch.HeaderSize+8); err != nil {
		t.Fatal(err)
	}
	f.Close()
	was := must(disk.ReadFile(disk.OS{}, path, 1<<20))
	// The damaged one is the dirtier.
	all[1].put(t, "b", []byte("value"))
	core, lines := observer.New(zap.ErrorLevel)
	s.logger = zap.New(core)
	c := s.NewCleaner(listed(all), ordinary)
	cleaned := 0
	for range 4 {
		if c.CleanOnce(t.Context()) {
			cleaned++
		}
	}
	if cleaned != 1 || all[1].log.CleanedTo() != 3 || all[0].log.CleanedTo() != -1 {
		t.Errorf("%d cleanings, to %d and %d", cleaned, all[0].log.CleanedTo(), all[1].log.CleanedTo())
	}
	said := lines.FilterMessage("log is damaged below its recovery point: it is not cleaned any more").All()
	if len(said) != 1 || place(said[0]) != fmt.Sprintf("bad 0 1 %s 0", path) {
		t.Errorf("%v", said)
	}
	if st := c.Stats(); st.Uncleanable[dir] != 1 || st.UncleanableBytes[dir] == 0 || st.Cleanings != 1 {
		t.Errorf("%+v", st)
	}
	if !bytes.Equal(was, must(disk.ReadFile(disk.OS{}, path, 1<<20))) {
		t.Error("the damaged segment has changed")
	}
	names, err := disk.OS{}.ReadDir(dir + "/bad-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, ".cleaned") || strings.HasSuffix(n.Name, ".swap") {
			t.Errorf("%s is left", n.Name)
		}
	}
	if all[0].log.Offline() != nil {
		t.Error("the directory was given up")
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestCleanOperations compares what cleaning does to the disk, and in which order, with testdata/cleaning.txt.
func TestCleanOperations(t *testing.T) {
	s, fs := goldenStore(t)
	c := compacted()
	c.FileDeleteDelayMs = 0
	l, err := s.Log("t", [16]byte{1}, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	w := &washed{topic: "t", log: l}
	ts := int64(1_700_000_000_000)
	txn := batch.BuilderOptions{Producer: true, ProducerID: 7, Transactional: true}
	appendTo(t, l, txn, producer.Rules{Verified: true}, ts, []byte("a"), []byte("aborted"))
	roll(t, w)
	k, v := batch.Marker{Type: batch.Abort}.KeyAndValue()
	appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: -1, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, ts, k, v)
	appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, ts, []byte("a"), []byte("stays"))
	roll(t, w)
	appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, ts, []byte("a"), []byte("is not cleaned"))
	l.SetHighWatermark(4)
	var out strings.Builder
	step := func(what string, f func()) {
		fs.Trace()
		f()
		fmt.Fprintf(&out, "%s\n%s", what, indent(strings.Join(fs.Done(), "\n")))
	}
	cleaner := s.NewCleaner(listed([]*washed{w}), ordinary)
	step("flush", func() { must(0, l.Flush()) })
	step("clean", func() {
		if !cleaner.CleanOnce(t.Context()) {
			t.Fatal("nothing was cleaned")
		}
	})
	step("remove what was deleted", func() { must(0, l.RemoveDeleted(time.Now())) })
	must(0, s.Close(false))

	// A start that finds a finished replacement, as the power goes while the names are exchanged.
	fs.Crash(nil)
	for _, suffix := range []string{".log", ".index", ".timeindex", ".txnindex"} {
		must(0, fs.Rename("/data/t-0/00000000000000000000"+suffix, "/data/t-0/00000000000000000000"+suffix+".swap"))
	}
	fs.Put("/data/t-0/00000000000000000001.log", nil)
	fs.Put("/data/t-0/00000000000000000001.index", nil)
	step("open with a finished replacement", func() {
		_, _, err := log.Open(log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, Config: c, RecoveryPoint: 4})
		must(0, err)
	})
	golden(t, "cleaning.txt", out.String())
}

// TestRaiseBehindTruncation stores a recovery point only while everything below it is flushed.
func TestRaiseBehindTruncation(t *testing.T) {
	s, all := laundry(t, nil, t.TempDir(), "t")
	d, k := s.dirs[0], partitionKey{topic: "t"}
	all[0].put(t, "a", nil)
	if err := s.raise(d, k, 10, func() batch.Offset { return 9 }); !errors.Is(err, log.ErrOvertaken) {
		t.Errorf("raised to 10 with 9 flushed: %v", err)
	}
	if o, ok := d.checkpoints[recoveryPoints][k]; ok && o > 9 {
		t.Errorf("the recovery point is %d", o)
	}
	if err := s.raise(d, k, 10, func() batch.Offset { return 10 }); err != nil || d.checkpoints[recoveryPoints][k] != 10 {
		t.Errorf("%v, the recovery point is %d", err, d.checkpoints[recoveryPoints][k])
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointBesideExchange writes a checkpoint of logs that were listed before one of them gave its place to another:
// what was stored of that one stays.
func TestCheckpointBesideExchange(t *testing.T) {
	s, all := laundry(t, nil, t.TempDir(), "t")
	d, k := s.dirs[0], partitionKey{topic: "t"}
	all[0].put(t, "a", nil)
	all[0].put(t, "b", nil)
	if err := all[0].log.SetLogStart(1); err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLogStarts([]Name{{Topic: "t"}}); err != nil {
		t.Fatal(err)
	}
	listed := map[partitionKey]*log.Log{k: all[0].log}
	all[0].log.Abandon()
	if err := s.writeCheckpoint(d, logStarts, s.now(), s.notOpen(d), listed, false); err != nil {
		t.Fatal(err)
	}
	if o, ok := d.checkpoints[logStarts][k]; !ok || o != 1 {
		t.Errorf("the log start is %d, %v", o, ok)
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
}
