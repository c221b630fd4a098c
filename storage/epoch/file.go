package epoch

import (
	"bytes"
	"fmt"
	"strconv"

	"millrace/storage/batch"
)

// FileName is the name of the file that holds a partition's epochs.
const FileName = "leader-epoch-checkpoint"

// Encode returns the file's bytes.
func (c Cache) Encode() []byte {
	b := append([]byte("0\n"), strconv.Itoa(len(c.entries))...)
	b = append(b, '\n')
	for _, e := range c.entries {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(e.Start), 10)
		b = append(b, '\n')
	}
	return b
}

// Decode reads the file's bytes. An empty file, which is how it looks before it is first written, holds no epoch.
func Decode(b []byte) (Cache, error) {
	if len(b) == 0 {
		return Cache{}, nil
	}
	line, rest := cut(b)
	if string(line) != "0" {
		return Cache{}, fmt.Errorf("leader epoch file: version %q, want 0", line)
	}
	line, rest = cut(rest)
	n, err := strconv.ParseInt(string(line), 10, 32)
	if err != nil || n < 0 {
		return Cache{}, fmt.Errorf("leader epoch file: entry count %q", line)
	}
	var entries []Entry
	for i := range n {
		line, rest = cut(rest)
		a, b, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return Cache{}, fmt.Errorf("leader epoch file: entry %d is %q", i, line)
		}
		e, err := strconv.ParseInt(string(a), 10, 32)
		if err != nil {
			return Cache{}, fmt.Errorf("leader epoch file: epoch of entry %d: %w", i, err)
		}
		o, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			return Cache{}, fmt.Errorf("leader epoch file: start of entry %d: %w", i, err)
		}
		entries = append(entries, Entry{Epoch: batch.LeaderEpoch(e), Start: batch.Offset(o)})
	}
	if len(rest) != 0 {
		return Cache{}, fmt.Errorf("leader epoch file: %d bytes after its %d entries", len(rest), n)
	}
	c, ok := New(entries)
	if !ok {
		return Cache{}, fmt.Errorf("leader epoch file: entries do not increase")
	}
	return c, nil
}

func cut(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\n"))
	return line, rest
}
