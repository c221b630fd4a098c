package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// The checkpoint files of a data directory.
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	cleanerFile       = "cleaner-offset-checkpoint"
)

// maxCheckpoint bounds what is read as a checkpoint: some millions of partitions.
const maxCheckpoint = 512 << 20

// partitionKey names a partition.
type partitionKey struct {
	topic     string
	partition int32
}

func compareKeys(a, b partitionKey) int {
	if c := cmp.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return cmp.Compare(a.partition, b.partition)
}

// checkpoint is one file of offsets, one for each partition.
type checkpoint map[partitionKey]batch.Offset

// encode makes the file's bytes, sorted.
func (c checkpoint) encode() []byte {
	keys := make([]partitionKey, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	b := append([]byte("0\n"), strconv.Itoa(len(c))...)
	b = append(b, '\n')
	for _, k := range keys {
		b = append(b, k.topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(k.partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(c[k]), 10)
		b = append(b, '\n')
	}
	return b
}

// decodeCheckpoint reads the file's bytes. An empty file, which is how Kafka makes it, holds nothing.
func decodeCheckpoint(b []byte) (checkpoint, error) {
	c := checkpoint{}
	if len(b) == 0 {
		return c, nil
	}
	version, rest, _ := bytes.Cut(b, []byte("\n"))
	if string(version) != "0" {
		return nil, fmt.Errorf("version %q, want 0", version)
	}
	count, rest, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseInt(string(count), 10, 32)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("entry count %q", count)
	}
	for i := range n {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		f := bytes.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("entry %d is %q", i, line)
		}
		p, err := strconv.ParseInt(string(f[1]), 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("partition of entry %d is %q", i, f[1])
		}
		o, err := strconv.ParseInt(string(f[2]), 10, 64)
		if err != nil || o < 0 {
			return nil, fmt.Errorf("offset of entry %d is %q", i, f[2])
		}
		k := partitionKey{topic: string(f[0]), partition: int32(p)}
		if _, twice := c[k]; twice {
			return nil, fmt.Errorf("entry %d names %s-%d again", i, k.topic, k.partition)
		}
		c[k] = batch.Offset(o)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d bytes after its %d entries", len(rest), n)
	}
	return c, nil
}

func readCheckpoint(fsys disk.FS, dir, name string) (checkpoint, error) {
	b, err := disk.ReadFile(fsys, dir+"/"+name, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}
