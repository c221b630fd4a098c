package log

import (
	"runtime"
	"sync"

	"millrace/storage/batch"
)

// scratches are the decompressors and compressors that serve clients, of all logs. There are no more of them in use than
// keep the processors busy: what clients can make a broker hold for decompression is bounded by that, however many
// connections send compressed batches, or have them looked into, at once.
var scratches = struct {
	slots chan struct{}
	idle  sync.Pool
}{slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), idle: sync.Pool{New: func() any { return new(batch.Scratch) }}}

// WithScratch waits for its turn and calls f with decompressors and compressors. f neither waits for anything nor calls
// WithScratch again.
func WithScratch(f func(*batch.Scratch)) {
	scratches.slots <- struct{}{}
	defer func() { <-scratches.slots }()
	s := scratches.idle.Get().(*batch.Scratch)
	defer scratches.idle.Put(s)
	f(s)
}

// ScratchesInUse is how many of them are in use.
func ScratchesInUse() int { return len(scratches.slots) }
