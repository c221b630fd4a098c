package check_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/codec"
	"millrace/storage/disktest"
)

// TestVastRecords: what a small batch unpacks to is neither held to be checked nor to be shown, and what stands beside it is
// checked and shown.
func TestVastRecords(t *testing.T) {
	fs := disktest.New()
	s, err := open(fs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta(cluster, 1); err != nil {
		t.Fatal(err)
	}
	c := smallConfig()
	c.SegmentBytes = 8 << 20
	l, err := s.Log("t", [16]byte{1}, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AssignEpoch(1); err != nil {
		t.Fatal(err)
	}
	packed := batch.NewBuilder(batch.BuilderOptions{Codec: codec.Zstd})
	packed.Add(1, []byte("vast"), make([]byte, 32<<20))
	packed.Add(2, []byte("beside"), []byte("it"))
	headers := batch.NewBuilder(batch.BuilderOptions{})
	headers.Add(3, nil, nil, slices.Repeat([]batch.RecordHeader{{}}, 1<<20)...)
	for _, b := range [][]byte{packed.Bytes(), headers.Bytes()} {
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	takes := func(what string, f func()) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%s takes %d MiB", what, n>>20)
		}
	}
	takes("a check", func() {
		if r := report(t, fs); len(r.All()) > 0 || len(r.Partitions) != 1 || r.Partitions[0].Records != 3 {
			t.Errorf("%+v", r)
		}
	})
	var shown []string
	takes("a dump", func() {
		err = check.Dump(fs, dir, check.DumpOptions{Records: true}, func(x check.Item) error {
			if x.Kind != "record" {
				return nil
			}
			var names []string
			for _, f := range x.Fields {
				if v, ok := f.Value.([]byte); ok && v != nil {
					f.Name += "=" + string(v)
				}
				names = append(names, f.Name)
			}
			shown = append(shown, strings.Join(names, " "))
			return nil
		})
	})
	if want := []string{"offset timestamp notShown", "offset timestamp key=beside value=it", "offset timestamp key value headers headersNotShown"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("%q, %v, want %q", shown, err, want)
	}
}
