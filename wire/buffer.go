package wire

import (
	"sync"
	"sync/atomic"
)

// A buffer is a run of bytes to read into, or to put a reply together in. The
// smaller ones come from pools, the larger ones from shelves.
type buffer struct {
	b     []byte
	class int8 // index into bufferSizes, or one of those below
	own   bool // not Go's memory, but the system's: mapBytes
	used  int  // how much of a large one may have been written to
}

const (
	// kept: a buffer of its own, which may be kept.
	kept int8 = -1
	// single: too large for a shelf.
	single int8 = -2
)

// bufferSizes are the sizes buffers come in. The small ones are read ahead into;
// the large ones take one Produce frame each, and have some room above the power
// of two because a client that batches up to 1 MiB sends a little more than that.
var bufferSizes = [...]int{
	4 << 10, 16 << 10, 64 << 10,
	128<<10 + 4<<10, 256<<10 + 4<<10, 512<<10 + 4<<10, 1<<20 + 4<<10, 2<<20 + 4<<10, 4<<20 + 4<<10,
	8<<20 + 4<<10, 16<<20 + 4<<10,
}

const (
	// aheadClasses of bufferSizes are read ahead into. The last of them is for who sends much in small frames; there are
	// no more than mostWide of it in a process, however many connections there are: who gets none has one of the class
	// below.
	aheadClasses = 4
	wide         = aheadClasses - 1
	mostWide     = 64
	// smallClasses of them are small enough to be had by each connection.
	smallClasses = wide
)

var (
	bufferPools [aheadClasses]sync.Pool
	wideOut     atomic.Int32 // buffers of class wide that somebody has
)

// classFor is the smallest class that holds n bytes, or below 0.
func classFor(n int) int8 {
	for i, size := range bufferSizes {
		if n <= size {
			return int8(i)
		}
	}
	return -1
}

// getClass returns a buffer of one of the classes that are read ahead into, or of the one below wide.
func getClass(class int8) *buffer {
	if class == wide && wideOut.Add(1) > mostWide {
		wideOut.Add(-1)
		class--
	}
	if b, ok := bufferPools[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, bufferSizes[class]), class: class}
}

func putBuffer(b *buffer) {
	if b != nil {
		if b.class == wide {
			wideOut.Add(-1)
		}
		bufferPools[b.class].Put(b)
	}
}

// poisonByte overwrites bytes that a handler may no longer look at, under tests.
const poisonByte = 0xdb

func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
