//go:build compat

package torture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// What TestKillNotices does to the data directories below a root, and where it finds a batch's parts.
const batchHead, lengthAt, lastDeltaAt = 12, 8, 23

// segments are those of a topic in all data directories, by partition and base offset; not those that are on their way or
// to go.
func segments(root, topic string) ([]string, error) {
	return filepath.Glob(filepath.Join(root, "*", topic+"-[0-9]", "*.log"))
}

// longestLog is the log of a topic that holds most.
func longestLog(root, topic string) (path string, content []byte, err error) {
	logs, err := segments(root, topic)
	if err != nil {
		return "", nil, err
	}
	for _, l := range logs {
		b, err := os.ReadFile(l)
		if err != nil {
			return "", nil, err
		}
		if len(b) > len(content) {
			path, content = l, b
		}
	}
	if len(content) < 2000 {
		return "", nil, fmt.Errorf("no log of %s holds enough to damage: %v", topic, logs)
	}
	return path, content, nil
}

// cutLog takes the half of a log: of less, all might be what nobody had an answer for yet.
func cutLog(root string) (string, error) {
	path, content, err := longestLog(root, "load-0")
	if err != nil {
		return "", err
	}
	return "cut the end of " + path, os.Truncate(path, int64(len(content)/2))
}

// repeatBatch puts the last batch of a log behind itself, under the next offsets: its checksum does not cover those.
func repeatBatch(root string) (string, error) {
	path, content, err := longestLog(root, "load-0")
	if err != nil {
		return "", err
	}
	last, end := 0, 0
	for end+batchHead <= len(content) {
		size := batchHead + int(binary.BigEndian.Uint32(content[end+lengthAt:]))
		if end+size > len(content) {
			break // torn by the kill
		}
		last, end = end, end+size
	}
	again := slices.Clone(content[last:end])
	base := binary.BigEndian.Uint64(again) + uint64(binary.BigEndian.Uint32(again[lastDeltaAt:])) + 1
	binary.BigEndian.PutUint64(again, base)
	return fmt.Sprintf("repeated the batch at %d of %s at offset %d", last, path, base), os.WriteFile(path, append(content[:end:end], again...), 0o644)
}

// loseStarts forgets where logs start: what is left of the segment with the start is there again.
func loseStarts(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "log-start-offset-checkpoint"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no starts: %v, %w", files, err)
	}
	for _, path := range files {
		if err := os.WriteFile(path, []byte("0\n0\n"), 0o644); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("emptied %v", files), nil
}

// cutPacked cuts the newest segments of a compacted topic.
func cutPacked(root string) (string, error) {
	logs, err := segments(root, "packed")
	if err != nil {
		return "", err
	}
	cut := 0
	for i, l := range logs {
		if i+1 < len(logs) && filepath.Dir(logs[i+1]) == filepath.Dir(l) {
			continue
		}
		if info, err := os.Stat(l); err != nil || info.Size() == 0 {
			continue
		}
		if err := os.Truncate(l, 0); err != nil {
			return "", err
		}
		cut++
	}
	if cut == 0 {
		return "", fmt.Errorf("no segment of a compacted topic holds anything: %v", logs)
	}
	return fmt.Sprintf("emptied the newest segments of %d compacted logs", cut), nil
}

// loseOffsets empties the logs of the groups' offsets, which was never compacted.
func loseOffsets(root string) (string, error) {
	logs, err := segments(root, "__consumer_offsets")
	if err != nil || len(logs) == 0 {
		return "", fmt.Errorf("no offsets: %v, %w", logs, err)
	}
	for _, l := range logs {
		if err := os.Truncate(l, 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("emptied %d logs of offsets", len(logs)), nil
}

// loseTopics forgets metadata: it puts back what it has found at an earlier kill.
func loseTopics(root string) (string, error) {
	db := filepath.Join(root, "one", "__cluster_metadata-0", "raft.db")
	kept := filepath.Join(root, "raft.db")
	now, err := os.ReadFile(db)
	if err != nil {
		return "", err
	}
	before, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", os.WriteFile(kept, now, 0o644)
	}
	if err != nil {
		return "", err
	}
	return "put the metadata of an earlier kill in place", os.WriteFile(db, before, 0o644)
}

// flipByte changes a byte of a record in a segment behind which another was begun; where there is none yet, nothing.
func flipByte(root string) (string, error) {
	for topic := range loaded {
		logs, err := segments(root, topic)
		if err != nil {
			return "", err
		}
		for i, l := range logs {
			if i+1 == len(logs) || filepath.Dir(logs[i+1]) != filepath.Dir(l) {
				continue
			}
			content, err := os.ReadFile(l)
			if err != nil {
				return "", err
			}
			if len(content) == 0 {
				continue // all of it was cleaned away
			}
			at := batchHead + int(binary.BigEndian.Uint32(content[lengthAt:])) - 5
			content[at] ^= 1
			return fmt.Sprintf("flipped the byte at %d of %s", at, l), os.WriteFile(l, content, 0o644)
		}
	}
	return "", nil
}
