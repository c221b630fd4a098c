package wire_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker"
	"millrace/controller/config"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/wire"
)

// The two walks of a request, from socket to disk and back, in system calls: of a whole
// broker, on loopback and a real disk. Those on sockets are counted where wire makes
// them, those on files where storage asks for them.

const walked = "walk"

// files is the real file system, and counts what is done to the topic's files.
type files struct {
	disk.FS
	opens, reads, appends, others, syncs atomic.Int64
}

func (f *files) Open(name string, flag disk.Flag) (disk.File, error) {
	x, err := f.FS.Open(name, flag)
	if err != nil || !strings.Contains(name, "/"+walked+"-0/") {
		return x, err
	}
	f.opens.Add(1)
	return &file{x, f, strings.HasSuffix(name, ".log")}, nil
}

type file struct {
	disk.File
	fs  *files
	log bool
}

func (x *file) wrote() {
	if x.log {
		x.fs.appends.Add(1)
	} else {
		x.fs.others.Add(1)
	}
}

func (x *file) ReadAt(p []byte, off int64) (int, error) {
	x.fs.reads.Add(1)
	return x.File.ReadAt(p, off)
}

func (x *file) WriteAt(p []byte, off int64) (int, error) {
	x.wrote()
	return x.File.WriteAt(p, off)
}

func (x *file) WriteAllAt(p [][]byte, off int64) (int, error) {
	x.wrote()
	return x.File.WriteAllAt(p, off)
}

func (x *file) Truncate(size int64) error { x.fs.others.Add(1); return x.File.Truncate(size) }
func (x *file) Reserve(size int64) error  { x.fs.others.Add(1); return x.File.Reserve(size) }
func (x *file) Size() (int64, error)      { x.fs.others.Add(1); return x.File.Size() }
func (x *file) Sync() error               { x.fs.syncs.Add(1); return x.File.Sync() }

// walker is a connection to a broker of its own.
type walker struct {
	t     *testing.T
	nc    net.Conn
	calls *wire.Calls
	files *files
	buf   []byte
}

func newWalker(t *testing.T) *walker {
	t.Helper()
	w := &walker{t: t, files: &files{FS: disk.OS{}}, buf: make([]byte, 1<<20)}
	var end func()
	w.calls, end = wire.CountCalls()
	t.Cleanup(end) // when the broker has ended
	static, _, err := config.ParseStatic(map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan broker.Info, 1), make(chan error, 1)
	go func() {
		done <- broker.Run(ctx, broker.Options{Config: static, FS: w.files, Topics: []broker.Topic{{Name: walked, Partitions: 1}}, Ready: func(i broker.Info) { ready <- i }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case i := <-ready:
		if w.nc, err = net.Dial("tcp", i.Bootstrap[0]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.nc.Close() })
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return w
}

// ask sends a request in one write, and returns its answer, without the header.
func (w *walker) ask(frame []byte, flexible bool) []byte {
	w.t.Helper()
	if _, err := w.nc.Write(frame); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.ReadFull(w.nc, w.buf[:4]); err != nil {
		w.t.Fatal(err)
	}
	b := w.buf[:binary.BigEndian.Uint32(w.buf)]
	if _, err := io.ReadFull(w.nc, b); err != nil {
		w.t.Fatal(err)
	}
	if flexible {
		return b[5:]
	}
	return b[4:]
}

func framed(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("walk")).AppendRequest(nil, req, 7)
}

func producing(size int) *kmsg.ProduceRequest {
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, make([]byte, size))
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = walked
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = u.Bytes()
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

func fetching(most int32) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.ReplicaID, r.MinBytes, r.MaxBytes, r.SessionEpoch = -1, 1, 1<<30, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = walked
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = -1, -1, -1, most
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// cost is what so many requests, one after another, have cost.
type cost struct{ reads, sends, sendfiles, options, opens, fileReads, appends, others, syncs int64 }

func (w *walker) cost() cost {
	c, f := w.calls, w.files
	return cost{c.Reads.Load(), c.Sends.Load(), c.Sendfiles.Load(), c.Options.Load(), f.opens.Load(), f.reads.Load(), f.appends.Load(), f.others.Load(), f.syncs.Load()}
}

func (c cost) since(b cost) cost {
	return cost{c.reads - b.reads, c.sends - b.sends, c.sendfiles - b.sendfiles, c.options - b.options, c.opens - b.opens, c.fileReads - b.fileReads, c.appends - b.appends, c.others - b.others, c.syncs - b.syncs}
}

// A request is one read and its answer one send, with one sendfile where that pays; a
// Produce is one write to its segment. Nothing is opened, read or synced beside that.
func TestSystemCallsOfAWalk(t *testing.T) {
	const n = 100
	w := newWalker(t)
	produced := func(b []byte) bool {
		r := kmsg.NewPtrProduceResponse()
		r.Version = 9
		return r.ReadFrom(b) == nil && r.Topics[0].Partitions[0].ErrorCode == 0
	}
	fetched := func(version int16, bytes int) func(b []byte) bool {
		return func(b []byte) bool {
			r := kmsg.NewPtrFetchResponse()
			r.Version = version
			return r.ReadFrom(b) == nil && r.Topics[0].Partitions[0].ErrorCode == 0 && len(r.Topics[0].Partitions[0].RecordBatches) >= bytes
		}
	}
	for _, walk := range []struct {
		name     string
		frame    []byte
		flexible bool
		good     func([]byte) bool
		want     cost
	}{
		{"Produce of 1 KiB", framed(producing(1024), 9), true, produced, cost{reads: n, sends: n, appends: n}},
		{"Fetch of 1 KiB", framed(fetching(1200), 11), false, fetched(11, 1024), cost{reads: n, sends: n}},
		{"Fetch of 64 KiB", framed(fetching(64<<10), 11), false, fetched(11, 60<<10), cost{reads: n, sends: n, sendfiles: n}},
		{"Fetch of 64 KiB, tagged", framed(fetching(64<<10), 12), true, fetched(12, 60<<10), cost{reads: n, sends: 2 * n, sendfiles: n, options: 2 * n}},
	} {
		t.Run(walk.name, func(t *testing.T) {
			w.t = t
			for range 10 {
				if !walk.good(w.ask(walk.frame, walk.flexible)) {
					t.Fatal("it is answered otherwise")
				}
			}
			before, looks := w.cost(), w.calls.Looks.Load()
			for range n {
				w.ask(walk.frame, walk.flexible)
			}
			if got := w.cost().since(before); got != walk.want {
				t.Errorf("%d requests cost %+v, not %+v", n, got, walk.want)
			}
			// Before it sleeps, a connection looks whether something has come.
			if looks = w.calls.Looks.Load() - looks; looks > 2*n+2 {
				t.Errorf("it was looked %d times in vain", looks)
			}
		})
	}
}
