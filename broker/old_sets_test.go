package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/wire"
)

var _ wire.Section = (*downgraded)(nil)

// memoryBatches are stored batches in memory, which count their releases.
type memoryBatches struct {
	b        []byte
	released int
	fails    int // reads beyond this position fail; 0 is none
}

func (m *memoryBatches) Len() int { return len(m.b) }
func (m *memoryBatches) Release() { m.released++ }
func (m *memoryBatches) ReadAt(p []byte, off int64) (int, error) {
	if m.fails > 0 && int(off)+len(p) > m.fails {
		return 0, errors.New("the disk is gone")
	}
	return copy(p, m.b[off:]), nil
}

// stored are batches of so many records each, one behind the other.
func storedOf(kind codec.Kind, counts ...int) []byte {
	var b []byte
	base := batch.Offset(0)
	for _, n := range counts {
		u := batch.NewBuilder(batch.BuilderOptions{Base: base, Codec: kind})
		for i := range n {
			u.Add(int64(1000+i), nil, []byte{byte(i)})
		}
		b = append(b, u.Bytes()...)
		base += batch.Offset(n)
	}
	return b
}

// converted is what all batches become, converted one by one.
func converted(t *testing.T, b []byte, magic int8, from batch.Offset) (out []byte, first int) {
	d := batch.Downgrader{Magic: magic, From: from}
	for len(b) > 0 {
		h, err := batch.ParseHeader(b)
		if err != nil || h.Size() > len(b) {
			break
		}
		if out, err = d.Downgrade(out, b[:h.Size()]); err != nil {
			break
		}
		if first == 0 {
			first = len(out)
		}
		b = b[h.Size():]
	}
	return out, first
}

// drain reads a section in pieces of any size.
func drain(t *testing.T, d *downgraded, rng *rand.Rand) []byte {
	out := make([]byte, d.Len())
	for at := 0; at < len(out); {
		n := min(len(out)-at, 1+rng.IntN(300))
		if m, err := d.ReadAt(out[at:at+n], int64(at)); m != n || err != nil {
			t.Fatalf("read %d of %d at %d: %v", m, n, at, err)
		}
		at += n
	}
	return out
}

func TestDowngraded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	zstd, cut := storedOf(codec.Zstd, 1), storedOf(codec.LZ4, 30, 30)
	for name, b := range map[string][]byte{
		"plain": storedOf(codec.None, 3, 1, 40, 2, 200), "gzip": storedOf(codec.Gzip, 3, 1, 40, 200), "many": storedOf(codec.None, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5),
		"cut": cut[:len(cut)-10], "cut in a header": append(storedOf(codec.Gzip, 400), zstd[:30]...), "zstd behind": append(storedOf(codec.Gzip, 400), zstd...),
	} {
		for version := range int16(4) {
			for _, from := range []batch.Offset{0, 2, 3} {
				magic := int8(version / 2)
				want, first := converted(t, b, magic, from)
				var pieces [2][]byte
				for i, kept := range []int{0, keptDowngraded} { // what was converted is kept, or converted again
					m, told := &memoryBatches{b: b}, -1
					d, err := downgrade(m, version, from, &kept, func(n int) { told = n })
					if err != nil {
						t.Fatal(err)
					}
					if d.Len() != max(len(b), first) || d.Memory() < len(d.ready) {
						t.Errorf("%s v%d from %d: %d bytes, %d in memory, of %d stored and %d first", name, version, from, d.Len(), d.Memory(), len(b), first)
					}
					got := drain(t, d, rng)
					n := min(len(want), len(got))
					if !bytes.Equal(got[:n], want[:n]) {
						t.Fatalf("%s v%d from %d: converted otherwise", name, version, from)
					}
					if rest := got[n:]; len(rest) > 0 {
						head := binary.BigEndian.AppendUint32(bytes.Repeat([]byte{0xff}, 8), uint32(max(len(rest)+1, batch.HeaderSize)))
						fill := append(head, make([]byte, len(rest))...)[:len(rest)]
						if !bytes.Equal(rest, fill) {
							t.Errorf("%s v%d from %d: the rest of %d is %x", name, version, from, len(rest), rest[:min(20, len(rest))])
						}
					}
					if n := d.holds(); n != 0 {
						t.Errorf("%s v%d from %d: %d bytes of room are held when all is read", name, version, from, n)
					}
					// Again from the start, as it is where requests are logged.
					if again := drain(t, d, rng); !bytes.Equal(again, got) {
						t.Errorf("%s v%d from %d: what is read again is another", name, version, from)
					}
					if _, err := d.ReadAt(make([]byte, 1), 1); err != errOutOfOrder {
						t.Errorf("read out of order: %v", err)
					}
					d.Release()
					if m.released != 1 || told < 1 {
						t.Errorf("%s v%d from %d: released %d times, %d records told", name, version, from, m.released, told)
					}
					pieces[i] = got
				}
				if !bytes.Equal(pieces[0], pieces[1]) {
					t.Errorf("%s v%d from %d: what is converted again is another", name, version, from)
				}
			}
		}
	}
}

// holds is how much room a conversion holds.
func (d *downgraded) holds() int { return cap(d.batch) + cap(d.room) + cap(d.ready) }

// TestDowngradedKeeps: an answer of many partitions keeps no more than its share.
func TestDowngradedKeeps(t *testing.T) {
	b := storedOf(codec.None, 40_000)
	kept, most := 0, 0
	for range 20 {
		d, err := downgrade(&memoryBatches{b: b}, 0, 0, &kept, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if n := d.holds(); n > 3*len(d.ready) {
			t.Errorf("%d bytes of room are held for %d", n, len(d.ready))
		}
		most += len(d.ready)
		d.Release()
	}
	if most == 0 || most > keptDowngraded || most != kept {
		t.Errorf("%d bytes are kept, and %d counted", most, kept)
	}
}

func TestDowngradedRefuses(t *testing.T) {
	done := func(int) {}
	for name, c := range map[string]struct {
		b     []byte
		fails int
		code  int16
	}{
		"zstd":                {b: storedOf(codec.Zstd, 2), code: 76},
		"a disk that is gone": {b: storedOf(codec.None, 2), fails: 70, code: -1},
		"no batch":            {b: bytes.Repeat([]byte{9}, 100), code: -1},
	} {
		m, kept := &memoryBatches{b: c.b, fails: c.fails}, 0
		if _, err := downgrade(m, 1, 0, &kept, done); codeOf(err) != c.code || m.released != 1 {
			t.Errorf("%s: %v, released %d times", name, err, m.released)
		}
	}
	// Behind the first there is no place for an error: the client comes back.
	two := storedOf(codec.None, 50, 50)
	m, kept := &memoryBatches{b: two, fails: len(two)/2 + 1}, 0
	d, err := downgrade(m, 1, 0, &kept, done)
	if err != nil {
		t.Fatal(err)
	}
	drain(t, d, rand.New(rand.NewPCG(1, 1)))
	// Nothing but control batches: enough to say that the limit was too small.
	u := batch.NewBuilder(batch.BuilderOptions{Control: true})
	u.Add(1, []byte{0, 0, 0, 1}, nil)
	if d, err = downgrade(&memoryBatches{b: u.Bytes()}, 1, 0, &kept, done); err != nil || d.Len() != messageOverhead {
		t.Errorf("control alone: %v, %v", d, err)
	}
	if got := drain(t, d, rand.New(rand.NewPCG(1, 1))); !bytes.HasPrefix(got, bytes.Repeat([]byte{0xff}, 8)) {
		t.Errorf("control alone: %x", got)
	}
	if d, err = downgrade(&memoryBatches{b: two[:80]}, 1, 0, &kept, done); err != nil || d.Len() != 0 {
		t.Errorf("half a batch: %v, %v", d, err)
	}
}
