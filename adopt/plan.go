package adopt

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/disk"
	"millrace/storage/log"
	"millrace/wire/records"
)

// ErrDirectoryMissing says that Kafka had a data directory that is none of those named.
var ErrDirectoryMissing = errors.New("a data directory is missing")

// partition is one that is taken over.
type partition struct {
	topic *image.Topic
	p     *image.Partition
	dir   int    // index; -1: it has no files
	files string // the name of its directory there
}

func (p *partition) name() string { return fmt.Sprintf("%s-%d", p.topic.Name, p.p.Index) }

// place is a partition's directory: which name it has, and in which of Kafka's data directories.
type place struct {
	dir  int
	name string
}

// onDisk is what Kafka's data directories hold, by the partitions' names.
type onDisk struct {
	logs map[string]int
	// futures are copies that were on their way to another data directory (KIP-113).
	futures map[string][]place
}

// plan finds the files of each partition and tells of what is not taken over.
func (a *adoption) plan() error {
	there, err := a.list()
	if err != nil {
		return err
	}
	for t := range a.meta.img.Topics() {
		a.report.Topics++
		for _, p := range t.Partitions {
			if len(p.Replicas) != 1 || p.Replicas[0] != a.report.NodeID {
				return fmt.Errorf("partition %d of topic %s has the replicas %v: only a node that is a whole cluster can be taken over", p.Index, t.Name, p.Replicas)
			}
			one := partition{topic: t, p: p, dir: -1}
			if err := a.find(&one, there); err != nil {
				return err
			}
			a.logs = append(a.logs, one)
		}
	}
	if err := a.lacking(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(there.logs)) {
		a.left("%s belongs to no partition", filepath.Join(a.o.From[there.logs[name]], name))
	}
	for _, name := range slices.Sorted(maps.Keys(there.futures)) {
		for _, f := range there.futures[name] {
			a.left("%s belongs to no partition", filepath.Join(a.o.From[f.dir], f.name))
		}
	}
	a.report.Left = append(a.report.Left, a.meta.texts...)
	for _, kind := range slices.Sorted(maps.Keys(a.meta.left)) {
		a.left("metadata: %d %s", a.meta.left[kind], kind)
	}
	return a.refuseOld()
}

func (a *adoption) left(format string, args ...any) {
	a.report.Left = append(a.report.Left, fmt.Sprintf(format, args...))
}

// list looks which directories of partitions there are.
func (a *adoption) list() (*onDisk, error) {
	there := &onDisk{logs: map[string]int{}, futures: map[string][]place{}}
	for i, dir := range a.o.From {
		names, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			name, path := n.Name(), filepath.Join(dir, n.Name())
			isDir := n.IsDir()
			if n.Type()&fs.ModeSymlink != 0 {
				info, err := os.Stat(path) // what a link leads to is what it is to Kafka
				if errors.Is(err, fs.ErrNotExist) {
					continue // it leads nowhere, which Kafka passes over
				}
				if err != nil {
					return nil, err
				}
				isDir = info.IsDir()
			}
			if !isDir || name == metadataDir || name == "lost+found" {
				continue
			}
			if plain, ok := moved(name); ok {
				there.futures[plain] = append(there.futures[plain], place{i, name})
				continue
			}
			switch {
			case strings.HasSuffix(name, "-delete"):
				a.left("%s is of a partition that was deleted, or moved to another directory", path)
				continue
			case strings.HasSuffix(name, "-stray"):
				a.left("%s was put aside by Kafka: it belongs to no partition", path)
				continue
			}
			if j, twice := there.logs[name]; twice {
				return nil, a.twice(name, j, i)
			}
			there.logs[name] = i
		}
	}
	return there, nil
}

// twice says that a partition's files are in two directories: what a crash leaves of a move (KIP-113), or a disk that was away.
// Kafka does not start there either.
func (a *adoption) twice(name string, i, j int) error {
	which := "one of them is to be moved away"
	for t := range a.meta.img.Topics() {
		for _, p := range t.Partitions {
			one := partition{topic: t, p: p}
			for _, k := range []int{i, j} {
				if id := a.from[k].Directory; one.name() == name && id != ([16]byte{}) && one.directory() == id {
					which = fmt.Sprintf("the metadata have it in %s, and the other is to be moved away", a.o.From[k])
				}
			}
		}
	}
	return fmt.Errorf("%s is in %s and in %s: %s", name, a.o.From[i], a.o.From[j], which)
}

// moved gives the partition whose log is on its way to another directory under a name.
func moved(name string) (plain string, ok bool) {
	rest, ok := strings.CutSuffix(name, "-future")
	if !ok || len(rest) < 34 || rest[len(rest)-33] != '.' {
		return "", false
	}
	if _, err := hex.DecodeString(rest[len(rest)-32:]); err != nil {
		return "", false
	}
	return rest[:len(rest)-33], true
}

// find finds a partition's files. What was moved to another directory, was told to the controller as being there, and has
// not got its name there yet is the partition's log if no other is: a crash between two renames leaves it so. Where the old
// one is still there it has all that the other has.
func (a *adoption) find(p *partition, there *onDisk) error {
	name := p.name()
	if i, ok := there.logs[name]; ok {
		delete(there.logs, name)
		mine, err := a.isOf(p, place{i, name})
		if err != nil {
			return err
		}
		if mine {
			p.dir, p.files = i, name
		}
	}
	for _, f := range there.futures[name] {
		switch mine, err := a.isOf(p, f); {
		case err != nil:
			return err
		case !mine:
		case p.dir < 0 && a.from[f.dir].Directory == p.directory():
			p.dir, p.files = f.dir, f.name
		default:
			a.left("%s is a part of %s, which was on its way there from another directory", filepath.Join(a.o.From[f.dir], f.name), name)
		}
	}
	delete(there.futures, name)
	return nil
}

// isOf says whether files are of a partition's topic, and tells of those of another.
func (a *adoption) isOf(p *partition, at place) (bool, error) {
	path := filepath.Join(a.o.From[at.dir], at.name)
	id, err := log.ReadTopicID(disk.OS{}, path)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case id == [16]byte{}:
		// Kafka takes it for a stray, whatever it holds.
		a.left("%s has no topic id in a partition.metadata: it belongs to no partition", path)
	case id != p.topic.ID:
		a.left("%s is of another topic of that name", path)
	}
	return id == p.topic.ID, nil
}

// directory is the id of the directory in which the metadata says that a partition's files lie (KIP-858); zero where they do
// not say it.
func (p *partition) directory() [16]byte {
	if len(p.p.Directories) != 1 || image.ReservedDirectory(p.p.Directories[0]) {
		return [16]byte{}
	}
	return p.p.Directories[0]
}

func (a *adoption) named(dir [16]byte) bool {
	return slices.ContainsFunc(a.from, func(id storage.Identity) bool { return id.Directory == dir })
}

// unnamed are the data directories with which the broker was registered and that are none of those named, by their ids, each
// with the partitions that lie there: none so far.
func (a *adoption) unnamed() map[[16]byte][]string {
	out := map[[16]byte][]string{}
	if b := a.meta.img.Broker(a.report.NodeID); b != nil {
		for _, dir := range b.Directories {
			if !a.named(dir) && !image.ReservedDirectory(dir) {
				out[dir] = nil
			}
		}
	}
	return out
}

// lacking looks why partitions have no files. Where they lie in a directory that was not named, it refuses to go on, or tells
// of them; the metadata say it of them, so that no start begins them anew. That is so too where a directory was not named and
// the metadata do not say where a partition lies: a broker with several tells only afterwards where it has made a log.
func (a *adoption) lacking() error {
	missing := a.unnamed()
	var unsaid []*partition
	for i := range a.logs {
		p := &a.logs[i]
		switch at := p.directory(); {
		case p.dir >= 0:
		case at == [16]byte{}:
			unsaid = append(unsaid, p)
		case a.named(at):
			a.begunAnew(p)
		default:
			missing[at] = append(missing[at], p.name())
		}
	}
	var changes []records.Metadata
	for _, p := range unsaid {
		if len(missing) == 0 {
			a.begunAnew(p)
			continue
		}
		dir := sortedIDs(missing)[0]
		missing[dir] = append(missing[dir], p.name())
		r := records.NewPartitionChangeRecord()
		r.TopicId, r.PartitionId, r.Directories = p.topic.ID, p.p.Index, [][16]byte{dir}
		changes = append(changes, r)
	}
	if len(changes) > 0 {
		a.meta.img, _ = a.meta.img.Apply(a.meta.img.Offset(), changes)
	}
	return a.missing(missing)
}

func (a *adoption) begunAnew(p *partition) {
	a.left("%s has no files in the directories: it begins anew, empty", p.name())
}

// missing refuses to go on without data directories, or tells what goes with them.
func (a *adoption) missing(missing map[[16]byte][]string) error {
	var texts []string
	for _, dir := range sortedIDs(missing) {
		id, lying := storage.FormatID(dir), missing[dir]
		switch {
		case a.o.WithoutMissing && len(lying) == 0:
			a.left("the data directory with the directory.id %s, which is none of those named", id)
		case a.o.WithoutMissing:
			for _, name := range lying {
				a.left("%s: it lies in the data directory with the directory.id %s, which is none of those named", name, id)
			}
		case len(lying) == 0:
			texts = append(texts, fmt.Sprintf("the one with the directory.id %s", id))
		default:
			texts = append(texts, fmt.Sprintf("the one with the directory.id %s, in which %s", id, several(lying, "lies", "lie")))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%w: Kafka had more than %s: %s; name all of its log.dirs", ErrDirectoryMissing, strings.Join(a.o.From, ", "), strings.Join(texts, "; "))
}

// several names the first of many, and a verb.
func several(names []string, one, more string) string {
	const most = 5
	switch n := len(names); {
	case n == 1:
		return names[0] + " " + one
	case n <= most:
		return strings.Join(names, ", ") + " " + more
	default:
		return fmt.Sprintf("%s and %d more %s", strings.Join(names[:most], ", "), n-most, more)
	}
}

func sortedIDs(of map[[16]byte][]string) [][16]byte {
	return slices.SortedFunc(maps.Keys(of), func(x, y [16]byte) int { return slices.Compare(x[:], y[:]) })
}
