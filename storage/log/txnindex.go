package log

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/producer"
)

const (
	txnEntrySize    = 34
	txnEntryVersion = 0
)

// abortedTxn is one entry of a .txnindex file.
type abortedTxn struct {
	producerID batch.ProducerID
	first      batch.Offset
	last       batch.Offset // of the ABORT marker
	lastStable batch.Offset // when the marker was written
}

func appendTxnEntry(b []byte, e abortedTxn) []byte {
	b = binary.BigEndian.AppendUint16(b, txnEntryVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(e.producerID))
	b = binary.BigEndian.AppendUint64(b, uint64(e.first))
	b = binary.BigEndian.AppendUint64(b, uint64(e.last))
	return binary.BigEndian.AppendUint64(b, uint64(e.lastStable))
}

// decodeTxnIndex reads the bytes of a .txnindex file of the segment that begins at base.
func decodeTxnIndex(b []byte, base batch.Offset) ([]abortedTxn, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, fmt.Errorf("%d bytes are no multiple of %d", len(b), txnEntrySize)
	}
	entries := make([]abortedTxn, 0, len(b)/txnEntrySize)
	last := base - 1
	for ; len(b) > 0; b = b[txnEntrySize:] {
		if v := int16(binary.BigEndian.Uint16(b)); v != txnEntryVersion {
			return nil, fmt.Errorf("entry %d has version %d", len(entries), v)
		}
		e := abortedTxn{
			producerID: batch.ProducerID(binary.BigEndian.Uint64(b[2:])),
			first:      batch.Offset(binary.BigEndian.Uint64(b[10:])),
			last:       batch.Offset(binary.BigEndian.Uint64(b[18:])),
			lastStable: batch.Offset(binary.BigEndian.Uint64(b[26:])),
		}
		if e.last <= last || e.first < 0 || e.first > e.last {
			return nil, fmt.Errorf("entry %d (%d to %d) is out of order", len(entries), e.first, e.last)
		}
		last = e.last
		entries = append(entries, e)
	}
	return entries, nil
}

// txnIndex is the aborted transactions whose marker lies in one segment. Most segments have none, and then no file.
type txnIndex struct {
	fs   *room
	path string
	base batch.Offset
	// entries is nil until somebody asks, and where there is no file an empty list from the start. A list that was
	// published is only ever appended to.
	entries atomic.Pointer[[]abortedTxn]
	// gone: the name is nobody's any more, or another file's. Who has not read it by then reads nothing.
	gone atomic.Bool

	saving  sync.Mutex
	unsaved int // entries at the end of the list that are not in the file
}

var noAborted []abortedTxn

func newTxnIndex(fsys *room, path string, base batch.Offset, exists bool) *txnIndex {
	x := &txnIndex{fs: fsys, path: path, base: base}
	if !exists {
		x.entries.Store(&noAborted)
	}
	return x
}

// exists says whether there is a file, once everything is saved.
func (x *txnIndex) exists() bool {
	p := x.entries.Load()
	return p == nil || len(*p) > 0
}

// retire says that the file leaves the log, or gets another name. What was read of it before stays known.
func (x *txnIndex) retire() { x.gone.Store(true) }

func (x *txnIndex) list() ([]abortedTxn, error) {
	if p := x.entries.Load(); p != nil {
		return *p, nil
	}
	b, err := disk.ReadFile(x.fs, x.path, math.MaxInt32)
	if x.gone.Load() {
		return nil, errRetired
	}
	if isMissing(err) { // a link to nothing: who takes the file away retires it first
		return nil, fmt.Errorf("%w: %w", &IndexError{File: x.path, Why: "it is not there"}, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read transaction index: %w", err)
	}
	entries, err := decodeTxnIndex(b, x.base)
	if err != nil {
		return nil, &IndexError{File: x.path, Why: err.Error()}
	}
	x.entries.CompareAndSwap(nil, &entries)
	return entries, nil
}

// add notes an aborted transaction, in memory; the list is known.
func (x *txnIndex) add(c producer.Completed) {
	grown := append(*x.entries.Load(), abortedTxn{producerID: c.ProducerID, first: c.FirstOffset, last: c.LastOffset, lastStable: c.LastStable})
	x.saving.Lock()
	x.unsaved++
	x.entries.Store(&grown)
	x.saving.Unlock()
}

// save writes what was added to the file. It may be called concurrently.
func (x *txnIndex) save() error {
	if x.saved() {
		return nil
	}
	f, err := x.fs.Open(x.path, disk.Write|disk.Create)
	if err != nil {
		return fmt.Errorf("open transaction index: %w", err)
	}
	defer f.Close()
	x.saving.Lock()
	defer x.saving.Unlock()
	entries := *x.entries.Load()
	first := len(entries) - x.unsaved
	var b []byte
	for _, e := range entries[first:] {
		b = appendTxnEntry(b, e)
	}
	if len(b) == 0 {
		return nil // somebody else was first
	}
	if _, err := f.WriteAt(b, int64(first)*txnEntrySize); err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	x.unsaved = 0
	return nil
}

func (x *txnIndex) saved() bool {
	x.saving.Lock()
	defer x.saving.Unlock()
	return x.unsaved == 0
}

// truncate drops the transactions whose marker lies at or behind an offset.
func (x *txnIndex) truncate(to batch.Offset) error {
	if err := x.save(); err != nil {
		return err
	}
	entries, err := x.list()
	if err != nil {
		return err
	}
	n := len(entries)
	for n > 0 && entries[n-1].last >= to {
		n--
	}
	if n == len(entries) {
		return nil
	}
	f, err := x.fs.Open(x.path, disk.Write)
	if err != nil {
		return fmt.Errorf("open transaction index: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(int64(n) * txnEntrySize); err != nil {
		return fmt.Errorf("cut transaction index: %w", err)
	}
	kept := entries[:n:n]
	x.entries.Store(&kept)
	return nil
}

// reset drops everything, before the segment is read again.
func (x *txnIndex) reset() error {
	if p := x.entries.Load(); p != nil && len(*p) == 0 {
		return nil
	}
	f, err := x.fs.Open(x.path, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return fmt.Errorf("cut transaction index: %w", err)
	}
	x.saving.Lock()
	x.entries.Store(&noAborted)
	x.unsaved = 0
	x.saving.Unlock()
	return f.Close()
}
