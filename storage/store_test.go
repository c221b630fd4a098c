package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// house is a store on a test disk and what a test knows of it.
type house struct {
	t     *testing.T
	fs    *disktest.FS
	dirs  []string
	clock time.Time
	s     *Store
}

func newHouse(t *testing.T, dirs ...string) *house {
	if len(dirs) == 0 {
		dirs = []string{"/data"}
	}
	h := &house{t: t, fs: disktest.New(), dirs: dirs, clock: time.UnixMilli(1_700_000_000_000)}
	for _, d := range dirs {
		h.fs.Put(d+"/lost+found", nil) // the directory is there, durably
	}
	h.open()
	h.ok(h.s.WriteMeta("cluster", 1))
	return h
}

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) try(node int32) (*Store, error) {
	return Open(StoreOptions{Dirs: h.dirs, FS: h.fs, NodeID: node, Now: func() time.Time { return h.clock }})
}

func (h *house) open() {
	h.t.Helper()
	s, err := h.try(1)
	h.ok(err)
	h.s = s
}

func (h *house) log(topic string, id byte, partition int32) *log.Log {
	h.t.Helper()
	l, err := h.s.Log(topic, [16]byte{id}, partition, log.DefaultConfig())
	h.ok(err)
	return l
}

// add appends n batches of one record and makes the high watermark follow.
func (h *house) add(l *log.Log, n int) {
	h.t.Helper()
	for range n {
		appendTo(h.t, l, batch.BuilderOptions{}, producer.Rules{}, h.clock.UnixMilli(), nil, []byte("value"))
	}
	l.SetHighWatermark(l.View().LogEnd())
}

func (h *house) end(l *log.Log, want batch.Offset) {
	h.t.Helper()
	if got := l.View().LogEnd(); got != want {
		h.t.Fatalf("log end %d, want %d", got, want)
	}
}

func (h *house) exists(name string) bool {
	_, err := h.fs.Stat(name)
	return err == nil
}

func TestCleanStopReadsNoSegment(t *testing.T) {
	h := newHouse(t)
	for p := range int32(5) {
		h.add(h.log("t", 1, p), int(p)*3)
	}
	h.s.SetBrokerEpoch(42)
	h.ok(h.s.Close(true))
	if h.exists("/data/.lock") || !h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("a clean stop leaves the wrong files")
	}
	h.fs.Refuse(func(op, name string) error {
		if strings.HasSuffix(name, ".log") && (op == "open" || op == "read") {
			return errors.New("a segment is read")
		}
		return nil
	})
	h.open()
	if h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("the mark of a clean stop stays")
	}
	if h.s.PreviousBrokerEpoch() != 42 || h.s.ClusterID() != "cluster" {
		t.Fatal(h.s.PreviousBrokerEpoch(), h.s.ClusterID())
	}
	for p := range int32(5) {
		l := h.log("t", 1, p)
		h.end(l, batch.Offset(p)*3)
		if l.View().HighWatermark() != batch.Offset(p)*3 {
			t.Fatalf("high watermark %d", l.View().HighWatermark())
		}
	}
}

func TestState(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	is := func(want State) {
		t.Helper()
		if got := h.s.State(); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	is(LeftEmpty)
	for p := range int32(2) {
		h.add(h.log("t", 1, p), 1)
	}
	h.ok(h.s.Close(true))
	h.fs.Put("/c/lost+found", nil)
	h.dirs = append(h.dirs, "/c")
	h.open()
	is(LeftClean) // the new one says nothing
	h.ok(h.s.Checkpoint())
	h.fs.Crash(rand.New(rand.NewPCG(1, 1)))
	h.open()
	is(LeftUnclean)
}

func TestCrashRecoversAll(t *testing.T) {
	for seed := range uint64(30) {
		h := newHouse(t)
		a, b := h.log("a", 1, 0), h.log("b", 2, 0)
		h.add(a, 10)
		h.ok(a.Flush())
		h.add(a, 5)
		h.add(b, 7)
		h.ok(h.s.Checkpoint())
		h.fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		h.open()
		if got := h.log("a", 1, 0).View().LogEnd(); got < 10 || got > 15 {
			t.Fatalf("seed %d: a ends at %d", seed, got)
		}
		if h.s.PreviousBrokerEpoch() != -1 {
			t.Fatal("a crash has a broker epoch")
		}
		h.log("b", 2, 0)
		h.ok(h.s.Close(true))
		h.open()
		h.log("a", 1, 0)
	}
}

func TestIdentity(t *testing.T) {
	h := newHouse(t)
	if _, err := h.try(1); !errors.Is(err, ErrLocked) {
		t.Fatalf("a directory in use: %v", err)
	}
	h.ok(h.s.Close(true))
	if _, err := h.try(2); !errors.Is(err, ErrIdentity) {
		t.Fatalf("another node's directory: %v", err)
	}
	if !h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("a refused start touched the directory")
	}
	h.open()
	if err := h.s.WriteMeta("other", 1); !errors.Is(err, ErrIdentity) {
		t.Fatalf("another cluster: %v", err)
	}
	id := h.s.DirectoryID()
	if id == ([16]byte{}) {
		t.Fatal("no directory id")
	}
	h.ok(h.s.Close(true))
	h.open()
	if h.s.DirectoryID() != id {
		t.Fatal("the directory id changed")
	}
	h.ok(h.s.Close(true))

	h.dirs = []string{"/data", "/more"}
	h.fs.Put("/more/meta.properties", meta{clusterID: "cluster", nodeID: 1, directory: id}.encode(h.clock))
	if _, err := h.try(1); !errors.Is(err, ErrIdentity) {
		t.Fatalf("two directories with one id: %v", err)
	}
	h.fs.Put("/more/meta.properties", meta{clusterID: "other", nodeID: 1, directory: [16]byte{9, 9}}.encode(h.clock))
	if _, err := h.try(1); !errors.Is(err, ErrIdentity) {
		t.Fatalf("two clusters: %v", err)
	}
	h.fs.Put("/more/meta.properties", meta{clusterID: "cluster", nodeID: 1, directory: [16]byte{9, 9}}.encode(h.clock))
	h.fs.Put("/more/t-0/x", nil)
	h.fs.Put("/data/t-0/x", nil)
	if _, err := h.try(1); !errors.Is(err, ErrIdentity) {
		t.Fatalf("one partition twice: %v", err)
	}
	h.dirs = []string{"/data", "/data/"}
	if _, err := h.try(1); err == nil {
		t.Fatal("a directory named twice")
	}
}

func TestDirectoriesShareTheLogs(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	ids := h.s.DirectoryIDs()
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatal(ids)
	}
	count := map[[16]byte]int{}
	for p := range int32(10) {
		h.add(h.log("t", 1, p), 1)
		count[h.s.DirectoryOf("t", p)]++
	}
	if count[ids[0]] != 5 || count[ids[1]] != 5 {
		t.Fatal(count)
	}
	where := h.s.DirectoryOf("t", 3)
	h.ok(h.s.Close(true))
	h.open()
	h.end(h.log("t", 1, 3), 1)
	if h.s.DirectoryOf("t", 3) != where {
		t.Fatal("the log is looked for in another directory")
	}
}

func TestFailedDirectoryIsGivenUp(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	var logs []*log.Log
	for p := range int32(4) {
		l := h.log("t", 1, p)
		h.add(l, 2)
		logs = append(logs, l)
	}
	bad := errors.New("input/output error")
	h.fs.Refuse(func(op, name string) error {
		if op == "write" && strings.HasPrefix(name, "/a/") {
			return bad
		}
		return nil
	})
	var sick, well *log.Log
	for _, l := range logs {
		if strings.HasPrefix(l.Dir(), "/a/") {
			sick = l
		} else {
			well = l
		}
	}
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, nil)
	b, _ := batch.ParseHeader(u.Bytes())
	var offline *log.OfflineError
	if _, err := sick.Append(u.Bytes(), b, 1); !errors.As(err, &offline) || !errors.Is(err, bad) {
		t.Fatalf("append to a failing disk: %v", err)
	}
	h.fs.Refuse(nil)
	if _, err := sick.Append(u.Bytes(), b, 1); !errors.As(err, &offline) {
		t.Fatalf("a failed append is tried again: %v", err)
	}
	for _, l := range logs {
		if strings.HasPrefix(l.Dir(), "/a/") != (l.Offline() != nil) {
			t.Fatalf("%s offline: %v", l.Dir(), l.Offline())
		}
	}
	if _, err := sick.View().Read(0, 1, 100, true); !errors.As(err, &offline) {
		t.Fatalf("read from an offline directory: %v", err)
	}
	h.add(well, 1)
	if len(h.s.DirectoryIDs()) != 1 || len(h.s.OfflineIDs()) != 1 {
		t.Fatal(h.s.DirectoryIDs(), h.s.OfflineIDs())
	}
	for p := range int32(3) {
		if l := h.log("new", 2, p); !strings.HasPrefix(l.Dir(), "/b/") {
			t.Fatalf("a new log is in %s", l.Dir())
		}
	}
	h.ok(h.s.Housekeep(h.clock.Add(time.Hour)))
	h.ok(h.s.Close(true))
	if h.exists("/a/.kafka_cleanshutdown") || !h.exists("/b/.kafka_cleanshutdown") {
		t.Fatal("the mark of a clean stop is in the wrong directory")
	}
	h.open()
	h.end(h.log("t", 1, 0), 2)
	if h.s.PreviousBrokerEpoch() != -1 {
		t.Fatal("half a clean stop has a broker epoch")
	}
}

// A directory that cannot be read does not say whose it is, and does not stop a broker that has another.
func TestOwnerPassesOverWhatCannotBeRead(t *testing.T) {
	h := newHouse(t, "/bad", "/good")
	h.ok(h.s.Close(true))
	h.fs.Refuse(func(_, name string) error {
		if strings.HasPrefix(name, "/bad") {
			return errors.New("input/output error")
		}
		return nil
	})
	if id, ok, err := Owner(h.fs, h.dirs); id != 1 || !ok || err != nil {
		t.Errorf("node %d, %v, %v", id, ok, err)
	}
	h.open()
	h.fs.Refuse(nil)
	h.ok(h.s.Close(true))
	h.fs.Put("/bad/meta.properties", []byte("version=9\n"))
	if _, _, err := Owner(h.fs, h.dirs); !errors.Is(err, ErrMeta) {
		t.Errorf("a file that is read and makes no sense: %v", err)
	}
}

func TestLinkToNothing(t *testing.T) {
	link := filepath.Join(t.TempDir(), "data")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(StoreOptions{Dirs: []string{link}, NodeID: 1}); !errors.Is(err, ErrNoDirectory) || !strings.Contains(err.Error(), "a link there leads to nothing") {
		t.Error(err)
	}
}

// Somebody's files in a data directory are left alone, and told of: the directory may be another than was meant.
func TestForeignFilesAreToldOf(t *testing.T) {
	h := newHouse(t)
	h.ok(h.s.Close(true))
	told := func() string {
		core, lines := observer.New(zap.WarnLevel)
		s, err := Open(StoreOptions{Dirs: h.dirs, FS: h.fs, NodeID: 1, Logger: zap.New(core)})
		h.ok(err)
		h.ok(s.Close(true))
		text := ""
		for _, l := range lines.All() {
			text += fmt.Sprintln(l.Message, l.ContextMap())
		}
		return text
	}
	if text := told(); text != "" {
		t.Errorf("a directory of the broker's own: %s", text)
	}
	h.fs.Put("/data/photo.jpg", []byte("x"))
	h.fs.Put("/data/letters/1", []byte("x"))
	if text := told(); !strings.Contains(text, "it is left alone") || !strings.Contains(text, "[letters photo.jpg]") {
		t.Errorf("told: %q", text)
	}
	if _, err := h.fs.Stat("/data/photo.jpg"); err != nil {
		t.Error(err)
	}
}

func TestNoDirectoryLeft(t *testing.T) {
	h := newHouse(t)
	h.ok(h.s.Close(true))
	h.fs.Refuse(func(op, name string) error {
		if op == "readdir" {
			return errors.New("input/output error")
		}
		return nil
	})
	if _, err := h.try(1); !errors.Is(err, ErrNoDirectory) || !strings.Contains(err.Error(), "input/output error") {
		t.Fatalf("start without a disk: %v", err)
	}
	h.fs.Refuse(nil)
	h.open()
}

func TestDeletedTopic(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 10)
	h.ok(l.SetLogStart(8))
	h.ok(l.Flush())
	s, err := l.View().Read(8, 10, 1000, true)
	h.ok(err)
	h.ok(h.s.Checkpoint())
	h.ok(h.s.Delete("t", 0))
	h.ok(h.s.Delete("t", 0))
	if _, err := l.View().Read(8, 10, 1000, true); !errors.Is(err, log.ErrClosed) {
		t.Fatalf("read of a deleted log: %v", err)
	}
	if n, err := s.ReadAt(make([]byte, s.Len()), 0); n != s.Len() || err != nil {
		t.Fatalf("a section of a deleted log: %d %v", n, err)
	}
	s.Release()
	// What the checkpoints say of the old log must not touch a new one of its name.
	l = h.log("t", 2, 0)
	if v := l.View(); v.LogStart() != 0 || v.LogEnd() != 0 {
		t.Fatalf("a new log is %d to %d", v.LogStart(), v.LogEnd())
	}
	h.add(l, 3)
	h.fs.Kill()
	h.open()
	l = h.log("t", 2, 0)
	if v := l.View(); v.LogStart() != 0 || v.LogEnd() != 3 {
		t.Fatalf("after a crash the new log is %d to %d", v.LogStart(), v.LogEnd())
	}
	h.ok(h.s.Housekeep(h.clock))
	entries, err := h.fs.ReadDir("/data")
	h.ok(err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name, "-delete") {
			t.Errorf("%s is still there", e.Name)
		}
	}
}

func TestDeletionWaits(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("t", 1, 0), 1)
	h.ok(h.s.Delete("t", 0))
	doomed := func() int {
		n := 0
		entries, err := h.fs.ReadDir("/data")
		h.ok(err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name, "t-0.") && strings.HasSuffix(e.Name, "-delete") {
				n++
			}
		}
		return n
	}
	h.ok(h.s.Housekeep(h.clock.Add(59 * time.Second)))
	if doomed() != 1 {
		t.Fatal("removed too early")
	}
	h.ok(h.s.Housekeep(h.clock.Add(60 * time.Second)))
	if doomed() != 0 {
		t.Fatal("not removed")
	}
}

func TestFilesOfAnotherTopic(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("t", 1, 0), 5)
	h.ok(h.s.Close(true))
	h.open()
	l := h.log("t", 2, 0)
	h.end(l, 0)
	h.add(l, 1)
	if l.TopicID() != [16]byte{2} {
		t.Fatal(l.TopicID())
	}
	strays, err := h.fs.ReadDir("/data")
	h.ok(err)
	i := slices.IndexFunc(strays, func(e disk.Entry) bool { return strings.HasSuffix(e.Name, "-stray") })
	if i < 0 || !h.exists("/data/"+strays[i].Name+"/00000000000000000000.log") {
		t.Fatal("the other topic's files are gone")
	}
	h.ok(h.s.Close(true))
	h.open()
	h.end(h.log("t", 2, 0), 1)
}

func TestUnopenedLogs(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("b", 2, 1), 1)
	h.add(h.log("a", 1, 0), 1)
	h.ok(h.s.Checkpoint())
	h.fs.Kill()
	h.open()
	want := []Found{{"a", 0, [16]byte{1}}, {"b", 1, [16]byte{2}}}
	if got := h.s.Unopened(); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	h.log("a", 1, 0)
	// A log that nobody recovered must not be taken for one closed in order.
	h.ok(h.s.Close(true))
	if h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("a clean stop, although a log was never recovered")
	}
	h.open()
	h.log("a", 1, 0)
	h.ok(h.s.PutAside("b", 1))
	h.ok(h.s.PutAside("b", 1))
	if len(h.s.Unopened()) != 0 {
		t.Fatal(h.s.Unopened())
	}
	h.ok(h.s.Close(true))
	if !h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("no clean stop")
	}
	h.open()
	if got := h.s.Unopened(); len(got) != 1 || got[0].Topic != "a" {
		t.Fatalf("%v", got)
	}
}

func TestCheckpointsFollow(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.log("empty", 2, 0)
	h.add(l, 3)
	file := func(name string) string { return string(h.fs.Bytes("/data/" + name)) }
	h.ok(h.s.Housekeep(h.clock.Add(4 * time.Second)))
	if got := file(highWatermarkFile); got != "" {
		t.Fatalf("written too early: %q", got)
	}
	h.ok(h.s.Housekeep(h.clock.Add(5 * time.Second)))
	if got := file(highWatermarkFile); got != "0\n1\nt 0 3\n" {
		t.Fatalf("high watermarks: %q", got)
	}
	if got := file(recoveryPointFile); got != "" {
		t.Fatalf("written too early: %q", got)
	}
	h.ok(l.Flush())
	h.ok(h.s.Housekeep(h.clock.Add(60 * time.Second)))
	if got := file(recoveryPointFile); got != "0\n1\nt 0 3\n" {
		t.Fatalf("recovery points: %q", got)
	}
	if got := file(logStartFile); got != "" {
		t.Fatalf("log starts without any: %q", got)
	}
	before := h.fs.Ops()
	h.ok(h.s.Housekeep(h.clock.Add(120 * time.Second)))
	if h.fs.Ops() != before {
		t.Fatal("checkpoints are written although nothing changed")
	}
	h.ok(l.SetLogStart(2))
	h.ok(h.s.Housekeep(h.clock.Add(180 * time.Second)))
	if got := file(logStartFile); got != "0\n1\nt 0 2\n" {
		t.Fatalf("log starts: %q", got)
	}
	// A truncation below the recovery point lowers it first.
	h.ok(l.Truncate(2))
	if got := file(recoveryPointFile); got != "0\n1\nt 0 2\n" {
		t.Fatalf("recovery points after a truncation: %q", got)
	}
}

func TestHousekeepSyncsRolledSegments(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 3)
	h.ok(h.s.Housekeep(h.clock))
	if l.RecoveryPoint() != 0 {
		t.Fatal("a segment that is written to was synced")
	}
	h.ok(l.Roll())
	h.add(l, 1)
	h.ok(h.s.Housekeep(h.clock))
	if l.RecoveryPoint() < 3 {
		t.Fatalf("recovery point %d", l.RecoveryPoint())
	}
	c := l.Config()
	c.FlushMs = 1000
	l.SetConfig(c)
	h.add(l, 1)
	h.clock = h.clock.Add(time.Second)
	h.ok(h.s.Housekeep(h.clock))
	if l.RecoveryPoint() != 5 {
		t.Fatalf("recovery point %d with flush.ms", l.RecoveryPoint())
	}
}

func TestUnreadableCheckpoint(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 3)
	h.ok(h.s.Checkpoint())
	h.fs.Kill()
	h.fs.Put("/data/"+highWatermarkFile, []byte("rubbish"))
	h.open()
	l = h.log("t", 1, 0)
	h.end(l, 3)
	if l.View().HighWatermark() != 0 {
		t.Fatal(l.View().HighWatermark())
	}
	h.fs.Kill()
	h.fs.Put("/data/"+recoveryPointFile, []byte("rubbish"))
	if _, err := h.try(1); !errors.Is(err, ErrNoDirectory) {
		t.Fatalf("without recovery points what was flushed is not known: %v", err)
	}
}

// TestStoreCrashAtEveryOperation takes the power away at each operation of a life with two topics, one of them deleted
// and made again. What was flushed must be there, and what was deleted must not come back under the new topic.
func TestStoreCrashAtEveryOperation(t *testing.T) {
	crashes, err := crashStore(t)
	if err != nil {
		t.Fatal(err)
	}
	if crashes < 200 {
		t.Errorf("only %d crashes", crashes)
	}
}

// TestPlantedFaults breaks the store one way at a time and wants the crashes to show it.
func TestPlantedFaults(t *testing.T) {
	for name, plant := range map[string]func(){
		"checkpoints keep what they say of a deleted topic": func() { faults.remember = true },
		"a truncation leaves the recovery point":            func() { faults.keepPoint = true },
		"a start leaves the mark of a clean stop":           func() { faults.keepMark = true },
	} {
		t.Run(name, func(t *testing.T) {
			plant()
			defer func() { faults = faultSwitches{} }()
			n, err := crashStore(t)
			if err == nil {
				t.Fatalf("nobody noticed in %d crashes", n)
			}
			t.Logf("noticed after %d crashes: %v", n, err)
		})
	}
}

func crashStore(t *testing.T) (crashes int, err error) {
	for kind := range uint64(6) {
		for at := 1; ; at++ {
			h := newHouse(t)
			h.add(h.log("a", 1, 0), 1)
			h.ok(h.s.Close(true))
			h.open()
			h.fs.StopAt(at)
			flushed, made, err := h.life()
			if err != nil {
				return crashes, err
			}
			if !h.fs.Stopped() {
				break
			}
			crashes++
			if kind == 0 {
				h.fs.Crash(nil)
			} else {
				h.fs.Crash(rand.New(rand.NewPCG(kind, uint64(at))))
			}
			for range 2 {
				if err := h.survived(flushed, made); err != nil {
					return crashes, fmt.Errorf("kind %d, operation %d: %w", kind, at, err)
				}
				h.ok(h.s.Close(true))
			}
		}
	}
	return crashes, nil
}

// survived opens the store and looks for what was flushed.
func (h *house) survived(flushed map[partitionKey]batch.Offset, made map[partitionKey]byte) (err error) {
	if h.s, err = h.try(1); err != nil {
		return err
	}
	for k, want := range flushed {
		l, err := h.s.Log(k.topic, [16]byte{made[k]}, k.partition, log.DefaultConfig())
		if err != nil {
			return err
		}
		if got := l.View().LogEnd(); got < want {
			return fmt.Errorf("%v ends at %d, was flushed to %d", k, got, want)
		}
		if s, err := l.View().Read(l.View().LogStart(), want, 1<<20, true); err != nil {
			return err
		} else {
			s.Release()
		}
	}
	return nil
}

// life does things until the power goes; it returns what was flushed and which topic id has each name.
func (h *house) life() (flushed map[partitionKey]batch.Offset, made map[partitionKey]byte, err error) {
	flushed, made = map[partitionKey]batch.Offset{}, map[partitionKey]byte{}
	logs := map[partitionKey]*log.Log{}
	get := func(topic string, id byte) *log.Log {
		l, err := h.s.Log(topic, [16]byte{id}, 0, log.DefaultConfig())
		if err != nil {
			return nil
		}
		logs[partitionKey{topic, 0}], made[partitionKey{topic, 0}] = l, id
		return l
	}
	add := func(l *log.Log, n int) {
		for range n {
			u := batch.NewBuilder(batch.BuilderOptions{})
			u.Add(1, nil, bytes.Repeat([]byte("value"), 400)) // several sectors, so that it can tear
			b, _ := batch.ParseHeader(u.Bytes())
			_, _ = l.Append(u.Bytes(), b, 1)
		}
		l.SetHighWatermark(l.View().LogEnd())
	}
	flush := func(topic string) {
		k := partitionKey{topic, 0}
		if logs[k].Flush() == nil {
			flushed[k] = logs[k].FlushedOffset()
		}
	}
	a, b := get("a", 1), get("b", 2)
	if a == nil || b == nil {
		return flushed, made, nil
	}
	add(a, 5)
	flush("a")
	add(b, 4)
	flush("b")
	_ = b.SetLogStart(3)
	_ = h.s.Checkpoint()
	add(a, 2)
	_ = a.Roll()
	add(a, 1)
	_ = h.s.Housekeep(h.clock.Add(time.Minute))
	if !h.fs.Stopped() {
		flushed[partitionKey{"a", 0}] = a.FlushedOffset()
	}
	delete(flushed, partitionKey{"b", 0})
	if h.s.Delete("b", 0) != nil {
		return flushed, made, nil
	}
	if b = get("b", 3); b == nil {
		return flushed, made, nil
	}
	if b.View().LogEnd() != 0 {
		return flushed, made, fmt.Errorf("a new topic begins at %d", b.View().LogEnd())
	}
	add(b, 2)
	flush("b")
	if k := (partitionKey{"a", 0}); flushed[k] > 6 {
		flushed[k] = 6
	}
	_ = a.Truncate(6)
	add(a, 1)
	flush("a")
	_ = h.s.Close(true)
	return flushed, made, nil
}

// BenchmarkStart opens a directory with a thousand partitions after a clean stop.
func BenchmarkStart(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	const partitions = 1000
	start := func() *Store {
		s, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1})
		if err != nil {
			b.Fatal(err)
		}
		for p := range int32(partitions) {
			l, err := s.Log("topic", [16]byte{1}, p, log.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			if err := l.AssignEpoch(1); err != nil {
				b.Fatal(err)
			}
		}
		return s
	}
	s := start()
	if err := s.WriteMeta("c", 1); err != nil {
		b.Fatal(err)
	}
	for p := range int32(partitions) {
		l, _ := s.Log("topic", [16]byte{1}, p, log.DefaultConfig())
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, []byte(fmt.Sprint(p)))
		h, _ := batch.ParseHeader(u.Bytes())
		if _, err := l.Append(u.Bytes(), h, 1); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(true); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := start()
		if err := s.Close(true); err != nil {
			b.Fatal(err)
		}
	}
}
