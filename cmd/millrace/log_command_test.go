package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if code, out, _ := ask("verify", dir); code != 0 || !strings.Contains(out, "sound; 1 partition, 3 batches, 3 records, ") {
		t.Errorf("verify ends with %d:\n%s", code, out)
	}
	if code, out, _ := ask("verify", dir+"/t-0"); code != 0 || !strings.Contains(out, "sound; 1 partition") {
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

// TestLogDumpOfNoText: names and lines with bytes that are no text are shown as keys and values with such bytes are.
func TestLogDumpOfNoText(t *testing.T) {
	dir := dataDir(t)
	if err := os.WriteFile(filepath.Join(dir, "cleaner-offset-checkpoint"), []byte("0\n1\n\xe4\xff 0 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"checkpoint topic=base64:5P8= partition=0 offset=3":                         {"log", "dump", dir},
		`"kind":"checkpoint","topicBase64":"5P8=","partition":0,"offset":3}` + "\n": {"log", "dump", "--json", dir},
	} {
		if code, out, _ := try(t, neverRun(t), nil, args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v ends with %d and lacks %q:\n%s", args, code, want, out)
		}
	}
}

// TestVerifyOfAKilledLog spoils a byte in the middle of a log that was not closed in order, and then of its last batch. What
// the next start cuts is told, and where batches go that can be read the directory is not sound.
func TestVerifyOfAKilledLog(t *testing.T) {
	dir := dataDir(t)
	name := filepath.Join(dir, "t-0", strings.Repeat("0", 20)+".log")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := batch.ParseHeader(whole)
	if err != nil {
		t.Fatal(err)
	}
	// As if it had been killed before anything was flushed.
	for _, file := range []string{".kafka_cleanshutdown", "recovery-point-offset-checkpoint"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	cut := len(whole) - h.Size() // the first batch stays
	for _, c := range []struct {
		what         string
		log          []byte
		code         int
		human, error string
		json         []string
	}{
		{"a byte of the second batch is another", flipped(whole, h.Size()+70), 1,
			fmt.Sprintf("(the next start cuts %d bytes, in which 1 batch with 1 record can be read)", cut),
			"not sound: 1 finding, the next start loses 1 readable batch with 1 record",
			[]string{fmt.Sprintf(`"mended":false,"cutBytes":%d,"lostBatches":1,"lostRecords":1}`, cut), fmt.Sprintf(`"sound":false,"cutBytes":%d,"lostBatches":1,"lostRecords":1}`, cut)}},
		{"the last batch is torn", whole[:len(whole)-5], 0, "(mended by the next start, which cuts ", "",
			[]string{`"mended":true,"cutBytes":`, `"sound":true,"cutBytes":`, `"lostBatches":0,"lostRecords":0}`}},
	} {
		if err := os.WriteFile(name, c.log, 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := try(t, neverRun(t), nil, "log", "verify", dir)
		if code != c.code || !strings.Contains(out, c.human) || !strings.Contains(stderr, c.error) || strings.Contains(out, ": sound;") != (c.code == 0) {
			t.Errorf("%s: it ends with %d:\n%s%s", c.what, code, out, stderr)
		}
		if code, out, _ = try(t, neverRun(t), nil, "log", "verify", "--json", dir); code != c.code {
			t.Errorf("%s: as JSON it ends with %d:\n%s", c.what, code, out)
		}
		for _, want := range c.json {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %s is not in\n%s", c.what, want, out)
			}
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// TestLogCommandOfWhatIsNoData: what cannot be looked at is refused by its name, with a reason that says what is expected.
func TestLogCommandOfWhatIsNoData(t *testing.T) {
	dir, empty := dataDir(t), t.TempDir()
	metadata := filepath.Join(dir, "__cluster_metadata-0")
	if err := os.Mkdir(metadata, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(metadata)
	foreign := t.TempDir()
	file := filepath.Join(foreign, "README.md")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of     string
		dump   bool // only that
		code   int
		reason string
	}{
		{metadata, false, exitUsage, "does not look at the controller's metadata (__cluster_metadata-0)"},
		{metadata + "/", false, exitUsage, "does not look at the controller's metadata"},
		{".", false, exitUsage, "does not look at the controller's metadata"},
		{empty, true, 1, empty + ": there is nothing in it that is a data directory's or a partition's"},
		{foreign, true, 1, foreign + ": there is nothing in it that is"},
		{file, false, 1, file + " is a file: millrace log "},
		{dir + "/none", false, 1, dir + "/none: there is no such directory\n"},
		{dir + "," + empty, false, 1, dir + "," + empty + ": there is no such directory; each of several log.dirs is a call of its own\n"},
	} {
		for _, command := range []string{"verify", "dump"} {
			if c.dump && command != "dump" {
				continue
			}
			code, out, stderr := try(t, neverRun(t), nil, "log", command, c.of)
			if code != c.code || out != "" || !strings.Contains(stderr, c.reason) {
				t.Errorf("%s %s ends with %d, %q, %q", command, c.of, code, out, stderr)
			}
		}
	}
	// A log without a batch is one all the same.
	if err := os.WriteFile(filepath.Join(empty, strings.Repeat("0", 20)+".log"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := try(t, neverRun(t), nil, "log", "dump", empty); code != 0 || out+stderr != "" {
		t.Errorf("dump of an empty log ends with %d, %q, %q", code, out, stderr)
	}
	if code, out, _ := try(t, neverRun(t), nil, "log", "verify", dir); code != 0 || !strings.Contains(out, "; 1 partition, 3 batches, 3 records, ") {
		t.Errorf("verify of one partition ends with %d: %s", code, out)
	}
}
