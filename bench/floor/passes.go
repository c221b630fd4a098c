package floor

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Passes is the least that recovery and cleaning do with a log's bytes: read
// them, compare checksums, and write some of them again, as segments that are
// made durable before they take the place of others.
type Passes struct {
	Bytes   int
	Reads   int // passes over the bytes; the first compares checksums
	Keep    int // the last pass writes every so-manieth block; 0: none
	Segment int // bytes of a segment that is written, one block at least
}

const (
	// passBlock is how much is read at a time.
	passBlock = 256 << 10
	// For so many bytes of a segment its two indexes have an entry each.
	indexInterval            = 4096
	offsetsEntry, timesEntry = 8, 12
)

// Run makes a file and goes over it. It returns what that took, and what of the
// processor.
func (p Passes) Run(dir string) (took, used time.Duration, err error) {
	f, err := unlinked(dir)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	b := make([]byte, passBlock)
	for i := range b {
		b[i] = byte(i * 7)
	}
	blocks := max(p.Bytes/passBlock, 1)
	for i := range blocks {
		if _, err := f.WriteAt(b, int64(i)*passBlock); err != nil {
			return 0, 0, fmt.Errorf("make a file to read: %w", err)
		}
	}
	out, err := newSegments(dir, p.Segment)
	if err != nil {
		return 0, 0, err
	}
	defer out.remove()
	sum := crc32.Checksum(b, castagnoli)
	begun := time.Now()
	busy, err := ownTime()
	if err != nil {
		return 0, 0, err
	}
	for pass := range p.Reads {
		if err := p.over(f, out, b, blocks, sum, pass); err != nil {
			return 0, 0, err
		}
	}
	if p.Keep > 0 {
		if err := out.finish(); err != nil {
			return 0, 0, err
		}
	}
	after, err := ownTime()
	return time.Since(begun), after - busy, err
}

func (p Passes) over(f *os.File, out *segments, b []byte, blocks int, sum uint32, pass int) error {
	for i := range blocks {
		if _, err := f.ReadAt(b, int64(i)*passBlock); err != nil {
			return err
		}
		if pass == 0 && crc32.Checksum(b, castagnoli) != sum {
			return errors.New("a file reads otherwise than it was written")
		}
		if pass == p.Reads-1 && p.Keep > 0 && i%p.Keep == 0 {
			if err := out.write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// segments are the files that a pass writes, one after another.
type segments struct {
	dir  string
	size int
	f    *os.File // the one that is written; nil: none
	at   int
	done int // how many are finished
}

func newSegments(in string, size int) (*segments, error) {
	dir, err := os.MkdirTemp(in, "floor-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for segments: %w", err)
	}
	return &segments{dir: dir, size: size}, nil
}

func (s *segments) remove() {
	if s.f != nil {
		s.f.Close()
	}
	os.RemoveAll(s.dir)
}

func (s *segments) write(b []byte) error {
	if s.f != nil && s.at+len(b) > s.size {
		if err := s.finish(); err != nil {
			return err
		}
	}
	if s.f == nil {
		f, err := os.Create(filepath.Join(s.dir, "written"))
		if err != nil {
			return err
		}
		s.f, s.at = f, 0
	}
	n, err := s.f.WriteAt(b, int64(s.at))
	s.at += n
	return err
}

// finish makes a segment durable as a log's is: its indexes, itself, then its
// name.
func (s *segments) finish() error {
	if s.f == nil {
		return nil
	}
	for _, entry := range []int{offsetsEntry, timesEntry} {
		x, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%d.index-%d", s.done, entry)))
		if err != nil {
			return err
		}
		if _, err = x.Write(make([]byte, s.at/indexInterval*entry)); err == nil {
			err = datasync(x)
		}
		if err := errors.Join(err, x.Close()); err != nil {
			return fmt.Errorf("write an index: %w", err)
		}
	}
	err := errors.Join(datasync(s.f), s.f.Close())
	name := s.f.Name()
	s.f = nil
	if err != nil {
		return fmt.Errorf("sync a segment: %w", err)
	}
	if err := os.Rename(name, filepath.Join(s.dir, fmt.Sprintf("%d.log", s.done))); err != nil {
		return err
	}
	s.done++
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync a directory: %w", err)
	}
	return nil
}

// ownTime is the processor time that this process has used.
func ownTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the own clock: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
