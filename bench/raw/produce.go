package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"millrace/bench/floor"
)

// Producing is a load of Produce requests, each with one batch for every
// partition.
type Producing struct {
	Addr       string
	Topic      string
	Partitions int
	Batch      Batch
	Acks       int16
	Conns      int
	Depth      int           // requests in flight on a connection
	Every      time.Duration // between requests of a connection; 0: as fast as they are answered
	Floor      floor.Kind    // the other side is a floor, not a broker
}

// Run produces over a window. Where the load is over, every request has been
// answered without an error; sent is how many there were.
func (p Producing) Run(w Window) (r Result, sent int64, err error) {
	var total atomic.Int64
	r, err = w.Over(p.Conns, func(_ int, l *Load, c *Counter) error {
		n, err := p.work(l, c)
		total.Add(n)
		return err
	})
	if err != nil {
		return r, 0, fmt.Errorf("produce to %s: %w", p.Topic, err)
	}
	return r, total.Load(), nil
}

// Fill produces so many requests over one connection.
func (p Producing) Fill(requests int) error {
	c, err := dial(p.Addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	frame, answer := p.frame(), p.answer()
	inFlight := 0
	for sent := 0; sent < requests || inFlight > 0; {
		if sent < requests && inFlight < p.Depth {
			if err := c.write(numbered(frame, int32(sent))); err != nil {
				return fmt.Errorf("fill %s: %w", p.Topic, err)
			}
			sent++
			inFlight++
			continue
		}
		body, err := c.read()
		if err == nil {
			err = answer(body, int32(sent-inFlight))
		}
		if err != nil {
			return fmt.Errorf("fill %s: %w", p.Topic, err)
		}
		inFlight--
	}
	return nil
}

func (p Producing) frame() []byte { return produce(p.Topic, p.Partitions, p.Acks, p.Batch.Bytes) }

func numbered(frame []byte, id int32) []byte {
	binary.BigEndian.PutUint32(frame[correlationAt:], uint32(id))
	return frame
}

// work keeps Depth requests in flight until it is told to stop, and reads the
// answers of all it has sent.
func (p Producing) work(l *Load, count *Counter) (sent int64, err error) {
	c, err := dial(p.Addr, hello(p.Floor, 0, 0, p.Partitions))
	if err != nil {
		return 0, err
	}
	defer c.nc.Close()
	frame, answer := p.frame(), p.answer()
	inFlight := 0
	begun := time.Now()
	var sleep func(time.Time) error
	if p.Every > 0 {
		var done func()
		if sleep, done, err = sleeper(); err != nil {
			return 0, err
		}
		defer done()
	}
	for {
		for inFlight < p.Depth && !l.Stopped() {
			if p.Every > 0 {
				if err := sleep(begun.Add(time.Duration(sent) * p.Every)); err != nil {
					return sent, err
				}
			}
			if err := c.write(numbered(frame, int32(sent))); err != nil {
				return sent, err
			}
			sent++
			inFlight++
			if p.Every > 0 {
				break // its answer is read before the next is due
			}
		}
		if inFlight == 0 {
			return sent, nil
		}
		body, err := c.read()
		if err != nil {
			return sent, err
		}
		if err := answer(body, int32(sent)-int32(inFlight)); err != nil {
			return sent, err
		}
		inFlight--
		count.Add(len(p.Batch.Bytes) * p.Partitions)
	}
}

// answer returns a check of an answer: it belongs to the request, names each
// partition, and refuses none.
func (p Producing) answer() func(body []byte, id int32) error {
	if p.Floor != 0 {
		return func([]byte, int32) error { return nil }
	}
	return func(body []byte, id int32) error {
		if len(body) < 5 || int32(binary.BigEndian.Uint32(body)) != id || body[4] != 0 {
			return fmt.Errorf("not the answer to request %d", id)
		}
		n, err := walkProduced(body[5:])
		if err == nil && n != p.Partitions {
			err = errors.New("an answer without all partitions")
		}
		return err
	}
}

// Loopback sends bytes to a floor that drops them: memory to memory.
func Loopback(addr string, w Window) (Result, error) {
	return w.Over(1, func(_ int, l *Load, count *Counter) error {
		c, err := dial(addr, floor.Hello(floor.Drop, 0, 0, 1))
		if err != nil {
			return err
		}
		defer c.nc.Close()
		block := make([]byte, 1<<20)
		for !l.Stopped() {
			if err := c.write(block); err != nil {
				return err
			}
			count.Add(len(block))
		}
		return nil
	})
}
