// Package floor holds the limit programs: the least that a server must do to
// receive, store or send bytes, without a protocol. A broker's figure over
// theirs tells what the protocol costs, and is comparable between machines as
// the figure alone is not.
//
// One process serves them all on one port. A connection's first bytes say what it
// is for: a kind, two sizes and a number of parts. One that begins as a Kafka client's
// does is a relay's.
//
// They are fair to what they stand beside: the same requests over as many
// connections, answers of as many bytes with as long headers, the same parts
// (a broker's partitions, here files, shared by all connections), and sockets as
// the system makes them.
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
	"sync"
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
// of an answer's bytes of one part, and batch that of the pieces in which its file
// was written: the page cache keeps what comes in small pieces in small pieces, and
// sending those costs about twice as much. An answer begins where a batch does.
// For Ingest a frame is cut into so many parts of one size.
func Hello(k Kind, size, batch, parts int) []byte {
	b := []byte{byte(k)}
	for _, n := range []int{size, batch, parts} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

const (
	// header is how many bytes go before those of the first part in an answer, and
	// partHeader before those of any other, as in a Fetch answer.
	header, partHeader = 64, 42
	// ack is how long an acknowledgement is, and partAck what each further part adds,
	// as in a Produce answer.
	ack, partAck = 48, 32
	// mostParts is how many there may be.
	mostParts = 64
)

// span is how much of the files is sent before they begin anew: as much as a topic
// holds that is read, more than a processor's caches.
const span = 192 << 20

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
	clients := &relay{topics: map[string]*relayed{}}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				// A client that leaves ends its connection with an error that says nothing.
				_ = serve(nc.(*net.TCPConn), dir, clients)
			}()
		}
	}()
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func serve(nc *net.TCPConn, dir string, clients *relay) error {
	var hello [13]byte
	if _, err := io.ReadFull(nc, hello[:]); err != nil {
		return err
	}
	if hello[0] == 0 {
		return clients.serve(nc, hello[:]) // a length, whose first byte no kind is
	}
	size, batch := int(binary.BigEndian.Uint32(hello[1:])), int(binary.BigEndian.Uint32(hello[5:]))
	parts := int(binary.BigEndian.Uint32(hello[9:]))
	if parts < 1 || parts > mostParts {
		return fmt.Errorf("%d parts", parts)
	}
	switch Kind(hello[0]) {
	case Drop:
		return drop(nc)
	case Ingest:
		return ingest(nc, dir, parts)
	case Sendfile, Pread:
		if size < 1 || size > span/parts || batch < 1 || batch > span/parts {
			return fmt.Errorf("an answer of %d bytes of batches of %d, %d parts", size, batch, parts)
		}
		return send(nc, dir, size, batch, parts, Kind(hello[0]) == Sendfile)
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

// stores are the files that connections write to at the moment, by their number.
var stores struct {
	sync.Mutex
	by map[int]*store
}

// segment is how long a file gets before the next is begun, as a broker's does: what is
// full is made durable, beside what goes on.
const segment = 1 << 30

// store is logs that those write to who cut their frames into as many parts.
type store struct {
	dir   string
	users int
	parts []part
}

type part struct {
	sync.Mutex
	file *file
	full []*file // which are kept until the end, as a log's are
}

// file is one of a part's files.
type file struct {
	*os.File
	end     int64 // under the part's lock
	writers sync.WaitGroup
}

// open makes the files for the first who wants them; leave gives them up.
func open(dir string, parts int) (s *store, leave func(), err error) {
	stores.Lock()
	defer stores.Unlock()
	if s = stores.by[parts]; s == nil {
		s = &store{dir: dir, parts: make([]part, parts)}
		for i := range s.parts {
			f, err := unlinked(dir)
			if err != nil {
				s.close()
				return nil, nil, err
			}
			s.parts[i].file = &file{File: f}
		}
		if stores.by == nil {
			stores.by = map[int]*store{}
		}
		stores.by[parts] = s
	}
	s.users++
	return s, func() {
		stores.Lock()
		defer stores.Unlock()
		if s.users--; s.users == 0 {
			delete(stores.by, parts)
			s.close()
		}
	}, nil
}

func (s *store) close() {
	for i := range s.parts {
		p := &s.parts[i]
		for _, f := range append(p.full, p.file) {
			if f != nil {
				f.writers.Wait()
				f.Close()
			}
		}
	}
}

// append writes behind what others have written, or are writing.
func (s *store) append(n int, b []byte) error {
	f, at, err := s.parts[n].room(s.dir, len(b))
	if err != nil {
		return err
	}
	defer f.writers.Done()
	_, err = f.WriteAt(b, at)
	return err
}

// room is where so many bytes go.
func (p *part) room(dir string, n int) (*file, int64, error) {
	p.Lock()
	defer p.Unlock()
	if p.file.end > 0 && p.file.end+int64(n) > segment {
		f, err := unlinked(dir)
		if err != nil {
			return nil, 0, err
		}
		full := p.file
		p.file, p.full = &file{File: f}, append(p.full, full)
		full.writers.Add(1) // who syncs it has it, too
		go func() {
			defer full.writers.Done()
			if err := datasync(full.File); err != nil {
				fmt.Fprintln(os.Stderr, "a full file was not made durable:", err)
			}
		}()
	}
	f := p.file
	at := f.end
	f.end += int64(n)
	f.writers.Add(1)
	return f, at, nil
}

// ingest takes all complete frames that have arrived together: one write to the
// file, one to the socket. Of several parts each is written by itself.
func ingest(nc net.Conn, dir string, parts int) error {
	s, leave, err := open(dir, parts)
	if err != nil {
		return err
	}
	defer leave()
	b := make([]byte, 2<<20)
	var acks []byte
	blank := make([]byte, ack-4+(parts-1)*partAck)
	have := 0
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
			sum, each := uint32(0), size/parts
			for part := range parts {
				at := done + 4 + part*each
				end := at + each
				if part == parts-1 {
					end = done + 4 + size
				}
				sum = crc32.Checksum(b[at:end], castagnoli)
				if parts > 1 {
					if err := s.append(part, b[at:end]); err != nil {
						return err
					}
				}
			}
			acks = binary.BigEndian.AppendUint32(acks, uint32(4+len(blank)))
			acks = binary.BigEndian.AppendUint32(acks, sum)
			acks = append(acks, blank...)
			done += 4 + size
		}
		if done == 0 {
			continue
		}
		if parts == 1 {
			if err := s.append(0, b[:done]); err != nil {
				return err
			}
		}
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

func send(nc *net.TCPConn, dir string, size, batch, parts int, bySendfile bool) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	whole := make([]byte, 4+header+parts*size+(parts-1)*partHeader)
	binary.BigEndian.PutUint32(whole, uint32(len(whole)-4))
	// An answer's parts, each with what goes before it.
	var pieces []piece
	for part, rest := 0, whole; part < parts; part++ {
		f, err := source(dir, batch, part, span/parts)
		if err != nil {
			return err
		}
		files = append(files, f)
		head := partHeader
		if part == 0 {
			head = 4 + header
		}
		pieces = append(pieces, piece{f: f, head: rest[:head], body: rest[head : head+size]})
		rest = rest[head+size:]
	}
	in := make([]byte, 64<<10)
	at := startOf(senders.Add(1), batch, span/parts)
	for {
		if err := request(nc, in); err != nil {
			return err
		}
		var err error
		if bySendfile {
			err = sendfile(nc, pieces, at)
		} else {
			for i := range pieces {
				if _, err = pieces[i].f.ReadAt(pieces[i].body, at); err != nil {
					return err
				}
			}
			_, err = nc.Write(whole)
		}
		if err != nil {
			return err
		}
		if at += int64(max(size/batch, 1) * batch); at+int64(size) > int64(span/parts) {
			at = 0
		}
	}
}

// piece is one part of an answer.
type piece struct {
	f    *os.File
	head []byte
	body []byte // as long as what is sent of the file; who copies copies it there
}

// senders counts the connections that were sent to: those that run together read
// different parts of the file, as readers of a log do.
var senders atomic.Int64

// startOf is where a connection begins: at a batch.
func startOf(n int64, batch, length int) int64 {
	const apart = 16
	return n % apart * int64(length/apart) / int64(batch) * int64(batch)
}

// source is the file of a part that is sent, so long and written in such pieces,
// made by the first who asks.
func source(dir string, batch, part, length int) (*os.File, error) {
	name := filepath.Join(dir, fmt.Sprintf("source-%d-%d-%d", batch, length, part))
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
	for at := 0; at < length; {
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
