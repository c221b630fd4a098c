package raftlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// sumSize is what a checksum takes in front of a stored value.
const sumSize = 4

var errSum = errors.New("its checksum does not match")

// sumOf is the CRC-32C of a value and of where it lies.
func sumOf(bucket, key, value []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Checksum(bucket, castagnoli), castagnoli, key), castagnoli, value)
}

// seal writes the checksum of a value into the room that b has in front of it.
func seal(bucket, key, b []byte) uint32 {
	sum := sumOf(bucket, key, b[sumSize:])
	binary.BigEndian.PutUint32(b, sum)
	return sum
}

// unseal gives the value that was sealed for this place, and its checksum.
func unseal(bucket, key, b []byte) ([]byte, uint32, error) {
	if len(b) < sumSize {
		return nil, 0, errors.New("it is cut")
	}
	sum := binary.BigEndian.Uint32(b)
	if checked && sumOf(bucket, key, b[sumSize:]) != sum {
		return nil, 0, errSum
	}
	return b[sumSize:], sum, nil
}

// checked is false in a test that shows what the checksums are for.
var checked = true

// total is the whole of what is on disk in a few numbers. It is written with every
// transaction, and says what no single value can: that none is missing, and that
// none is of an earlier transaction, of which a file keeps pages for long.
type total struct {
	transaction uint64 // of bbolt's that wrote this
	values      uint64 // beside this one
	sum         uint64 // of their checksums
}

const totalSize = 24

func (t total) append(dst []byte) []byte {
	for _, v := range []uint64{t.transaction, t.values, t.sum} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

func readTotal(b []byte) (t total, err error) {
	if len(b) != totalSize {
		return t, errors.New("it is not of its size")
	}
	return total{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}, nil
}

// sums are the checksums of what is on disk, beside those of the total.
type sums struct {
	state   map[string]uint32
	first   uint64 // index of entries[0]
	entries []uint32
	values  uint64
	sum     uint64
}

func (s *sums) put(old, sum uint32, there bool) {
	if there {
		s.sum -= uint64(old)
	} else {
		s.values++
	}
	s.sum += uint64(sum)
}

// putState takes note of a value of the state.
func (s *sums) putState(key []byte, sum uint32) {
	old, there := s.state[string(key)]
	s.put(old, sum, there)
	if s.state == nil {
		s.state = map[string]uint32{}
	}
	s.state[string(key)] = sum
}

// end is the index behind the last entry.
func (s *sums) end() uint64 { return s.first + uint64(len(s.entries)) }

// putEntry takes note of an entry at, or right behind, those that are there.
func (s *sums) putEntry(index uint64, sum uint32) {
	if len(s.entries) == 0 {
		s.first = index
	}
	if index < s.end() {
		s.put(s.entries[index-s.first], sum, true)
		s.entries[index-s.first] = sum
		return
	}
	s.put(0, sum, false)
	s.entries = append(s.entries, sum)
}

// drop forgets entries.
func (s *sums) drop(list []uint32) {
	for _, sum := range list {
		s.values--
		s.sum -= uint64(sum)
	}
}

// dropTo forgets the entries up to index.
func (s *sums) dropTo(index uint64) {
	if index < s.first {
		return
	}
	n := min(index-s.first+1, uint64(len(s.entries)))
	s.drop(s.entries[:n])
	s.entries, s.first = s.entries[n:], s.first+n
}

// dropFrom forgets the entries from index on.
func (s *sums) dropFrom(index uint64) {
	if index >= s.end() {
		return
	}
	n := max(index, s.first) - s.first
	s.drop(s.entries[n:])
	s.entries = s.entries[:n]
}
