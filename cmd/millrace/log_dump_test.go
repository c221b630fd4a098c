package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// fullDir is a data directory, closed in order, in which stands each kind of thing that `log dump` shows. All of it is
// determined.
func fullDir(t *testing.T) string {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	ok(os.WriteFile(filepath.Join(dir, "meta.properties"), []byte("#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=aaaaaaaaaaaaaaaaaaaaaA\ndirectory.id=0QAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\nversion=1\n"), 0o644))
	const ts = 1_700_000_000_000
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir}, NodeID: 1, Now: func() time.Time { return time.UnixMilli(ts) }})
	ok(err)
	ok(s.WriteMeta("aaaaaaaaaaaaaaaaaaaaaA", 1))
	s.SetBrokerEpoch(7)
	c := log.DefaultConfig()
	c.IndexIntervalBytes = 100
	l, err := s.Log("topic-a", [16]byte{0x70, 15: 2}, 3, c)
	ok(err)
	headers := []batch.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: ""}}
	add := func(o batch.BuilderOptions, r producer.Rules, records ...batch.Record) {
		t.Helper()
		u := batch.NewBuilder(o)
		for i, x := range records {
			u.Add(ts+int64(i), x.Key, x.Value, headers...)
			headers = nil // the first record has some
		}
		h, err := batch.ParseHeader(u.Bytes())
		ok(err)
		_, err = l.AppendWith(u.Bytes(), h, ts, r)
		ok(err)
		l.SetHighWatermark(l.View().LogEnd())
	}
	long := []byte(strings.Repeat("v", 100))
	ok(l.AssignEpoch(2))
	add(batch.BuilderOptions{}, producer.Rules{}, batch.Record{Key: []byte("k"), Value: long}, batch.Record{Value: []byte{0xff, 0}}, batch.Record{Key: []byte{}})
	add(batch.BuilderOptions{Codec: codec.Snappy}, producer.Rules{}, batch.Record{Key: []byte("snappy"), Value: long})
	add(batch.BuilderOptions{Producer: true, ProducerID: 1000, ProducerEpoch: 4, Transactional: true}, producer.Rules{Verified: true}, batch.Record{Value: long})
	ok(l.Roll())
	ok(l.AssignEpoch(5))
	for i, kind := range []batch.ControlType{batch.Abort, batch.Commit} {
		k, v := batch.Marker{Type: kind, CoordinatorEpoch: 9}.KeyAndValue()
		add(batch.BuilderOptions{Producer: true, ProducerID: 1000, ProducerEpoch: 4, BaseSequence: -1, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, batch.Record{Key: k, Value: v})
		if i == 0 {
			add(batch.BuilderOptions{Producer: true, ProducerID: 1000, ProducerEpoch: 4, BaseSequence: 1, Transactional: true}, producer.Rules{Verified: true}, batch.Record{Value: []byte("committed")})
		}
	}
	add(batch.BuilderOptions{Producer: true, ProducerID: 1001}, producer.Rules{}, batch.Record{Value: []byte("\"quoted\"\n")})
	ok(l.SetLogStart(1))
	ok(s.Close(true))
	return dir
}

// TestLogDumpShowsEverything compares what `log dump` shows of such a directory, as text and as JSON, with testdata/dump.txt
// and testdata/dump.json.
func TestLogDumpShowsEverything(t *testing.T) {
	dir := fullDir(t)
	// A place that cannot be read.
	torn := filepath.Join(dir, "topic-a-3", strings.Repeat("0", 20)+".timeindex")
	b, err := os.ReadFile(torn)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(torn, b[:len(b)-3], 0o644); err != nil {
		t.Fatal(err)
	}
	var text string
	for name, args := range map[string][]string{"dump.txt": {"dump", "--records", dir}, "dump.json": {"dump", "--records", "--json", dir}} {
		code, out, stderr := try(t, neverRun(t), nil, append([]string{"log"}, args...)...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: it ends with %d, %s", name, code, stderr)
		}
		out = strings.ReplaceAll(out, dir, "DIR")
		path := "testdata/" + name
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(out), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, all := strings.Split(out, "\n"), strings.Split(string(want), "\n")
		for i := range max(len(got), len(all)) {
			if i >= len(got) || i >= len(all) || got[i] != all[i] {
				t.Errorf("%s differs from line %d on (-update writes it): %q, want %q", path, i+1, got[i:min(i+1, len(got))], all[i:min(i+1, len(all))])
				break
			}
		}
		if name == "dump.txt" {
			text = out
			continue
		}
		for line := range strings.Lines(out) {
			var x map[string]any
			if err := json.Unmarshal([]byte(line), &x); err != nil || x["file"] == nil || x["kind"] == nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	for _, kind := range []string{
		"batch", "record", "control record", "offset index entry", "time index entry", "aborted transaction", "producer", "leader epoch",
		"partition metadata", "checkpoint", "line", "unreadable",
	} {
		if !strings.Contains(text, ": "+kind+" ") {
			t.Errorf("no %s is shown", kind)
		}
	}
}
