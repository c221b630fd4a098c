package storage

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// TestDeletionBesideOthers deletes a compacted topic and makes it anew, again and again, while it is written, read, flushed,
// cleaned, loses old segments by retention, and is kept house for. Whoever was at it is told that the log is closed, or ends with what it had; a reader never
// meets records of another topic of that name, and no directory is given up for it.
func TestDeletionBesideOthers(t *testing.T) {
	for name, fs := range map[string]disk.FS{"os": disk.OS{}, "memory": disktest.New()} {
		t.Run(name, func(t *testing.T) {
			dir, lives := "/data", byte(30)
			if name == "os" { // which waits for its disk
				dir, lives = t.TempDir(), 8
			}
			deletionBesideOthers(t, fs, dir, lives)
		})
	}
}

// life is one topic of a name, as a partition is: who changes its log is told when that is gone.
type life struct {
	*washed
	id          byte
	puts, reads atomic.Int64
	gone        bool
}

func (x *life) Exclusive(f func() error) error {
	return x.washed.Exclusive(func() error {
		if x.gone {
			return log.ErrClosed
		}
		return f()
	})
}

func (x *life) Retain() {
	_ = x.Exclusive(func() error { _, err := x.log.Retain(time.Now()); return err })
}

func deletionBesideOthers(t *testing.T, fs disk.FS, dir string, lives byte) {
	s, err := Open(StoreOptions{Dirs: []string{dir}, FS: fs, NodeID: 1, OpenFiles: 2, WrittenFiles: 1})
	if err != nil {
		t.Fatal(err)
	}
	config := compacted()
	config.SegmentBytes, config.IndexIntervalBytes, config.FileDeleteDelayMs, config.MinCleanableRatio = 700, 100, 0, 0
	config.Delete, config.RetentionBytes = true, 1000
	const most = 100 // appends to one topic
	var now atomic.Pointer[life]
	make1 := func(id byte) {
		l, err := s.Log("t", [16]byte{id}, 0, config)
		if err != nil {
			t.Fatal(err)
		}
		now.Store(&life{washed: &washed{topic: "t", log: l}, id: id})
	}
	make1(1)
	var done atomic.Bool
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	var cleans, closed, removed atomic.Int64
	run := func(f func(*life) error) {
		wg.Go(func() {
			for !done.Load() {
				switch err := f(now.Load()); {
				case err == nil:
				case errors.Is(err, log.ErrClosed):
					closed.Add(1)
				default:
					failure.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	run(func(x *life) error {
		if x.puts.Load() == most {
			time.Sleep(time.Millisecond)
			return nil
		}
		n := x.puts.Add(1)
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(time.Now().UnixMilli(), []byte{byte(n % 5)}, fmt.Appendf(nil, "%c %060d", x.id, n))
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			return err
		}
		return x.Exclusive(func() error {
			_, err := x.log.Append(u.Bytes(), h, time.Now().UnixMilli())
			x.log.SetHighWatermark(x.log.View().LogEnd())
			return err
		})
	})
	for range 2 {
		run(func(x *life) error {
			v := x.log.View()
			for at := v.LogStart(); at < v.HighWatermark(); {
				sec, err := v.Read(at, v.HighWatermark(), 1000, true)
				if errors.Is(err, log.ErrOffsetOutOfRange) {
					return nil // retention came by
				}
				if err != nil {
					return err
				}
				p := make([]byte, sec.Len())
				n, err := sec.ReadAt(p, 0)
				sec.Release()
				if n != len(p) || (err != nil && err != io.EOF) {
					return fmt.Errorf("a section of %d bytes gives %d: %w", len(p), n, err)
				}
				before := at
				for len(p) >= batch.HeaderSize {
					h, err := batch.ParseHeader(p)
					if err != nil {
						return err
					}
					if h.Size() > len(p) {
						break
					}
					if err := batch.CheckCRC(p[:h.Size()]); err != nil {
						return err
					}
					for r, err := range batch.Records(p[:h.Size()], 0) {
						if err != nil {
							return err
						}
						if r.Value[0] != x.id {
							return fmt.Errorf("a reader of topic %d is given a record of topic %d", x.id, r.Value[0])
						}
						x.reads.Add(1)
					}
					at, p = h.NextOffset(), p[h.Size():]
				}
				if at == before {
					return nil // the view ends in a gap that a cleaning has left
				}
			}
			return nil
		})
	}
	run(func(x *life) error { time.Sleep(time.Millisecond); return x.log.Flush() })
	run(func(*life) error { time.Sleep(time.Millisecond); return s.Housekeep(time.Now()) })
	run(func(x *life) error {
		time.Sleep(time.Millisecond)
		return x.Exclusive(func() error {
			reasons, err := x.log.Retain(time.Now())
			removed.Add(int64(len(reasons)))
			return err
		})
	})
	c := s.NewCleaner(func() []Cleanable { return []Cleanable{now.Load()} }, ordinary)
	run(func(*life) error {
		if c.CleanOnce(t.Context()) {
			cleans.Add(1)
		}
		return nil
	})
	chance := rand.New(rand.NewPCG(1, 9))
	for id := byte(2); id < 2+lives && failure.Load() == nil; id++ {
		x := now.Load()
		enough := 1 + chance.Int64N(most)
		for failure.Load() == nil && (x.puts.Load() < enough || x.reads.Load() < enough || id == 1+lives && (cleans.Load() == 0 || removed.Load() == 0)) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
		_ = x.Exclusive(func() error { x.gone = true; return nil })
		if err := s.Delete("t", 0); err != nil {
			t.Fatal(err)
		}
		make1(id)
	}
	done.Store(true)
	wg.Wait()
	if err := failure.Load(); err != nil {
		t.Fatal(*err)
	}
	if closed.Load() == 0 {
		t.Error("nobody was at a log that was deleted")
	}
	if len(s.OfflineIDs()) > 0 {
		t.Errorf("given up: %v", s.Failures())
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}
