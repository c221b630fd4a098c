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

// Check checks a client's batch, as batch.Shape cut it, by the topic's rules; now is in ms, and listed is how many bad
// records an error lists, as in batch.Rules. It takes no lock, and only for compressed batches waits for its turn. b is
// changed in place; see batch.Validate.
func (p *Partition) Check(b []byte, h batch.Header, now int64, listed int) (batch.Checked, error) {
	r := p.Rules(now)
	r.ListedErrors = listed
	if kind := h.Attributes.Codec(); kind == 0 && (!r.Recompress || r.Codec == kind) {
		return batch.Validate(b, r)
	}
	var c batch.Checked
	var err error
	WithScratch(func(s *batch.Scratch) {
		r.Scratch = s
		c, err = batch.Validate(b, r)
	})
	return c, err
}

// CheckSet is Check for the message set of an old client, of which it makes the batch to append; see batch.Upgrade.
func (p *Partition) CheckSet(set []byte, now int64) (batch.Checked, error) {
	r := p.Rules(now)
	r.ListedErrors = batch.FewestListed // old clients are not told of records
	var c batch.Checked
	var err error
	WithScratch(func(s *batch.Scratch) {
		r.Scratch = s
		c, err = batch.Upgrade(set, r)
	})
	return c, err
}

// WithScratch waits for its turn and calls f with decompressors and compressors.
func WithScratch(f func(*batch.Scratch)) {
	scratches.slots <- struct{}{}
	defer func() { <-scratches.slots }()
	s := scratches.idle.Get().(*batch.Scratch)
	defer scratches.idle.Put(s)
	f(s)
}

// StoresZstd says that the topic's compression.type is zstd.
func (p *Partition) StoresZstd() bool {
	return p.settings.Load().rules.StoresZstd()
}
