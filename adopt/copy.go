package adopt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disk"
)

// ErrOldSets says that a log holds message sets, as Kafka wrote before 0.11 (KIP-98).
var ErrOldSets = errors.New("message sets of magic 0 and 1 are not read here")

// checkpoints are the files of a data directory that are taken over as they are.
var checkpoints = []string{"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"}

// begin marks the directories as ones that hold no whole node yet, before anything else is in them.
func (a *adoption) begin() error {
	for _, dir := range a.o.To {
		if err := storage.MarkUnfinished(nil, dir); err != nil {
			return err
		}
	}
	return nil
}

// copy copies the files.
func (a *adoption) copy() error {
	for i, dir := range a.o.From {
		for _, name := range checkpoints {
			if err := a.copyFile(filepath.Join(dir, name), filepath.Join(a.o.To[i], name), nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, p := range a.logs {
		if p.dir < 0 {
			continue
		}
		if err := a.copyLog(&p); err != nil {
			return err
		}
	}
	for _, dir := range a.o.To {
		if err := (disk.OS{}).SyncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

// copyLog copies a partition's files. Indexes of a log that was not closed are made anew: Kafka's are as large as they may
// become.
func (a *adoption) copyLog(p *partition) error {
	from, to := filepath.Join(a.o.From[p.dir], p.files), filepath.Join(a.o.To[p.dir], p.name())
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	names, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, n := range names {
		plain := strings.TrimSuffix(n.Name(), ".swap")
		if n.IsDir() || strings.HasSuffix(n.Name(), ".deleted") || !a.clean[p.dir] && (strings.HasSuffix(plain, ".index") || strings.HasSuffix(plain, ".timeindex")) {
			continue
		}
		var sets *frames
		if strings.HasSuffix(plain, ".log") {
			sets = &frames{}
		}
		path := filepath.Join(from, n.Name())
		if err := a.copyFile(path, filepath.Join(to, n.Name()), sets); err != nil {
			return err
		}
		if old, err := sets.confirm(path); err != nil {
			return err
		} else if old {
			return fmt.Errorf("%w: %s holds one at position %d", ErrOldSets, path, sets.at)
		}
	}
	// A log that was closed in order is opened without a write: nobody else makes its names durable.
	if err := (disk.OS{}).SyncDir(to); err != nil {
		return fmt.Errorf("sync %s: %w", to, err)
	}
	return nil
}

// copyFile copies a file, durably, and shows its bytes to sets, which may be nil.
func (a *adoption) copyFile(from, to string, sets *frames) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	create := a.o.create
	if create == nil {
		create = func(path string) (*os.File, error) {
			return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		}
	}
	out, err := create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	if sets == nil {
		_, err = io.Copy(out, in)
	} else {
		_, err = io.CopyBuffer(io.MultiWriter(out, sets), struct{ io.Reader }{in}, make([]byte, 1<<20))
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// refuseOld looks at the first batch of every segment, so that most directories with message sets are refused before
// anything is written.
func (a *adoption) refuseOld() error {
	var list []string
	var example string
	for _, p := range a.logs {
		if p.dir < 0 {
			continue
		}
		dir := filepath.Join(a.o.From[p.dir], p.files)
		names, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if !strings.HasSuffix(strings.TrimSuffix(n.Name(), ".swap"), ".log") {
				continue
			}
			path := filepath.Join(dir, n.Name())
			old, err := beginsOld(path)
			if err != nil {
				return err
			}
			if old {
				list, example = append(list, p.name()), path
				break
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w, and %s (%s begins with one): nothing is taken over until such topics are gone; copy their records to new ones while Kafka runs", ErrOldSets, several(list, "has some", "have some"), example)
}

func beginsOld(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var sets frames
	if _, err := io.Copy(&sets, io.LimitReader(f, toMagic)); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return sets.confirm(path)
}

const (
	toMagic    = 17 // bytes of a batch or message that show of what format it is
	oldMessage = 14 // bytes at least of a message, behind its offset and size
)

// frames goes through the batches of a segment whose bytes are written to it, up to the first message set: the offset, the
// length and the place of the magic are the same in all formats.
type frames struct {
	at   int64  // where the batch begins that is being looked at
	head []byte // its first bytes, as far as they have come
	rest int64  // what is still to come of it
	over bool   // a message set is at at, or what is no batch: nothing more is looked at
	old  bool
}

func (f *frames) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 && !f.over {
		if f.rest > 0 {
			skip := min(f.rest, int64(len(b)))
			f.rest, b = f.rest-skip, b[skip:]
			continue
		}
		take := min(toMagic-len(f.head), len(b))
		f.head, b = append(f.head, b[:take]...), b[take:]
		if len(f.head) < toMagic {
			break
		}
		length, magic := int64(int32(binary.BigEndian.Uint32(f.head[8:]))), int8(f.head[16])
		size := batch.LengthOverhead + length
		switch {
		case magic == batch.Magic && size >= batch.HeaderSize:
			f.at, f.rest, f.head = f.at+size, size-toMagic, f.head[:0]
		default:
			f.over, f.old = true, (magic == 0 || magic == 1) && length >= oldMessage
		}
	}
	return n, nil
}

// confirm says whether what was found in a file is a message set indeed, and no remains of a write. f may be nil.
func (f *frames) confirm(path string) (bool, error) {
	if f == nil || !f.old {
		return false, nil
	}
	in, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return false, err
	}
	length := int64(int32(binary.BigEndian.Uint32(f.head[8:])))
	if f.at+batch.LengthOverhead+length > info.Size() {
		return false, nil
	}
	b := make([]byte, length)
	if _, err := in.ReadAt(b, f.at+batch.LengthOverhead); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return crc32.ChecksumIEEE(b[4:]) == binary.BigEndian.Uint32(b), nil
}
