package main

import (
	"fmt"
	"time"

	"millrace/bench/client"
	"millrace/bench/ledger"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// What users see: franz-go, Kafka's own tools, and how long a record is on its way.

func franzProduce(s shape) figure {
	f := figure{name: fmt.Sprintf("franz-go/produce/%s/p%d/%s/c%d", s.size(), s.partitions, s.ack(), s.conns), profiled: true}
	f.telling = s == shape{1024, 12, 1, -1}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.ingest(exchange, 1, s.conns)
			return throughput(res)[:2], err
		}
		var res raw.Result
		err := r.onTopic(p, s.partitions, nil, func(topic string) (err error) {
			var sent int64
			w := r.over(p)
			if s.conns > 1 { // so many clients take a while to begin, and send in bursts
				w.Ramp, w.Length = 6*w.Ramp, 2*w.Length
			}
			res, sent, err = client.Producing{Addr: p.Addr, Topic: topic, Partitions: s.partitions, Value: s.value, All: s.acks < 0, Clients: s.conns}.Run(r.ctx, w)
			if err != nil {
				return err
			}
			return stores(p, topic, s.partitions, sent)
		})
		return throughput(res)[:2], err
	}
	return f
}

// stores checks that a topic holds as many records as were acknowledged.
func stores(p *peer.Peer, topic string, partitions int, sent int64) error {
	ends, err := raw.Ends(p.Addr, topic, partitions)
	if err != nil {
		return err
	}
	for _, end := range ends {
		sent -= end
	}
	if sent != 0 {
		return fmt.Errorf("%d records fewer are stored than were acknowledged", sent)
	}
	return nil
}

func franzConsume(s shape) figure {
	f := figure{name: fmt.Sprintf("franz-go/consume/%s/p%d/c%d", s.size(), s.partitions, s.conns), profiled: true}
	f.telling = s == shape{1024, 12, 1, -1}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			ms, err := r.outgoing(exchange, stored, 1, s.conns)
			if err != nil {
				return nil, err
			}
			return ms[:2], nil
		}
		topic, full, err := r.full(p, s.value, s.partitions, stored, r.fill)
		if err != nil {
			return nil, err
		}
		res, err := client.Consuming{Addr: p.Addr, Topic: topic, Partitions: s.partitions, Value: s.value, Clients: s.conns,
			Records: full.times * int64(full.batch.Records) * int64(s.partitions)}.Run(r.ctx, r.over(p))
		return throughput(res)[:2], err
	}
	return f
}

// toolRecords are as many as take Kafka's tools a second or two.
func (r *run) toolRecords(value int) int { return max(r.fill/4*3, 1<<20) / (value + 80) }

func toolProduce(value int) figure {
	s := shape{value, 12, 1, -1}
	return figure{name: fmt.Sprintf("kafka-tools/produce/%s/p12", s.size()), run: func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.ingest(exchange, 1, 1)
			return throughput(res)[:2], err
		}
		var res raw.Result
		err := r.onTopic(p, 12, nil, func(topic string) (err error) {
			res, err = client.Tool{Addr: p.Addr, Topic: topic, Value: value, Records: r.toolRecords(value), CPU: p.CPU}.Produce(r.ctx)
			if err != nil {
				return err
			}
			return stores(p, topic, 12, int64(r.toolRecords(value)))
		})
		return throughput(res)[:2], err
	}}
}

func toolConsume(value int) figure {
	s := shape{value, 12, 1, -1}
	return figure{name: fmt.Sprintf("kafka-tools/consume/%s/p12", s.size()), run: func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			ms, err := r.outgoing(exchange, stored, 1, 1)
			if err != nil {
				return nil, err
			}
			return ms[:2], nil
		}
		topic, _, err := r.full(p, value, 12, stored, r.fill)
		if err != nil {
			return nil, err
		}
		res, err := client.Tool{Addr: p.Addr, Topic: topic, Value: value, Records: r.toolRecords(value), CPU: p.CPU}.Consume(r.ctx)
		return throughput(res)[:2], err
	}}
}

// latencyFor is how long an open loop runs: long enough for each percentile to
// have records behind it that it can have.
func (r *run) latencyFor() time.Duration { return 6 * r.window }

func latencies(sorted []float64) []measure {
	var ms []measure
	for _, q := range []struct {
		name string
		part float64
	}{{"p50 ms", 0.5}, {"p99 ms", 0.99}, {"p99.9 ms", 0.999}} {
		ms = append(ms, measure{q.name, false, ledger.Percentile(sorted, q.part)})
	}
	return ms
}

func franzLatency(rate int) figure {
	return figure{name: fmt.Sprintf("latency/franz-go/%d", rate), telling: rate == 1000, run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		if p.Name == peer.Floor {
			topic := fmt.Sprintf("relayed-%d", time.Now().UnixNano())
			took, err := client.Latency{Addr: p.Addr, Topic: topic, Rate: rate, For: r.latencyFor(), Value: 100}.Run(r.ctx)
			return latencies(took), err
		}
		err = r.onTopic(p, 1, nil, func(topic string) error {
			took, err := client.Latency{Addr: p.Addr, Topic: topic, Rate: rate, For: r.latencyFor(), Value: 100}.Run(r.ctx)
			ms = latencies(took)
			return err
		})
		return ms, err
	}}
}

func (r *run) rawLatency(p *peer.Peer, rate int) raw.Latency {
	return raw.Latency{Addr: p.Addr, Rate: rate, For: r.latencyFor(), Value: 100, Floor: p.Name == peer.Floor}
}

func rawLatency(rate int) figure {
	return figure{name: fmt.Sprintf("latency/raw/%d", rate), run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		if p.Name == peer.Floor {
			return r.echo(p, rate)
		}
		err = r.onTopic(p, 1, nil, func(topic string) error {
			load := r.rawLatency(p, rate)
			load.Topic = topic
			took, err := load.Run()
			ms = latencies(took)
			return err
		})
		return ms, err
	}}
}
