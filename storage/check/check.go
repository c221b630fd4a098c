// Package check reads data directories and says whether they are sound: that every batch is whole, that indexes, producer
// snapshots, leader epochs and checkpoints say what the batches say. It also shows what is in them.
//
// It changes nothing and takes no lock: what it looks at should not be in use. It shares with the logs only what knows a
// format (batches, producer state, epochs) and walks the files by itself, so that it can be asked whether a log did right:
// tests of the log do.
//
// It promises that what it finds is wrong, with file, place and reason. What a start mends by itself, because it lies behind
// the recovery point of a directory that was not closed in order, is marked as such, and where that takes batches away that
// can be read it says how many.
package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/epoch"
)

// Finding is something that is not as it should be.
type Finding struct {
	File     string
	Position int64        // in the file; -1: nowhere in particular
	Offset   batch.Offset // where the log stands there; -1: none
	Reason   string
	// Mended: the next start mends it, or can live with it, and nothing is lost that was flushed or can be read.
	Mended bool
	// Cut is what the next start cuts off here; nil: nothing.
	Cut *Cut
}

func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Position >= 0 {
		fmt.Fprintf(&b, " at %d", f.Position)
	}
	if f.Offset >= 0 {
		fmt.Fprintf(&b, " (offset %d)", f.Offset)
	}
	b.WriteString(": ")
	b.WriteString(f.Reason)
	switch {
	case f.Cut != nil:
		b.WriteString(" (" + f.Cut.String() + ")")
	case f.Mended:
		b.WriteString(" (mended by the next start)")
	}
	return b.String()
}

// Options say what is known of a partition beside its files.
type Options struct {
	// Clean: the log was closed in order. Otherwise what lies at and behind the recovery point may be torn, and the indexes
	// of segments that reach there are made anew.
	Clean bool
	// RecoveryPoint, LogStart, HighWatermark and Cleaned are what the checkpoints say; -1: nothing.
	RecoveryPoint, LogStart, HighWatermark, Cleaned batch.Offset
	// Shallow leaves the records inside batches unread: checksums are compared all the same.
	Shallow bool
}

// Partition is what was found of one partition.
type Partition struct {
	Dir        string
	Segments   int
	Batches    int64
	Records    int64
	Bytes      int64
	Start, End batch.Offset
	Findings   []Finding
}

// Report is what was found of a data directory.
type Report struct {
	Dir        string
	Clean      bool // it was closed in order
	Partitions []Partition
	Findings   []Finding // of its own files
}

// All is every finding, those of the directory's own files first.
func (r Report) All() []Finding {
	all := slices.Clone(r.Findings)
	for _, p := range r.Partitions {
		all = append(all, p.Findings...)
	}
	return all
}

// Cut is what the next start cuts off of all partitions.
func (r Report) Cut() (c Cut) {
	for _, f := range r.All() {
		if f.Cut != nil {
			c.Bytes, c.Batches, c.Records = c.Bytes+f.Cut.Bytes, c.Batches+f.Cut.Batches, c.Records+f.Cut.Records
		}
	}
	return c
}

// Sound says that nothing is wrong that the next start does not mend.
func (r Report) Sound() bool {
	return !slices.ContainsFunc(r.All(), func(f Finding) bool { return !f.Mended })
}

// The files of a data directory.
const (
	metaFile          = "meta.properties"
	cleanFile         = ".kafka_cleanshutdown"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	cleanerFile       = "cleaner-offset-checkpoint"
	partitionMetadata = "partition.metadata"
)

// ClusterMetadata is the name of the directory of the controller's metadata, which is not looked at.
const ClusterMetadata = "__cluster_metadata-0"

var checkpointFiles = []string{recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile}

// IsDataDirectory says whether a directory is one of log.dirs rather than a partition's.
func IsDataDirectory(fsys disk.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if _, _, ok := parseSegmentName(e.Name); ok && !e.Dir || e.Name == partitionMetadata {
			return false, nil
		}
	}
	return true, nil
}

// Knows says whether anything in a directory is a data directory's or a partition's.
func Knows(fsys disk.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	return slices.ContainsFunc(entries, func(e disk.Entry) bool {
		_, future := futureOf(e.Name)
		if e.Dir {
			return future || isPartition(e.Name) && e.Name != ClusterMetadata
		}
		_, _, segment := parseSegmentName(e.Name)
		return segment || e.Name == metaFile || e.Name == cleanFile || e.Name == partitionMetadata || e.Name == epoch.FileName || slices.Contains(checkpointFiles, e.Name)
	}), nil
}

// Directory looks at a data directory and all its partitions. An error says that the disk does not let itself be read.
func Directory(fsys disk.FS, dir string, shallow bool) (Report, error) {
	r := Report{Dir: dir}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return r, fmt.Errorf("list %s: %w", dir, err)
	}
	found := map[string]bool{}
	coming := map[string]string{} // on their way here; checkpoints name them by what they will be called
	files := map[string]bool{}
	add := func(name, reason string) {
		r.Findings = append(r.Findings, Finding{File: dir + "/" + name, Position: -1, Offset: -1, Reason: reason})
	}
	for _, e := range entries {
		if e.Name == metaFile || e.Name == cleanFile || slices.Contains(checkpointFiles, e.Name) {
			reason, err := notFile(fsys, dir+"/"+e.Name, e)
			if err != nil {
				return r, fmt.Errorf("look at %s: %w", dir+"/"+e.Name, err)
			}
			if reason != nil {
				add(e.Name, reason.Error())
				continue
			}
		}
		if e.Dir {
			if isPartition(e.Name) && e.Name != ClusterMetadata {
				found[e.Name] = true
			}
			if name, ok := futureOf(e.Name); ok {
				coming[name] = e.Name
			}
			continue
		}
		files[e.Name] = true
	}
	if files[cleanFile] {
		r.Clean = true
		if err := checkCleanFile(fsys, dir); err != nil {
			add(cleanFile, err.Error())
		}
	}
	if files[metaFile] {
		if err := checkMeta(fsys, dir); err != nil {
			add(metaFile, err.Error())
		}
	} else {
		add(metaFile, "is not there")
	}
	if r.Clean && len(found) > 0 && !files[recoveryPointFile] {
		add(recoveryPointFile, "is not there although the logs were closed in order")
	}
	points := map[string]Checkpoint{}
	for _, name := range checkpointFiles {
		if !files[name] {
			continue
		}
		c, err := ReadCheckpoint(fsys, dir+"/"+name)
		if err != nil {
			add(name, err.Error())
			continue
		}
		points[name] = c
		for _, e := range c {
			if !found[e.Dir()] && coming[e.Dir()] == "" {
				r.Findings = append(r.Findings, Finding{File: dir + "/" + name, Position: -1, Offset: e.Offset, Mended: !r.Clean,
					Reason: fmt.Sprintf("names %s, which is not there", plain(e.Dir()))})
			}
		}
	}
	for _, e := range entries {
		name, future := futureOf(e.Name)
		switch {
		case found[e.Name]:
			name = e.Name
		case !e.Dir || !future || coming[name] != e.Name:
			continue
		}
		o := Options{Clean: r.Clean, Shallow: shallow,
			RecoveryPoint: points[recoveryPointFile].of(name), LogStart: points[logStartFile].of(name), HighWatermark: points[highWatermarkFile].of(name), Cleaned: points[cleanerFile].of(name)}
		known := o.RecoveryPoint >= 0
		if !known && !r.Clean {
			o.RecoveryPoint = o.Cleaned // as recovery does
		}
		p, err := CheckPartition(fsys, dir+"/"+e.Name, o)
		if err != nil {
			return r, err
		}
		if p.Segments > 0 && !known && r.Clean && len(p.Findings) == 0 {
			p.add(dir+"/"+recoveryPointFile, -1, -1, false, "does not name %s", name)
		}
		r.Partitions = append(r.Partitions, p)
	}
	return r, nil
}

// plain is text as it is, and quoted where it holds what is no text: a finding is a line, whatever a file says.
func plain(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func isPartition(name string) bool {
	i := strings.LastIndexByte(name, '-')
	return i > 0 && i < len(name)-1 && strings.Trim(name[i+1:], "0123456789") == ""
}

// futureOf is the partition whose log is on its way to a data directory (KIP-113), in a directory called
// <topic>-<partition>.<32 hex digits>-future.
func futureOf(name string) (partition string, ok bool) {
	rest, ok := strings.CutSuffix(name, "-future")
	if at := len(rest) - 33; ok && at > 0 && rest[at] == '.' && isPartition(rest[:at]) {
		return rest[:at], true
	}
	return "", false
}

// mostFindings bounds what is said of one partition, of what a start mends and of what it does not: after a bad byte much else
// does not fit.
const mostFindings = 50

func (p *Partition) add(file string, pos int64, o batch.Offset, mended bool, format string, args ...any) {
	p.found(Finding{File: file, Position: pos, Offset: o, Reason: fmt.Sprintf(format, args...), Mended: mended})
}

// found takes a finding up. There is no more than one cut, and it is always told.
func (p *Partition) found(f Finding) {
	alike := 0
	for _, g := range p.Findings {
		if g.Mended == f.Mended {
			alike++
		}
	}
	if alike < mostFindings || f.Cut != nil {
		p.Findings = append(p.Findings, f)
	}
}

// checkCleanFile looks at the mark of a clean stop.
func checkCleanFile(fsys disk.FS, dir string) error {
	b, err := disk.ReadFile(fsys, dir+"/"+cleanFile, 1<<16)
	if err != nil {
		return err
	}
	var epoch int64
	if n, err := fmt.Sscanf(string(b), `{"version":0,"brokerEpoch":%d}`, &epoch); n != 1 || err != nil {
		return fmt.Errorf("%q is no mark of a clean stop", b)
	}
	if got := fmt.Sprintf(`{"version":0,"brokerEpoch":%d}`, epoch); epoch < -1 || got != string(bytes.TrimSpace(b)) {
		return fmt.Errorf("%q is no mark of a clean stop", b)
	}
	return nil
}

// missing says that a file is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
