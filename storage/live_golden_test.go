package storage

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// TestFormatLive compares every file of the data directories of a broker that runs with testdata/format-live.txt: what a
// clean stop takes away, gives its last length or names anew. Random digits in names are shown as dots.
func TestFormatLive(t *testing.T) {
	fs := disktest.New()
	for i, dir := range []string{"/data", "/more"} {
		fs.Put(dir+"/meta.properties", meta{clusterID: "aaaaaaaaaaaaaaaaaaaaaA", nodeID: 1, directory: [16]byte{0xd1, 15: byte(100 + i)}}.encode(time.UnixMilli(0)))
	}
	// Left by another topic of that name.
	fs.Put("/data/aside-0/partition.metadata", []byte("version: 0\ntopic_id: cAAAAAAAAAAAAAAAAAAACQ"))
	fs.Put("/data/aside-0/00000000000000000000.log", nil)
	now := time.UnixMilli(1_700_000_000_000)
	s, err := Open(StoreOptions{Dirs: []string{"/data", "/more"}, FS: fs, NodeID: 1, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s.Cordon([]string{"/more"})
	small := log.DefaultConfig()
	small.IndexIntervalBytes, small.IndexBytes = 60, 50
	open := func(topic string, id byte, c log.Config) *log.Log {
		t.Helper()
		l, err := s.Log(topic, [16]byte{0x70, 15: id}, 0, c)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ts := now.UnixMilli()
	add := func(l *log.Log, o batch.BuilderOptions, records ...[2]string) {
		t.Helper()
		u := batch.NewBuilder(o)
		for _, r := range records {
			value := []byte(r[1])
			if r[1] == "" {
				value = nil // a tombstone
			}
			u.Add(ts, []byte(r[0]), value)
		}
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.AppendWith(u.Bytes(), h, ts, producer.Rules{}); err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(l.View().LogEnd())
	}
	// The active segment's indexes have the length they are given.
	live := open("live", 1, small)
	for range 3 {
		add(live, batch.BuilderOptions{}, [2]string{"k", "v"})
	}
	// A cleaned segment: a batch with a gap, one whose tombstone has its delete horizon, the last one of a producer without records.
	c := small
	c.Compact, c.Delete, c.MinCleanableRatio, c.DeleteRetentionMs = true, false, 0, 1000
	cleaned := open("cleaned", 2, c)
	add(cleaned, batch.BuilderOptions{}, [2]string{"a", "old"}, [2]string{"b", "stays"})
	add(cleaned, batch.BuilderOptions{}, [2]string{"c", ""})
	add(cleaned, batch.BuilderOptions{Producer: true, ProducerID: 9}, [2]string{"a", "old too"})
	add(cleaned, batch.BuilderOptions{}, [2]string{"a", "newer"})
	if err := cleaned.Roll(); err != nil {
		t.Fatal(err)
	}
	add(cleaned, batch.BuilderOptions{}, [2]string{"a", "newest"})
	w := &washed{topic: "cleaned", log: cleaned}
	if !s.NewCleaner(listed([]*washed{w}), ordinary).CleanOnce(t.Context()) {
		t.Fatal("nothing was cleaned")
	}
	open("aside", 3, small)
	for _, name := range []string{"deleted", "moving"} {
		add(open(name, 3, small), batch.BuilderOptions{}, [2]string{"k", name})
	}
	if err := s.Delete("deleted", 0); err != nil {
		t.Fatal(err)
	}
	future, err := s.BeginMove("moving", [16]byte{0x70, 15: 3}, 0, "/more")
	if err != nil {
		t.Fatal(err)
	}
	add(future, batch.BuilderOptions{}, [2]string{"k", "moving"})
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	out := dump(t, fs, "/data") + dump(t, fs, "/more") + halfway(t)
	out = regexp.MustCompile(`\.[0-9a-f]{32}-`).ReplaceAllString(out, "."+strings.Repeat(".", 32)+"-")
	golden(t, "format-live.txt", out)
	for _, kind := range []string{
		"/.lock (0", "/cleaner-offset-checkpoint", "/live-0/00000000000000000000.index (48 bytes)", "/live-0/00000000000000000000.timeindex (48 bytes)",
		".log.deleted", ".index.deleted", ".timeindex.deleted", "-delete/", "-stray/", "-future/",
		".log.cleaned", ".index.cleaned", ".timeindex.cleaned", ".txnindex.cleaned",
		".log.swap", ".index.swap", ".timeindex.swap", ".txnindex.swap", ".txnindex.deleted", ".log.cut.cleaned",
	} {
		if !strings.Contains(out, kind) {
			t.Errorf("there is no %s", kind)
		}
	}
	if !bytes.Contains(fs.Bytes("/data/cleaned-0/00000000000000000000.log"), []byte("stays")) {
		t.Error("too much was cleaned")
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
}

// halfway is what the process leaves of a partition when it ends while a cleaning, or a truncation under a reader, writes
// what is to take a segment's place, and while a cleaning puts it there. The next start leaves nothing of it under such names.
func halfway(t *testing.T) string {
	t.Helper()
	clean := func(s *Store, l *log.Log, name string) {
		s.NewCleaner(listed([]*washed{{topic: name, log: l}}), ordinary).CleanOnce(t.Context())
	}
	var out strings.Builder
	for _, x := range []struct {
		name string
		at   string // the file that is not given its next name any more
		do   func(s *Store, l *log.Log, name string)
	}{
		{"cleaning", "00000000000000000000.txnindex.cleaned", clean},
		{"swapping", "00000000000000000000.log.swap", clean},
		{"cutting", "00000000000000000006.log.cut.cleaned", func(_ *Store, l *log.Log, _ string) {
			r, err := l.View().Read(7, 8, 1000, true)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			if l.Truncate(7) == nil {
				t.Error("a process that has ended truncates")
			}
		}},
	} {
		s, fs := goldenStore(t)
		c := log.DefaultConfig()
		c.IndexIntervalBytes, c.IndexBytes = 60, 50
		c.Compact, c.Delete, c.MinCleanableRatio = true, false, 0
		l, err := s.Log(x.name, [16]byte{0x70, 15: 4}, 0, c)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, l)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"one", "more"} {
			appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1_700_000_000_060, []byte(key), nil)
		}
		l.SetHighWatermark(l.View().LogEnd())
		dir := "/data/" + x.name + "-0"
		fs.Hold(func(op, name string) {
			if op == "rename" && name == dir+"/"+x.at {
				fs.Halt()
			}
		})
		x.do(s, l, x.name)
		if !fs.Stopped() {
			t.Fatalf("%s: %s is never renamed", x.name, x.at)
		}
		fs.Hold(nil)
		fs.Kill()
		out.WriteString(dump(t, fs, dir))
		s, err = Open(StoreOptions{Dirs: []string{"/data"}, FS: fs, NodeID: 1})
		if err != nil {
			t.Fatal(err)
		}
		if l, err = s.Log(x.name, [16]byte{0x70, 15: 4}, 0, c); err != nil || l.View().LogEnd() != 8 {
			t.Fatal(x.name, l, err)
		}
		for line := range strings.Lines(dump(t, fs, dir)) {
			if strings.Contains(line, ".cleaned (") || strings.Contains(line, ".swap (") {
				t.Errorf("after a start there is %s", line)
			}
		}
		if err := s.Close(false); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
