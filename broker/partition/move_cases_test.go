package partition

// Moves as they meet what chance (move_test.go) seldom brings about.

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// lackingIn refuses files below a directory for lack of descriptors.
func (m *mover) lackingIn(dir string) {
	m.fs.Refuse(func(op, name string) error {
		if (op == "open" || op == "create" || op == "syncdir") && strings.HasPrefix(name, dir+"/") {
			return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
}

func newMover(t *testing.T) *mover {
	m := &mover{t: t, fs: disktest.New(), clock: clock{time.UnixMilli(1_700_000_000_000)}}
	for _, d := range []string{"/a", "/b", "/c"} {
		m.fs.Put(d+"/lost+found", nil)
	}
	m.start()
	return m
}

// TestCutWhileMovedWithoutDescriptors: what is cut off a log while its copy lacks a descriptor to be cut, too, is not in the
// copy when that takes its place.
func TestCutWhileMovedWithoutDescriptors(t *testing.T) {
	m := newMover(t)
	for range 6 {
		appendTo(t, m.p, 1, 1)
	}
	f, err := m.s.BeginMove("t", [16]byte{1}, 0, "/b")
	m.ok(err)
	m.ok(m.p.BeginMove(f))
	for done := (Filled{}); !done.Whole; {
		done, err = m.p.Fill(1000)
		m.ok(err)
	}
	m.epoch++
	m.pepoch++
	m.ok(m.p.BecomeFollower(Assignment{LeaderID: 2, LeaderEpoch: m.epoch, PartitionEpoch: m.pepoch}))
	m.lackingIn("/b")
	if err := m.p.Truncate(m.epoch, 3); err != nil {
		t.Errorf("the log itself lacks nothing to be cut: %v", err)
	}
	for _, n := range []int{2, 1, 2} { // others, of which one begins where the copy ends
		b, _ := records(n)
		at := m.p.Position().Offset
		batch.Patch(b, at, m.epoch)
		m.ok(m.p.Replicate(Copied{LeaderEpoch: m.epoch, From: at, Records: b}))
	}
	if _, err := m.p.Fill(1000); !errors.Is(err, log.ErrNoDescriptor) {
		t.Errorf("what lacks a descriptor is filled: %v", err)
	}
	if done, err := m.p.Exchange(func() (*log.Log, error) { return nil, errors.New("too early") }); done || err != nil {
		t.Errorf("what lacks a descriptor takes the log's place: %v, %v", done, err)
	}
	m.fs.Refuse(nil)
	m.arrives()
}

// arrives fills the copy and exchanges it, which nobody sees.
func (m *mover) arrives() {
	m.t.Helper()
	before := m.looks()
	for done := false; !done; {
		_, err := m.p.Fill(1000)
		m.ok(err)
		done, err = m.p.Exchange(func() (*log.Log, error) {
			l, _, err := m.s.FinishMove("t", [16]byte{1}, 0)
			return l, err
		})
		m.ok(err)
	}
	if after := m.looks(); after != before {
		m.t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestCopyOfWhatWasCleanedSince: what was copied of a log before it was cleaned is copied anew, also where that lacked a
// descriptor at first.
func TestCopyOfWhatWasCleanedSince(t *testing.T) {
	fs := disktest.New()
	m := &mover{t: t}
	made := func(dir string, cleaned batch.Offset, offsets ...batch.Offset) *log.Log {
		o := log.Options{FS: fs, Dir: dir, Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1}
		l, _, err := log.Open(o)
		m.ok(err)
		for _, at := range offsets {
			b, _ := records(1)
			batch.Patch(b, at, 1)
			_, err := l.AppendAsFollower(b)
			m.ok(err)
		}
		m.ok(l.Close())
		o.Clean, o.RecoveryPoint, o.Cleaned = true, l.View().LogEnd(), cleaned
		l, _, err = log.Open(o)
		m.ok(err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	l, f := made("/a/t-0", 3, 0, 2, 3), made("/b/t-0", 1, 0, 1, 2)
	p := newPartition(t, Options{Log: l})
	m.fs = fs
	m.lackingIn("/b")
	if err := p.BeginMove(f); !errors.Is(err, log.ErrNoDescriptor) {
		t.Fatal(err)
	}
	fs.Refuse(nil)
	m.ok(p.BeginMove(f))
	for done := (Filled{}); !done.Whole; {
		var err error
		done, err = p.Fill(1000)
		m.ok(err)
	}
	if b, err := batchesFrom(f.View(), 1, 1); err != nil {
		t.Error(err)
	} else if h, err := batch.ParseHeader(b); err != nil || h.BaseOffset != 2 {
		t.Errorf("what was cleaned away is there: %d, %v", h.BaseOffset, err)
	}
	if !f.IsCopyOf(l) {
		t.Error("the copy does not count as one of what was cleaned")
	}
}

// within fails a test that waits for what another one was to do, long after it must have been done.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not come to this: ", what)
	}
}

// TestAHungDestinationHoldsNobodyUp: while what is copied cannot be written, the partition takes other configs, is written
// to and is cut, and the copy has none of what was cut off when it takes the log's place.
func TestAHungDestinationHoldsNobodyUp(t *testing.T) {
	m := newMover(t)
	for range 6 {
		appendTo(t, m.p, 1, 1)
	}
	f, err := m.s.BeginMove("t", [16]byte{1}, 0, "/b")
	m.ok(err)
	m.ok(m.p.BeginMove(f))
	hangs, on := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.fs.Hold(func(op, name string) {
		if op == "write" && strings.HasPrefix(name, "/b/") {
			once.Do(func() { close(hangs) })
			<-on
		}
	})
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		if _, err := m.p.Fill(1000); err != nil {
			t.Error(err)
		}
	}()
	within(t, "the copy is written to", hangs)
	lives := make(chan struct{})
	go func() {
		defer close(lives)
		c := defaults()
		c.RetentionMs = 12345
		m.p.SetConfig(c)
		appendTo(t, m.p, 1, 1)
		m.epoch++
		m.pepoch++
		if err := m.p.BecomeFollower(Assignment{LeaderID: 2, LeaderEpoch: m.epoch, PartitionEpoch: m.pepoch}); err != nil {
			t.Error(err)
		}
		if err := m.p.Truncate(m.epoch, 3); err != nil {
			t.Error(err)
		}
		for _, n := range []int{2, 1, 2} { // others, of which one begins where the copy ends
			b, _ := records(n)
			at := m.p.Position().Offset
			batch.Patch(b, at, m.epoch)
			if err := m.p.Replicate(Copied{LeaderEpoch: m.epoch, From: at, Records: b}); err != nil {
				t.Error(err)
			}
		}
	}()
	within(t, "configs, appends and truncations go on", lives)
	select {
	case <-filled:
		t.Error("it was filled")
	default:
	}
	close(on)
	within(t, "the step ends when the disk goes on", filled)
	m.fs.Hold(nil)
	if got := f.Config().RetentionMs; got != 12345 {
		t.Errorf("the copy's retention.ms is %d", got)
	}
	m.arrives()
}

// TestACutWhileItIsReadIsNoError: a truncation between the look at the log and the reading of it leaves the move as it is,
// and the copy is cut, too, and not begun anew.
func TestACutWhileItIsReadIsNoError(t *testing.T) {
	for name, reopened := range map[string]bool{"before it is found": true, "after it was found": false} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t)
			for range 6 {
				appendTo(t, m.p, 1, 1)
			}
			if reopened { // so that nothing of the log is in memory
				m.p.Close()
				m.ok(m.s.Close(true))
				m.start()
			}
			f, err := m.s.BeginMove("t", [16]byte{1}, 0, "/b")
			m.ok(err)
			m.ok(m.p.BeginMove(f))
			for f.View().LogEnd() < 5 {
				_, err = m.p.Fill(1)
				m.ok(err)
			}
			m.epoch++
			m.pepoch++
			m.ok(m.p.BecomeFollower(Assignment{LeaderID: 2, LeaderEpoch: m.epoch, PartitionEpoch: m.pepoch}))
			cut := false
			m.fs.Hold(func(op, name string) {
				if op == "read" && strings.HasPrefix(name, "/a/") && !cut {
					cut = true
					m.ok(m.p.Truncate(m.epoch, 2))
				}
			})
			done, err := m.p.Fill(1000)
			if err != nil || done.Whole || !cut {
				t.Errorf("%+v, %v, cut: %v", done, err, cut)
			}
			m.fs.Hold(nil)
			done, err = m.p.Fill(1000)
			if err != nil || !done.Whole || done.Bytes > 0 || f.View().LogEnd() != 2 {
				t.Errorf("%+v, %v: the copy ends at %d", done, err, f.View().LogEnd())
			}
		})
	}
}

// TestACorruptBatchIsNotMoved: the checksum of what is copied is compared, and where it is wrong it is told which batch it is
// and where it stands.
func TestACorruptBatchIsNotMoved(t *testing.T) {
	m := newMover(t)
	for range 6 {
		appendTo(t, m.p, 1, 1)
	}
	const name = "/a/t-0/00000000000000000000.log"
	segment := m.fs.Bytes(name)
	h, err := batch.ParseHeader(segment)
	m.ok(err)
	at := int64(3 * h.Size()) // they are alike
	file, err := m.fs.Open(name, disk.Write)
	m.ok(err)
	_, err = file.WriteAt([]byte{segment[at+70] ^ 1}, at+70)
	m.ok(err)
	m.ok(file.Close())
	f, err := m.s.BeginMove("t", [16]byte{1}, 0, "/b")
	m.ok(err)
	m.ok(m.p.BeginMove(f))
	for err = nil; err == nil && f.View().LogEnd() < 4; {
		_, err = m.p.Fill(1)
	}
	want := fmt.Sprintf("move t-0: %s at position %d: batch at offset 3: record batch is corrupt (", name, at)
	if !errors.As(err, new(*batch.CRCError)) || !strings.HasPrefix(err.Error(), want) || f.View().LogEnd() != 3 {
		t.Errorf("%v; the copy ends at %d", err, f.View().LogEnd())
	}
}
