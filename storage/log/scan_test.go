package log

import (
	"testing"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
)

// TestScanReadsOnce: whoever walks a segment reads each of its bytes once, whatever the batches' lengths are beside the
// buffer's.
func TestScanReadsOnce(t *testing.T) {
	for _, size := range []int{0, 300, 800, 1100, 1990, 2500, 9000} {
		fs := disktest.New()
		f, err := fs.Open("/f", disk.Write|disk.Create)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		const n = 20
		for range n {
			u := batch.NewBuilder(batch.BuilderOptions{})
			u.Add(1, nil, make([]byte, size))
			if _, err := f.WriteAt(u.Bytes(), at); err != nil {
				t.Fatal(err)
			}
			at += int64(len(u.Bytes()))
		}
		s := scanner{f: f, limit: at, buf: make([]byte, 2048)}
		for range n {
			h, err := s.header()
			if err == nil {
				err = s.checksum(h)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.step(h)
		}
		if s.read != at || s.pos != at {
			t.Errorf("with records of %d bytes %d bytes are read of %d", size, s.read, at)
		}
	}
}
