package raw

import (
	"fmt"
	"sync/atomic"
)

// Tail is a load of readers that wait at the end of a topic for what one
// connection produces.
type Tail struct {
	Producing
	Readers int
	Bytes   int // asked of each partition
}

// Run returns what the readers were given over a window, and how many requests
// were produced. The server's processor time is that of both sides.
func (t Tail) Run(w Window) (r Result, sent int64, err error) {
	f := Fetching{Addr: t.Addr, Topic: t.Topic, Partitions: t.Partitions, Bytes: t.Bytes}
	var total atomic.Int64
	r, err = w.Over(1+t.Readers, func(i int, l *Load, c *Counter) error {
		if i > 0 {
			return f.work(i, l, c)
		}
		n, err := t.work(l, new(Counter)) // what is produced is not counted
		total.Add(n)
		return err
	})
	if err != nil {
		return r, 0, fmt.Errorf("read at the tail of %s: %w", t.Topic, err)
	}
	return r, total.Load(), nil
}
