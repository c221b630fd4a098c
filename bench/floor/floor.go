// Package floor holds the limit programs: the least that a server must do to
// receive, store or send bytes, without a protocol. A broker's figure over
// theirs tells what the protocol costs, and is comparable between machines as
// the figure alone is not.
//
// One process serves them all on one port. A connection's first nine bytes say
// what it is for: a kind and two sizes.
package floor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// Kind is what a connection is for.
type Kind byte

const (
	Drop     Kind = 'd' // receive and drop
	Ingest   Kind = 'i' // receive frames, CRC32C, write to a file, acknowledge
	Sendfile Kind = 's' // answer each frame with so many bytes of a file, by sendfile
	Pread    Kind = 'p' // the same through a buffer
	Echo     Kind = 'e' // answer each frame with 64 bytes
)

// Hello is what a connection begins with. For Sendfile and Pread, size is that
// of an answer's bytes, and batch that of the pieces in which the file was
// written: the page cache keeps what comes in small pieces in small pieces, and
// sending those costs about twice as much. An answer begins where a batch does.
func Hello(k Kind, size, batch int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte{byte(k)}, uint32(size)), uint32(batch))
}

// header is how many bytes go before the file's in an answer, as a Fetch
// answer's do; an acknowledgement is as long as that of a Produce.
const (
	header = 64
	ack    = 48
)

// span is how much of the file is sent before it begins anew: more than a
// processor's caches hold.
const span = 128 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Serve makes durable metadata in a directory, as a broker does before it is
// ready, listens on loopback, prints its address and serves until its standard
// input ends.
func Serve(dir string, stdin io.Reader, stdout io.Writer) error {
	db, err := bbolt.Open(filepath.Join(dir, "floor.db"), 0o644, nil)
	if err != nil {
		return fmt.Errorf("open the floor's metadata: %w", err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte("b"))
		return err
	}); err != nil {
		return fmt.Errorf("write the floor's metadata: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := fmt.Fprintf(stdout, "floor ready bootstrap.servers=%s\n", l.Addr()); err != nil {
		return err
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				// A client that leaves ends its connection with an error that says nothing.
				_ = serve(nc.(*net.TCPConn), dir)
			}()
		}
	}()
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func serve(nc *net.TCPConn, dir string) error {
	var hello [9]byte
	if _, err := io.ReadFull(nc, hello[:]); err != nil {
		return err
	}
	size, batch := int(binary.BigEndian.Uint32(hello[1:])), int(binary.BigEndian.Uint32(hello[5:]))
	switch Kind(hello[0]) {
	case Drop:
		return drop(nc)
	case Ingest:
		return ingest(nc, dir)
	case Sendfile, Pread:
		if size < 1 || size > span || batch < 1 || batch > span {
			return fmt.Errorf("an answer of %d bytes of batches of %d", size, batch)
		}
		return send(nc, dir, size, batch, Kind(hello[0]) == Sendfile)
	case Echo:
		return echo(nc)
	}
	return fmt.Errorf("no such kind: %q", hello[0])
}

func drop(nc net.Conn) error {
	b := make([]byte, 1<<20)
	for {
		if _, err := nc.Read(b); err != nil {
			return err
		}
	}
}

// unlinked is a file that nobody else sees and that goes with its descriptor.
func unlinked(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "floor-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// ingest takes all complete frames that have arrived together: one write to the
// file, one to the socket.
func ingest(nc net.Conn, dir string) error {
	f, err := unlinked(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 2<<20)
	var acks []byte
	have, at := 0, int64(0)
	for {
		n, err := nc.Read(b[have:])
		if err != nil {
			return err
		}
		have += n
		done := 0
		acks = acks[:0]
		for have-done >= 4 {
			size := int(binary.BigEndian.Uint32(b[done:]))
			if size < 0 || size > len(b)-4 {
				return fmt.Errorf("a frame of %d bytes", size)
			}
			if have-done < 4+size {
				break
			}
			sum := crc32.Checksum(b[done+4:done+4+size], castagnoli)
			acks = binary.BigEndian.AppendUint32(acks, ack)
			acks = binary.BigEndian.AppendUint32(acks, sum)
			acks = append(acks, make([]byte, ack-4)...)
			done += 4 + size
		}
		if done == 0 {
			continue
		}
		if _, err := f.WriteAt(b[:done], at); err != nil {
			return err
		}
		at += int64(done)
		if _, err := nc.Write(acks); err != nil {
			return err
		}
		have = copy(b, b[done:have])
	}
}

// request reads one frame of at most 64 KiB.
func request(nc net.Conn, b []byte) error {
	have := 0
	for {
		n, err := nc.Read(b[have:])
		if err != nil {
			return err
		}
		have += n
		if have < 4 {
			continue
		}
		size := int(binary.BigEndian.Uint32(b))
		if size < 0 || size > len(b)-4 || have > 4+size {
			return errors.New("not one frame at a time")
		}
		if have == 4+size {
			return nil
		}
	}
}

func send(nc *net.TCPConn, dir string, size, batch int, bySendfile bool) error {
	f, err := source(dir, batch)
	if err != nil {
		return err
	}
	defer f.Close()
	in := make([]byte, 64<<10)
	out := make([]byte, 4+header+size)
	binary.BigEndian.PutUint32(out, uint32(header+size))
	at := startOf(senders.Add(1), batch)
	for {
		if err := request(nc, in); err != nil {
			return err
		}
		if bySendfile {
			err = sendfile(nc, out[:4+header], f, at, size)
		} else if _, err = f.ReadAt(out[4+header:], at); err == nil {
			_, err = nc.Write(out)
		}
		if err != nil {
			return err
		}
		if at += int64(max(size/batch, 1) * batch); at+int64(size) > span {
			at = 0
		}
	}
}

// senders counts the connections that were sent to: those that run together read
// different parts of the file, as readers of a log do.
var senders atomic.Int64

// startOf is where a connection begins: at a batch.
func startOf(n int64, batch int) int64 {
	const apart = 16
	return n % apart * (span / apart) / int64(batch) * int64(batch)
}

// source is the file that is sent, written in such pieces, made by the first who
// asks.
func source(dir string, batch int) (*os.File, error) {
	name := filepath.Join(dir, fmt.Sprintf("source-%d", batch))
	if f, err := os.Open(name); err == nil {
		return f, nil
	}
	f, err := os.CreateTemp(dir, "source-")
	if err != nil {
		return nil, err
	}
	block := make([]byte, 1<<20+batch)
	for i := range block {
		block[i] = byte(i * 7)
	}
	for at := 0; at < span; {
		from := at % (1 << 20)
		n, err := f.Write(block[from : from+batch])
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		at += n
	}
	return f, os.Rename(f.Name(), name)
}

func echo(nc net.Conn) error {
	in := make([]byte, 64<<10)
	out := make([]byte, 4+60)
	binary.BigEndian.PutUint32(out, 60)
	// Frames of an open loop may arrive together.
	have := 0
	for {
		n, err := nc.Read(in[have:])
		if err != nil {
			return err
		}
		have += n
		done := 0
		for have-done >= 4 {
			size := int(binary.BigEndian.Uint32(in[done:]))
			if size < 0 || size > len(in)-4 {
				return fmt.Errorf("a frame of %d bytes", size)
			}
			if have-done < 4+size {
				break
			}
			if size >= 12 {
				copy(out[4:], in[done+4:done+16]) // the sender knows its own again
			}
			if _, err := nc.Write(out); err != nil {
				return err
			}
			done += 4 + size
		}
		have = copy(in, in[done:have])
	}
}

// Sync appends so many bytes to a file and syncs, n times, and returns the
// middle duration.
func Sync(dir string, size, n int) (time.Duration, error) {
	f, err := unlinked(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, size)
	var took []time.Duration
	for range n {
		begun := time.Now()
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
		if err := datasync(f); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
