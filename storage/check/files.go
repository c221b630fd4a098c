package check

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/epoch"
)

const nameDigits = 20

// What stands behind the names of files that are on their way: to be a segment's, or to go.
const (
	deletedSuffix = ".deleted"
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
	cutSuffix     = ".cut.cleaned" // of a truncation, not of a cleaning
)

// parseSegmentName splits a name such as 00000000000000000042.index.
func parseSegmentName(name string) (o batch.Offset, suffix string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' || strings.Trim(name[:nameDigits], "0123456789") != "" {
		return 0, "", false
	}
	n, err := strconv.ParseInt(name[:nameDigits], 10, 64)
	return batch.Offset(n), name[nameDigits:], err == nil
}

// ofPartition says whether a name is one of a partition's files, on their way too.
func ofPartition(name string) bool {
	_, suffix, ok := parseSegmentName(name)
	for _, way := range []string{deletedSuffix, ".tmp", cutSuffix, cleanedSuffix, swapSuffix} {
		suffix = strings.TrimSuffix(suffix, way)
	}
	return name == partitionMetadata || name == epoch.FileName || ok && slices.Contains([]string{".log", ".index", ".timeindex", ".txnindex", ".snapshot"}, suffix)
}

// notFile says why what stands under the name of a file is none that can be read; nil: it is one.
func notFile(fsys disk.FS, path string, e disk.Entry) (reason, err error) {
	info, err := fsys.Stat(path)
	switch {
	case e.Dir || err == nil && info.Dir:
		return errors.New("is a directory, where a file belongs"), nil
	case missing(err):
		return errors.New("is a link that leads to nothing"), nil
	case errors.Is(err, syscall.ELOOP):
		return errors.New("is a link that leads to itself"), nil
	}
	return nil, err
}

func segmentName(o batch.Offset, suffix string) string { return fmt.Sprintf("%020d%s", o, suffix) }

// CheckpointEntry is one line of an offset checkpoint.
type CheckpointEntry struct {
	Topic     string
	Partition int32
	Offset    batch.Offset
}

// Dir is the name of the partition's directory.
func (e CheckpointEntry) Dir() string { return fmt.Sprintf("%s-%d", e.Topic, e.Partition) }

// Checkpoint is an offset checkpoint, in the order of its file.
type Checkpoint []CheckpointEntry

func (c Checkpoint) of(dir string) batch.Offset {
	for _, e := range c {
		if e.Dir() == dir {
			return e.Offset
		}
	}
	return -1
}

// maxText bounds what is read as a text file.
const maxText = 512 << 20

// ReadCheckpoint reads an offset checkpoint. An empty file, which is how Kafka makes it, holds nothing.
func ReadCheckpoint(fsys disk.FS, path string) (Checkpoint, error) {
	b, err := disk.ReadFile(fsys, path, maxText)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	text, ended := strings.CutSuffix(string(b), "\n")
	lines := strings.Split(text, "\n")
	if !ended || lines[0] != "0" || len(lines) < 2 {
		return nil, fmt.Errorf("is no checkpoint of version 0")
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("has %d entries and says %q", len(lines)-2, lines[1])
	}
	var c Checkpoint
	seen := map[string]bool{}
	for i, line := range lines[2:] {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("entry %d is %q", i, line)
		}
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		o, err2 := strconv.ParseInt(f[2], 10, 64)
		e := CheckpointEntry{Topic: f[0], Partition: int32(p), Offset: batch.Offset(o)}
		if err1 != nil || err2 != nil || p < 0 || o < 0 || seen[e.Dir()] {
			return nil, fmt.Errorf("entry %d is %q", i, line)
		}
		seen[e.Dir()] = true
		c = append(c, e)
	}
	return c, nil
}

// checkMeta looks at meta.properties.
func checkMeta(fsys disk.FS, dir string) error {
	const expected = "expected version=1 with cluster.id and node.id"
	b, err := disk.ReadFile(fsys, dir+"/"+metaFile, 1<<20)
	if err != nil {
		return err
	}
	values := map[string]string{}
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d is %q, no key=value: %s", number, line, expected)
		}
		values[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	node := "node.id"
	switch _, old := values["broker.id"]; {
	case values["version"] == "0", values["version"] == "" && old:
		node = "broker.id"
	case values["version"] == "":
		return fmt.Errorf("version is missing: %s", expected)
	case values["version"] != "1":
		return fmt.Errorf("version is %q: only 1 and 0 are known", values["version"])
	case values["cluster.id"] == "":
		return fmt.Errorf("cluster.id is missing")
	}
	if values[node] == "" {
		return fmt.Errorf("%s is missing", node)
	}
	if n, err := strconv.ParseInt(values[node], 10, 32); err != nil || n < 0 {
		return fmt.Errorf("%s is %q: expected a number that is not negative", node, values[node])
	}
	if id := values["directory.id"]; id != "" {
		if _, err := parseUUID(id); err != nil {
			return fmt.Errorf("directory.id is %q: %w", id, err)
		}
	}
	return nil
}

func parseUUID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return id, err
	}
	if len(b) != len(id) {
		return id, fmt.Errorf("%d bytes", len(b))
	}
	copy(id[:], b)
	return id, nil
}

// readTopicID reads partition.metadata.
func readTopicID(fsys disk.FS, dir string) (text string, err error) {
	b, err := disk.ReadFile(fsys, dir+"/"+partitionMetadata, 1<<10)
	if err != nil {
		return "", err
	}
	version, topic, _ := strings.Cut(strings.TrimRight(string(b), "\n"), "\n")
	text, ok := strings.CutPrefix(topic, "topic_id: ")
	if version != "version: 0" || !ok {
		return "", fmt.Errorf("%q is no partition.metadata of version 0", b)
	}
	id, err := parseUUID(text)
	if err != nil {
		return text, fmt.Errorf("topic id %q: %w", text, err)
	}
	if id == ([16]byte{}) {
		return text, fmt.Errorf("topic id is zero")
	}
	return text, nil
}

// OffsetEntry is one entry of a .index file.
type OffsetEntry struct {
	Offset   batch.Offset // the last of a batch
	Position int64        // where it begins
}

// TimeEntry is one entry of a .timeindex file.
type TimeEntry struct {
	Timestamp int64
	Offset    batch.Offset
}

// AbortedEntry is one entry of a .txnindex file.
type AbortedEntry struct {
	Version    int16
	ProducerID batch.ProducerID
	First      batch.Offset
	Last       batch.Offset
	LastStable batch.Offset
}

const (
	offsetEntrySize  = 8
	timeEntrySize    = 12
	abortedEntrySize = 34
)

// readEntries reads a file of entries of one size. Trailing entries of zeros are not counted where the file may still have
// the length it is given while its segment is written to; partial is how many bytes make no whole entry.
func readEntries(fsys disk.FS, path string, size int, open bool) (b []byte, partial int, err error) {
	b, err = disk.ReadFile(fsys, path, math.MaxInt32)
	if err != nil {
		return nil, 0, err
	}
	partial = len(b) % size
	b = b[:len(b)-partial]
	if open {
		zero := make([]byte, size)
		for len(b) > 0 && bytes.Equal(b[len(b)-size:], zero) {
			b = b[:len(b)-size]
		}
	}
	return b, partial, nil
}

func offsetEntries(b []byte, base batch.Offset) []OffsetEntry {
	out := make([]OffsetEntry, 0, len(b)/offsetEntrySize)
	for ; len(b) >= offsetEntrySize; b = b[offsetEntrySize:] {
		out = append(out, OffsetEntry{Offset: base + batch.Offset(int32(binary.BigEndian.Uint32(b))), Position: int64(int32(binary.BigEndian.Uint32(b[4:])))})
	}
	return out
}

func timeEntries(b []byte, base batch.Offset) []TimeEntry {
	out := make([]TimeEntry, 0, len(b)/timeEntrySize)
	for ; len(b) >= timeEntrySize; b = b[timeEntrySize:] {
		out = append(out, TimeEntry{Timestamp: int64(binary.BigEndian.Uint64(b)), Offset: base + batch.Offset(int32(binary.BigEndian.Uint32(b[8:])))})
	}
	return out
}

func abortedEntries(b []byte) []AbortedEntry {
	out := make([]AbortedEntry, 0, len(b)/abortedEntrySize)
	for ; len(b) >= abortedEntrySize; b = b[abortedEntrySize:] {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
		out = append(out, AbortedEntry{Version: int16(binary.BigEndian.Uint16(b)), ProducerID: batch.ProducerID(at(2)),
			First: batch.Offset(at(10)), Last: batch.Offset(at(18)), LastStable: batch.Offset(at(26))})
	}
	return out
}
