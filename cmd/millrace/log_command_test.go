package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// dataDir is a data directory with one partition of three batches, closed in order.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta("aaaaaaaaaaaaaaaaaaaaaA", 1); err != nil {
		t.Fatal(err)
	}
	l, err := s.Log("t", [16]byte{1}, 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"one", "two", "\xff\x00"} {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1000, []byte("k"), []byte(value), batch.RecordHeader{Key: "h", Value: []byte("v")})
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(u.Bytes(), h, 1000); err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(3)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLogCommand(t *testing.T) {
	dir := dataDir(t)
	ask := func(args ...string) (int, string, string) {
		return try(t, neverRun(t), nil, append([]string{"log"}, args...)...)
	}
	if code, out, _ := ask("verify", dir); code != 0 || !strings.Contains(out, "sound; 1 partitions, 3 batches, 3 records") {
		t.Errorf("verify ends with %d:\n%s", code, out)
	}
	if code, out, _ := ask("verify", dir+"/t-0"); code != 0 || !strings.Contains(out, "sound; 1 partitions") {
		t.Errorf("verify of a partition ends with %d:\n%s", code, out)
	}
	code, out, _ := ask("dump", "--records", dir)
	for _, want := range []string{"@0: batch baseOffset=0 lastOffset=0", `key="k" value="two" headers=[{ key="h" value="v" }]`, "value=base64:/wA=", "checkpoint topic=\"t\" partition=0 offset=3", "time index entry timestamp=1000"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("dump ends with %d and lacks %q:\n%s", code, want, out)
		}
	}
	code, out, _ = ask("dump", "--records", "--json", dir+"/t-0")
	records := 0
	for line := range strings.Lines(out) {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if x["kind"] == "record" {
			records++
			if x["value"] == nil && x["valueBase64"] != "/wA=" {
				t.Errorf("%s", line)
			}
		}
	}
	if code != 0 || records != 3 {
		t.Errorf("dump as JSON ends with %d, %d records", code, records)
	}
	name := filepath.Join(dir, "t-0", "00000000000000000000.log")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := ask("verify", dir)
	if code != 1 || !strings.Contains(out, name+" at ") || !strings.Contains(out, "(offset 1)") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("verify of a spoilt log ends with %d:\n%s%s", code, out, stderr)
	}
	code, out, _ = ask("verify", "--json", dir)
	if code != 1 || !strings.Contains(out, `"kind":"finding"`) || !strings.Contains(out, `"offset":1`) {
		t.Errorf("verify as JSON ends with %d:\n%s", code, out)
	}
	empty := t.TempDir()
	if code, out, _ := ask("verify", empty); code != 1 || !strings.Contains(out, "meta.properties: is not there") {
		t.Errorf("verify of nothing at all ends with %d:\n%s", code, out)
	}
	if err := storage.Format(nil, empty, storage.Identity{ClusterID: "c", NodeID: 1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := ask("verify", empty); code != 0 || !strings.Contains(out, "empty: there is no partition") || strings.Contains(out, ": sound") {
		t.Errorf("verify of a directory without partitions ends with %d:\n%s", code, out)
	}
	if code, out, _ := ask("verify", "--json", empty); code != 0 || !strings.Contains(out, `"partitions":0`) || !strings.Contains(out, `"sound":false`) {
		t.Errorf("verify as JSON of a directory without partitions ends with %d:\n%s", code, out)
	}
	if code, _, _ := ask("verify"); code != exitUsage {
		t.Errorf("verify of nothing ends with %d", code)
	}
	if code, _, stderr := ask("verify", dir+"/none"); code != 1 || !strings.Contains(stderr, "none") {
		t.Errorf("verify of what is not there ends with %d: %s", code, stderr)
	}
}
