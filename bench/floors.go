package main

import (
	"fmt"
	"time"

	"millrace/bench/floor"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// What stands beside the figures: the least that a server can do.

// floors are the limits that stand beside no figure, and those that several
// stand beside.
func floors() []figure {
	loopback := figure{name: "floor/loopback", telling: true, without: peers(), run: func(r *run, p *peer.Peer) ([]measure, error) {
		res, err := raw.Loopback(p.Addr, r.over(p))
		return throughput(res), err
	}}
	datasync := figure{name: "floor/fdatasync", telling: true, without: peers(), run: func(r *run, _ *peer.Peer) ([]measure, error) {
		took, err := r.sync()
		return []measure{{"ms for 4 KiB", false, took.Seconds() * 1000}}, err
	}}
	echo := figure{name: "floor/echo", telling: true, without: peers(), run: func(r *run, p *peer.Peer) ([]measure, error) {
		return r.echo(p, 1000)
	}}
	return []figure{loopback, datasync, echo}
}

// echo is the floor of latency over raw frames: what was sent comes back.
func (r *run) echo(p *peer.Peer, rate int) ([]measure, error) {
	took, err := r.rawLatency(p, rate).Run()
	return latencies(took), err
}

// ingest is the floor of producing: receive, CRC32C, write, each part of a request
// by itself.
func (r *run) ingest(bytes, parts, conns int) (raw.Result, error) {
	return r.floorOf(fmt.Sprintf("receive+CRC+write/%dKiB%s/c%d", bytes>>10, inParts(parts), conns), func(p *peer.Peer) (raw.Result, error) {
		depth := 5
		if bytes < stored {
			depth = 1 // small requests are sent one at a time
		}
		res, _, err := raw.Producing{Addr: p.Addr, Topic: "floor", Partitions: parts, Batch: raw.NewBatch(1024, bytes/parts, time.Now()),
			Acks: -1, Conns: conns, Depth: depth, Floor: floor.Ingest}.Run(r.over(p))
		return res, err
	})
}

func inParts(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d", n)
}

// sent is a floor that answers with so many bytes, in parts, each from a file of
// such batches, in one way.
func (r *run) sent(name string, way floor.Kind, bytes, batch, parts, conns int) (raw.Result, error) {
	return r.floorOf(fmt.Sprintf("%s/%dKiB%s of %dKiB/c%d", name, bytes>>10, inParts(parts), batch>>10, conns), func(p *peer.Peer) (raw.Result, error) {
		b := raw.NewBatch(1024, batch, time.Now())
		return raw.Fetching{Addr: p.Addr, Topic: "floor", Partitions: parts, Bytes: b.Whole(bytes / parts), Conns: conns, Floor: way, Batch: b}.Run(r.over(p))
	})
}

// outgoing is the floor of fetching: of sendfile and a copy through a buffer the
// one that is better, measure by measure.
func (r *run) outgoing(bytes, batch, parts, conns int) ([]measure, error) {
	var best []measure
	for _, way := range []struct {
		name string
		kind floor.Kind
	}{{"sendfile", floor.Sendfile}, {"pread+write", floor.Pread}} {
		res, err := r.sent(way.name, way.kind, bytes, batch, parts, conns)
		if err != nil {
			return nil, err
		}
		ms := append(throughput(res), measure{"requests/s", true, float64(res.Requests) / res.Elapsed.Seconds()})
		if best == nil {
			best = ms
			continue
		}
		for i := range ms {
			if (ms[i].value > best[i].value) == ms[i].more {
				best[i] = ms[i]
			}
		}
	}
	return best, nil
}
