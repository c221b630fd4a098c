package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"millrace/storage/batch"
)

// finishReplacements completes or drops what a cleaning or a split left: a .cleaned file is unfinished and goes; a .swap
// file is finished and takes the place of the segment of its base and of those whose offsets it covers, unless an
// unfinished one lies at or below it, which says that its set of files or of replacements was not complete. Removed files
// go with them. Segments get their names before indexes: as long as one has .swap, what it covers is old, whatever is left of
// it.
//
// What an unfinished file condemns is gone for good before that file goes: were this cut short, the next start would take
// what is left for finished, and an index for that of the segment which still stands there. (An index alone is finished, too,
// where nothing condemns it: Apache Kafka renames a segment before its indexes.)
func (l *Log) finishReplacements(list *listing) error {
	condemned := func(name string) bool {
		o, _, ok := parseName(name[:len(name)-len(suffixSwap)])
		return !ok || (list.cleaned >= 0 && o >= list.cleaned && !faults.mixSwaps)
	}
	if faults.witnessFirst {
		if err := l.removeAll(list.leftover); err != nil {
			return err
		}
	}
	dropped := 0
	for _, name := range list.swaps {
		if condemned(name) {
			dropped++
			if err := l.removeIfThere(name); err != nil {
				return err
			}
		}
	}
	if dropped > 0 && len(list.leftover) > 0 {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	if err := l.removeAll(list.leftover); err != nil {
		return err
	}
	changed := dropped+len(list.leftover) > 0
	for _, name := range list.swaps {
		o, suffix, ok := parseName(name[:len(name)-len(suffixSwap)])
		if ok && suffix == suffixLog && !condemned(name) {
			if err := l.removeReplaced(name, o, list); err != nil {
				return err
			}
		}
	}
	isSegment := func(name string) bool { return strings.HasSuffix(name, suffixLog+suffixSwap) }
	slices.SortStableFunc(list.swaps, func(a, b string) int {
		switch {
		case isSegment(a) == isSegment(b):
			return 0
		case isSegment(a):
			return -1
		}
		return 1
	})
	for _, name := range list.swaps {
		final := name[:len(name)-len(suffixSwap)]
		err := l.fs.Rename(l.dir+"/"+name, l.dir+"/"+final)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped above
		}
		if err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return nil
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	again, err := l.list()
	*list = again
	return err
}

// removeReplaced removes what is left of the segments that a finished replacement covers. An index may have outlived its
// segment, and would be taken for the replacement's where that has none: most have no index of aborted transactions.
func (l *Log) removeReplaced(name string, base batch.Offset, list *listing) error {
	f, err := l.fs.Open(l.dir+"/"+name, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s := scanner{f: f, limit: size, buf: make([]byte, smallScan)}
	end := base
	for {
		h, err := s.header()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		end = h.NextOffset()
		s.step(h)
	}
	for _, seg := range list.bases {
		if seg.base < base || seg.base >= max(end, base+1) || faults.keepReplaced && !seg.log {
			continue
		}
		gone := seg.indexes()
		if seg.log {
			gone = append(gone, suffixLog)
		}
		for _, suffix := range gone {
			if err := l.removeIfThere(fileName(seg.base, suffix)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) removeAll(names []string) error {
	for _, name := range names {
		if err := l.removeIfThere(name); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) removeIfThere(name string) error {
	err := l.fs.Remove(l.dir + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
