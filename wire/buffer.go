package wire

import "sync"

// A buffer is a pooled run of bytes.
type buffer struct {
	b     []byte
	class int8 // index into bufferSizes, or one of those below
}

const (
	// kept: a buffer of its own, which may be kept.
	kept int8 = -1
	// mapped: too large for a pool, and not Go's, which would hold it until it next looks for garbage: a few of them
	// would be several times what the budget knows of.
	mapped int8 = -2
)

// bufferSizes are the sizes buffers come in. The small ones are read ahead into;
// the large ones take one Produce frame each, and have some room above the power
// of two because a client that batches up to 1 MiB sends a little more than that.
var bufferSizes = [...]int{
	4 << 10, 16 << 10, 64 << 10,
	128<<10 + 4<<10, 256<<10 + 4<<10, 512<<10 + 4<<10, 1<<20 + 4<<10, 2<<20 + 4<<10, 4<<20 + 4<<10,
	8<<20 + 4<<10, longest,
}

const aheadClasses = 3 // of bufferSizes

const (
	longest = 16<<20 + 4<<10 // the last of bufferSizes
	// passing is the longest pooled buffer that a frame too large for any of them
	// passes through while it grows: pools hold theirs for minutes after the last
	// such frame, and no budget knows of it.
	passing = 1<<20 + 4<<10
)

var bufferPools [len(bufferSizes)]sync.Pool

// classFor is the smallest class that holds n bytes, or below 0.
func classFor(n int) int8 {
	for i, size := range bufferSizes {
		if n <= size {
			return int8(i)
		}
	}
	return -1
}

func getClass(class int8) *buffer {
	if b, ok := bufferPools[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, bufferSizes[class]), class: class}
}

// classOnTheWay is the class that n bytes of a frame of size bytes are read into,
// or below 0.
func classOnTheWay(n, size int) int8 {
	if n > passing && size > longest {
		return -1
	}
	return classFor(n)
}

// newBuffer returns a buffer of at least n bytes for a frame of size bytes: one
// that goes with putBuffer if it may be, from a pool that has buffers that large
// or from the system.
func newBuffer(n, size int, returned bool) *buffer {
	if !returned {
		return &buffer{b: make([]byte, n), class: kept}
	}
	if class := classOnTheWay(n, size); class >= 0 {
		return getClass(class)
	}
	if b := mapBytes(n); b != nil {
		return &buffer{b: b, class: mapped}
	}
	return &buffer{b: make([]byte, n), class: kept}
}

func putBuffer(b *buffer) {
	switch {
	case b == nil:
	case b.class >= 0:
		bufferPools[b.class].Put(b)
	case b.class == mapped:
		unmapBytes(b.b)
		b.b = nil
	}
}

// poisonByte overwrites bytes that a handler may no longer look at, under tests.
const poisonByte = 0xdb

func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
