package log

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"millrace/storage/disk"
)

func isTooLong(err error) bool {
	var t *disk.TooLongError
	return errors.As(err, &t)
}

// ErrMetadata says that a partition.metadata file holds no topic id.
var ErrMetadata = errors.New(metadataFile)

// encodeMetadata makes the bytes of a partition.metadata file; no newline ends it.
func encodeMetadata(id [16]byte) []byte {
	return []byte("version: 0\ntopic_id: " + base64.RawURLEncoding.EncodeToString(id[:]))
}

// decodeMetadata reads the bytes of a partition.metadata file.
func decodeMetadata(b []byte) (id [16]byte, err error) {
	version, topic, ok := bytes.Cut(bytes.TrimRight(b, "\n"), []byte("\n"))
	if !ok || string(bytes.TrimSpace(version)) != "version: 0" {
		return id, fmt.Errorf("%w: no version 0 in %q", ErrMetadata, b)
	}
	name, value, ok := bytes.Cut(topic, []byte(": "))
	if !ok || string(name) != "topic_id" {
		return id, fmt.Errorf("%w: no topic id in %q", ErrMetadata, b)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(bytes.TrimSpace(value)))
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%w: topic id %q", ErrMetadata, value)
	}
	copy(id[:], raw)
	if id == ([16]byte{}) {
		return id, fmt.Errorf("%w: topic id is zero", ErrMetadata)
	}
	return id, nil
}

// ReadTopicID reads the topic id of a partition's directory; it is zero where no file says one.
func ReadTopicID(fsys disk.FS, dir string) ([16]byte, error) {
	b, err := disk.ReadFile(fsys, dir+"/"+metadataFile, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return [16]byte{}, nil
	}
	if err != nil {
		return [16]byte{}, fmt.Errorf("read partition.metadata: %w", err)
	}
	return decodeMetadata(b)
}

// writeMetadata makes partition.metadata, before the first append; the next Flush syncs it.
func (l *Log) writeMetadata() error {
	f, err := l.fs.Open(l.dir+"/"+metadataFile, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return fmt.Errorf("open partition.metadata: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(encodeMetadata(l.topicID), 0); err != nil {
		return fmt.Errorf("write partition.metadata: %w", err)
	}
	l.metaDirty.Store(true)
	return nil
}
