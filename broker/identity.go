package broker

import (
	"fmt"
	"path/filepath"

	"millrace/controller/config"
	"millrace/storage"
	"millrace/storage/disk"
)

// metadataLog is the directory of the cluster's metadata.
const metadataLog = "__cluster_metadata-0"

// identify looks whose the data directories are before anything is touched:
// a directory of another cluster, or one that Apache Kafka has run on, stays as
// it was. It gives the configuration the node id that the directories bear,
// where it names none of its own.
func identify(o Options) (*config.Static, error) {
	dirs := o.Config.LogDirs()
	for i, dir := range dirs {
		for _, other := range dirs[:i] {
			if o.FS == nil && samePlace(dir, other) {
				return nil, fmt.Errorf("log.dirs names one directory twice: %s and %s", other, dir)
			}
		}
	}
	if o.RaftLog == nil {
		metadata := o.Config.MetadataLogDir()
		file, err := storage.KafkaMetadata(o.FS, metadata)
		if err != nil {
			return nil, err
		}
		if file != "" {
			return nil, fmt.Errorf("%w of Millrace's: %s is the metadata of an Apache Kafka that has run on %s, which is not run on as it is: use an empty directory, one that was only formatted, or what 'millrace import' makes of it",
				ErrNoMetadata, file, filepath.Clean(metadata))
		}
		if err := oneMetadata(o.FS, metadata, dirs); err != nil {
			return nil, err
		}
	}
	if o.ClusterID != "" {
		for _, dir := range dirs {
			s := storage.Inspect(o.FS, dir)
			if s.Err == nil && s.Identity.ClusterID != "" && s.Identity.ClusterID != o.ClusterID {
				return nil, otherCluster(o.ClusterID, s.Identity.ClusterID, dir)
			}
		}
	}
	for _, key := range []string{"node.id", "broker.id"} {
		if _, set := o.Config.Set(key); set {
			return o.Config, nil
		}
	}
	id, ok, err := storage.Owner(o.FS, dirs)
	if err != nil || !ok {
		return o.Config, err
	}
	return o.Config.WithNodeID(id)
}

// oneMetadata refuses data directories of which one holds metadata that is not to be
// used: after log.dirs came in another order, say. A second, empty cluster would be
// founded beside the first, and what was made there would be gone without a word.
// (Kafka: "Found unexpected metadata location in data directory".)
func oneMetadata(fsys disk.FS, metadata string, dirs []string) error {
	if fsys == nil {
		fsys = disk.OS{}
	}
	holds := func(dir string) bool {
		names, err := fsys.ReadDir(dir + "/" + metadataLog)
		return err == nil && len(names) > 0
	}
	for _, dir := range dirs {
		switch {
		case samePlace(dir, metadata) || !holds(dir):
		case holds(metadata):
			return fmt.Errorf("%w that is the only one: %s and %s both hold %s; move away the one that is not this node's", ErrNoMetadata, filepath.Clean(metadata), filepath.Clean(dir), metadataLog)
		default:
			return fmt.Errorf("%w in %s: it is in %s, which metadata.log.dir is to name, or log.dirs as its first", ErrNoMetadata, filepath.Clean(metadata), filepath.Clean(dir))
		}
	}
	return nil
}

// samePlace says whether two paths are of one directory.
func samePlace(a, b string) bool {
	place := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		return path
	}
	return place(a) == place(b)
}

// otherCluster refuses a directory that belongs to a cluster that was not asked
// for (Kafka's InconsistentClusterIdException).
func otherCluster(want, have, dir string) error {
	return fmt.Errorf("%w: CLUSTER_ID is %s, and %s is of cluster %s; set CLUSTER_ID=%s or leave it out to use the directory, or name an empty one in log.dirs",
		ErrIdentity, want, dir, have, have)
}

// foundedAs is the id of the cluster that is to be founded, "" for a random one.
func (b *Broker) foundedAs(o Options) string {
	if id := b.store.ClusterID(); id != "" {
		return id
	}
	return o.ClusterID
}
