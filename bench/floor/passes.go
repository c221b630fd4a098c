package floor

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Passes is the least that recovery and cleaning do with a log's bytes: read
// them, compare checksums, and write some of them again.
type Passes struct {
	Bytes int
	Reads int // passes over the bytes; the first compares checksums
	Keep  int // the last pass writes every so-manieth block; 0: none
}

// passBlock is how much is read at a time.
const passBlock = 256 << 10

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
	out, err := unlinked(dir)
	if err != nil {
		return 0, 0, err
	}
	defer out.Close()
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
	after, err := ownTime()
	return time.Since(begun), after - busy, err
}

func (p Passes) over(f, out *os.File, b []byte, blocks int, sum uint32, pass int) error {
	at := int64(0)
	for i := range blocks {
		if _, err := f.ReadAt(b, int64(i)*passBlock); err != nil {
			return err
		}
		if pass == 0 && crc32.Checksum(b, castagnoli) != sum {
			return errors.New("a file reads otherwise than it was written")
		}
		if pass == p.Reads-1 && p.Keep > 0 && i%p.Keep == 0 {
			if _, err := out.WriteAt(b, at); err != nil {
				return err
			}
			at += passBlock
		}
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
