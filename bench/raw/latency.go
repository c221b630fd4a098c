package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/floor"
)

// Latency is an open loop: records are sent when they are due, whatever became
// of those before them, and what is measured is the time from when one was due
// to when its reader has it.
type Latency struct {
	Addr  string
	Topic string // of one partition, empty
	Rate  int    // records a second
	For   time.Duration
	Value int // bytes, twelve at least; the first eight are the record's own
	Floor bool
	// Patience is how long after the last record was due all must be there; 0: 20 s.
	Patience time.Duration
}

// Run returns the sorted latencies in milliseconds, without those of the first
// tenth of the time.
func (o Latency) Run() ([]float64, error) {
	if o.Floor {
		return o.echo()
	}
	producer, err := dial(o.Addr, nil)
	if err != nil {
		return nil, err
	}
	defer producer.nc.Close()
	reader, err := dial(o.Addr, nil)
	if err != nil {
		return nil, err
	}
	defer reader.nc.Close()
	n := o.count()
	p := Producing{Topic: o.Topic, Partitions: 1, Acks: -1, Batch: NewBatch(o.Value, 0, time.Now())}
	frame, answer := p.frame(), p.answer()
	// The batch lies at the end of the frame but for two bytes of tags, as the
	// record does in the batch, but for its headers' count.
	const tags = 3
	batchAt := len(frame) - tags - len(p.Batch.Bytes)
	valueAt := len(frame) - tags - 1 - o.Value
	begun := time.Now().Add(20 * time.Millisecond)
	var wg sync.WaitGroup
	var errs [3]error
	wg.Go(func() {
		errs[0] = o.pace(n, begun, func(i int) error {
			binary.BigEndian.PutUint64(frame[valueAt:], uint64(i))
			Sum(frame[batchAt : len(frame)-tags])
			return producer.write(numbered(frame, int32(i)))
		})
		if errs[0] != nil {
			producer.nc.Close()
			reader.nc.Close()
		}
	})
	wg.Go(func() {
		for i := range n {
			body, err := producer.read()
			if err == nil {
				err = answer(body, int32(i))
			}
			if err != nil {
				errs[1] = err
				reader.nc.Close()
				return
			}
		}
	})
	took := make([]float64, 0, n)
	errs[2] = func() error {
		f := newFetch(o.Topic, 1, 1<<20, 1, 5000)
		for len(took) < n {
			if late := time.Since(begun) - o.For; late > o.patience() {
				return fmt.Errorf("record %d has not come %v after the last was due", len(took), late)
			}
			if err := reader.write(f.frame()); err != nil {
				return err
			}
			body, err := reader.read()
			if err != nil {
				return err
			}
			now := time.Now()
			err = walkAnswer(body, func(_ int32, records []byte) error {
				return walkBatches(records, f.at[0].offset, func(base int64, batch []byte) error {
					if i := binary.BigEndian.Uint64(batch[len(batch)-1-o.Value:]); i != uint64(len(took)) {
						return fmt.Errorf("record %d came where %d was due", i, len(took))
					}
					f.at[0].offset = base + span(batch)
					took = append(took, o.since(now, begun, len(took)))
					return nil
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}()
	if errs[2] != nil {
		producer.nc.Close()
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%d records a second through %s: %w", o.Rate, o.Topic, err)
	}
	return o.settle(took), nil
}

func (o Latency) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 20 * time.Second
}

func (o Latency) count() int { return int(o.For.Seconds() * float64(o.Rate)) }

func (o Latency) due(i int) time.Duration {
	return time.Duration(i) * time.Second / time.Duration(o.Rate)
}

func (o Latency) since(now, begun time.Time, i int) float64 {
	return float64(now.Sub(begun.Add(o.due(i)))) / float64(time.Millisecond)
}

func (o Latency) settle(took []float64) []float64 {
	took = took[len(took)/10:]
	slices.Sort(took)
	return took
}

// pace calls send when each record is due.
func (o Latency) pace(n int, begun time.Time, send func(i int) error) error {
	return Pace(func(i int) (time.Time, bool) { return begun.Add(o.due(i)), i < n }, send)
}

// echo is the floor: the same pace through a server that only answers.
func (o Latency) echo() ([]float64, error) {
	c, err := dial(o.Addr, floor.Hello(floor.Echo, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	defer c.nc.Close()
	n := o.count()
	frame := binary.BigEndian.AppendUint32(nil, uint32(o.Value))
	frame = append(frame, make([]byte, o.Value)...)
	begun := time.Now().Add(20 * time.Millisecond)
	var wg sync.WaitGroup
	var paced error
	wg.Go(func() {
		if paced = o.pace(n, begun, func(i int) error {
			binary.BigEndian.PutUint64(frame[4:], uint64(i))
			return c.write(frame)
		}); paced != nil {
			c.nc.Close()
		}
	})
	took := make([]float64, 0, n)
	for len(took) < n && err == nil {
		var body []byte
		if body, err = c.read(); err == nil {
			took = append(took, o.since(time.Now(), begun, int(binary.BigEndian.Uint64(body))))
		}
	}
	if err != nil {
		c.nc.Close()
	}
	wg.Wait()
	return o.settle(took), errors.Join(err, paced)
}

// FirstRecord has a topic made by asking for it, produces one record with
// acks=all and returns when it is acknowledged.
func FirstRecord(addr, topic string) error {
	c, err := dial(addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if err := awaitLeaders(c, topic, 1, true); err != nil {
		return err
	}
	p := Producing{Addr: addr, Topic: topic, Partitions: 1, Acks: -1, Depth: 1, Batch: NewBatch(1024, 0, time.Now())}
	frame, answer := p.frame(), p.answer()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if err := c.write(frame); err != nil {
			return err
		}
		body, err := c.read()
		if err != nil {
			return err
		}
		if err := answer(body, 0); !unready(err) || time.Now().After(deadline) {
			return err
		}
	}
}

// Idle opens so many connections, each of which has asked one thing.
func Idle(addr string, n int, k floor.Kind) (closeAll func(), err error) {
	var all []*conn
	closeAll = func() {
		for _, c := range all {
			c.nc.Close()
		}
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "bench", "1"
	for range n {
		c, err := dial(addr, hello(k, 0, 0, 1))
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("open connection %d of %d: %w", len(all)+1, n, err)
		}
		all = append(all, c)
		if err = c.write(encode(req)); err == nil {
			_, err = c.read()
		}
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("use connection %d of %d: %w", len(all), n, err)
		}
		c.buf = nil // only the server's memory is of interest
	}
	return closeAll, nil
}
