// Package adopt makes data directories of Millrace's out of those that a single node of Apache Kafka has written: topics
// with their names, ids, partitions and configs, the cluster's and the node's id, and the partitions' files, committed
// offsets among them. It reads Kafka's directories and writes others.
//
// It is not a broker and talks to none. What cannot be taken over it tells, and takes over nothing half: it ends with an
// error before a directory is marked as the node's, and until then no broker starts there.
//
// It promises that Kafka's directories stay as they were, and that what a start on the new ones finds is what Kafka's
// next start would have found: after a stop that was not in order the logs are recovered here as they are there.
package adopt

import (
	"errors"
	"fmt"
	"io/fs"
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
)

// Options say what is taken over, and whereto.
type Options struct {
	From []string // Kafka's log.dirs
	// Metadata is Kafka's metadata.log.dir; "": the one of From that holds the metadata.
	Metadata string
	To       []string // as many as From: what lies in one of them goes to one of these
	// Abort ends open transactions with ABORT markers.
	Abort bool
	// WithoutMissing leaves out the data directories that Kafka had and that are not among From, and what lies in them.
	WithoutMissing bool
	Logger         *zap.Logger
	Now            func() time.Time

	// create makes a file that is written; nil: the operating system does. Tests have it fail.
	create func(path string) (*os.File, error)
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
	for _, step := range []func() error{a.look, a.read, a.plan} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{a.begin, a.copy, a.open, a.found} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%w; remove what is in %s before the next try", err, strings.Join(o.To, ", "))
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

// look looks whose the directories are, and that no broker runs on them.
func (a *adoption) look() error {
	for _, dir := range append([]string{a.o.Metadata}, a.o.From...) {
		if dir != "" && raftlog.Holds(filepath.Join(dir, metadataDir)) {
			return fmt.Errorf("%s is Millrace's already, and needs no import: millrace serve --override log.dirs=%s", dir, strings.Join(a.o.From, ","))
		}
	}
	for i, dir := range a.o.From {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is no directory", dir)
		}
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
		switch {
		case slices.ContainsFunc(names, func(n fs.DirEntry) bool { return n.Name() == storage.UnfinishedFile }):
			return fmt.Errorf("%s %w: %w", dir, ErrNotEmpty, storage.ErrUnfinished)
		case len(names) > 0:
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
		if _, err := os.Stat(filepath.Join(dir, metadataDir)); err != nil || samePlace(dir, at) {
			continue
		}
		if at != "" {
			return fmt.Errorf("%s and %s both hold %s: move away the one that is not this node's", at, dir, metadataDir)
		}
		at = dir
	}
	if at == "" {
		return fmt.Errorf("none of %s holds %s: name Kafka's metadata.log.dir", strings.Join(a.o.From, ", "), metadataDir)
	}
	if id := storage.Inspect(nil, at).Identity; id.ClusterID != "" && (id.ClusterID != a.from[0].ClusterID || id.NodeID != a.from[0].NodeID) {
		return fmt.Errorf("%s is of node %d of cluster %s, and %s of node %d of cluster %s", at, id.NodeID, id.ClusterID, a.o.From[0], a.from[0].NodeID, a.from[0].ClusterID)
	}
	node := image.Node{ID: a.from[0].NodeID, Directory: a.from[0].Directory}
	m, err := readMetadata(disk.OS{}, filepath.Join(at, metadataDir), a.report.Clean, a.from[0].ClusterID, node)
	if err != nil {
		return err
	}
	a.meta = m
	return nil
}

func samePlace(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// found writes the metadata, and marks the directories as the node's last of all: a broker that is started on less would found
// an empty cluster there, or recover what is here as if it had written it itself.
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
	for _, dir := range a.o.To {
		if err := storage.MarkFinished(nil, dir); err != nil {
			return err
		}
	}
	return nil
}

// open opens every log, which recovers those that were not closed, and ends open transactions if that is asked for.
func (a *adoption) open() (err error) {
	s, err := storage.Open(storage.StoreOptions{Dirs: a.o.To, NodeID: a.report.NodeID, Now: a.o.Now, Logger: a.o.Logger, Holes: true, Unfinished: true})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, s.Close(false))
		}
	}()
	decided, err := a.decided(s)
	if err != nil {
		return err
	}
	groups, copied := groups{keys: map[string]string{}}, map[string]int64{}
	for i := range a.logs {
		p := &a.logs[i]
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
			if err := eachRecord(l, groups.note, func(o batch.Offset) { groups.unread(p.name(), o) }); err != nil {
				a.left("groups: %s cannot be read: %v", p.name(), err)
			}
		}
		if err := a.end(l, p, decided); err != nil {
			return err
		}
		// A single replica has committed all it has.
		l.SetHighWatermark(l.View().LogEnd())
	}
	groups.tell(a)
	for _, name := range unread {
		if copied[name] > 0 {
			a.left("%s: its %d offsets are copied, and nothing here reads them any more", name, copied[name])
		}
	}
	sort.Strings(a.report.Left)
	if b := a.meta.img.Broker(a.report.NodeID); b != nil {
		s.SetBrokerEpoch(b.Epoch)
	}
	closed = true
	return s.Close(true)
}
