package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// steps writes down what is done to a disk.
type steps struct {
	t   *testing.T
	fs  *disktest.FS
	out strings.Builder
}

func (s *steps) step(what string, f func() error) (done []string) {
	s.t.Helper()
	s.fs.Trace()
	if err := f(); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	done = s.fs.Done()
	fmt.Fprintf(&s.out, "%s\n%s", what, indent(strings.Join(done, "\n")))
	return done
}

// inOrder wants operations to have been done, each behind the one before it. It stands beside the golden files because those
// are written anew.
func inOrder(t *testing.T, done []string, want ...string) {
	t.Helper()
	at := 0
	for _, w := range want {
		for at < len(done) && !strings.HasPrefix(done[at], w) {
			at++
		}
		if at == len(done) {
			t.Fatalf("%q is not done, or not behind those before it in %q:\n%s", w, want, strings.Join(done, "\n"))
		}
		at++
	}
}

// TestRecoveryOperations compares what opening a log after a crash does to the disk, and in which order, with
// testdata/recovery.txt.
func TestRecoveryOperations(t *testing.T) {
	s := steps{t: t, fs: disktest.New()}
	fs := s.fs
	fs.Put("/data/meta.properties", nil)
	c := log.DefaultConfig()
	c.IndexIntervalBytes, c.IndexBytes = 60, 1200
	now := time.UnixMilli(1_700_000_000_000)
	o := log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, Config: c, Now: func() time.Time { return now }}
	var l *log.Log
	var r log.Report
	open := func() (err error) {
		l, r, err = log.Open(o)
		return err
	}
	add := func() error {
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, now.UnixMilli(), nil, bytes.Repeat([]byte("v"), 100))
		return nil
	}
	file := func(base int, suffix string) string { return fmt.Sprintf("/data/t-0/%020d%s", base, suffix) }
	// Two batches in each of four segments, all flushed.
	must(0, open())
	must(0, l.AssignEpoch(1))
	for i := range 8 {
		if i > 0 && i%2 == 0 {
			must(0, l.Roll())
		}
		must(0, add())
	}
	must(0, l.Flush())
	ended := func(cut batch.Offset, bytes int64) {
		t.Helper()
		if r.Cut == nil || r.Cut.Offset != cut || r.Cut.Bytes != bytes || l.View().LogEnd() != cut {
			t.Fatalf("cut %+v, the log ends at %d, not at %d", r.Cut, l.View().LogEnd(), cut)
		}
	}

	whole := fs.Bytes(file(6, ".log"))
	fs.Put(file(6, ".log"), append(bytes.Clone(whole), whole[:100]...))
	fs.Kill()
	o.RecoveryPoint = 7
	done := s.step("open after kill -9, with half a batch at the end", open)
	ended(8, 100)
	inOrder(t, done, "truncate "+file(6, ".log")+" 340", "sync "+file(6, ".log"), "syncdir /data/t-0")
	done = s.step("append", add)
	inOrder(t, done, "write "+file(6, ".log")+" 340+170")
	s.step("flush", func() error { return l.Flush() })

	must(0, add())
	fs.Crash(nil)
	o.RecoveryPoint = 9
	s.step("open after the power was lost, with an append that was not flushed", open)
	if r.Cut != nil || l.View().LogEnd() != 9 {
		t.Fatalf("%+v, the log ends at %d", r, l.View().LogEnd())
	}

	bad := fs.Bytes(file(2, ".log"))
	bad[200] ^= 1
	fs.Put(file(2, ".log"), bad)
	fs.Kill()
	o.RecoveryPoint = 3
	done = s.step("open with a bad batch, and whole segments behind it", open)
	ended(3, 170+2*170+3*170)
	inOrder(t, done, "remove "+file(6, ".log"), "remove "+file(4, ".log"), "truncate "+file(2, ".log")+" 170", "sync "+file(2, ".log"), "syncdir /data/t-0")
	s.step("append", add)
	s.step("roll", func() error { return l.Roll() })
	s.step("append", add)
	s.step("flush", func() error { return l.Flush() })

	must(0, fs.Remove(file(0, ".index")))
	fs.Put(file(2, ".index.tmp"), []byte("half"))
	fs.Put(file(4, ".index"), []byte("nothing of it is true"))
	fs.Kill()
	o.RecoveryPoint = 5
	done = s.step("open without an index of an older segment, and with one that was being made", open)
	inOrder(t, done, "remove "+file(2, ".index.tmp"), "sync "+file(0, ".index.tmp"), "rename "+file(0, ".index.tmp")+" "+file(0, ".index"))
	s.step("close", func() error { return l.Close() })
	golden(t, "recovery.txt", s.out.String())
}

// TestStoreOperations compares what opening and closing a data directory does to the disk, and in which order, with
// testdata/store.txt.
func TestStoreOperations(t *testing.T) {
	s := steps{t: t, fs: disktest.New()}
	s.fs.Put("/lost+found", nil)
	now := time.UnixMilli(1_700_000_000_000)
	c := log.DefaultConfig()
	c.IndexBytes = 1200
	const dir = "/data/logs"
	var store *Store
	var l *log.Log
	open := func() (err error) {
		store, err = Open(StoreOptions{Dirs: []string{dir}, FS: s.fs, NodeID: 1, Now: func() time.Time { return now }})
		return err
	}
	openLog := func() (err error) {
		l, err = store.Log("t", [16]byte{1}, 0, c)
		return err
	}
	add := func() error {
		appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: int32(l.View().LogEnd())}, producer.Rules{}, now.UnixMilli(), nil, bytes.Repeat([]byte("v"), 100))
		l.SetHighWatermark(l.View().LogEnd())
		return nil
	}
	checkpoint := func() error { return store.Checkpoint() }
	stop := func() error { return store.Close(true) }
	done := s.step("open a directory that is not there", open)
	inOrder(t, done, "mkdir", "syncdir /data", "create "+dir+"/.lock")
	done = s.step("it becomes a cluster's", func() error { return store.WriteMeta("aaaaaaaaaaaaaaaaaaaaaA", 1) })
	inOrder(t, done, "sync "+dir+"/meta.properties.tmp", "rename "+dir+"/meta.properties.tmp", "syncdir "+dir)
	s.step("open a log that is not there", openLog)
	s.step("append", add)
	s.step("checkpoint, nothing was flushed", checkpoint)
	s.step("flush", func() error { return l.Flush() })
	s.step("checkpoint", checkpoint)
	s.step("checkpoint once more, nothing has changed", checkpoint)
	s.step("append", add)
	done = s.step("stop in order", stop)
	last := func(name string) string { return "sync " + dir + "/" + name }
	inOrder(t, done, last("t-0/00000000000000000000.log"), last("t-0/00000000000000000002.snapshot"), last(recoveryPointFile+".tmp"), "rename "+dir+"/"+recoveryPointFile, "syncdir "+dir,
		last(cleanFile+".tmp"), "rename "+dir+"/"+cleanFile+".tmp", "syncdir "+dir, "remove "+dir+"/.lock")

	done = s.step("open after a clean stop", open)
	inOrder(t, done, "create "+dir+"/.lock", "remove "+dir+"/"+cleanFile, "syncdir "+dir)
	if n := s.fs.Counts(); n.Reads == 0 {
		t.Error("nothing was read")
	}
	if done = s.step("open its log", openLog); len(done) > 0 {
		t.Errorf("opening a log that was closed in order changes %q", done)
	}
	s.step("append", add)
	s.fs.Kill()
	done = s.step("open after kill -9", open)
	if len(done) > 0 {
		t.Errorf("there is no mark to take away, and the lock file is there: %q", done)
	}
	s.step("open its log", openLog)
	done = s.step("stop in order", stop)
	inOrder(t, done, last("t-0/00000000000000000000.log"), last(recoveryPointFile+".tmp"), last(cleanFile+".tmp"))
	must(0, open())
	s.step("stop, nothing was opened", stop)

	// Whose it is not leaves it as it is.
	s.step("open as another node", func() error {
		if _, err := Open(StoreOptions{Dirs: []string{dir}, FS: s.fs, NodeID: 2}); err == nil {
			t.Error("another node's directory is opened")
		}
		return nil
	})
	golden(t, "store.txt", s.out.String())
}

// TestFormatCompressed compares a segment of batches of each codec with testdata/format-compressed.txt, and reads it. (How well
// a batch is compressed is the compressor's: another version of it writes the file anew, and the records stay.)
func TestFormatCompressed(t *testing.T) {
	s, fs := goldenStore(t)
	l, err := s.Log("packed", [16]byte{0x70, 15: 4}, 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	const ts = 1_700_000_000_000
	headers := []batch.RecordHeader{{Key: "header", Value: []byte("h")}, {Key: "null"}}
	records := []batch.Record{
		{Key: []byte("key"), Value: bytes.Repeat([]byte("v"), 60)},
		{Value: bytes.Repeat([]byte("v"), 60)},
		{Key: []byte("a tombstone")},
	}
	kinds := []codec.Kind{codec.None, codec.Gzip, codec.Snappy, codec.LZ4, codec.Zstd}
	for i, kind := range kinds {
		u := batch.NewBuilder(batch.BuilderOptions{Codec: kind, Producer: true, ProducerID: 9, BaseSequence: int32(i * len(records))})
		for j, r := range records {
			u.Add(ts+int64(i*10+j), r.Key, r.Value, headers[:max(2-2*j, 0)]...)
		}
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(u.Bytes(), h, ts); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	golden(t, "format-compressed.txt", dump(t, fs, "/data/packed-0"))
	b := fs.Bytes("/data/packed-0/00000000000000000000.log")
	for i, kind := range kinds {
		h, err := batch.ParseHeader(b)
		if err != nil || h.Attributes.Codec() != kind || batch.CheckCRC(b[:h.Size()]) != nil {
			t.Fatalf("batch %d: %+v, %v", i, h, err)
		}
		j := 0
		for r, err := range batch.Records(b[:h.Size()], 0) {
			if err != nil {
				t.Fatal(err)
			}
			want := records[j]
			want.Timestamp, want.Offset = ts+int64(i*10+j), batch.Offset(i*len(records)+j)
			if got := slices.Collect(r.Headers.All()); fmt.Sprint(got) != fmt.Sprint(headers[:max(2-2*j, 0)]) {
				t.Errorf("codec %d: headers %v of record %d", kind, got, j)
			}
			r.Headers = want.Headers
			if got := fmt.Sprintf("%+v", r); got != fmt.Sprintf("%+v", want) {
				t.Errorf("codec %d: %s, want %+v", kind, got, want)
			}
			j++
		}
		if b = b[h.Size():]; j != len(records) {
			t.Errorf("codec %d: %d records", kind, j)
		}
	}
}
