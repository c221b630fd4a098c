package main

import (
	"fmt"
	"time"

	"millrace/bench/floor"
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
