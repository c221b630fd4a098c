package partition

import (
	"millrace/storage/batch"
	"millrace/storage/log"
)

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
	log.WithScratch(func(s *batch.Scratch) {
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
	log.WithScratch(func(s *batch.Scratch) {
		r.Scratch = s
		c, err = batch.Upgrade(set, r)
	})
	return c, err
}

// StoresZstd says that the topic's compression.type is zstd.
func (p *Partition) StoresZstd() bool {
	return p.settings.Load().rules.StoresZstd()
}
