package log

import (
	"slices"
	"strconv"
	"strings"

	"millrace/storage/batch"
)

// The suffixes of a segment's files and what is put behind them.
const (
	suffixLog       = ".log"
	suffixIndex     = ".index"
	suffixTimeIndex = ".timeindex"
	suffixTxnIndex  = ".txnindex"
	suffixSnapshot  = ".snapshot"

	suffixDeleted = ".deleted" // to be removed after file.delete.delay.ms
	suffixCleaned = ".cleaned" // a replacement that is being written
	suffixSwap    = ".swap"    // a finished replacement that is being put in place
	suffixTmp     = ".tmp"
	suffixCut     = ".cut.cleaned" // what a truncation keeps of a segment, on its way

	metadataFile = "partition.metadata"
)

const nameDigits = 20

// fileName is the name of a file of the segment, or snapshot, at an offset.
func fileName(o batch.Offset, suffix string) string {
	var b [nameDigits + 16]byte
	n := len(strconv.AppendInt(b[:0], int64(o), 10))
	out := append(b[:0], "00000000000000000000"[n:]...)
	out = strconv.AppendInt(out, int64(o), 10)
	return string(append(out, suffix...))
}

// parseName is the inverse of fileName for names without a further suffix.
func parseName(name string) (o batch.Offset, suffix string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' {
		return 0, "", false
	}
	for i := range nameDigits {
		if name[i] < '0' || name[i] > '9' {
			return 0, "", false
		}
	}
	n, err := strconv.ParseInt(name[:nameDigits], 10, 64)
	if err != nil {
		return 0, "", false
	}
	return batch.Offset(n), name[nameDigits:], true
}

// isLogFile says whether a name is one that a log gives its files, on their way too.
func isLogFile(name string) bool {
	for _, way := range []string{suffixDeleted, suffixTmp, suffixCut, suffixCleaned, suffixSwap} {
		if of, ok := strings.CutSuffix(name, way); ok {
			name = of
			break
		}
	}
	_, suffix, ok := parseName(name)
	return name == metadataFile || name == epochFile || ok && slices.Contains([]string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex, suffixSnapshot}, suffix)
}

// segmentFiles is which files of one base offset a directory holds.
type segmentFiles struct {
	base                             batch.Offset
	log, index, time, txns, snapshot bool
}

// listing is what a partition's directory holds.
type listing struct {
	bases    []segmentFiles // by base; those with a snapshot only as well
	leftover []string       // names that are removed at a start
	swaps    []string
	cleaned  batch.Offset // the lowest base of a .cleaned file; -1 if there is none
	metadata bool
	epochs   bool
}

func (l *listing) add(name string) {
	switch {
	case name == metadataFile:
		l.metadata = true
		return
	case name == epochFile:
		l.epochs = true
		return
	case strings.HasSuffix(name, suffixDeleted), strings.HasSuffix(name, suffixTmp), strings.HasSuffix(name, suffixCut):
		l.leftover = append(l.leftover, name)
		return
	case strings.HasSuffix(name, suffixCleaned):
		l.leftover = append(l.leftover, name)
		if o, _, ok := parseName(name); ok && (l.cleaned < 0 || o < l.cleaned) {
			l.cleaned = o
		}
		return
	case strings.HasSuffix(name, suffixSwap):
		l.swaps = append(l.swaps, name)
		return
	}
	o, suffix, ok := parseName(name)
	if !ok {
		return
	}
	n := len(l.bases)
	if n == 0 || l.bases[n-1].base != o {
		l.bases = append(l.bases, segmentFiles{base: o})
		n++
	}
	f := &l.bases[n-1]
	switch suffix {
	case suffixLog:
		f.log = true
	case suffixIndex:
		f.index = true
	case suffixTimeIndex:
		f.time = true
	case suffixTxnIndex:
		f.txns = true
	case suffixSnapshot:
		f.snapshot = true
	}
}
