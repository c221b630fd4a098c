package check_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"millrace/storage/check"
	"millrace/storage/disktest"
)

var update = flag.Bool("update", false, "write the golden file anew")

// lineOf is an item in a line.
func lineOf(x check.Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%d: %s", x.File, x.Position, x.Kind)
	for _, f := range x.Fields {
		switch v := f.Value.(type) {
		case []check.Item:
			for _, y := range v {
				fmt.Fprintf(&b, " %s={%s}", f.Name, strings.TrimPrefix(lineOf(y), "@0: "))
			}
		case []byte:
			text := "null"
			if v != nil {
				text = fmt.Sprintf("%.12q of %d bytes", v, len(v))
			}
			fmt.Fprintf(&b, " %s=%s", f.Name, text)
		case string, bool, int64:
			fmt.Fprintf(&b, " %s=%v", f.Name, v)
		default:
			panic(fmt.Sprintf("%s is a %T", f.Name, v))
		}
	}
	return b.String()
}

// dumped is what Dump shows of a directory: of each file and kind of thing the first ones and the last, and how many there
// are. all has how many there are of each kind.
func dumped(t *testing.T, fs *disktest.FS, dir string, records bool, all map[string]int) string {
	t.Helper()
	var out strings.Builder
	const most = 3
	file, last := "", map[string]string{}
	var kinds []string
	count := map[string]int{}
	flush := func() {
		for _, kind := range kinds {
			if n := count[kind]; n > most {
				fmt.Fprintf(&out, "  ... %d of this kind: %s\n  %s\n", n, kind, last[kind])
			}
		}
		kinds, count = nil, map[string]int{}
	}
	err := check.Dump(fs, dir, check.DumpOptions{Records: records}, func(x check.Item) error {
		if x.File != file {
			flush()
			file = x.File
			fmt.Fprintf(&out, "%s\n", file)
		}
		if count[x.Kind]++; count[x.Kind] == 1 {
			kinds = append(kinds, x.Kind)
		}
		all[x.Kind]++
		last[x.Kind] = strings.TrimPrefix(lineOf(x), file)
		if count[x.Kind] <= most {
			fmt.Fprintf(&out, "  %s\n", last[x.Kind])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	flush()
	return regexp.MustCompile(`\.[0-9a-f]{32}-`).ReplaceAllString(out.String(), "."+strings.Repeat(".", 32)+"-")
}

// TestDump compares what Dump shows, of everything that written makes, with testdata/dump.txt.
func TestDump(t *testing.T) {
	fs, all := written(t, true), map[string]int{}
	out := dumped(t, fs, dir, true, all)
	r := report(t, fs)
	var batches, records int64
	for _, p := range r.Partitions {
		batches, records = batches+p.Batches, records+p.Records
	}
	killed := written(t, false)
	for _, topic := range []string{"v", "w"} { // what was being cleaned
		out += dumped(t, killed, dir+"/"+topic+"-0", false, map[string]int{})
	}
	// Places that cannot be read.
	for name, size := range map[string]int{".log": 650, ".index": 21, ".timeindex": 30, ".snapshot": 100} {
		name = fmt.Sprintf("%s/t-0/%020d%s", dir, 0, name)
		if strings.HasSuffix(name, ".snapshot") {
			name = find(t, fs, ".snapshot")
		}
		fs.Put(name, fs.Bytes(name)[:size])
	}
	for name, text := range map[string]string{"t-0/leader-epoch-checkpoint": "0\n2\n1 5\n", "t-0/partition.metadata": "version: 0\n", "replication-offset-checkpoint": "1\n0\n"} {
		fs.Put(dir+"/"+name, []byte(text))
	}
	broken := map[string]int{}
	for line := range strings.Lines(dumped(t, fs, dir, false, broken)) {
		if strings.Contains(line, ": unreadable ") {
			out += line
		}
	}
	if broken["unreadable"] != 7 {
		t.Errorf("%d places are shown as unreadable, 7 are", broken["unreadable"])
	}
	const path = "testdata/dump.txt"
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(out), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want) {
		t.Errorf("%s differs (-update writes it): %s", path, firstDifference(out, string(want)))
	}
	for _, kind := range []string{
		"batch", "record", "control record", "offset index entry", "time index entry", "aborted transaction", "producer", "leader epoch",
		"partition metadata", "checkpoint", "line",
	} {
		if all[kind] == 0 {
			t.Errorf("no %s is shown", kind)
		}
	}
	// Those of removed segments are shown, too.
	if n := int64(all["batch"]); n <= batches {
		t.Errorf("%d batches are shown, the logs have %d", n, batches)
	}
	if n := int64(all["record"] + all["control record"]); n <= records {
		t.Errorf("%d records are shown, the logs have %d", n, records)
	}
	stopped := errors.New("enough")
	if err := check.Dump(fs, dir, check.DumpOptions{}, func(check.Item) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("it goes on after %v", err)
	}
}
