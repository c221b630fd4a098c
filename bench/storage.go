package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"millrace/bench/floor"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// What the storage engine does by itself, beside the least that can be done with
// as many bytes. Peers have nothing to show here that is told in the same way.

// recovery is a start behind kill -9 on one partition that was never flushed,
// beside reading as much and comparing checksums.
func recovery() figure {
	return figure{name: "recovery", without: []string{peer.Kafka, peer.Kfake}, run: func(r *run, p *peer.Peer) ([]measure, error) {
		size := 2 * r.fill
		if p.Name == peer.Floor {
			return r.passes("recovery", floor.Passes{Bytes: size, Reads: 1})
		}
		p, err := peer.Start(r.ctx, peer.Millrace, r.work)
		if err != nil {
			return nil, err
		}
		b := raw.NewBatch(1024, stored, time.Now())
		times := size / len(b.Bytes)
		err = raw.CreateTopic(p.Addr, "recovered", 1, nil)
		if err == nil {
			err = raw.Producing{Addr: p.Addr, Topic: "recovered", Partitions: 1, Batch: b, Acks: -1, Depth: 5}.Fill(times)
		}
		if err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		if err := p.Restart(); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
		took := time.Since(p.Began)
		used, err := p.CPU()
		if err == nil {
			err = raw.Verify(p.Addr, "recovered", 1, b, int64(times), false)
		}
		n := float64(times * len(b.Bytes))
		return []measure{{"MB/s", true, n / 1e6 / took.Seconds()}, {"CPU s/GB", false, used.Seconds() / (n / 1e9)}}, errors.Join(err, p.Stop())
	}}
}

// cleanedSegment is how large the segments are that are cleaned, and those that
// take their place.
const cleanedSegment = 64 << 20

// cleaner is one cleaning of a compacted partition in which each key comes
// twice, beside reading as much twice, for the keys and for the records, and
// writing half of it, as durably. How much it read in what time the server's log
// says.
func cleaner() figure {
	return figure{name: "cleaner", without: []string{peer.Kafka, peer.Kfake}, run: func(r *run, p *peer.Peer) ([]measure, error) {
		size := 2 * r.fill
		if p.Name == peer.Floor {
			return r.passes("cleaner", floor.Passes{Bytes: size, Reads: 2, Keep: 2, Segment: cleanedSegment})
		}
		var log lines
		p, err := peer.StartWith(r.work, &log, "log.cleaner.backoff.ms=20", "log.cleaner.threads=1")
		if err != nil {
			return nil, err
		}
		ms, err := r.clean(p, &log, size)
		return ms, errors.Join(err, p.Stop())
	}}
}

// clean fills a topic that nobody cleans yet, has it cleaned, and waits for the
// line that says so.
func (r *run) clean(p *peer.Peer, log *lines, size int) ([]measure, error) {
	const never = "600000"
	if err := raw.CreateTopic(p.Addr, "cleaned", 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": strconv.Itoa(cleanedSegment), "min.compaction.lag.ms": never}); err != nil {
		return nil, err
	}
	load := raw.Keyed{Addr: p.Addr, Topic: "cleaned", Value: 1024, Batch: stored, Bytes: size, Twice: true}
	if err := load.Run(); err != nil {
		return nil, err
	}
	before, err := p.CPU()
	if err != nil {
		return nil, err
	}
	if err := raw.AlterTopic(p.Addr, "cleaned", map[string]string{"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.01"}); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		read, took, ok := log.cleaned()
		if ok {
			after, err := p.CPU()
			return []measure{{"MB/s", true, read / 1e6 / took.Seconds()}, {"CPU s/GB", false, (after - before).Seconds() / (read / 1e9)}}, err
		}
		if time.Now().After(deadline) {
			return nil, errors.New("nothing was cleaned within a minute")
		}
	}
}

// lines is a server's log.
type lines struct {
	mu sync.Mutex
	b  []byte
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

// cleaned is how many bytes of the topic the first cleaning read, and in what time.
func (l *lines) cleaned() (read float64, took time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.b) {
		var said struct {
			Message, Log, Took string
			Read               float64 `json:"bytes_read"`
		}
		if json.Unmarshal(line, &said) != nil || said.Message != "log was cleaned" || filepath.Base(said.Log) != "cleaned-0" {
			continue // also half a line
		}
		took, err := time.ParseDuration(said.Took)
		return said.Read, took, err == nil && took > 0
	}
	return 0, 0, false
}

// passes measures how fast a file can be read, compared and written by one that
// does nothing else, once a round.
func (r *run) passes(name string, p floor.Passes) ([]measure, error) {
	took, used, err := p.Run(r.work)
	if err != nil {
		return nil, fmt.Errorf("floor of %s: %w", name, err)
	}
	n := float64(p.Bytes)
	return []measure{{"MB/s", true, n / 1e6 / took.Seconds()}, {"CPU s/GB", false, used.Seconds() / (n / 1e9)}}, nil
}
