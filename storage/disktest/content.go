package disktest

import (
	"maps"
	"math/rand/v2"
)

// pageSize is the grain of a file's memory: files are sized far beyond what is written to them.
const pageSize = 4096

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// content is a file's bytes; pages that are not there are zero.
type content struct {
	size  int64
	pages map[int64]*[pageSize]byte
}

func (c *content) clone() content {
	d := content{size: c.size, pages: maps.Clone(c.pages)}
	for i, p := range d.pages {
		q := *p
		d.pages[i] = &q
	}
	return d
}

func (c *content) read(p []byte, off int64) int {
	n := int(min(int64(len(p)), max(c.size-off, 0)))
	for done := 0; done < n; {
		at := off + int64(done)
		in := at % pageSize
		step := min(n-done, int(pageSize-in))
		if page := c.pages[at/pageSize]; page != nil {
			copy(p[done:done+step], page[in:])
		} else {
			clear(p[done : done+step])
		}
		done += step
	}
	return n
}

func (c *content) apply(w write) {
	if w.cut {
		c.cut(w.off)
		return
	}
	c.put(w.b, w.off)
}

func (c *content) put(b []byte, off int64) {
	if c.pages == nil {
		c.pages = map[int64]*[pageSize]byte{}
	}
	c.size = max(c.size, off+int64(len(b)))
	for len(b) > 0 {
		page := c.pages[off/pageSize]
		if page == nil {
			page = new([pageSize]byte)
			c.pages[off/pageSize] = page
		}
		n := copy(page[off%pageSize:], b)
		b, off = b[n:], off+int64(n)
	}
}

func (c *content) cut(size int64) {
	if size < c.size {
		last := size / pageSize
		for i := range c.pages {
			if i > last || (i == last && size%pageSize == 0) {
				delete(c.pages, i)
			}
		}
		if page := c.pages[last]; page != nil {
			clear(page[size%pageSize:])
		}
	}
	c.size = size
}

// tear applies a write that was under way when the power went: whole, or some of its sectors. It says whether some are
// missing.
func (c *content) tear(w write, chance *rand.Rand) (torn bool) {
	if w.cut || chance.IntN(2) == 0 {
		c.apply(w)
		return false
	}
	for off, b := w.off, w.b; len(b) > 0; {
		n := min(len(b), int(sectorSize-off%sectorSize))
		if chance.IntN(2) == 0 {
			c.put(b[:n], off)
		} else {
			torn = true
		}
		off, b = off+int64(n), b[n:]
	}
	return torn
}
