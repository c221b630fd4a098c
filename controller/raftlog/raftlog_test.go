package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

// subject is a log under test with the two ways it can end.
type subject struct {
	Log
	reopen func() Log // after a clean close
	crash  func() Log // without one: what was not synced is lost
}

// subjects runs a test on both implementations.
func subjects(t *testing.T, test func(t *testing.T, s *subject)) {
	t.Run("disk", func(t *testing.T) { test(t, diskSubject(t, t.TempDir())) })
	t.Run("memory", func(t *testing.T) { test(t, memorySubject()) })
}

type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func diskSubject(t tester, dir string) *subject {
	open := func() *Bolt {
		b, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	s := &subject{Log: b}
	s.reopen = func() Log {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = open()
		s.Log = b
		return b
	}
	s.crash = func() Log {
		// What was not synced is in the process only.
		if b.db != nil {
			if err := b.db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		b = open()
		s.Log = b
		return b
	}
	return s
}

func memorySubject() *subject {
	m := NewMemory()
	s := &subject{Log: m}
	s.crash = func() Log {
		m = m.Crash()
		s.Log = m
		return m
	}
	s.reopen = func() Log {
		if err := m.Close(); err != nil {
			panic(err)
		}
		return s.crash()
	}
	return s
}

func entry(index, term uint64, data string) *pb.Entry {
	return &pb.Entry{Index: new(index), Term: new(term), Type: pb.EntryNormal.Enum(), Data: []byte(data)}
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

func snapshot(index, term uint64, data string) *pb.Snapshot {
	return &pb.Snapshot{
		Data: []byte(data),
		Metadata: pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{
			Index: new(index), Term: new(term), ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}},
		}),
	}
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t tester, dir string) *Bolt {
	t.Helper()
	l, err := Open(dir)
	must(t, err)
	return l
}

// picture of a log, to compare.
func show(t tester, l Log) string {
	t.Helper()
	var b strings.Builder
	h, conf, err := l.InitialState()
	must(t, err)
	first, err := l.FirstIndex()
	must(t, err)
	last, err := l.LastIndex()
	must(t, err)
	snap, err := l.Snapshot()
	must(t, err)
	fmt.Fprintf(&b, "self=%d term=%d vote=%d voters=%v snapshot=%d/%d[%s] log=%d..%d\n", l.Self(), h.GetTerm(), h.GetVote(), conf.GetVoters(),
		snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm(), snap.GetData(), first, last)
	before, err := l.Term(first - 1)
	must(t, err)
	fmt.Fprintf(&b, "before: %d\n", before)
	if last >= first {
		entries, err := l.Entries(first, last+1, math.MaxUint64)
		must(t, err)
		for _, e := range entries {
			term, err := l.Term(e.GetIndex())
			must(t, err)
			if term != e.GetTerm() {
				t.Fatalf("Term(%d) is %d, the entry's %d", e.GetIndex(), term, e.GetTerm())
			}
			fmt.Fprintf(&b, "%d/%d %s\n", e.GetIndex(), e.GetTerm(), e.GetData())
		}
	}
	return b.String()
}

func founded(t tester, l Log) {
	t.Helper()
	must(t, l.Found(2, &pb.ConfState{Voters: []uint64{2}}))
}

func TestEmpty(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		if s.Self() != 0 {
			t.Fatalf("a new log belongs to %d", s.Self())
		}
		if l := s.reopen(); l.Self() != 0 {
			t.Fatalf("after a reopening it belongs to %d", l.Self())
		}
		if last, err := s.LastIndex(); last != 0 || err != nil {
			t.Fatalf("last index %d, %v", last, err)
		}
	})
}

func TestFound(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		if err := s.Found(2, &pb.ConfState{}); !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("founding twice: %v", err)
		}
		if err := s.Join(3); !errors.Is(err, ErrNotEmpty) {
			t.Fatalf("joining after founding: %v", err)
		}
		want := show(t, s)
		if !strings.HasPrefix(want, "self=2 term=1 vote=0 voters=[2] snapshot=1/1[] log=2..1\nbefore: 1") {
			t.Fatal(want)
		}
		if s.crash().Self() != 0 {
			t.Fatal("a founding that was not synced survived a crash")
		}
		founded(t, s)
		must(t, s.Sync())
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
	})
}

func TestJoin(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		must(t, s.Join(7))
		must(t, s.Sync())
		l := s.crash()
		if l.Self() != 7 {
			t.Fatalf("it belongs to %d", l.Self())
		}
		must(t, l.Install(snapshot(40, 3, "state")))
		must(t, l.Append(hard(3, 1, 40), []*pb.Entry{entry(41, 3, "a")}))
		must(t, l.Sync())
		want := show(t, l)
		if !strings.HasPrefix(want, "self=7 term=3 vote=1 voters=[1 2 3] snapshot=40/3[state] log=41..41") {
			t.Fatal(want)
		}
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
	})
}

func TestUnsyncedIsLost(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Append(hard(2, 2, 1), []*pb.Entry{entry(2, 2, "a"), entry(3, 2, "b")}))
		must(t, s.Sync())
		want := show(t, s)
		must(t, s.Append(hard(3, 0, 3), []*pb.Entry{entry(3, 3, "B"), entry(4, 3, "c")}))
		if show(t, s) == want {
			t.Fatal("what was appended can not be read")
		}
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
	})
}

// TestCommitIsLazy: a commit index alone makes nothing to sync, yet a clean
// close keeps it.
func TestCommitIsLazy(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Append(hard(2, 2, 1), []*pb.Entry{entry(2, 2, "a")}))
		must(t, s.Sync())
		must(t, s.Append(hard(2, 2, 2), nil))
		h, _, err := s.reopen().InitialState()
		must(t, err)
		if h.GetCommit() != 2 {
			t.Fatalf("commit index %d after a clean close", h.GetCommit())
		}
	})
}

func TestOverwrite(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Append(nil, []*pb.Entry{entry(2, 1, "a"), entry(3, 1, "b"), entry(4, 1, "c"), entry(5, 1, "d")}))
		must(t, s.Sync())
		old, err := s.Entries(2, 6, math.MaxUint64)
		must(t, err)
		must(t, s.Append(hard(2, 0, 1), []*pb.Entry{entry(3, 2, "B")}))
		must(t, s.Sync())
		want := show(t, s)
		if !strings.HasSuffix(want, "2/1 a\n3/2 B\n") {
			t.Fatal(want)
		}
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
		if string(old[1].GetData()) != "b" || string(old[3].GetData()) != "d" {
			t.Fatal("entries that a reader held have changed")
		}
	})
}

func TestGaps(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Append(nil, []*pb.Entry{entry(2, 1, "a")}))
		for _, bad := range [][]*pb.Entry{{entry(4, 1, "x")}, {entry(1, 1, "x")}, {entry(3, 1, "x"), entry(5, 1, "y")}} {
			if err := s.Append(nil, bad); err == nil {
				t.Errorf("appended %d after 2", bad[0].GetIndex())
			}
		}
	})
}

func TestEntriesLimit(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		for i := uint64(2); i < 12; i++ {
			must(t, s.Append(nil, []*pb.Entry{entry(i, 1, strings.Repeat("x", 100))}))
		}
		for _, c := range []struct {
			low, high, size uint64
			want            int
			err             error
		}{
			{2, 12, math.MaxUint64, 10, nil}, {2, 12, 0, 1, nil}, {2, 12, 260, 2, nil}, {5, 6, 0, 1, nil},
			{1, 12, 0, 0, raft.ErrCompacted}, {2, 13, 0, 0, raft.ErrUnavailable},
		} {
			got, err := s.Entries(c.low, c.high, c.size)
			if len(got) != c.want || !errors.Is(err, c.err) {
				t.Errorf("Entries(%d, %d, %d): %d entries, %v", c.low, c.high, c.size, len(got), err)
			}
		}
	})
}

func TestSnapshots(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		for i := uint64(2); i < 12; i++ {
			must(t, s.Append(hard(1, 0, i), []*pb.Entry{entry(i, 1, fmt.Sprint(i))}))
		}
		must(t, s.Sync())
		missing := snapshot(5, 1, "").GetMetadata()
		if err := s.Compact(missing, 5); err == nil {
			t.Fatal("compacted behind a snapshot that was not stored")
		}
		must(t, s.StoreSnapshot(snapshot(8, 1, "eight")))
		must(t, s.Compact(snapshot(8, 1, "").GetMetadata(), 6))
		want := show(t, s)
		if !strings.HasPrefix(want, "self=2 term=1 vote=0 voters=[1 2 3] snapshot=8/1[eight] log=7..11") {
			t.Fatal(want)
		}
		if _, err := s.Entries(6, 8, 0); !errors.Is(err, raft.ErrCompacted) {
			t.Fatalf("reading a dropped entry: %v", err)
		}
		must(t, s.Sync())
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
		must(t, s.StoreSnapshot(snapshot(11, 1, "eleven")))
		must(t, s.Compact(snapshot(11, 1, "").GetMetadata(), 11))
		must(t, s.Append(nil, []*pb.Entry{entry(12, 1, "12")}))
		must(t, s.Sync())
		want = show(t, s)
		if got := show(t, s.reopen()); got != want {
			t.Fatalf("after a reopening:\n%swant:\n%s", got, want)
		}
		if err := s.Compact(snapshot(8, 1, "").GetMetadata(), 8); err == nil {
			t.Fatal("went back to an older snapshot")
		}
	})
}

// TestInstall: a snapshot from the leader replaces entries that conflict with it.
func TestInstall(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Append(hard(2, 2, 2), []*pb.Entry{entry(2, 2, "a"), entry(3, 2, "b"), entry(4, 2, "c")}))
		must(t, s.Sync())
		must(t, s.Install(snapshot(30, 5, "thirty")))
		h, _, err := s.crash().InitialState()
		must(t, err)
		if h.GetTerm() != 5 || h.GetVote() != 0 || h.GetCommit() != 30 {
			t.Fatalf("hard state %v after the snapshot of term 5", h)
		}
		must(t, s.Append(hard(5, 3, 31), []*pb.Entry{entry(31, 5, "d")}))
		must(t, s.Sync())
		want := show(t, s)
		if !strings.HasSuffix(want, "log=31..31\nbefore: 5\n31/5 d\n") {
			t.Fatal(want)
		}
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after a crash:\n%swant:\n%s", got, want)
		}
	})
}

// TestAgainstTwin does random things to both implementations and compares.
func TestAgainstTwin(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		disk, twin := diskSubject(t, filepath.Join(base, fmt.Sprint(runs))), memorySubject()
		both := func(what string, f func(Log) error) {
			e1, e2 := f(disk.Log), f(twin.Log)
			if (e1 == nil) != (e2 == nil) {
				t.Fatalf("%s: disk %v, memory %v", what, e1, e2)
			}
		}
		both("found", func(l Log) error { return l.Found(2, &pb.ConfState{Voters: []uint64{2}}) })
		both("sync", Log.Sync)
		term := uint64(1)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			first, _ := twin.FirstIndex()
			last, _ := twin.LastIndex()
			snap, _ := twin.Snapshot()
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2, 3:
				from := last + 1
				if rapid.IntRange(0, 3).Draw(t, "overwrite") == 0 && last >= first {
					from = rapid.Uint64Range(max(first, snap.GetMetadata().GetIndex()+1), last+1).Draw(t, "from")
					term++
				}
				var entries []*pb.Entry
				long := strings.Repeat("-", rapid.SampledFrom([]int{0, 0, 300, 9000}).Draw(t, "long"))
				for i := range rapid.Uint64Range(1, 5).Draw(t, "count") {
					entries = append(entries, entry(from+i, term, fmt.Sprintf("%d.%d%s", from+i, term, long)))
				}
				both("append", func(l Log) error { return l.Append(hard(term, 0, snap.GetMetadata().GetIndex()), entries) })
			case 4, 5:
				both("sync", Log.Sync)
			case 6:
				both("sync", Log.Sync)
				if last <= snap.GetMetadata().GetIndex() {
					continue
				}
				index := rapid.Uint64Range(snap.GetMetadata().GetIndex()+1, last).Draw(t, "snapshot")
				of, err := twin.Term(index)
				must(t, err)
				upTo := rapid.Uint64Range(first-1, index).Draw(t, "upTo")
				s := snapshot(index, of, fmt.Sprintf("at %d", index))
				both("store", func(l Log) error { return l.StoreSnapshot(s) })
				both("compact", func(l Log) error { return l.Compact(s.GetMetadata(), upTo) })
				both("sync", Log.Sync)
			case 7:
				term++
				s := snapshot(last+rapid.Uint64Range(1, 5).Draw(t, "beyond"), term, "from the leader")
				both("install", func(l Log) error { return l.Install(s) })
			case 8:
				disk.crash()
				twin.crash()
			case 9:
				disk.reopen()
				twin.reopen()
			}
			if a, b := show(t, disk), show(t, twin); a != b {
				t.Fatalf("disk:\n%smemory:\n%s", a, b)
			}
			h, _, _ := twin.InitialState()
			term = max(term, h.GetTerm())
		}
		_ = disk.Close()
	})
}

func TestMissingSyncIsSeen(t *testing.T) {
	m := NewMemory()
	founded(t, m)
	must(t, m.Sync())
	m.LoseSyncs = true
	must(t, m.Append(hard(2, 2, 1), []*pb.Entry{entry(2, 2, "a")}))
	must(t, m.Sync())
	if last, _ := m.Crash().LastIndex(); last != 1 {
		t.Fatalf("a sync that does nothing kept the entry: last index %d", last)
	}
}

func TestFailedSyncIsForever(t *testing.T) {
	m := NewMemory()
	founded(t, m)
	gone := errors.New("gone")
	m.FailSync(gone)
	for range 2 {
		if err := m.Sync(); !errors.Is(err, gone) {
			t.Fatal(err)
		}
		m.FailSync(nil)
	}
	if err := m.Append(hard(2, 0, 0), nil); !errors.Is(err, gone) {
		t.Fatal(err)
	}
}

// TestDamage: what is not as it was written is refused, not half read.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	founded(t, l)
	must(t, l.Append(hard(1, 0, 4), []*pb.Entry{entry(2, 1, "a"), entry(3, 1, "b"), entry(4, 1, "c")}))
	must(t, l.Sync())
	must(t, l.StoreSnapshot(snapshot(3, 1, "three")))
	must(t, l.Compact(snapshot(3, 1, "").GetMetadata(), 3))
	must(t, l.Close())
	path := filepath.Join(dir, snapshotName(3, 1))
	good, err := os.ReadFile(path)
	must(t, err)
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x40
		must(t, os.WriteFile(path, bad, 0o644))
		if l, err := Open(dir); err == nil {
			_ = l.Close()
			t.Fatalf("a snapshot with byte %d flipped was read", at)
		}
	}
	for size := range good {
		must(t, os.WriteFile(path, good[:size], 0o644))
		if l, err := Open(dir); err == nil {
			_ = l.Close()
			t.Fatalf("a snapshot cut to %d bytes was read", size)
		}
	}
	must(t, os.WriteFile(path, good, 0o644))
	must(t, os.WriteFile(path+partSuffix, good[:10], 0o644)) // a crash while writing
	l = open(t, dir)
	must(t, l.Close())
	if _, err := os.Stat(path + partSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Error("the unfinished snapshot is still there")
	}
	must(t, os.Remove(filepath.Join(dir, fileName)))
	if _, err := Open(dir); err == nil {
		t.Error("a log that lost its database was opened as a new one")
	}
}

// TestInterruptedFounding: a new database under its first name is no database.
func TestInterruptedFounding(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, fileName+newSuffix), bytes.Repeat([]byte{7}, 5000), 0o644))
	l := open(t, dir)
	if l.Self() != 0 {
		t.Fatal("it is not empty")
	}
	founded(t, l)
	must(t, l.Sync())
	must(t, l.Close())
	l = open(t, dir)
	defer l.Close()
	if l.Self() != 2 {
		t.Fatal("the founding was lost")
	}
}

// TestLinkThatLeadsNowhere: a log whose disk is not there is not taken for one that was never written.
func TestLinkThatLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	away := filepath.Join(dir, "away")
	must(t, os.Symlink(away, filepath.Join(dir, fileName)))
	if l, err := Open(dir); err == nil {
		_ = l.Close()
		t.Error("it is opened")
	}
	if _, err := os.Lstat(away); err == nil || !Holds(dir) {
		t.Errorf("a file was made where the link leads: %v", err)
	}
}

// TestNewDirectories: what is synced in a directory whose own name is not is lost
// with that name, so the names that Open gave are known until the first Sync.
func TestNewDirectories(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "c")
	l := open(t, dir)
	want := []string{dir, filepath.Dir(dir), filepath.Join(top, "a")}
	if !slices.Equal(l.made, want) {
		t.Errorf("made %v, want %v", l.made, want)
	}
	founded(t, l)
	must(t, l.Sync())
	must(t, l.Close())
	l = open(t, dir)
	defer l.Close()
	if len(l.made) != 0 {
		t.Errorf("made %v again", l.made)
	}
}

func TestAbandoned(t *testing.T) {
	subjects(t, func(t *testing.T, s *subject) {
		founded(t, s)
		must(t, s.Sync())
		want := show(t, s)
		must(t, s.Append(hard(2, 2, 1), []*pb.Entry{entry(2, 2, "a")}))
		must(t, s.Abandon())
		if err := s.Append(nil, []*pb.Entry{entry(3, 2, "b")}); err == nil {
			t.Fatal("an abandoned log took an entry")
		}
		if got := show(t, s.crash()); got != want {
			t.Fatalf("after that:\n%swant:\n%s", got, want)
		}
	})
}

func TestClosed(t *testing.T) {
	l := open(t, t.TempDir())
	founded(t, l)
	must(t, l.Close())
	if err := l.Append(hard(9, 0, 0), nil); err == nil {
		t.Fatal("a closed log took a hard state")
	}
}
