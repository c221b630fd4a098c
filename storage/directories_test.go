package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/log"
)

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
	for _, dir := range h.dirs {
		h.fs.Put(dir+"/t-0/partition.metadata", []byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACQ"))
	}
	if _, err := h.try(1); !errors.Is(err, ErrIdentity) {
		t.Fatalf("one partition of a topic twice: %v", err)
	}
	h.dirs = []string{"/data", "/data/"}
	if _, err := h.try(1); err == nil {
		t.Fatal("a directory named twice")
	}
}

// TestTopicMadeAnewElsewhere has a partition in two directories: one was given up, then the topic was deleted and made
// anew, and now both directories work.
func TestTopicMadeAnewElsewhere(t *testing.T) {
	for name, dirs := range map[string][]string{"the new one last": {"/a", "/b"}, "the new one first": {"/b", "/a"}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "/a")
			h.add(h.log("t", 1, 0), 1)
			h.ok(h.s.Close(true))
			h.dirs = []string{"/b"}
			h.open()
			h.add(h.log("t", 2, 0), 2)
			h.ok(h.s.Close(true))
			h.dirs = dirs
			h.open()
			h.end(h.log("t", 2, 0), 2)
			if got := h.s.Unopened(); len(got) != 1 || got[0].TopicID[0] != 1 {
				t.Fatalf("left over: %v", got)
			}
			h.ok(h.s.PutAside("t", 0))
			if h.exists("/a/t-0") || !h.exists("/b/t-0") {
				t.Fatal("the deleted topic's files are to be put aside, and no others")
			}
			h.ok(h.s.Close(true))
			h.open()
			h.end(h.log("t", 2, 0), 2)
		})
	}
	// Killed, or stopped in order, with what was done to the new one's id.
	for name, lose := range map[string]func(h *house){
		"a power cut took the id":        func(h *house) { h.fs.Put("/b/t-0/partition.metadata", nil) },
		"a power cut left half an id":    func(h *house) { h.fs.Put("/b/t-0/partition.metadata", []byte("version: 0\ntopic_id: AgAAA")) },
		"somebody took the file":         func(h *house) { h.ok(h.fs.Remove("/b/t-0/partition.metadata")) },
		"somebody took it, after a stop": func(h *house) { h.ok(h.fs.Remove("/b/t-0/partition.metadata")) },
	} {
		for _, wanted := range []byte{1, 2} {
			for _, dirs := range [][]string{{"/a", "/b"}, {"/b", "/a"}} {
				t.Run(fmt.Sprint(name, ", wanted is ", wanted, ", in ", dirs), func(t *testing.T) {
					h := newHouse(t, "/a")
					h.add(h.log("t", 1, 0), 1)
					h.ok(h.s.Close(true))
					h.dirs = []string{"/b"}
					h.open()
					h.add(h.log("t", 2, 0), 2)
					if strings.HasSuffix(name, "stop") {
						h.ok(h.s.Close(true))
					} else {
						h.fs.Kill()
					}
					lose(h)
					h.dirs = dirs
					for range 2 { // the id is there again, or what is not wanted is put aside
						h.open()
						h.end(h.log("t", wanted, 0), batch.Offset(wanted))
						h.ok(h.s.PutAside("t", 0))
						if h.exists("/a/t-0") != (wanted == 1) || h.exists("/b/t-0") != (wanted == 2) {
							t.Fatal("the other one is to be put aside")
						}
						h.ok(h.s.Close(true))
						if id, err := log.ReadTopicID(h.fs, []string{"/a", "/b"}[wanted-1]+"/t-0"); err != nil || id[0] != wanted {
							t.Fatalf("the id is %v, %v", id, err)
						}
					}
				})
			}
		}
	}
	t.Run("an id that cannot be read after a stop in order", func(t *testing.T) {
		h := newHouse(t, "/a", "/b")
		h.ok(h.s.Close(true))
		h.fs.Put("/a/t-0/partition.metadata", []byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACQ"))
		h.fs.Put("/b/t-0/partition.metadata", nil)
		if _, err := h.try(1); !errors.Is(err, ErrIdentity) {
			t.Fatal(err)
		}
	})
	t.Run("neither is wanted", func(t *testing.T) {
		h := newHouse(t, "/a")
		h.add(h.log("t", 1, 0), 1)
		h.ok(h.s.Close(true))
		h.dirs = []string{"/b"}
		h.open()
		h.add(h.log("t", 2, 0), 2)
		h.ok(h.s.Close(true))
		h.dirs = []string{"/a", "/b"}
		h.open()
		h.ok(h.s.PutAside("t", 0))
		if h.exists("/a/t-0") || h.exists("/b/t-0") || len(h.s.Unopened()) != 0 {
			t.Fatal("both are to be put aside")
		}
	})
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

// TestWhyNoDirectoryIsLeft: it is said once, by the error, and not logged beside it; of several directories each says its own.
func TestWhyNoDirectoryIsLeft(t *testing.T) {
	for _, c := range []struct {
		dirs []string
		want string
	}{
		{[]string{"/proc/nope"}, "no usable data directory: mkdir /proc/nope: no such file or directory"},
		{[]string{"/proc/nope/below"}, "no usable data directory: /proc/nope/below: mkdir /proc/nope: no such file or directory"},
		{[]string{"/proc/nope", "/proc/neither"}, "no usable data directory: mkdir /proc/nope: no such file or directory\nmkdir /proc/neither: no such file or directory"},
	} {
		core, lines := observer.New(zap.DebugLevel)
		_, err := Open(StoreOptions{Dirs: c.dirs, NodeID: 1, Logger: zap.New(core)})
		if !errors.Is(err, ErrNoDirectory) || !errors.Is(err, fs.ErrNotExist) || err.Error() != c.want {
			t.Errorf("%v: %v", c.dirs, err)
		}
		if lines.Len() > 0 {
			t.Errorf("%v: logged %v", c.dirs, lines.All())
		}
	}
	// One that is not the last is told of, once.
	core, lines := observer.New(zap.DebugLevel)
	s, err := Open(StoreOptions{Dirs: []string{"/proc/nope", t.TempDir()}, NodeID: 1, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	if lines.Len() != 1 || lines.All()[0].ContextMap()["error"] != "mkdir /proc/nope: no such file or directory" {
		t.Errorf("logged %v", lines.All())
	}
	if got := s.Failures(); len(got) != 1 || got[0].Error() != "mkdir /proc/nope: no such file or directory" {
		t.Errorf("failures %v", got)
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

// Opening many logs is told of while it goes on, directory by directory, and at its end.
func TestLongOpeningIsToldOf(t *testing.T) {
	h := newHouse(t)
	var list []Wanted
	for i := range int32(4) {
		h.add(h.log("t", 1, i), 5)
		list = append(list, Wanted{Topic: "t", ID: [16]byte{1}, Partition: i, Config: log.DefaultConfig})
	}
	size := h.s.logs[partitionKey{"t", 0}].log.Size()
	h.fs.Kill()
	for step, want := range map[time.Duration]string{
		time.Nanosecond: "logs are open: logs 4 failed 0 bytes_read all\n",
		6 * time.Second: "logs are being opened: dir /data done 1 of 4 bytes_read 1\nlogs are being opened: dir /data done 2 of 4 bytes_read 2\n" +
			"logs are being opened: dir /data done 3 of 4 bytes_read 3\nlogs are being opened: dir /data done 4 of 4 bytes_read 4\nlogs are open: logs 4 failed 0 bytes_read all\n",
	} {
		core, lines := observer.New(zap.InfoLevel)
		var clock atomic.Int64
		s, err := Open(StoreOptions{Dirs: h.dirs, FS: h.fs, NodeID: 1, Logger: zap.New(core), Now: func() time.Time { return h.clock.Add(time.Duration(clock.Add(int64(step)))) }})
		h.ok(err)
		s.OpenLogs(list, 1)
		told := ""
		for _, l := range lines.All() {
			if !strings.HasPrefix(l.Message, "logs are ") {
				continue
			}
			told += l.Message + ":"
			fields := l.ContextMap()
			for _, key := range []string{"dir", "logs", "done", "of", "failed", "bytes_read"} {
				v, ok := fields[key]
				if n, is := v.(int64); is && key == "bytes_read" {
					if v = n / size; n == 4*size && fields["logs"] != nil {
						v = "all"
					}
				}
				if ok {
					told += fmt.Sprint(" ", key, " ", v)
				}
			}
			told += "\n"
		}
		if told != want {
			t.Errorf("told:\n%swant:\n%s", told, want)
		}
		h.ok(s.Close(false))
	}
}
