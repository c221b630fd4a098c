package partition

import (
	"runtime"
	"sync"

	"millrace/storage/batch"
)

// scratches are the decompressors and compressors of all partitions. There are no more of them in use than keep the
// processors busy: what a broker's clients can make it hold for decompression is bounded by that, however many
// connections send compressed batches at once.
var scratches = struct {
	slots chan struct{}
	idle  sync.Pool
}{slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), idle: sync.Pool{New: func() any { return new(batch.Scratch) }}}

// Check checks a client's batch, as batch.Shape cut it, by the topic's rules; now is in ms. It takes no lock, and only for
// compressed batches waits for its turn. b is changed in place; see batch.Validate.
func (p *Partition) Check(b []byte, h batch.Header, now int64) (batch.Checked, error) {
	r := p.Rules(now)
	if kind := h.Attributes.Codec(); kind == 0 && (!r.Recompress || r.Codec == kind) {
		return batch.Validate(b, r)
	}
	scratches.slots <- struct{}{}
	defer func() { <-scratches.slots }()
	r.Scratch = scratches.idle.Get().(*batch.Scratch)
	defer scratches.idle.Put(r.Scratch)
	return batch.Validate(b, r)
}
