package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/bench/client"
	"millrace/bench/floor"
	"millrace/bench/ledger"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// exchange is how many bytes of batches go with one request, all partitions
// together; stored batches that are read are of the size that Kafka's producer
// makes by itself.
const (
	exchange = 256 << 10
	stored   = 16 << 10
)

// shape is one combination of what a load can be.
type shape struct {
	value, partitions, conns int
	acks                     int16
}

func (s shape) size() string {
	if s.value == 1024 {
		return "1KiB"
	}
	return fmt.Sprintf("%dB", s.value)
}

func (s shape) ack() string {
	if s.acks < 0 {
		return "acks=all"
	}
	return fmt.Sprintf("acks=%d", s.acks)
}

func (s shape) producing(p *peer.Peer, topic string) raw.Producing {
	return raw.Producing{Addr: p.Addr, Topic: topic, Partitions: s.partitions, Batch: raw.NewBatch(s.value, exchange/s.partitions, time.Now()),
		Acks: s.acks, Conns: s.conns, Depth: 5}
}

// throughput is what a load of large requests shows.
func throughput(r raw.Result) []measure {
	return []measure{{"MB/s", true, r.Rate()}, {"CPU s/GB", false, r.PerGB()}, {"CPU us/request", false, r.PerRequest()}}
}

// requests is what a load of small ones shows.
func requests(r raw.Result) []measure {
	return []measure{{"CPU us/request", false, r.PerRequest()}, {"requests/s", true, float64(r.Requests) / r.Elapsed.Seconds()}}
}

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

// figures are all that is measured, in the order in which it is.
func figures() []figure {
	var all []figure
	all = append(all, floors()...)
	for _, value := range []int{1024, 100} {
		for _, partitions := range []int{1, 12} {
			for _, conns := range []int{1, 16} {
				for _, acks := range []int16{-1, 1} {
					all = append(all, produce(shape{value, partitions, conns, acks}))
				}
				all = append(all, catchUp(shape{value, partitions, conns, -1}), tail(shape{value, partitions, conns, -1}))
			}
		}
	}
	for _, kib := range []int{16, 64, 256, 1024} {
		all = append(all, appendPath(kib), readPath(kib))
	}
	for _, conns := range []int{1, 16} {
		all = append(all, smallProduce(conns), smallFetch(conns), flushed(conns))
	}
	for _, value := range []int{1024, 100} {
		for _, partitions := range []int{1, 12} {
			for _, acks := range []int16{-1, 1} {
				all = append(all, franzProduce(shape{value, partitions, 1, acks}))
			}
			all = append(all, franzConsume(shape{value, partitions, 1, -1}))
		}
		all = append(all, toolProduce(value), toolConsume(value))
	}
	all = append(all, franzProduce(shape{1024, 12, 16, -1}), franzConsume(shape{1024, 12, 16, -1}))
	for _, rate := range []int{100, 1000, 5000} {
		all = append(all, franzLatency(rate))
	}
	return append(all, rawLatency(1000), begin(), recovery(), cleaner(), memory(), manyPartitions())
}

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
	return []figure{loopback, datasync}
}

// peers are all subjects but the floor.
func peers() []string { return []string{peer.Millrace, peer.Kafka, peer.Kfake} }

func produce(s shape) figure {
	f := figure{name: fmt.Sprintf("produce/%s/p%d/%s/c%d", s.size(), s.partitions, s.ack(), s.conns), profiled: true}
	f.telling = s.acks < 0 && (s.partitions == 1) == (s.conns == 1) && (s.value == 1024 || s.conns == 16)
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.ingest(exchange, s.partitions, s.conns)
			return throughput(res), err
		}
		var res raw.Result
		err := r.onTopic(p, s.partitions, nil, func(topic string) (err error) {
			load := s.producing(p, topic)
			var sent int64
			if res, sent, err = load.Run(r.over(p)); err != nil {
				return err
			}
			return raw.Verify(p.Addr, topic, s.partitions, load.Batch, sent, false)
		})
		return throughput(res), err
	}
	return f
}

// appendPath is one partition that is sent batches of a size, one with each
// request, beside a program that receives, checks and writes as much at a time.
func appendPath(kib int) figure {
	f := figure{name: fmt.Sprintf("append/%dKiB", kib), without: []string{peer.Kfake}, profiled: true, telling: kib == 256}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.ingest(kib<<10, 1, 1)
			return throughput(res), err
		}
		var res raw.Result
		err := r.onTopic(p, 1, nil, func(topic string) (err error) {
			load := raw.Producing{Addr: p.Addr, Topic: topic, Partitions: 1, Batch: raw.NewBatch(1024, kib<<10, time.Now()), Acks: -1, Conns: 1, Depth: 5}
			var sent int64
			if res, sent, err = load.Run(r.over(p)); err != nil {
				return err
			}
			return raw.Verify(p.Addr, topic, 1, load.Batch, sent, false)
		})
		return throughput(res), err
	}
	return f
}

// readPath is one partition that is read a batch of a size at a time, beside a
// program that sends as much of a file by sendfile.
func readPath(kib int) figure {
	f := figure{name: fmt.Sprintf("read/%dKiB", kib), without: []string{peer.Kfake}, profiled: true, telling: kib == 256}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.sent("sendfile", floor.Sendfile, kib<<10, kib<<10, 1, 1)
			return throughput(res), err
		}
		topic, full, err := r.full(p, 1024, 1, kib<<10, r.fill)
		if err != nil {
			return nil, err
		}
		res, err := raw.Fetching{Addr: p.Addr, Topic: topic, Partitions: 1, Bytes: full.batch.Size(), Conns: 1, Ends: full.ends, Batch: full.batch}.Run(r.over(p))
		return throughput(res), err
	}
	return f
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

func catchUp(s shape) figure {
	f := figure{name: fmt.Sprintf("fetch/catch-up/%s/p%d/c%d", s.size(), s.partitions, s.conns), profiled: true}
	f.telling = s == shape{1024, 1, 1, -1} || s == shape{100, 12, 16, -1}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			ms, err := r.outgoing(exchange, stored, s.partitions, s.conns)
			if err != nil {
				return nil, err
			}
			return ms[:3], nil
		}
		topic, full, err := r.full(p, s.value, s.partitions, stored, r.fill)
		if err != nil {
			return nil, err
		}
		res, err := raw.Fetching{Addr: p.Addr, Topic: topic, Partitions: s.partitions, Bytes: full.batch.Whole(exchange / s.partitions), Conns: s.conns, Ends: full.ends, Batch: full.batch}.Run(r.over(p))
		return throughput(res), err
	}
	return f
}

// tail is what readers at the end cost while one connection produces at a pace
// that every subject keeps.
func tail(s shape) figure {
	const delivered = 32 << 20 // bytes a second to one reader; sixteen get twice that, altogether
	f := figure{name: fmt.Sprintf("fetch/tail/%s/p%d/c%d", s.size(), s.partitions, s.conns), profiled: true, telling: s.partitions == 1 && s.value == 1024 && s.conns == 1}
	f.run = func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			ms, err := r.outgoing(stored, stored/s.partitions, s.partitions, s.conns)
			if err != nil {
				return nil, err
			}
			return ms[1:2], nil
		}
		load := raw.Tail{Producing: s.producing(p, ""), Readers: s.conns, Bytes: exchange}
		load.Batch, load.Conns, load.Depth = raw.NewBatch(s.value, stored/s.partitions, time.Now()), 1, 1
		pace := delivered
		if s.conns > 1 {
			pace = 2 * delivered / s.conns
		}
		load.Every = time.Second * time.Duration(len(load.Batch.Bytes)*s.partitions) / time.Duration(pace)
		var res raw.Result
		err := r.onTopic(p, s.partitions, nil, func(topic string) (err error) {
			load.Topic = topic
			var sent int64
			if res, sent, err = load.Run(r.over(p)); err != nil {
				return err
			}
			return raw.Verify(p.Addr, topic, s.partitions, load.Batch, sent, false)
		})
		return []measure{{"CPU s/GB", false, res.PerGB()}, {"MB/s of a given pace", true, res.Rate()}}, err
	}
	return f
}

// smallProduce is one record of 1 KiB for each request, one request at a time.
func smallProduce(conns int) figure {
	return figure{name: fmt.Sprintf("request/produce/1KiB/c%d", conns), telling: conns == 1, profiled: true, run: func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			res, err := r.ingest(1024, 1, conns)
			return requests(res), err
		}
		return r.small(p, conns, nil)
	}}
}

func (r *run) small(p *peer.Peer, conns int, configs map[string]string) ([]measure, error) {
	var res raw.Result
	err := r.onTopic(p, 1, configs, func(topic string) (err error) {
		load := raw.Producing{Addr: p.Addr, Topic: topic, Partitions: 1, Batch: raw.NewBatch(1024, 0, time.Now()), Acks: -1, Conns: conns, Depth: 1}
		var sent int64
		if res, sent, err = load.Run(r.over(p)); err != nil {
			return err
		}
		return raw.Verify(p.Addr, topic, 1, load.Batch, sent, false)
	})
	return requests(res), err
}

func smallFetch(conns int) figure {
	return figure{name: fmt.Sprintf("request/fetch/1KiB/c%d", conns), telling: conns == 1, profiled: true, run: func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			ms, err := r.outgoing(1024, 1024, 1, conns)
			if err != nil {
				return nil, err
			}
			return ms[2:4], nil
		}
		topic, full, err := r.full(p, 1024, 1, 1024, min(r.fill, 4<<20))
		if err != nil {
			return nil, err
		}
		res, err := raw.Fetching{Addr: p.Addr, Topic: topic, Partitions: 1, Bytes: full.batch.Size(), Conns: conns, Ends: full.ends, Batch: full.batch}.Run(r.over(p))
		return requests(res), err
	}}
}

// flushed is the small Produce with each record on disk before it is
// acknowledged. kfake has no such topics. The floor is one fdatasync after the
// other.
func flushed(conns int) figure {
	return figure{name: fmt.Sprintf("request/flushed/1KiB/c%d", conns), without: []string{peer.Kfake}, run: func(r *run, p *peer.Peer) ([]measure, error) {
		if p.Name == peer.Floor {
			took, err := r.sync()
			return []measure{{"requests/s", true, 1 / took.Seconds()}}, err
		}
		ms, err := r.small(p, conns, map[string]string{"flush.messages": "1"})
		return ms[1:], err
	}}
}

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

func rawLatency(rate int) figure {
	return figure{name: fmt.Sprintf("latency/raw/%d", rate), run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		o := raw.Latency{Addr: p.Addr, Rate: rate, For: r.latencyFor(), Value: 100, Floor: p.Name == peer.Floor}
		if o.Floor {
			took, err := o.Run()
			return latencies(took), err
		}
		err = r.onTopic(p, 1, nil, func(topic string) error {
			o.Topic = topic
			took, err := o.Run()
			ms = latencies(took)
			return err
		})
		return ms, err
	}}
}

// fresh starts another process of a peer.
func (r *run) fresh(name string, use func(p *peer.Peer) error) error {
	p, err := peer.Start(r.ctx, name, r.work)
	if err != nil {
		return err
	}
	err = use(p)
	r.doomed = slices.DeleteFunc(r.doomed, func(d doomed) bool { return d.p == p }) // it goes with all it has
	return errors.Join(err, p.Stop())
}

// begin is from exec to the first acknowledged record, in an empty directory;
// for the floor, to an open port behind a synced write.
func begin() figure {
	return figure{name: "start", telling: true, run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		err = r.fresh(p.Name, func(p *peer.Peer) error {
			var err error
			if p.Name != peer.Floor {
				err = raw.FirstRecord(p.Addr, "first")
			}
			ms = []measure{{"ms to the first record", false, time.Since(p.Began).Seconds() * 1000}}
			return err
		})
		return ms, err
	}}
}

// memory is what a fresh process has resident: idle, with connections that have
// asked one thing, and after a load.
func memory() figure {
	const idle = "MiB idle"
	return figure{name: "memory", telling: true, atMost: 3, run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		err = r.fresh(p.Name, func(p *peer.Peer) error {
			look := func(name string) (own float64, err error) {
				time.Sleep(r.window)
				n, err := peer.Resident(p.PID)
				own = float64(n.Own) / (1 << 20)
				ms = append(ms, measure{name, false, float64(n.All) / (1 << 20)})
				if name == idle {
					ms = append(ms, measure{name + " without mapped files", false, own})
				}
				return own, err
			}
			empty, err := look(idle)
			if err != nil {
				return err
			}
			kind := floor.Kind(0)
			if p.Name == peer.Floor {
				kind = floor.Echo
			}
			for _, n := range []int{1000, 10000} {
				hangUp, err := raw.Idle(p.Addr, n, kind)
				if err != nil {
					return err
				}
				with, err := look(fmt.Sprintf("MiB with %d connections", n))
				hangUp()
				if err != nil {
					return err
				}
				if n == 10000 && with > empty { // the program's own pages, which come as they are used, are no connection's
					ms = append(ms, measure{"KiB for each connection", false, (with - empty) * 1024 / float64(n)})
				}
			}
			if p.Name == peer.Floor {
				return nil
			}
			if err := r.heat(p, 2*r.window); err != nil {
				return err
			}
			_, err = look("MiB after load")
			return err
		})
		return ms, err
	}}
}

// manyPartitions is what a fresh process has resident with 10,000 partitions,
// each of which holds a record. kfake keeps two open files for each and comes to
// an end of what a process may have.
func manyPartitions() figure {
	const topics, each = 10, 1000
	return figure{name: "memory/partitions", atMost: 3, without: []string{peer.Floor, peer.Kfake}, run: func(r *run, p *peer.Peer) (ms []measure, err error) {
		err = r.fresh(p.Name, func(p *peer.Peer) error {
			b := raw.NewBatch(100, 0, time.Now())
			begun := time.Now()
			for i := range topics {
				topic := fmt.Sprintf("many-%d", i)
				if err := raw.CreateTopic(p.Addr, topic, each, nil); err != nil {
					return err
				}
				if err := (raw.Producing{Addr: p.Addr, Topic: topic, Partitions: each, Batch: b, Acks: -1, Depth: 1}).Fill(1); err != nil {
					return err
				}
			}
			ms = append(ms, measure{"s to make and use 10000 partitions", false, time.Since(begun).Seconds()})
			time.Sleep(r.window)
			n, err := peer.Resident(p.PID)
			ms = append(ms, measure{"MiB with 10000 partitions", false, float64(n.All) / (1 << 20)})
			if err != nil {
				return err
			}
			ends, err := raw.Ends(p.Addr, "many-9", each)
			if err == nil && (ends[0] != 1 || ends[each-1] != 1) {
				err = errors.New("a partition does not hold its record")
			}
			return err
		})
		return ms, err
	}}
}
