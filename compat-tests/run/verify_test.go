package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/compat-tests/recfile"
)

// lay writes an input of the scenario and what a faultless broker would give back: per-partition lists with dense offsets.
func lay(t *testing.T, dir string, n int) (input string, parts [3][]recfile.Record) {
	t.Helper()
	can, err := abilitiesOf(nil)
	if err != nil {
		t.Fatal(err)
	}
	input = filepath.Join(dir, "input")
	if err := writeInput(input, inputSpec{seed: 1, count: n, partitions: 3, can: can, firstTime: 1_000_000, ownTime: true}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := recfile.NewReader(f, false)
	for range n {
		rec, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if rec.Partition < 0 {
			sum := 0
			for _, b := range rec.Key {
				sum += int(b)
			}
			rec.Partition = int32(sum % 3)
		}
		if rec.Timestamp < 0 {
			rec.Timestamp = 5_000_000
		}
		rec.Offset = int64(len(parts[rec.Partition]))
		parts[rec.Partition] = append(parts[rec.Partition], rec)
	}
	return input, parts
}

func store(t *testing.T, path string, lists ...[]recfile.Record) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := recfile.NewWriter(f, true)
	for _, list := range lists {
		for i := range list {
			if err := w.Write(&list[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, input string, repeats bool, outputs ...string) error {
	t.Helper()
	c := newComparison(2_000_000, repeats)
	defer c.close()
	if err := c.addSent(input); err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		if err := c.addRead(o); err != nil {
			t.Fatal(err)
		}
	}
	return c.check()
}

func TestComparison(t *testing.T) {
	const n = 2000
	renumber := func(list []recfile.Record) {
		for i := range list {
			list[i].Offset = int64(i)
		}
	}
	keyed := func(list []recfile.Record, from int) int { // a record whose key comes again later
		for i := from; i < len(list); i++ {
			for j := i + 1; list[i].Key != nil && j < len(list); j++ {
				if string(list[j].Key) == string(list[i].Key) && string(list[j].Value) != string(list[i].Value) {
					return i
				}
			}
		}
		panic("no key comes twice")
	}
	again := func(list []recfile.Record, i int) int {
		for j := i + 1; ; j++ {
			if string(list[j].Key) == string(list[i].Key) && list[j].Key != nil && string(list[j].Value) != string(list[i].Value) {
				return j
			}
		}
	}
	faults := []struct {
		name  string
		plant func(list []recfile.Record) []recfile.Record
		want  string // "" for no fault at all
	}{
		{"honest", func(l []recfile.Record) []recfile.Record { return l }, ""},
		{"lost", func(l []recfile.Record) []recfile.Record {
			l = append(l[:100], l[101:]...)
			renumber(l)
			return l
		}, "a later one"},
		{"lost, leaving a hole", func(l []recfile.Record) []recfile.Record { return append(l[:100], l[101:]...) }, "offsets 100 to 100"},
		{"last one lost", func(l []recfile.Record) []recfile.Record { return l[:len(l)-1] }, "1 of"},
		{"stored twice", func(l []recfile.Record) []recfile.Record {
			i := keyed(l, 50)
			l = append(l[:i+1], append([]recfile.Record{l[i]}, l[i+1:]...)...)
			renumber(l)
			return l
		}, "an earlier one again"},
		{"read twice", func(l []recfile.Record) []recfile.Record { return append(l, l[7]) }, "more than once"},
		{"swapped", func(l []recfile.Record) []recfile.Record {
			i := keyed(l, 50)
			j := again(l, i)
			l[i], l[j] = l[j], l[i]
			renumber(l)
			return l
		}, "a later one"},
		{"out of order in the reading", func(l []recfile.Record) []recfile.Record { l[5], l[6] = l[6], l[5]; return l }, "read offset 5 after 6"},
		{"value altered", func(l []recfile.Record) []recfile.Record { l[9].Value = append(l[9].Value, 'x'); return l }, "is altered"},
		{"null became empty", func(l []recfile.Record) []recfile.Record {
			for i := range l {
				if l[i].Value == nil {
					l[i].Value = []byte{}
					break
				}
			}
			return l
		}, "is altered"},
		{"key became null", func(l []recfile.Record) []recfile.Record { l[keyed(l, 0)].Key = nil; return l }, "partition 1"},
		{"unknown key", func(l []recfile.Record) []recfile.Record { l[3].Key = []byte("nobody's"); return l }, "never sent"},
		{"header altered", func(l []recfile.Record) []recfile.Record {
			for i := range l {
				if len(l[i].Headers) > 1 {
					l[i].Headers[0], l[i].Headers[1] = l[i].Headers[1], l[i].Headers[0]
					l[i].Headers[0].Value = []byte("other")
					break
				}
			}
			return l
		}, "is altered"},
		{"timestamp altered", func(l []recfile.Record) []recfile.Record { l[3].Timestamp++; return l }, "timestamp"},
		{"own timestamp from before the run", func(l []recfile.Record) []recfile.Record { l[len(l)-1].Timestamp = 1; return l }, "before the run"},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			input, parts := lay(t, dir, n)
			out := filepath.Join(dir, "A.out")
			store(t, out, parts[0], f.plant(parts[1]), parts[2])
			err := compare(t, input, false, out)
			switch {
			case f.want == "" && err != nil:
				t.Error(err)
			case f.want != "" && err == nil:
				t.Error("the fault was not noticed")
			case f.want != "" && !strings.Contains(err.Error(), f.want):
				t.Errorf("the report lacks %q:\n%v", f.want, err)
			}
		})
	}
}

func TestComparisonOfSeveralReaders(t *testing.T) {
	dir := t.TempDir()
	input, parts := lay(t, dir, 900)
	a, b := filepath.Join(dir, "A.out"), filepath.Join(dir, "B.out")
	store(t, a, parts[0], parts[1][:50])
	store(t, b, parts[2], parts[1][50:])
	if err := compare(t, input, false, a, b, filepath.Join(dir, "nothing.out")); err != nil {
		t.Error(err)
	}
	store(t, b, parts[2], parts[1][45:])
	if err := compare(t, input, false, a, b); err == nil {
		t.Error("five records read by both members were not noticed")
	}
	if err := compare(t, input, true, a, b); err != nil {
		t.Errorf("repeats were allowed: %v", err)
	}
	parts[1][46].Value = []byte("different the second time")
	store(t, b, parts[2], parts[1][45:])
	if err := compare(t, input, true, a, b); err == nil {
		t.Error("a repeat with different content was not noticed")
	}
}

// TestTimeless: where records have no timestamps, one that has is noticed, and none is missed.
func TestTimeless(t *testing.T) {
	c := comparison{notBefore: 2_000_000, timeless: true}
	sent := recfile.Span{Partition: -1, Timestamp: -1, Content: []byte("x")}
	for timestamp, good := range map[int64]bool{-1: true, 0: false, 3_000_000: false} {
		if diff := c.differs(sent, recfile.Span{Timestamp: timestamp, Content: sent.Content}); (diff == "") != good {
			t.Errorf("timestamp %d: %q", timestamp, diff)
		}
	}
	if can, err := abilitiesOf([]string{"any-timestamp"}); err != nil || can.timestamp || can.anyTimestamp {
		t.Errorf("%+v, %v", can, err)
	}
}

func TestInputKeepsToAbilities(t *testing.T) {
	words := []string{"partition", "timestamp", "headers", "null-value", "empty-value", "null-key", "binary", "null-header-value", "repeated-header"}
	read := func(cannot []string) map[string]bool {
		can, err := abilitiesOf(cannot)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "input")
		if err := writeInput(path, inputSpec{seed: 3, count: 3000, partitions: 6, can: can, firstTime: 1000}); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		has := make(map[string]bool)
		binary := func(b []byte) bool {
			for _, c := range b {
				if c < ' ' || c > '~' {
					return true
				}
			}
			return false
		}
		r := recfile.NewReader(f, false)
		for range 3000 {
			rec, err := r.Read()
			if err != nil {
				t.Fatal(err)
			}
			has["partition"] = has["partition"] || rec.Partition >= 0
			has["timestamp"] = has["timestamp"] || rec.Timestamp >= 0
			has["headers"] = has["headers"] || len(rec.Headers) > 0
			has["null-value"] = has["null-value"] || rec.Value == nil
			has["empty-value"] = has["empty-value"] || (rec.Value != nil && len(rec.Value) == 0)
			has["null-key"] = has["null-key"] || rec.Key == nil
			has["binary"] = has["binary"] || binary(rec.Key) || binary(rec.Value)
			seen := make(map[string]bool)
			for _, h := range rec.Headers {
				has["null-header-value"] = has["null-header-value"] || h.Value == nil
				has["binary"] = has["binary"] || binary(h.Value)
				has["repeated-header"] = has["repeated-header"] || seen[h.Key]
				seen[h.Key] = true
			}
		}
		return has
	}
	all := read(nil)
	for _, w := range words {
		if !all[w] {
			t.Errorf("the full input has no %s", w)
		}
		if read([]string{w})[w] {
			t.Errorf("an input without %s has it", w)
		}
	}
	if has := fmt.Sprint(read(words)); strings.Contains(has, "true") {
		t.Errorf("an input with nothing special has %s", has)
	}
	if _, err := abilitiesOf([]string{"headings"}); err == nil {
		t.Error("an unknown word was accepted")
	}
}

func TestBigInputs(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	if err := os.MkdirAll(filepath.Join(src, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.go": "one\n\nthree", "sub/b.go": "four\n", "c.txt": "not Go\n"} {
		if err := os.WriteFile(filepath.Join(src, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "lines")
	n, err := writeGoSources(path, src, 0)
	if err != nil || n != 4 {
		t.Fatalf("%d lines, %v", n, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(data) > 0 {
		var s recfile.Span
		if s, data, err = recfile.Next(data, false); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", s.Key, len(s.Content)-len(s.Key)-12))
	}
	if want := "[a.go 3 a.go 0 a.go 5 sub/b.go 4]"; fmt.Sprint(got) != want {
		t.Errorf("records %v, want %s", got, want)
	}
	if n, err := writeGoSources(path, src, 2); n != 2 || err != nil {
		t.Errorf("limited to 2: %d, %v", n, err)
	}
	one, two := filepath.Join(dir, "e1"), filepath.Join(dir, "e2")
	for _, p := range []string{one, two} {
		if err := writeEvents(p, 500); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := os.ReadFile(one)
	b, _ := os.ReadFile(two)
	if len(a) == 0 || string(a) != string(b) {
		t.Error("the events are not the same every time")
	}
}
