package metrics

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const generated = "<!-- made by: go test ./broker/metrics -update -->\n"

// docs/metrics.md lists what the table holds.
func TestDocumentation(t *testing.T) {
	const path = "../../docs/metrics.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, ok := strings.Cut(string(b), generated)
	if !ok {
		t.Fatalf("%s lacks the line %q", path, generated)
	}
	want := "\n" + Documentation()
	if tail == want {
		return
	}
	if !*update {
		t.Fatalf("%s is stale; go test ./broker/metrics -update", path)
	}
	if err := os.WriteFile(path, []byte(head+generated+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The table holds together: names are Prometheus names and come once, counters
// end in _total, label sets differ in length, and nothing is both shown and
// missing.
func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	label := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] {
			t.Errorf("%s comes twice", m.Name)
		}
		seen[m.Name] = true
		if !name.MatchString(m.Name) || m.Help == "" || (m.Kind == Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: a bad name, no help, or a kind that its name does not tell", m.Name)
		}
		lengths := map[int]bool{}
		for _, s := range m.Sets {
			if lengths[len(s)] {
				t.Errorf("%s: two label sets of one length", m.Name)
			}
			lengths[len(s)] = true
			for _, l := range s {
				if !label.MatchString(l) {
					t.Errorf("%s: label %q", m.Name, l)
				}
			}
		}
		for _, gone := range Lacking {
			if gone.Name == m.Name {
				t.Errorf("%s is shown and listed as missing", m.Name)
			}
		}
	}
}

// A value is known within an eighth, and buckets are in order.
func TestBuckets(t *testing.T) {
	last := -1
	for v := int64(0); v < 1<<maxBits; v = v + 1 + v/50 {
		b := bucketOf(v)
		if b < last || b >= buckets {
			t.Fatalf("%d is in bucket %d behind %d", v, b, last)
		}
		last = b
		if got := valueOf(b); math.Abs(got-float64(v)) > float64(v)/8 {
			t.Fatalf("%d is told as %v", v, got)
		}
	}
	if bucketOf(-5) != 0 || bucketOf(math.MaxInt64) != buckets-1 {
		t.Error("the ends")
	}
}

// Percentiles beside those of the sorted values.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var values []int64
	var sum int64
	for range 5000 {
		v := int64(math.Exp(r.Float64() * 15))
		values = append(values, v)
		sum += v
		h.Observe(v)
	}
	slices.Sort(values)
	w := Window{Of: &h}
	s := w.Summary(time.Unix(0, 0))
	for i, q := range Quantiles {
		want := float64(values[int(math.Ceil(q.At*5000))-1])
		if math.Abs(s.Quantiles[i]-want) > want/7 {
			t.Errorf("%s: %v, is %v", q.Name, s.Quantiles[i], want)
		}
	}
	if s.Count != 5000 || math.Abs(s.Mean-float64(sum)/5000) > 1 {
		t.Errorf("%+v", s)
	}
}

// The window forgets, and keeps its last word when nothing comes.
func TestWindow(t *testing.T) {
	var h Histogram
	w := Window{Of: &h}
	at := time.Unix(0, 0)
	for range 100 {
		h.Observe(1000)
	}
	if s := w.Summary(at); math.Abs(s.Quantiles[0]-1000) > 125 || s.Count != 100 {
		t.Errorf("at first: %+v", s)
	}
	at = at.Add(span)
	w.Summary(at)
	h.Observe(10)
	at = at.Add(time.Minute)
	if s := w.Summary(at); s.Quantiles[5] != 10 || s.Count != 101 {
		t.Errorf("after what was is forgotten: %+v", s)
	}
	for range 5 {
		at = at.Add(span)
		if s := w.Summary(at); s.Quantiles[5] != 10 || s.Count != 101 {
			t.Errorf("when nothing came: %+v", s)
		}
	}
}

// Counting allocates nothing.
func TestCountingIsFree(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Duration(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Observe(12345)
	}
}
