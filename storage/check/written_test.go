package check_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

const (
	dir     = "/data"
	more    = "/more" // from where a log is on its way to dir
	cluster = "aaaaaaaaaaaaaaaaaaaaaA"
)

func open(fs *disktest.FS) (*storage.Store, error) { return openTold(fs, nil) }

func openTold(fs *disktest.FS, logger *zap.Logger) (*storage.Store, error) {
	return storage.Open(storage.StoreOptions{Dirs: []string{dir, more}, FS: fs, NodeID: 1, Logger: logger, Now: func() time.Time { return time.UnixMilli(1_700_000_100_000) }})
}

func smallConfig() log.Config {
	c := log.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.IndexBytes = 4000, 150, 4096
	return c
}

func compactedConfig() log.Config {
	c := smallConfig()
	c.Compact, c.Delete, c.MinCleanableRatio = true, false, 0
	return c
}

// The partitions that written makes, and what their logs are opened with.
var (
	topics       = map[string]func() log.Config{"t": smallConfig, "u": compactedConfig, "x": smallConfig}
	killedTopics = map[string]func() log.Config{"t": smallConfig, "u": compactedConfig, "v": compactedConfig, "w": compactedConfig, "x": smallConfig}
)

func topicID(topic string) [16]byte { return [16]byte{topic[0]} }

// written makes a data directory and closes it in order or kills it. In it are
//   - t-0, in several segments, of plain and compressed batches, producers, transactions that ended either way, leader epochs
//     and a log start;
//   - u-0, which was cleaned, with what it was cleaned of under names of removed files;
//   - x-0, on its way here from another directory (-future);
//   - if it was killed v-0, whose cleaning was ended while it exchanged the segments, and w-0, while it wrote the new one.
func written(t testing.TB, clean bool) *disktest.FS {
	t.Helper()
	fs := made(t, clean)
	if !clean {
		fs.Kill()
	}
	return fs
}

// writer fills the logs of a store.
type writer struct {
	t  testing.TB
	fs *disktest.FS
	s  *storage.Store
	ts int64
}

func (w *writer) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// open begins another life of the store, in which new logs lie in dir.
func (w *writer) open() {
	w.t.Helper()
	s, err := open(w.fs)
	w.ok(err)
	w.ok(s.WriteMeta(cluster, 1))
	s.Cordon([]string{more})
	w.s = s
}

func (w *writer) log(topic string, c log.Config) *log.Log {
	w.t.Helper()
	l, err := w.s.Log(topic, topicID(topic), 0, c)
	w.ok(err)
	return l
}

// add appends a batch: of the given record and one without a key, or of a marker.
func (w *writer) add(l *log.Log, o batch.BuilderOptions, r producer.Rules, key, value []byte) {
	w.t.Helper()
	w.ts += 7
	u := batch.NewBuilder(o)
	u.Add(w.ts, key, value)
	if !o.Control {
		u.Add(w.ts-3, nil, bytes.Repeat([]byte("y"), 20), batch.RecordHeader{Key: "h", Value: []byte("v")})
	}
	h, err := batch.ParseHeader(u.Bytes())
	w.ok(err)
	_, err = l.AppendWith(u.Bytes(), h, w.ts, r)
	w.ok(err)
	l.SetHighWatermark(l.View().LogEnd())
}

func (w *writer) end(l *log.Log, id batch.ProducerID, seq int32, kind batch.ControlType) {
	w.t.Helper()
	k, v := batch.Marker{Type: kind, CoordinatorEpoch: 1}.KeyAndValue()
	w.add(l, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, k, v)
}

// made is written before its end, where that is not in order.
func made(t testing.TB, clean bool) *disktest.FS {
	t.Helper()
	w := &writer{t: t, fs: disktest.New(), ts: 1_700_000_000_000}
	for i, d := range []string{dir, more} {
		w.fs.Put(d+"/meta.properties", fmt.Appendf(nil, "#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=%s\ndirectory.id=0QAAAAAAAAAAAAAAAAAAA%c\nnode.id=1\nversion=1\n", cluster, "AQ"[i]))
	}
	w.open()
	w.plain(w.log("t", smallConfig()))
	u := w.log("u", compactedConfig())
	w.dirty(u)
	if !w.clean("u", u) {
		t.Fatal("nothing was cleaned")
	}
	w.moving("x")
	w.ok(w.s.Checkpoint())
	if clean {
		w.ok(w.s.Close(true))
		return w.fs
	}
	w.ended("v", func(op, name string) bool { return op == "rename" && strings.HasSuffix(name, ".swap") }, ".log.swap")
	w.fs.Kill()
	w.open()
	w.ended("w", func(op, name string) bool { return op == "sync" && strings.HasSuffix(name, ".log.cleaned") }, ".log.cleaned")
	return w.fs
}

// plain fills a log of which nothing is cleaned.
func (w *writer) plain(l *log.Log) {
	w.t.Helper()
	seq := map[batch.ProducerID]int32{}
	for i := range 60 {
		if i%20 == 0 {
			w.ok(l.AssignEpoch(batch.LeaderEpoch(i/20 + 1)))
		}
		w.add(l, batch.BuilderOptions{Codec: codec.Kind(i % 5)}, producer.Rules{}, []byte("k"), bytes.Repeat([]byte("x"), 30+i))
		id := batch.ProducerID(10 + i%3)
		w.add(l, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq[id]}, producer.Rules{}, nil, []byte("p"))
		seq[id] += 2
		if id = 20; i%4 == 0 {
			w.add(l, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq[id], Transactional: true}, producer.Rules{Verified: true}, nil, []byte("txn"))
			seq[id] += 2
		}
		if i%4 == 2 {
			kind := batch.Abort
			if i%8 == 2 {
				kind = batch.Commit
			}
			w.end(l, id, -1, kind)
		}
		if i == 40 {
			w.ok(errors.Join(l.SetLogStart(5), l.Flush(), w.s.Checkpoint()))
		}
	}
	if n := l.View().Segments(); n < 4 {
		w.t.Fatalf("%d segments", n)
	}
}

// dirty fills a compacted log with what a cleaning takes and what it leaves, three segments and an active one, and flushes
// it.
func (w *writer) dirty(l *log.Log) {
	w.t.Helper()
	w.ok(l.AssignEpoch(1))
	id := batch.ProducerID(30)
	for i := range 12 {
		w.add(l, batch.BuilderOptions{Codec: codec.Kind(i % 5)}, producer.Rules{}, fmt.Appendf(nil, "key %d", i%7), bytes.Repeat([]byte("z"), 20+i))
		switch i {
		case 1, 6:
			w.add(l, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: int32(i/6) * 2, Transactional: true}, producer.Rules{Verified: true}, []byte("transaction"), []byte("v"))
		case 2:
			w.end(l, id, -1, batch.Abort)
		case 8:
			w.end(l, id, -1, batch.Commit)
		case 9:
			w.add(l, batch.BuilderOptions{}, producer.Rules{}, []byte("key 0"), nil) // a tombstone
		}
		if i%4 == 3 {
			w.ok(l.Roll())
		}
	}
	w.add(l, batch.BuilderOptions{}, producer.Rules{}, []byte("key 1"), []byte("active"))
	w.ok(errors.Join(l.Flush(), w.s.Checkpoint()))
}

// cleanable is a partition as the cleaner asks for it.
type cleanable struct {
	topic string
	log   *log.Log
}

func (c cleanable) Topic() string                  { return c.topic }
func (c cleanable) Index() int32                   { return 0 }
func (c cleanable) Log() *log.Log                  { return c.log }
func (c cleanable) Exclusive(f func() error) error { return f() }
func (c cleanable) Retain()                        {}

func (w *writer) clean(topic string, l *log.Log) bool {
	list := func() []storage.Cleanable { return []storage.Cleanable{cleanable{topic, l}} }
	return w.s.NewCleaner(list, storage.CleanerSettings{Threads: 1, KeyBytes: 1 << 20, KeyLoad: 0.9, BufferBytes: 1 << 16, BytesPerSecond: 1e308}).CleanOnce(w.t.Context())
}

// ended cleans a log until the disk is asked for something, at which the store ends. A file with some end is there then.
func (w *writer) ended(topic string, at func(op, name string) bool, left string) {
	w.t.Helper()
	l := w.log(topic, compactedConfig())
	w.dirty(l)
	w.fs.Refuse(func(op, name string) error {
		if at(op, name) {
			return errors.New("the process ends here")
		}
		return nil
	})
	if w.clean(topic, l) {
		w.t.Fatalf("%s was cleaned", topic)
	}
	w.fs.Refuse(nil)
	if w.fs.Bytes(fmt.Sprintf("%s/%s-0/%020d%s", dir, topic, 0, left)) == nil {
		w.t.Fatalf("%s has no %s", topic, left)
	}
}

// moving makes a log that is on its way to dir and has all that the one has that it is to replace.
func (w *writer) moving(topic string) {
	w.t.Helper()
	w.s.Cordon([]string{dir})
	l := w.log(topic, smallConfig())
	w.s.Cordon([]string{more})
	if l.Dir() != more+"/"+topic+"-0" {
		w.t.Fatalf("%s lies in %s", topic, l.Dir())
	}
	future, err := w.s.BeginMove(topic, topicID(topic), 0, dir)
	w.ok(err)
	ts := w.ts
	for _, l := range []*log.Log{l, future} {
		w.ts = ts
		w.ok(l.AssignEpoch(1))
		for i := range 8 {
			if i == 5 {
				w.ok(l.Roll())
			}
			w.add(l, batch.BuilderOptions{Codec: codec.Kind(i % 5), Producer: true, ProducerID: 40, BaseSequence: int32(2 * i)}, producer.Rules{}, []byte("k"), bytes.Repeat([]byte("m"), 10*i))
		}
		w.ok(l.Flush())
	}
}
