package storage

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/log"
)

// gated is a disk on which every sync of a file asks first.
type gated struct {
	disk.FS
	enter func(name string) (leave func())
}

type gatedFile struct {
	disk.File
	by   *gated
	name string
}

func (g *gated) Open(name string, flag disk.Flag) (disk.File, error) {
	f, err := g.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return gatedFile{f, g, name}, nil
}

func (f gatedFile) Sync() error {
	leave := f.by.enter(f.name)
	defer leave()
	return f.File.Sync()
}

func TestFlushDue(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 3)
	h.ok(h.s.FlushDue(t.Context(), h.clock))
	if l.RecoveryPoint() != 0 {
		t.Fatal("a segment that is written to was synced")
	}
	h.ok(l.Roll())
	h.add(l, 1)
	h.fs.Trace()
	h.ok(h.s.FlushDue(t.Context(), h.clock))
	for _, op := range h.fs.Done() {
		if op == "sync /data/t-0/00000000000000000003.log" {
			t.Error("the segment that is written to was synced")
		}
	}
	if l.RecoveryPoint() != 3 || l.FlushedOffset() != 3 {
		t.Fatalf("recovery point %d, flushed to %d", l.RecoveryPoint(), l.FlushedOffset())
	}
	ops := h.fs.Ops()
	h.ok(h.s.FlushDue(t.Context(), h.clock))
	if h.fs.Ops() != ops {
		t.Error("what is durable is synced again")
	}
	c := l.Config()
	c.FlushMs = 1000
	l.SetConfig(c)
	h.add(l, 1)
	h.clock = h.clock.Add(time.Second)
	h.ok(h.s.FlushDue(t.Context(), h.clock))
	if l.RecoveryPoint() != 5 {
		t.Fatalf("recovery point %d with flush.ms", l.RecoveryPoint())
	}
}

// TestFlushesGoSideBySide: while logs wait for the disk others do too, so many and no more, and nobody waits for them: the
// checkpoints are written, and say how far each log has come.
func TestFlushesGoSideBySide(t *testing.T) {
	const n = 3 * waiters
	h := newHouse(t)
	var mu sync.Mutex
	var once sync.Once
	syncing, most := 0, 0
	all, open := make(chan struct{}), make(chan struct{})
	g := &gated{FS: h.fs, enter: func(name string) func() {
		if !strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "/data/t-0/") {
			return func() {}
		}
		mu.Lock()
		if syncing++; syncing == waiters {
			once.Do(func() { close(all) })
		}
		most = max(most, syncing)
		mu.Unlock()
		<-open
		return func() {
			mu.Lock()
			syncing--
			mu.Unlock()
		}
	}}
	h.fs.Kill()
	s, err := Open(StoreOptions{Dirs: h.dirs, FS: g, NodeID: 1, Now: func() time.Time { return h.clock }})
	h.ok(err)
	h.s = s
	var logs []*log.Log
	for p := range int32(n) {
		l := h.log("t", 1, p)
		h.add(l, 2)
		h.ok(l.Roll())
		logs = append(logs, l)
	}
	h.ok(logs[0].FlushRolled())
	done := make(chan error)
	go func() { done <- h.s.FlushDue(t.Context(), h.clock) }()
	<-all
	h.ok(h.s.Housekeep(h.clock.Add(time.Minute)))
	if got := string(h.fs.Bytes("/data/" + recoveryPointFile)); !strings.Contains(got, "\nt 0 2\n") || !strings.Contains(got, "\nt 1 0\n") {
		t.Errorf("recovery points while logs are flushed: %q", got)
	}
	close(open)
	h.ok(<-done)
	if most != waiters {
		t.Errorf("%d logs were synced at a time, %d may be", most, waiters)
	}
	for _, l := range logs {
		if l.RecoveryPoint() != 2 {
			t.Errorf("the recovery point of %s is %d", l.Dir(), l.RecoveryPoint())
		}
	}
}

// TestOutOfUse: a log that is out of use, while its data directory is not, is told of once, and then left alone by what goes on in
// the background.
func TestOutOfUse(t *testing.T) {
	h := newHouse(t)
	c := log.DefaultConfig()
	c.Compact, c.FlushMs = true, 1000
	l, err := h.s.Log("t", [16]byte{1}, 0, c)
	h.ok(err)
	h.add(l, 200)
	h.ok(h.s.Close(true))
	const name = "/data/t-0/00000000000000000000.log"
	b := bytes.Clone(h.fs.Bytes(name))
	clear(b[len(b)/200:][:batch.HeaderSize]) // the second batch
	h.fs.Put(name, b)
	core, lines := observer.New(zap.ErrorLevel)
	h.s, err = Open(StoreOptions{Dirs: h.dirs, FS: h.fs, NodeID: 1, Now: func() time.Time { return h.clock }, Logger: zap.New(core)})
	h.ok(err)
	l, err = h.s.Log("t", [16]byte{1}, 0, c)
	h.ok(err)
	h.add(l, 100)
	w := &washed{topic: "t", log: l}
	cleaner := h.s.NewCleaner(func() []Cleanable { return []Cleanable{w} }, CleanerSettings{Threads: 1, KeyBytes: 1 << 20, KeyLoad: 0.9, BufferBytes: 1 << 20})
	lines.TakeAll()
	if err := l.Truncate(250); !errors.As(err, new(*log.UnusableError)) {
		t.Fatal(err)
	}
	if l.OutOfUse() == nil || l.Offline() != nil {
		t.Fatalf("%v, %v", l.OutOfUse(), l.Offline())
	}
	for range 3 {
		h.clock = h.clock.Add(time.Hour)
		h.ok(h.s.FlushDue(t.Context(), h.clock))
		h.ok(h.s.Housekeep(h.clock))
		if cleaner.CleanOnce(t.Context()) {
			t.Error("it is cleaned")
		}
	}
	_ = l.Truncate(240)
	if all := lines.TakeAll(); len(all) != 1 || !strings.Contains(all[0].Message, "log is out of use") || all[0].ContextMap()["log"] != "/data/t-0" {
		t.Errorf("told: %v", all)
	}
	if n := cleaner.Stats().Uncleanable["/data"]; n != 0 {
		t.Errorf("%d logs cannot be cleaned", n)
	}
	// What it is like nobody knows: the next start reads again behind the recovery point.
	if err := h.s.Close(true); !errors.As(err, new(*log.UnusableError)) || h.exists("/data/.kafka_cleanshutdown") {
		t.Errorf("a stop: %v", err)
	}
	h.open()
	h.end(h.log("t", 1, 0), 250)
}
