package compact

import (
	"encoding/binary"

	"millrace/storage/batch"
)

type slot struct {
	key    batch.KeyDigest
	offset batch.Offset // -1: empty
}

const (
	slotSize  = 24
	pageSlots = 1024
	pageSize  = slotSize * pageSlots
	// maxDepth bounds the list of pages where keys were chosen to share their first bits.
	maxDepth = 20
)

// page is a small hash table. depth is how many first bits its keys share.
type page struct {
	slots [pageSlots]slot
	used  int
	depth uint
}

func newPage(depth uint) *page {
	p := &page{depth: depth}
	for i := range p.slots {
		p.slots[i].offset = batch.NoOffset
	}
	return p
}

// at is the slot of a digest, or the one where it would be put.
func (p *page) at(d batch.KeyDigest) *slot {
	for i := binary.BigEndian.Uint32(d[12:]) % pageSlots; ; i = (i + 1) % pageSlots {
		if s := &p.slots[i]; s.offset < 0 || s.key == d {
			return s
		}
	}
}

// Keys is the newest offset of each key of what is cleaned. It grows page by page, a full one becoming two: it takes what
// its keys need, never more than its limit, and there is no moment at which an old and a new table are there.
type Keys struct {
	limit int     // pages
	fill  int     // keys that a page may hold
	list  []*page // by the first bits of the digest; a page of fewer bits stands there several times
	depth uint
	pages int
	n     int
	// latest is the last offset of what was put; records behind it are kept.
	latest batch.Offset
}

// NewKeys makes a map of at most so many bytes, which is at least one page. load is how full a page may get, above 0
// and at most 1.
func NewKeys(bytes int64, load float64) *Keys {
	if !(load > 0 && load <= 1) {
		load = 0.9
	}
	k := &Keys{limit: int(max(bytes/pageSize, 1)), fill: min(max(int(load*pageSlots), 1), pageSlots-1)}
	k.Clear()
	return k
}

// Clear forgets all keys and gives their memory back.
func (k *Keys) Clear() {
	k.list, k.depth, k.pages, k.n, k.latest = nil, 0, 0, 0, batch.NoOffset
}

// Len is how many keys there are.
func (k *Keys) Len() int { return k.n }

// Bytes is the memory that the keys take.
func (k *Keys) Bytes() int64 { return int64(k.pages) * pageSize }

// Full is how much of the limit is used, between 0 and 1.
func (k *Keys) Full() float64 { return float64(k.n) / (float64(k.limit) * float64(k.fill)) }

// Latest is up to which offset, that included, everything was looked at; -1: nothing was.
func (k *Keys) Latest() batch.Offset { return k.latest }

// Reached says that everything up to an offset, that included, was looked at.
func (k *Keys) Reached(o batch.Offset) { k.latest = max(k.latest, o) }

func (k *Keys) index(d batch.KeyDigest) uint64 {
	if k.depth == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(d[:]) >> (64 - k.depth)
}

// Put notes a key's record. false: it is a new key and there is no room; nothing has changed.
func (k *Keys) Put(key batch.Key, o batch.Offset) bool {
	d := key.Digest()
	if k.list == nil {
		k.list, k.pages = []*page{newPage(0)}, 1
	}
	for {
		p := k.list[k.index(d)]
		s := p.at(d)
		if s.offset >= 0 {
			s.offset = max(s.offset, o)
			return true
		}
		if p.used < k.fill {
			*s = slot{key: d, offset: o}
			p.used++
			k.n++
			return true
		}
		if k.pages >= k.limit || p.depth >= maxDepth {
			return false
		}
		k.split(p, d)
	}
}

// split makes two pages of one, by the next bit.
func (k *Keys) split(p *page, d batch.KeyDigest) {
	if p.depth == k.depth {
		list := make([]*page, 2*len(k.list))
		for i, q := range k.list {
			list[2*i], list[2*i+1] = q, q
		}
		k.list = list
		k.depth++
	}
	two := [2]*page{newPage(p.depth + 1), newPage(p.depth + 1)}
	for _, s := range p.slots {
		if s.offset < 0 {
			continue
		}
		q := two[binary.BigEndian.Uint64(s.key[:])>>(63-p.depth)&1]
		*q.at(s.key) = s
		q.used++
	}
	span := uint64(1) << (k.depth - p.depth) // how often p stands in the list
	first := k.index(d) &^ (span - 1)
	for i := range span {
		k.list[first+i] = two[i/(span/2)]
	}
	k.pages++
}

// Get is the newest offset of a key; -1: the key is not there.
func (k *Keys) Get(key batch.Key) batch.Offset {
	if k.list == nil {
		return batch.NoOffset
	}
	d := key.Digest()
	return k.list[k.index(d)].at(d).offset
}
