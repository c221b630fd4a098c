package raw

import (
	"fmt"

	"millrace/bench/floor"
)

// Fetching is a load of Fetch requests: each connection reads all partitions,
// one request at a time.
type Fetching struct {
	Addr       string
	Topic      string
	Partitions int
	Bytes      int // asked of each partition
	Conns      int
	// Ends are where the partitions end: a connection that has come there begins
	// anew. Where there are none, it reads on from From and waits for more.
	Ends  []int64
	From  []int64
	Floor floor.Kind
	// Batch is what the partitions, or a floor's files, are made of, if that is one
	// batch again and again: the connections begin apart, each at a batch of its
	// own. Of a floor's answer whole batches count, as of a broker's.
	Batch Batch
}

// Run fetches over a window. Every answer is gone through: each batch follows
// the one before it.
func (f Fetching) Run(w Window) (Result, error) {
	r, err := w.Over(f.Conns, f.work)
	if err != nil {
		return r, fmt.Errorf("fetch from %s: %w", f.Topic, err)
	}
	return r, nil
}

func (f Fetching) work(i int, l *Load, count *Counter) error {
	c, err := dial(f.Addr, hello(f.Floor, f.Bytes, f.Batch.Size(), f.Partitions))
	if err != nil {
		return err
	}
	defer c.nc.Close()
	// A reader at the tail waits for less than the window is long.
	req := newFetch(f.Topic, f.Partitions, f.Bytes, 1, 200)
	for j := range f.From {
		req.at[j].offset = f.From[j]
	}
	if each := int64(f.Batch.Records); each > 0 {
		for j := range f.Ends {
			req.at[j].offset = f.Ends[j] / each * int64(i) / int64(f.Conns) * each
		}
	}
	whole := f.Bytes
	if f.Floor != 0 {
		whole = max(f.Bytes/f.Batch.Size(), 1) * f.Batch.Size()
	}
	for !l.Stopped() {
		if err := c.write(req.frame()); err != nil {
			return err
		}
		body, err := c.read()
		if err != nil {
			return err
		}
		if f.Floor != 0 {
			count.Add(min(whole, f.Bytes) * f.Partitions)
			continue
		}
		got := 0
		err = walkAnswer(body, func(partition int32, records []byte) error {
			if partition < 0 || int(partition) >= len(req.at) {
				return fmt.Errorf("partition %d was not asked for", partition)
			}
			at := &req.at[partition]
			return walkBatches(records, at.offset, func(base int64, batch []byte) error {
				got += len(batch)
				at.offset = base + span(batch)
				return nil
			})
		})
		if err != nil {
			return err
		}
		if f.Ends != nil && got == 0 {
			return fmt.Errorf("nothing was found at %v before the ends %v", req.at, f.Ends)
		}
		for i := range f.Ends {
			if req.at[i].offset > f.Ends[i] {
				return fmt.Errorf("partition %d gave records up to %d, behind its end %d", i, req.at[i].offset, f.Ends[i])
			}
			if req.at[i].offset == f.Ends[i] {
				req.at[i].offset = 0
			}
		}
		count.Add(got)
	}
	return nil
}
