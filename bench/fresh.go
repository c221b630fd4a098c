package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/bench/floor"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// What a process that has just been started takes: time and memory.

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
