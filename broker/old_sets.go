package broker

import (
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// Clients before KIP-98 know message sets: what they produce is made a batch
// before it is appended (batch.Upgrade), what they fetch is made sets of on its
// way out, as 3.9 did (KIP-896 dropped it). The log holds batches only.

// The first versions that carry record batches, and the first of Fetch that
// gives a first batch larger than the limits (KIP-74).
const (
	batchesInProduce = 3
	batchesInFetch   = 4
	wholeInFetch     = 3
)

const (
	// downgradeSlack and downgradeTimes bound what one compressed batch may become,
	// and the length of one of its records: slack, and so many times its size.
	downgradeSlack = 16 << 20
	downgradeTimes = 4
	// keptDowngraded is how much one answer keeps of what was converted to learn
	// its length; beyond, it is converted again when it is sent.
	keptDowngraded = 4 << 20
	// sendingDowngraded is about what a partition's conversion holds while it is
	// sent.
	sendingDowngraded = 1 << 20
)

// downgraded is the records of one partition as the message sets of an old
// client. It is a wire.Section that is read from its start to its end, again only
// from its start, and converts batch by batch as it is read, so that an answer
// takes the memory of a batch (KIP-283).
//
// Its length is told before all is converted. It is that of the stored batches,
// or of the first one converted if that is more, so that a reader gets on. What
// does not fit is cut, which such clients expect of a set's end; where there is
// less, the rest is filled with the beginning of a message that is longer than
// what is left, which they take for one that is cut.
type downgraded struct {
	stored    storedBatches
	d         batch.Downgrader
	announced int
	taken     int    // bytes of stored that are converted
	batch     []byte // room for a stored batch
	room      []byte // and for what it becomes
	ready     []byte // converted and not yet read
	given     int    // bytes read
	records   int    // converted
	ended     bool   // nothing follows but the filling
	filled    int    // bytes of filling, once it has begun
	done      func(records int)
}

// storedBatches is a section of a log.
type storedBatches interface {
	Len() int
	ReadAt(p []byte, off int64) (int, error)
	Release()
}

// errOutOfOrder is a read that does not follow the one before it.
var errOutOfOrder = errors.New("a conversion is read in order")

// downgrade makes the section for a version of Fetch below 4. kept is how many
// bytes of the answer's other partitions are kept; it grows. An error is a first
// batch that cannot be converted; stored is released then.
func downgrade(stored storedBatches, version int16, from batch.Offset, kept *int, done func(records int)) (*downgraded, error) {
	d := &downgraded{stored: stored, d: batch.Downgrader{From: from}, done: done}
	if version >= 2 {
		d.d.Magic = 1
	}
	first, err := d.convert()
	if err != nil {
		stored.Release()
		return nil, err
	}
	switch {
	case d.taken == 0: // not even one batch
		d.announced = 0
	case d.ended:
		d.announced = messageOverhead
	default:
		d.announced = max(stored.Len(), first)
	}
	// The rest of the room is made again: there may be many partitions, which
	// are sent one after another.
	d.forget()
	if *kept += first; *kept > keptDowngraded {
		*kept -= first
		d.rewind()
	}
	return d, nil
}

// rewind has everything converted from the start.
func (d *downgraded) rewind() {
	d.taken, d.given, d.filled, d.records = 0, 0, 0, 0
	d.ready, d.room, d.ended = nil, nil, false
}

// forget lets go of the room that a conversion takes, but not of what is ready.
func (d *downgraded) forget() {
	d.batch, d.room = nil, nil
	d.d = batch.Downgrader{Magic: d.d.Magic, From: d.d.From}
}

// messageOverhead is an offset and a length: what is left of a message that is
// cut short of its content.
const messageOverhead = 12

// convert brings the next converted bytes to ready; none where stored ends, or
// ends within a batch.
func (d *downgraded) convert() (int, error) {
	for {
		b, err := d.next()
		if err != nil {
			return 0, err
		}
		if b == nil {
			d.ended = true
			return 0, nil
		}
		d.d.Limit = downgradeSlack + downgradeTimes*len(b)
		log.WithScratch(func(s *batch.Scratch) {
			d.d.Scratch = s
			d.room, err = d.d.Downgrade(d.room[:0], b)
			d.d.Scratch = nil
		})
		d.ready = d.room
		if err != nil {
			return 0, err
		}
		if len(d.ready) > 0 {
			h, _ := batch.ParseHeader(b)
			d.records += int(h.Count)
			return len(d.ready), nil
		}
	}
}

// next reads the next stored batch; nil is the end.
func (d *downgraded) next() ([]byte, error) {
	left := d.stored.Len() - d.taken
	if left < batch.HeaderSize {
		return nil, nil
	}
	var head [batch.HeaderSize]byte
	if _, err := d.stored.ReadAt(head[:], int64(d.taken)); err != nil {
		return nil, fmt.Errorf("read a stored batch: %w", err)
	}
	h, err := batch.ParseHeader(head[:])
	if err != nil {
		return nil, fmt.Errorf("read a stored batch: %w", err)
	}
	if h.Size() > left {
		return nil, nil
	}
	if cap(d.batch) < h.Size() {
		d.batch = make([]byte, h.Size())
	}
	d.batch = d.batch[:h.Size()]
	if _, err := d.stored.ReadAt(d.batch, int64(d.taken)); err != nil {
		return nil, fmt.Errorf("read a stored batch: %w", err)
	}
	d.taken += h.Size()
	return d.batch, nil
}

// Len is part of wire.Section.
func (d *downgraded) Len() int { return d.announced }

// Memory says about how many bytes the section holds while it is sent.
func (d *downgraded) Memory() int { return max(len(d.ready), min(d.announced, sendingDowngraded)) }

// SysFile is part of wire.Section: there is no file.
func (d *downgraded) SysFile() (*os.File, int64) { return nil, 0 }

// ReadAt is part of wire.Section.
func (d *downgraded) ReadAt(p []byte, off int64) (int, error) {
	if off == 0 && d.given > 0 {
		d.rewind()
	}
	if off != int64(d.given) {
		return 0, errOutOfOrder
	}
	n := 0
	for n < len(p) && d.given < d.announced {
		if len(d.ready) == 0 && !d.ended {
			if _, err := d.convert(); err != nil {
				// The length is told and there is no place for an error: the
				// client comes back for what it did not get, and is told then.
				d.ended = true
			}
			continue
		}
		room := p[n:min(len(p), n+d.announced-d.given)]
		m := 0
		if len(d.ready) > 0 {
			m = copy(room, d.ready)
			d.ready = d.ready[m:]
		} else {
			m = d.fill(room)
		}
		n += m
		d.given += m
	}
	if d.given == d.announced {
		d.ready = nil
		d.forget()
	}
	return n, nil
}

// fill writes of the message that fills the rest.
func (d *downgraded) fill(p []byte) int {
	var head [messageOverhead]byte
	n := 0
	if d.filled == 0 {
		d.filled = d.announced - d.given
	}
	at := d.filled - (d.announced - d.given)
	if at < messageOverhead {
		copy(head[:8], "\xff\xff\xff\xff\xff\xff\xff\xff")
		putInt32(head[8:], int32(max(d.filled+1, batch.HeaderSize)))
		n = copy(p, head[at:])
	}
	clear(p[n:])
	return len(p)
}

func putInt32(b []byte, v int32) {
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}

// Release is part of wire.Section.
func (d *downgraded) Release() {
	d.stored.Release()
	d.batch, d.room, d.ready = nil, nil, nil
	d.done(d.records)
}

// older makes what was read of a partition the records of an old client; nil
// where there is nothing to convert. A topic that stores zstd is refused to such
// clients, whatever is in it.
func (f *fetching) older(r *fetchRead) *downgraded {
	if r.part.StoresZstd() {
		r.found.Records.Release()
		r.found, r.code, r.err = partition.ReadResult{}, kerr.UnsupportedCompressionType.Code, nil
		return nil
	}
	if r.found.Records.Len() == 0 {
		return nil
	}
	old, err := f.downgrade(r)
	if err != nil {
		r.err = err
		return nil
	}
	return old
}

func (f *fetching) downgrade(r *fetchRead) (*downgraded, error) {
	topic, seen := r.part.Topic(), f.b.seen
	d, err := downgrade(r.found.Records, f.c.Version, r.asked.FetchOffset, &f.kept, func(records int) { seen.downgraded(topic, records) })
	if err == nil {
		return d, nil
	}
	r.found = partition.ReadResult{}
	var refused *batch.Error
	if !errors.As(err, &refused) || refused.Kind != batch.UnsupportedCompression {
		f.b.refused.Warn("records cannot be converted for an old client", zap.String("topic", topic), zap.Int32("partition", r.asked.Index), zap.Error(err))
	}
	return nil, err
}
