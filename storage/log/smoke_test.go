package log

import (
	"io"
	"testing"

	"millrace/storage/batch"
)

func rawBatch(t testing.TB, n int, ts int64) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.BuilderOptions{})
	for i := range n {
		b.Add(ts+int64(i), []byte("k"), []byte("value"))
	}
	return b.Bytes()
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir() + "/t-0"
	l, _, err := Open(Options{Dir: dir, Topic: "t", TopicID: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	l.AssignEpoch(3)
	for i := range 100 {
		b := rawBatch(t, 3, int64(1000+i))
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, 5000); err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(300)
	s, err := l.View().Read(150, 300, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, s.Len())
	if _, err := s.ReadAt(p, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	h, err := batch.ParseHeader(p)
	if err != nil || h.BaseOffset != 150 {
		t.Fatal(h, err)
	}
	s.Release()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, r, err := Open(Options{Dir: dir, Topic: "t", Clean: true, RecoveryPoint: 300})
	if err != nil {
		t.Fatal(err)
	}
	if l.View().LogEnd() != 300 || r.Scanned != 0 {
		t.Fatal(l.View().LogEnd(), r)
	}
}
