package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench/floor"
	"millrace/bench/ledger"
	"millrace/bench/peer"
	"millrace/bench/raw"
)

// measure is one number of a figure.
type measure struct {
	name  string
	more  bool // more is better
	value float64
}

// figure is something that is measured of each subject in each round.
type figure struct {
	name    string
	telling bool // among those of the short run
	// without names subjects that have nothing to show here.
	without []string
	atMost  int // rounds; 0: as many as are asked for
	// profiled: Millrace is under a steady load, so that a profile says
	// something.
	profiled bool
	run      func(r *run, p *peer.Peer) ([]measure, error)
}

func (f figure) inRound(n int) bool { return f.atMost == 0 || n < f.atMost }

// settings of a run.
type settings struct {
	rounds int
	peers  []string
	window time.Duration
	ramp   time.Duration
	warm   time.Duration // Kafka's load before the first figure
	fill   int           // bytes of a topic that is read
	touch  int64         // bytes of memory that are written before
	limit  time.Duration
	seed   uint64
	accept bool // what has fallen behind is written, too
}

// run is one run of the program.
type run struct {
	settings
	ctx    context.Context
	work   string
	begun  time.Time
	rng    *rand.Rand
	peers  map[string]*peer.Peer // running, the floor among them
	filled map[string]filled     // peer and topic -> what lies there
	topics int
	doomed []doomed
	litter int64    // bytes of what is doomed
	failed []string // what went wrong, in sentences
	// Floors of this round, by name: several figures stand beside one.
	round  int
	floors map[string]raw.Result
	own    []ledger.Sample // of floors
}

type filled struct {
	batch raw.Batch
	times int64
	ends  []int64
}

func start(ctx context.Context, s settings, work string) (*run, error) {
	r := &run{settings: s, ctx: ctx, work: work, begun: time.Now(), rng: rand.New(rand.NewPCG(s.seed, 0)), peers: map[string]*peer.Peer{}, filled: map[string]filled{}}
	if err := r.touchMemory(); err != nil {
		return nil, err
	}
	for _, name := range append([]string{peer.Floor}, s.peers...) {
		p, err := peer.Start(ctx, name, work)
		if err != nil {
			return nil, errors.Join(err, r.stop())
		}
		r.peers[name] = p
		say("%s runs", name)
	}
	for _, name := range s.peers {
		length := s.warm
		if name != peer.Kafka {
			length = min(length, 3*time.Second)
		}
		if err := r.heat(r.peers[name], length); err != nil {
			return nil, errors.Join(fmt.Errorf("warm %s: %w", name, err), r.stop())
		}
		if err := r.sweep(); err != nil {
			return nil, errors.Join(err, r.stop())
		}
		say("%s is warm after %v of load", name, length)
	}
	// The floor makes the files that it sends when it is first asked for them.
	w := r.over(r.peers[peer.Floor])
	w.Ramp, w.Length = 0, time.Millisecond
	for _, k := range []struct{ batch, parts int }{{1 << 10, 1}, {stored, 1}, {64 << 10, 1}, {256 << 10, 1}, {1 << 20, 1}, {stored, 12}, {stored / 12, 12}} {
		b := raw.NewBatch(1024, k.batch, time.Now())
		load := raw.Fetching{Addr: r.peers[peer.Floor].Addr, Topic: "floor", Partitions: k.parts, Bytes: b.Size(), Conns: 1, Floor: floor.Sendfile, Batch: b}
		if _, err := load.Run(w); err != nil && !errors.Is(err, raw.ErrNothing) {
			return nil, errors.Join(err, r.stop())
		}
	}
	return r, nil
}

func (r *run) stop() error {
	var errs []error
	for _, p := range r.peers { // any order: they are independent
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// touchMemory writes a file and removes it: the first to write to memory that
// the machine has not used yet pays for it.
func (r *run) touchMemory() error {
	f, err := os.CreateTemp(r.work, "touch-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4<<20)
	for at := int64(0); at < r.touch; at += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return fmt.Errorf("write to unused memory: %w", err)
		}
	}
	return nil
}

// heat gives a server so much of each kind of load, in turns.
func (r *run) heat(p *peer.Peer, length time.Duration) error {
	const kinds = 8
	w := r.over(p)
	w.Ramp, w.Length = 0, length/kinds/2
	for i := range kinds {
		s := shape{value: []int{100, 1024}[i%2], partitions: []int{1, 12}[i/2%2], conns: []int{1, 16}[i/4%2], acks: -1}
		err := r.onTopic(p, s.partitions, nil, func(topic string) error {
			load := s.producing(p, topic)
			if _, _, err := load.Run(w); err != nil && !errors.Is(err, raw.ErrNothing) {
				return err
			}
			ends, err := raw.Ends(p.Addr, topic, s.partitions)
			if err != nil || slices.Contains(ends, 0) {
				return err // nothing to be read
			}
			_, err = raw.Fetching{Addr: p.Addr, Topic: topic, Partitions: s.partitions, Bytes: exchange / s.partitions, Conns: s.conns, Ends: ends}.Run(w)
			return err
		})
		if err != nil && !errors.Is(err, raw.ErrNothing) {
			return err
		}
	}
	return nil
}

// over is the window in which a peer is measured.
func (r *run) over(p *peer.Peer) raw.Window {
	return raw.Window{Ramp: r.ramp, Length: r.window, CPU: p.CPU}
}

// onTopic makes a topic and uses it; it goes at the next sweep.
func (r *run) onTopic(p *peer.Peer, partitions int, configs map[string]string, use func(topic string) error) error {
	r.topics++
	topic := fmt.Sprintf("bench-%d", r.topics)
	if err := raw.CreateTopic(p.Addr, topic, partitions, configs); err != nil {
		return err
	}
	err := use(topic)
	r.doomed = append(r.doomed, doomed{p, topic})
	files, _ := filepath.Glob(filepath.Join(p.Dir, "data", topic+"-*", "*")) // the pattern is a good one
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			r.litter += info.Size()
		}
	}
	return err
}

// doomed is a topic that has served.
type doomed struct {
	p     *peer.Peer
	topic string
}

// litterMost is how much of topics that have served may lie about before it is
// swept away: so much less than memory that nobody has to write it to the disk.
const litterMost = 2 << 30

// sweep deletes the topics that have served and waits for the files to go, so
// that their removal is in nobody's figure. Kafka begins to remove what is to be
// removed half a minute after its start; no figure waits for that.
func (r *run) sweep() error {
	var errs []error
	for _, d := range r.doomed {
		errs = append(errs, raw.DeleteTopic(d.p.Addr, d.topic))
	}
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		r.doomed = slices.DeleteFunc(r.doomed, func(d doomed) bool {
			left, err := filepath.Glob(filepath.Join(d.p.Dir, "data", d.topic+"-*"))
			return err != nil || len(left) == 0
		})
		if len(r.doomed) == 0 {
			break
		}
	}
	r.doomed, r.litter = nil, 0
	return errors.Join(errs...)
}

// full returns what lies in a peer's topic of one kind, which is filled when it
// is first asked for, and read through to the last byte.
func (r *run) full(p *peer.Peer, value, partitions, batchBytes, bytes int) (string, filled, error) {
	topic := fmt.Sprintf("full-%d-%d-%d", value, partitions, batchBytes)
	key := p.Name + " " + topic
	if f, ok := r.filled[key]; ok {
		return topic, f, nil
	}
	f := filled{batch: raw.NewBatch(value, batchBytes, time.Now())}
	f.times = int64(max(bytes/len(f.batch.Bytes)/partitions, 4))
	if err := raw.CreateTopic(p.Addr, topic, partitions, nil); err != nil {
		return "", f, err
	}
	load := raw.Producing{Addr: p.Addr, Topic: topic, Partitions: partitions, Batch: f.batch, Acks: -1, Depth: 5}
	if err := load.Fill(int(f.times)); err != nil {
		return "", f, err
	}
	if err := raw.Verify(p.Addr, topic, partitions, f.batch, f.times, true); err != nil {
		return "", f, err
	}
	for range partitions {
		f.ends = append(f.ends, f.times*int64(f.batch.Records))
	}
	r.filled[key] = f
	return topic, f, nil
}

// floorOf measures a floor once a round.
func (r *run) floorOf(name string, measured func(p *peer.Peer) (raw.Result, error)) (raw.Result, error) {
	if res, ok := r.floors[name]; ok {
		return res, nil
	}
	res, err := measured(r.peers[peer.Floor])
	if err != nil {
		return res, fmt.Errorf("floor %s: %w", name, err)
	}
	r.floors[name] = res
	r.keep("floor/"+name, peer.Floor, throughput(res))
	return res, nil
}

func (r *run) keep(figure, subject string, ms []measure) {
	for _, m := range ms {
		r.own = append(r.own, ledger.Sample{Figure: figure, Measure: m.name, More: m.more, Subject: subject, Round: r.round, Value: m.value})
	}
}

// rounds measures the figures, each in every round, the subjects of a figure one
// after the other in an order that changes. It stops early when time is up.
func (r *run) measure(figures []figure) []ledger.Sample {
	r.own = nil
	took := make([]time.Duration, len(figures))
	for r.round = range r.rounds {
		next := time.Duration(0)
		for i, f := range figures {
			if f.inRound(r.round) {
				next += took[i]
			}
		}
		if left := r.limit - time.Since(r.begun); r.round > 0 && left < next {
			r.fail("%d rounds of %d: the next would not end within %v", r.round, r.rounds, r.limit)
			break
		}
		r.floors = map[string]raw.Result{}
		for i, f := range figures {
			if !f.inRound(r.round) {
				continue
			}
			begun := time.Now()
			subjects := slices.DeleteFunc(append([]string{peer.Floor}, r.settings.peers...), func(s string) bool { return slices.Contains(f.without, s) })
			r.rng.Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
			var told []string
			for _, name := range subjects {
				if r.ctx.Err() != nil {
					return r.own
				}
				ms, err := f.run(r, r.peers[name])
				if err != nil {
					r.fail("%s, %s, round %d: %v", f.name, name, r.round+1, err)
					continue
				}
				r.keep(f.name, name, ms)
				if len(ms) > 0 {
					told = append(told, fmt.Sprintf("%s %.4g", name, ms[0].value))
				}
			}
			if len(told) > 0 {
				slices.Sort(told)
				say("%d %s: %s", r.round+1, f.name, strings.Join(told, ", "))
			}
			if r.litter > litterMost {
				if err := r.sweep(); err != nil {
					r.fail("after %s: %v", f.name, err)
				}
			}
			took[i] = time.Since(begun)
		}
	}
	return r.own
}

func (r *run) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	r.failed = append(r.failed, s)
	say("%s", s)
}

// sync is the floor of what is made durable.
func (r *run) sync() (time.Duration, error) { return floor.Sync(r.work, 4096, 200) }
