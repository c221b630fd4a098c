package storage

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it):\n%s", name, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d is  %s\nwant       %s", i+1, a, b)
		}
	}
	return ""
}

// goldenStore is a store on a test disk whose every byte is determined.
func goldenStore(t *testing.T) (*Store, *disktest.FS) {
	t.Helper()
	fs := disktest.New()
	fs.Put("/data/meta.properties", meta{clusterID: "aaaaaaaaaaaaaaaaaaaaaA", nodeID: 1, directory: [16]byte{0xd1, 15: 1}}.encode(time.UnixMilli(0)))
	s, err := Open(StoreOptions{Dirs: []string{"/data"}, FS: fs, NodeID: 1, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta("aaaaaaaaaaaaaaaaaaaaaA", 1); err != nil {
		t.Fatal(err)
	}
	s.SetBrokerEpoch(7)
	return s, fs
}

func appendTo(t *testing.T, l *log.Log, o batch.BuilderOptions, r producer.Rules, ts int64, key, value []byte) {
	t.Helper()
	u := batch.NewBuilder(o)
	u.Add(ts, key, value)
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AppendWith(u.Bytes(), h, ts, r); err != nil {
		t.Fatal(err)
	}
}

// fill writes two segments with an aborted transaction, in two leader epochs.
func fill(t *testing.T, l *log.Log) {
	t.Helper()
	const ts = 1_700_000_000_000
	value := bytes.Repeat([]byte("v"), 40)
	if err := l.AssignEpoch(2); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, ts+i*10, []byte("key"), value)
	}
	appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 1000, ProducerEpoch: 4, Transactional: true}, producer.Rules{Verified: true}, ts+30, nil, value)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	if err := l.AssignEpoch(5); err != nil {
		t.Fatal(err)
	}
	k, v := batch.Marker{Type: batch.Abort, CoordinatorEpoch: 9}.KeyAndValue()
	appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 1000, ProducerEpoch: 4, BaseSequence: -1, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, ts+40, k, v)
	appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 1001, BaseSequence: 0}, producer.Rules{}, ts+50, nil, nil)
	l.SetHighWatermark(6)
	if err := l.SetLogStart(1); err != nil {
		t.Fatal(err)
	}
}

// TestFormat compares every file of a small data directory, after a clean stop, with testdata/format.txt, which is what
// FORMAT.md describes.
func TestFormat(t *testing.T) {
	s, fs := goldenStore(t)
	c := log.DefaultConfig()
	c.IndexIntervalBytes = 100
	l, err := s.Log("topic-a", [16]byte{0x70, 15: 2}, 3, c)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	golden(t, "format.txt", dump(t, fs, "/data"))
}

func dump(t *testing.T, fs *disktest.FS, dir string) string {
	t.Helper()
	var out strings.Builder
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := dir + "/" + e.Name
		if e.Dir {
			out.WriteString(dump(t, fs, name))
			continue
		}
		b := fs.Bytes(name)
		fmt.Fprintf(&out, "%s (%d bytes)\n", name, len(b))
		if bytes.ContainsFunc(b, func(r rune) bool { return r == 0xfffd || (r < ' ' && r != '\n') }) {
			out.WriteString(indent(strings.TrimRight(hex.Dump(b), "\n")))
		} else {
			out.WriteString(indent(strings.TrimRight(string(b), "\n")))
		}
	}
	return out.String()
}

func indent(s string) string {
	if s == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(s, "\n", "\n  ") + "\n"
}

// TestOperations compares what is done to the disk, and in which order, with testdata/operations.txt.
func TestOperations(t *testing.T) {
	fs := disktest.New()
	fs.Put("/data/meta.properties", nil)
	var out strings.Builder
	step := func(what string, f func() error) {
		t.Helper()
		fs.Trace()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fmt.Fprintf(&out, "%s\n%s", what, indent(strings.Join(fs.Done(), "\n")))
	}
	c := log.DefaultConfig()
	c.IndexIntervalBytes, c.FileDeleteDelayMs, c.IndexBytes = 60, 0, 1200
	now := time.UnixMilli(1_700_000_000_000)
	o := log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, Config: c, Now: func() time.Time { return now },
		LowerRecoveryPoint: func(o batch.Offset) error {
			return disk.Replace(fs, "/data", "recovery-point", fmt.Append(nil, o))
		}}
	var l *log.Log
	open := func() (err error) {
		l, _, err = log.Open(o)
		return err
	}
	add := func() error {
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, now.UnixMilli(), nil, bytes.Repeat([]byte("v"), 100))
		return nil
	}
	step("open a log that is not there", open)
	step("become leader", func() error { return l.AssignEpoch(1) })
	step("first append", add)
	step("second append", add)
	step("flush", func() error { return l.Flush() })
	step("flush again", func() error { return l.Flush() })
	step("append and flush", func() error { return errors2(add(), l.Flush()) })
	step("roll", func() error { return l.Roll() })
	step("append to the new segment", add)
	step("flush both", func() error { return l.Flush() })
	step("truncate within the segment, nobody reads it", func() error { return errors2(add(), l.Truncate(4)) })
	step("truncate within the segment, a reader has its bytes", func() error {
		if err := add(); err != nil {
			return err
		}
		s, err := l.View().Read(4, 5, 1000, true)
		if err != nil {
			return err
		}
		defer s.Release()
		return l.Truncate(4)
	})
	step("close", func() error { return l.Close() })
	o.Clean, o.RecoveryPoint = true, 4
	step("open after a clean close", open)
	step("close again, nothing was written", func() error { return l.Close() })
	step("open once more", open)
	step("append", add)
	step("truncate to an older segment, below the recovery point", func() error { return l.Truncate(1) })
	step("remove what was deleted", func() error { return l.RemoveDeleted(now) })
	step("truncate fully", func() error { return l.TruncateFully(50) })
	step("delete", func() error { return l.MarkDeleted("/data/t-0.delete") })
	step("remove", func() error { return l.Remove() })
	golden(t, "operations.txt", out.String())
}

func errors2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
