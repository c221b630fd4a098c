// Package codec packs and unpacks the records of a batch: gzip, snappy, lz4 and zstd, framed the way Kafka's Java
// clients frame them.
//
// It is pure, and it is a stream: what comes out is handed over piece by piece, so a small input that unpacks to
// something vast costs the reader time but no memory. Readers and writers are costly to make and are kept for reuse in
// Decoders and Encoders, which the caller keeps one per goroutine at a time (a sync.Pool of them, say).
//
// It refuses what Kafka's own readers refuse: a wrong checksum in an lz4 frame header, dependent lz4 blocks, a zstd
// window above 128 MiB. A snappy stream without the xerial header is read as one raw block, as snappy-java does.
package codec

import "fmt"

// Kind is a compression type by its id in a batch's attributes.
type Kind int8

// The kinds.
const (
	None Kind = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Valid says that the kind exists: the three bits of the attributes can hold ids that do not.
func (k Kind) Valid() bool { return k >= None && k <= Zstd }

func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("unknown compression type id %d", int8(k))
}

// UnknownKindError says that a compression type id does not exist.
type UnknownKindError struct{ Kind Kind }

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("Unknown compression type id: %d", int8(e.Kind))
}
