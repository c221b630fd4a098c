// Package adopt makes data directories of Millrace's out of those that a single node of Apache Kafka has written: topics
// with their names, ids, partitions and configs, the cluster's and the node's id, and the partitions' files, committed
// offsets among them. It reads Kafka's directories and writes others.
//
// It is not a broker and talks to none. What cannot be taken over it tells, and takes over nothing half: it ends with an
// error before a directory is marked as the node's.
//
// It promises that Kafka's directories stay as they were, and that what a start on the new ones finds is what Kafka's
// next start would have found: after a stop that was not in order the logs are recovered here as they are there.
package adopt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"go.uber.org/zap"

	"millrace/controller"
	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// Options say what is taken over, and whereto.
type Options struct {
	From []string // Kafka's log.dirs
	// Metadata is Kafka's metadata.log.dir; "": the one of From that holds the metadata.
	Metadata string
	To       []string // as many as From: what lies in one of them goes to one of these
	// Abort ends open transactions with ABORT markers.
	Abort  bool
	Logger *zap.Logger
	Now    func() time.Time
}

// Report is what was taken over, and what was not.
type Report struct {
	ClusterID    string
	NodeID       int32
	Clean        bool // Kafka had stopped in order
	Topics, Logs int
	Records      int64 // offsets between the logs' starts and ends
	Open         []Transaction
	Left         []string // what was not taken over, a sentence each
}

// Transaction is one that was open.
type Transaction struct {
	Topic      string
	Partition  int32
	ProducerID batch.ProducerID
	First      batch.Offset
	Aborted    bool
}

// ErrNotEmpty says that a directory that is to be written is not empty.
var ErrNotEmpty = errors.New("is not empty")

// ErrOverlap says that a directory that is to be written is another one of the
// call's, or lies in one.
var ErrOverlap = errors.New("directories overlap")

const metadataDir = "__cluster_metadata-0"

// Run takes over.
func Run(o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if len(o.From) == 0 || len(o.From) != len(o.To) {
		return nil, fmt.Errorf("%d directories are to become %d: name one for each", len(o.From), len(o.To))
	}
	a := &adoption{o: o, report: &Report{Clean: true}}
	for _, step := range []func() error{a.look, a.read, a.plan, a.copy, a.found, a.open} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a.report, nil
}

// adoption is one run.
type adoption struct {
	o      Options
	report *Report
	from   []storage.Identity
	clean  []bool
	meta   *metadata
	logs   []partition
}

// partition is one that is taken over.
type partition struct {
	topic *image.Topic
	p     *image.Partition
	dir   int // index; -1: it has no files
}

func (p *partition) name() string { return fmt.Sprintf("%s-%d", p.topic.Name, p.p.Index) }

// look looks whose the directories are, and that no broker runs on them.
func (a *adoption) look() error {
	for i, dir := range a.o.From {
		s := storage.Inspect(nil, dir)
		switch {
		case s.Err != nil:
			return s.Err
		case !s.Formatted:
			return fmt.Errorf("%s is no data directory of a broker: it has no meta.properties", dir)
		case i > 0 && (s.Identity.ClusterID != a.from[0].ClusterID || s.Identity.NodeID != a.from[0].NodeID):
			return fmt.Errorf("%s is of node %d of cluster %s, and %s of node %d of cluster %s", dir, s.Identity.NodeID, s.Identity.ClusterID, a.o.From[0], a.from[0].NodeID, a.from[0].ClusterID)
		}
		if err := unused(dir); err != nil {
			return err
		}
		_, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown"))
		a.from, a.clean = append(a.from, s.Identity), append(a.clean, err == nil)
		a.report.Clean = a.report.Clean && err == nil
	}
	if err := a.apart(); err != nil {
		return err
	}
	for _, dir := range a.o.To {
		names, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(names) > 0 {
			return fmt.Errorf("%s %w", dir, ErrNotEmpty)
		}
	}
	a.report.ClusterID, a.report.NodeID = a.from[0].ClusterID, a.from[0].NodeID
	return nil
}

// apart says whether each directory that is to be written lies outside all others.
func (a *adoption) apart() error {
	others := slices.Clone(a.o.From)
	if a.o.Metadata != "" {
		others = append(others, a.o.Metadata)
	}
	for i, to := range a.o.To {
		for _, other := range slices.Concat(others, a.o.To[:i], a.o.To[i+1:]) {
			path, err := filepath.Abs(to)
			if err != nil {
				return err
			}
			around, err := filepath.Abs(other)
			if err != nil {
				return err
			}
			if in, err := filepath.Rel(around, path); err == nil && (in == "." || filepath.IsLocal(in)) {
				return fmt.Errorf("%w: %s lies in %s", ErrOverlap, to, other)
			}
		}
	}
	return nil
}

// unused says whether a broker runs on a directory; one that cannot be written to is asked all the same.
func unused(dir string) error {
	path := filepath.Join(dir, ".lock")
	err := disk.Free(path)
	if errors.Is(err, disk.ErrLocked) {
		return fmt.Errorf("%w: %s; stop the broker first", storage.ErrLocked, dir)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

// read reads the metadata.
func (a *adoption) read() error {
	at := a.o.Metadata
	for _, dir := range a.o.From {
		if _, err := os.Stat(filepath.Join(dir, metadataDir)); err == nil && at == "" {
			at = dir
		}
	}
	if at == "" {
		return fmt.Errorf("none of %s holds %s: name Kafka's metadata.log.dir", strings.Join(a.o.From, ", "), metadataDir)
	}
	node := image.Node{ID: a.from[0].NodeID, Directory: a.from[0].Directory}
	m, err := readMetadata(disk.OS{}, filepath.Join(at, metadataDir), a.from[0].ClusterID, node)
	if err != nil {
		return err
	}
	a.meta = m
	return nil
}

// plan finds the files of each partition and tells of what is not taken over.
func (a *adoption) plan() error {
	there := map[string]int{}
	for i, dir := range a.o.From {
		names, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if !n.IsDir() || n.Name() == metadataDir {
				continue
			}
			if j, twice := there[n.Name()]; twice {
				return fmt.Errorf("%s is in %s and in %s", n.Name(), a.o.From[j], dir)
			}
			there[n.Name()] = i
		}
	}
	for t := range a.meta.img.Topics() {
		a.report.Topics++
		for _, p := range t.Partitions {
			if len(p.Replicas) != 1 || p.Replicas[0] != a.report.NodeID {
				return fmt.Errorf("partition %d of topic %s has the replicas %v: only a node that is a whole cluster can be taken over", p.Index, t.Name, p.Replicas)
			}
			one := partition{topic: t, p: p, dir: -1}
			if i, ok := there[one.name()]; ok {
				id, err := log.ReadTopicID(disk.OS{}, filepath.Join(a.o.From[i], one.name()))
				if err != nil {
					return err
				}
				if id == t.ID {
					one.dir = i
					delete(there, one.name())
				} else {
					a.left("%s is of another topic of that name", filepath.Join(a.o.From[i], one.name()))
				}
			}
			a.logs = append(a.logs, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		a.left("%s belongs to no partition", filepath.Join(a.o.From[there[name]], name))
	}
	a.report.Left = append(a.report.Left, a.meta.texts...)
	for _, kind := range slices.Sorted(maps.Keys(a.meta.left)) {
		a.left("metadata: %d %s", a.meta.left[kind], kind)
	}
	return nil
}

func (a *adoption) left(format string, args ...any) {
	a.report.Left = append(a.report.Left, fmt.Sprintf(format, args...))
}

// checkpoints are the files of a data directory that are taken over as they are.
var checkpoints = []string{"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"}

// copy copies the files. Indexes of a log that was not closed are made anew: Kafka's are as large as they may become.
func (a *adoption) copy() error {
	for i, dir := range a.o.From {
		if err := os.MkdirAll(a.o.To[i], 0o755); err != nil {
			return err
		}
		for _, name := range checkpoints {
			if err := copyFile(filepath.Join(dir, name), filepath.Join(a.o.To[i], name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, p := range a.logs {
		if p.dir < 0 {
			continue
		}
		from, to := filepath.Join(a.o.From[p.dir], p.name()), filepath.Join(a.o.To[p.dir], p.name())
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		names, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, n := range names {
			if n.IsDir() || strings.HasSuffix(n.Name(), ".deleted") || !a.clean[p.dir] && (strings.HasSuffix(n.Name(), ".index") || strings.HasSuffix(n.Name(), ".timeindex")) {
				continue
			}
			if err := copyFile(filepath.Join(from, n.Name()), filepath.Join(to, n.Name())); err != nil {
				return err
			}
		}
		// A log that was closed in order is opened without a write: nobody else makes its names durable.
		if err := (disk.OS{}).SyncDir(to); err != nil {
			return fmt.Errorf("sync %s: %w", to, err)
		}
	}
	for _, dir := range a.o.To {
		if err := (disk.OS{}).SyncDir(dir); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

// copyFile copies a file, durably.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}()
	if _, err = io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Sync()
}

// found writes the metadata, and marks the directories as the node's last of all.
func (a *adoption) found() error {
	rl, err := raftlog.Open(filepath.Join(a.o.To[0], metadataDir)) // where a broker looks that is told nothing else
	if err != nil {
		return err
	}
	if err := errors.Join(controller.Seed(rl, a.report.NodeID, a.meta.img), rl.Close()); err != nil {
		return err
	}
	for i, dir := range a.o.To {
		if err := storage.Format(nil, dir, a.from[i], a.o.Now()); err != nil {
			return err
		}
	}
	return nil
}

// unread are topics of coordinators that are not built.
var unread = []string{"__share_group_state", "__transaction_state"}

// open opens every log, which recovers those that were not closed, and ends open transactions if that is asked for.
func (a *adoption) open() (err error) {
	s, err := storage.Open(storage.StoreOptions{Dirs: a.o.To, NodeID: a.report.NodeID, Now: a.o.Now, Logger: a.o.Logger, Holes: true})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, s.Close(false))
		}
	}()
	groups, copied := groups{keys: map[string]string{}}, map[string]int64{}
	for _, p := range a.logs {
		if p.dir < 0 {
			continue
		}
		l, err := s.Log(p.topic.Name, p.topic.ID, p.p.Index, log.DefaultConfig())
		if err != nil {
			return err
		}
		a.report.Logs++
		v := l.View()
		a.report.Records += int64(v.LogEnd() - v.LogStart())
		if slices.Contains(unread, p.topic.Name) {
			copied[p.topic.Name] += int64(v.LogEnd() - v.LogStart())
		}
		if p.topic.Name == offsetsTopic {
			if err := groups.read(l); err != nil {
				a.left("groups: %s cannot be read: %v", p.name(), err)
			}
		}
		for _, e := range l.Producers() {
			if e.TxnFirstOffset < 0 {
				continue
			}
			if a.o.Abort {
				if err := a.abort(l, p.p.LeaderEpoch, e); err != nil {
					return fmt.Errorf("abort a transaction of %s: %w", p.name(), err)
				}
			}
			a.report.Open = append(a.report.Open, Transaction{Topic: p.topic.Name, Partition: p.p.Index, ProducerID: e.ProducerID, First: e.TxnFirstOffset, Aborted: a.o.Abort})
		}
		// A single replica has committed all it has.
		l.SetHighWatermark(l.View().LogEnd())
	}
	groups.tell(a)
	for _, name := range unread {
		if copied[name] > 0 {
			a.left("%s: its %d offsets are copied, and nothing here reads them", name, copied[name])
		}
	}
	sort.Strings(a.report.Left)
	if b := a.meta.img.Broker(a.report.NodeID); b != nil {
		s.SetBrokerEpoch(b.Epoch)
	}
	closed = true
	return s.Close(true)
}

// abort ends a producer's transaction in one partition.
func (a *adoption) abort(l *log.Log, epoch int32, e producer.Entry) error {
	if err := l.AssignEpoch(max(batch.LeaderEpoch(epoch), l.LatestEpoch())); err != nil {
		return err
	}
	now := a.o.Now().UnixMilli()
	k, v := batch.Marker{Type: batch.Abort, CoordinatorEpoch: max(e.CoordinatorEpoch, 0)}.KeyAndValue()
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: e.ProducerID, ProducerEpoch: e.Epoch, BaseSequence: -1, Transactional: true, Control: true})
	u.Add(now, k, v)
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		return err
	}
	_, err = l.AppendWith(u.Bytes(), h, now, producer.Rules{Origin: producer.Coordinator})
	return err
}
