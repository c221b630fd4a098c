package storage

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// place is what a log line says of damage: topic, partition, offset, file and position.
func place(e observer.LoggedEntry) string {
	f := e.ContextMap()
	return fmt.Sprint(f["topic"], " ", f["partition"], " ", f["offset"], " ", f["segment"], " ", f["position"])
}

// TestWhoFindsDamage changes a byte of a record below the recovery point, in a segment that a start after a kill reads and in one
// that it does not. The first is told by the start, with its place; the second by no start. The checker finds either, and
// whoever reads is given the batch as it is.
func TestWhoFindsDamage(t *testing.T) {
	for _, base := range []int{0, 3} {
		t.Run(fmt.Sprint("in the segment at ", base), func(t *testing.T) {
			fs := disktest.New()
			fs.Put("/d/x", nil)
			s, all := laundry(t, fs, "/d", "t.o-p")
			if err := s.WriteMeta("aaaaaaaaaaaaaaaaaaaaaA", 1); err != nil {
				t.Fatal(err)
			}
			w := all[0]
			for i := range 6 {
				if i == 3 {
					roll(t, w)
				}
				w.put(t, "a", []byte("value"))
			}
			if err := w.log.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			fs.Kill()
			name := fmt.Sprintf("/d/t.o-p-0/%020d.log", base)
			b := fs.Bytes(name)
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			at := h.Size() // the second batch of the segment
			b[at+70] ^= 1
			fs.Put(name, b)
			r, err := check.Directory(fs, "/d", false)
			if err != nil {
				t.Fatal(err)
			}
			if all := r.All(); r.Sound() || len(all) != 1 || !strings.HasPrefix(all[0].String(), fmt.Sprintf("%s at %d (offset %d): ", name, at, base+1)) {
				t.Errorf("the checker finds %v", all)
			}
			for range 2 {
				core, lines := observer.New(zap.InfoLevel)
				s, err := Open(StoreOptions{Dirs: []string{"/d"}, FS: fs, NodeID: 1, Logger: zap.New(core)})
				if err != nil {
					t.Fatal(err)
				}
				l, err := s.Log("t.o-p", [16]byte{1}, 0, compacted())
				if err != nil {
					t.Fatal(err)
				}
				said := lines.FilterMessage("log is damaged below its recovery point").All()
				if read := base == 3; read && (len(said) != 1 || place(said[0]) != fmt.Sprintf("t.o-p 0 %d %s %d", base+1, name, at)) || !read && len(said) > 0 {
					t.Errorf("the start says %v", said)
				}
				if got := l.View().LogEnd(); got != 6 {
					t.Errorf("the log ends at %d", got)
				}
				section, err := l.View().Read(batch.Offset(base+1), 6, 1, true)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, section.Len())
				if _, err := section.ReadAt(got, 0); err != nil || string(got) != string(b[at:at+len(got)]) {
					t.Errorf("%v, or other bytes are read", err)
				}
				section.Release()
				fs.Kill()
			}
		})
	}
}

// TestDirectoryInTheWay: where a directory stands in a file's place its partition is offline, which is said in a sentence; the
// data directory and what else lies there is served.
func TestDirectoryInTheWay(t *testing.T) {
	for _, clean := range []bool{true, false} {
		for _, suffix := range []string{"00000000000000000000.log", "00000000000000000003.log", "00000000000000000000.index", "00000000000000000003.snapshot", "leader-epoch-checkpoint", "partition.metadata"} {
			h := newHouse(t)
			for p := range int32(2) {
				l := h.log("t", 1, p)
				h.ok(l.AssignEpoch(1))
				h.add(l, 3)
				h.ok(l.Flush())
			}
			if clean {
				h.ok(h.s.Close(true))
			} else {
				h.ok(h.s.Checkpoint())
				h.fs.Kill()
			}
			name := "/data/t-0/" + suffix
			if h.exists(name) {
				h.ok(h.fs.Remove(name))
			}
			h.ok(h.fs.MkdirAll(name + "/x"))
			for range 2 {
				h.open()
				_, err := h.s.Log("t", [16]byte{1}, 0, log.DefaultConfig())
				if want := "open log t-0: " + name + " is a directory, where a file of the log belongs"; err == nil || err.Error() != want {
					t.Errorf("%s, closed in order %v: %v", suffix, clean, err)
				}
				l := h.log("t", 1, 1)
				h.add(l, 1)
				h.ok(l.Roll())
				if err := h.s.Failures(); len(err) > 0 {
					t.Errorf("%s, closed in order %v: %v", suffix, clean, err)
				}
				h.fs.Kill()
			}
		}
	}
}
