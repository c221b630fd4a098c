package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"millrace/storage/disk"
)

// Identity is what meta.properties says of a data directory.
type Identity struct {
	ClusterID string
	NodeID    int32
	Directory [16]byte // zero: the file has none
}

// Seen is a data directory as it lies on disk while no broker has it.
type Seen struct {
	Exists    bool
	Formatted bool // it has a meta.properties
	Identity  Identity
	Err       error // why meta.properties does not tell: ErrMeta or a fault of the disk
}

// Inspect looks at a data directory and changes nothing.
func Inspect(fsys disk.FS, dir string) Seen {
	fsys = orOS(fsys)
	var s Seen
	if _, err := fsys.Stat(dir); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Err = err
		}
		return s
	}
	s.Exists = true
	m, ok, err := readMeta(fsys, dir)
	s.Formatted, s.Err = ok || errors.Is(err, ErrMeta), err
	s.Identity = Identity{m.clusterID, m.nodeID, m.directory}
	return s
}

// Format makes a directory that of a node and a cluster, before any broker uses it. Without a directory id it draws one.
func Format(fsys disk.FS, dir string, id Identity, now time.Time) error {
	fsys = orOS(fsys)
	if id.Directory == ([16]byte{}) {
		id.Directory = newUUID()
	}
	if err := makeDir(fsys, dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	m := meta{clusterID: id.ClusterID, nodeID: id.NodeID, directory: id.Directory}
	if err := disk.Replace(fsys, dir, metaFile, m.encode(now)); err != nil {
		return fmt.Errorf("writing %s/%s: %w", dir, metaFile, err)
	}
	return nil
}

// UnfinishedFile marks a directory that a take-over is writing: what is in it is no node's data yet.
const UnfinishedFile = "import-unfinished"

// ErrUnfinished says that a take-over of a directory did not come to its end.
var ErrUnfinished = errors.New("an import into it has not come to its end: remove what is in it, and import again")

// MarkUnfinished makes a directory, and has no broker start on it until MarkFinished. It is durable when this returns.
func MarkUnfinished(fsys disk.FS, dir string) error {
	fsys = orOS(fsys)
	if err := makeDir(fsys, dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if err := disk.Replace(fsys, dir, UnfinishedFile, nil); err != nil {
		return fmt.Errorf("writing %s/%s: %w", dir, UnfinishedFile, err)
	}
	return nil
}

// MarkFinished ends what MarkUnfinished began.
func MarkFinished(fsys disk.FS, dir string) error {
	fsys = orOS(fsys)
	if err := fsys.Remove(dir + "/" + UnfinishedFile); err != nil {
		return fmt.Errorf("removing %s/%s: %w", dir, UnfinishedFile, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// RandomID is a random uuid in Kafka's text form, as cluster ids and directory ids have it.
func RandomID() string { return encodeUUID(newUUID()) }

// ParseID reads a directory id in Kafka's text form.
func ParseID(text string) ([16]byte, error) { return decodeUUID(text) }

// FormatID is an id in Kafka's text form.
func FormatID(id [16]byte) string { return encodeUUID(id) }

// KafkaMetadata gives a file with which Apache Kafka has kept a cluster's metadata under a metadata directory: a segment
// that holds something, or a snapshot of a later state than that of formatting. "" where there is none.
func KafkaMetadata(fsys disk.FS, metadataLogDir string) (string, error) {
	fsys = orOS(fsys)
	dir := metadataLogDir + "/" + metadataDir
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if info, no := fsys.Stat(metadataLogDir); err != nil && no == nil && !info.Dir {
		return "", fmt.Errorf("%s is a file, and a data directory is to be a directory", metadataLogDir)
	}
	if err != nil {
		return "", fmt.Errorf("list %s: %w", dir, err)
	}
	for _, n := range names {
		path := dir + "/" + n.Name
		switch {
		case n.Dir:
		case strings.HasSuffix(n.Name, ".checkpoint"):
			if !strings.HasPrefix(n.Name, "00000000000000000000-") {
				return path, nil
			}
		case strings.HasSuffix(n.Name, ".log"):
			info, err := fsys.Stat(path)
			if err != nil {
				return "", fmt.Errorf("look at %s: %w", path, err)
			}
			if info.Size > 0 {
				return path, nil
			}
		}
	}
	return "", nil
}

func orOS(fsys disk.FS) disk.FS {
	if fsys == nil {
		return disk.OS{}
	}
	return fsys
}
