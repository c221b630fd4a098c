package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	// headSize is what is read while a connection is idle: the length of a frame,
	// and the part of the header that tells what the frame will cost. No frame is
	// shorter, so nothing of the next one is taken.
	headSize = 4 + minHeader
	// maxTrust limits how much is allocated at once for a frame of a connection
	// that has sent frames of that length before.
	maxTrust = 16 << 20
	// largeFrame is the length, with its own four bytes, above which a frame is a
	// large one, unless it has come whole: at least two of any other fit a buffer
	// that is read ahead into.
	largeFrame = 32 << 10
	// firstRoom is what a large frame begins with on any other connection.
	firstRoom = 16 << 10
)

// frameReader cuts a stream into frames.
//
// While nothing is buffered it reads into a pooled buffer that it takes once there
// is something (first), or into a few bytes of its own: where it cannot wait
// without a buffer, and behind a large frame, because another may follow and is
// not to be copied. Once a length is known, small frames are read, together with
// what follows them, into a pooled buffer; a large one gets a buffer to itself.
// Buffers grow as bytes arrive. A large frame begins with no more than its
// connection has already shown to be good for, and after that takes at most four
// times what arrived. Where memory can be had from the system it grows in its
// place; elsewhere the old buffer is paid for with the new one while both are held.
type frameReader struct {
	src io.Reader
	// first reads what comes after a pause into a buffer of a class that it takes only then; nil: src cannot be waited
	// for without a buffer.
	first    func(class int8) (*buffer, int, error)
	max      int // longest frame
	poison   bool
	progress func(n int) // called whenever bytes arrived
	// try reads what has come, and returns 0 and no error where nothing has; nil: src can only be waited for.
	try func(p []byte) (int, error)
	// waiting says how much can be read at once; nil: src does not tell.
	waiting func() int
	// several is told when several requests were there at once; nil: src does not mind.
	several func()
	// grow is asked before a large frame takes more memory, and told when it takes
	// less; n is all of it.
	grow    func(n int) error
	shelves *shelves // where buffers of large frames come from

	head  [headSize]byte
	headN int     // bytes in head
	ahead *buffer // nil: what is buffered is in head
	r, w  int     // unread bytes of ahead
	peak  int     // most that ahead held since it was taken
	class int8    // of the next ahead buffer
	trust int     // length of the longest frame received so far, within maxTrust
	large bool    // the last frame was a large one
	lent  int     // frames in ahead that are not done

	size int // length of the frame that next announced
	run  int // bytes of large frames since one had to be waited for
}

// frameError is a length that ends the connection.
type frameError struct {
	size  int32
	start [4]byte
	max   int
}

func (e *frameError) Error() string {
	if hint := looksLike(e.start); hint != "" {
		return fmt.Sprintf("invalid frame length %d: looks like %s", e.size, hint)
	}
	if int(e.size) > e.max {
		return fmt.Sprintf("invalid frame length %d: more than socket.request.max.bytes (%d)", e.size, e.max)
	}
	return fmt.Sprintf("invalid frame length %d", e.size)
}

// looksLike names the protocol whose first bytes were taken for a length.
func looksLike(b [4]byte) string {
	if b[0] == 0x16 && b[1] == 3 && b[2] <= 4 {
		return "a TLS hello on a plaintext listener"
	}
	if b[0] == 0x15 && b[1] == 3 && b[2] <= 4 {
		return "a TLS alert on a plaintext listener"
	}
	switch string(b[:]) {
	case "GET ", "POST", "HEAD", "PUT ", "OPTI", "DELE", "PATC", "CONN", "TRAC":
		return "an HTTP request"
	case "PRI ":
		return "an HTTP/2 request"
	case "SSH-":
		return "an SSH client"
	}
	return ""
}

func (f *frameReader) buffered() []byte {
	if f.ahead != nil {
		return f.ahead.b[f.r:f.w]
	}
	return f.head[:f.headN]
}

// checkLength checks the length at the start of b, which holds four bytes.
func (f *frameReader) checkLength(b []byte) (int, error) {
	size := int32(binary.BigEndian.Uint32(b))
	if size < minHeader || int(size) > f.max {
		return 0, &frameError{size: size, start: [4]byte(b[:4]), max: f.max}
	}
	return int(size), nil
}

// next waits for the start of a frame and returns its length and api key. At the
// end of the stream it returns io.EOF, and io.ErrUnexpectedEOF within a frame.
func (f *frameReader) next() (size int, key int16, err error) {
	if f.ahead != nil && f.r == f.w {
		f.dropAhead()
	}
	checked := false
	for {
		b := f.buffered()
		if len(b) >= 4 && !checked {
			// At once: of a frame too short to hold a header no more may come.
			if size, err = f.checkLength(b); err != nil {
				return 0, 0, err
			}
			checked = true
		}
		if len(b) >= headSize {
			f.size = size
			return size, int16(binary.BigEndian.Uint16(b[4:])), nil
		}
		switch {
		case f.ahead != nil:
			err = f.fill(headSize)
		case f.first != nil && f.headN == 0 && !f.large:
			err = f.begin()
		default:
			var n int
			n, err = f.src.Read(f.head[f.headN:])
			f.headN += n
			if n > 0 {
				f.progress(n)
				err = nil
			}
		}
		if err != nil {
			return 0, 0, f.midFrame(err)
		}
	}
}

// begin reads what comes first into a buffer.
func (f *frameReader) begin() error {
	b, n, err := f.first(f.class)
	if b == nil {
		return err
	}
	if n < headSize {
		// Too little to know a length by: what follows may take its time.
		f.headN = copy(f.head[:], b.b[:n])
		putBuffer(b)
	} else {
		f.ahead, f.r, f.w, f.peak = b, 0, n, n
		f.filled(n == len(b.b))
	}
	f.progress(n)
	return nil
}

// shrink moves what is buffered to where it just fits: who waits for the budget is to hold little beyond what came.
func (f *frameReader) shrink() {
	if f.ahead == nil {
		return
	}
	n := f.w - f.r
	if n <= headSize {
		f.headN = copy(f.head[:], f.buffered())
		f.dropAhead()
	} else if class := classFor(n); class < f.ahead.class {
		f.moveAhead(class)
	}
}

// filled notes that the last read into ahead has filled it, or has not.
func (f *frameReader) filled(full bool) {
	if full {
		f.class = max(f.class, min(f.ahead.class+1, aheadClasses-1))
	}
}

func (f *frameReader) midFrame(err error) error {
	if errors.Is(err, io.EOF) && len(f.buffered()) > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads once into ahead, which is to hold need unread bytes in the end. If
// there is no room it makes some: by moving what is unread to the front, to a
// larger buffer if earlier reads filled this one, or, when the buffer is full of
// unread bytes, to one of the next size.
func (f *frameReader) fill(need int) error {
	f.unlent()
	if size := len(f.ahead.b); f.w == size || f.r+need > size {
		switch {
		case f.r == 0 && f.w < size:
		case f.r == 0:
			f.moveAhead(f.ahead.class + 1)
		case f.class > f.ahead.class:
			f.moveAhead(f.class)
		default:
			f.w = copy(f.ahead.b, f.ahead.b[f.r:f.w])
			f.r = 0
		}
	}
	n, err := f.readAhead(need)
	f.w += n
	f.peak = max(f.peak, f.w)
	if n > 0 {
		f.progress(n)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// readAhead reads once behind what is unread. Where that has to be waited for, no more is
// held meanwhile than need takes: a peer may take its time with the rest of a frame.
func (f *frameReader) readAhead(need int) (n int, err error) {
	free := f.ahead.b[f.w:]
	if f.try != nil {
		if n, err = f.try(free); n == 0 && err == nil {
			if class := classFor(need); class >= 0 && class < f.ahead.class {
				f.moveAhead(class)
				free = f.ahead.b[f.w:]
			}
		}
	}
	if n == 0 && err == nil {
		n, err = f.src.Read(free)
	}
	f.filled(n == len(free))
	return n, err
}

func (f *frameReader) moveAhead(class int8) {
	f.unlent()
	b := getClass(class)
	f.w = copy(b.b, f.ahead.b[f.r:f.w])
	f.r = 0
	putBuffer(f.ahead)
	f.ahead = b
}

func (f *frameReader) dropAhead() {
	if f.ahead == nil {
		return
	}
	f.unlent()
	if f.peak <= len(f.ahead.b)/4 && f.class > 0 {
		f.class--
	}
	putBuffer(f.ahead)
	f.ahead, f.r, f.w, f.peak = nil, 0, 0, 0
}

// unlent is for what changes the buffer that frames were given from.
func (f *frameReader) unlent() {
	if f.lent > 0 {
		panic("wire: a buffer is read into, or given away, while frames in it are in use")
	}
}

// body reads the frame that next announced, without its length. Of a Produce the
// bytes are valid until done is called; any other may be kept.
func (f *frameReader) body(pooled bool) ([]byte, *buffer, error) {
	if f.large = 4+f.size > largeFrame && len(f.buffered()) < 4+f.size; f.large {
		return f.own(pooled)
	}
	if f.ahead == nil {
		f.ahead = getClass(f.class)
		f.r, f.w = 0, copy(f.ahead.b, f.head[:f.headN])
		f.headN, f.peak = 0, f.w
	}
	for f.w-f.r < 4+f.size {
		if err := f.fill(4 + f.size); err != nil {
			return nil, nil, f.midFrame(err)
		}
	}
	frame := f.ahead.b[f.r+4 : f.r+4+f.size : f.r+4+f.size]
	f.r += 4 + f.size
	f.size = 0
	if pooled {
		f.lent++
		return frame, nil, nil
	}
	frame = append(make([]byte, 0, len(frame)), frame...)
	if f.r == f.w {
		f.dropAhead()
	}
	return frame, nil, nil
}

// done gives back a frame that body returned with pooled set. Before all are given back no more is read but what
// another has told of.
func (f *frameReader) done(frame []byte, b *buffer) {
	if f.poison {
		poison(frame)
	}
	if b != nil {
		f.shelves.put(b, len(frame))
		return
	}
	f.lent--
}

// own reads a large frame into a buffer of its own.
func (f *frameReader) own(pooled bool) ([]byte, *buffer, error) {
	size := f.size
	room := min(size, max(firstRoom, len(f.buffered()), f.trust))
	if size <= bufferSizes[smallClasses-1] {
		room = size // no more than what is read ahead into
	}
	if err := f.grow(room); err != nil {
		return nil, nil, err
	}
	var buf *buffer
	switch {
	case room < size:
		buf = f.shelves.growing(size)
	case pooled:
		buf = f.shelves.get(size)
	}
	if buf == nil {
		buf = &buffer{b: make([]byte, room), class: kept}
	}
	have := copy(buf.b, f.buffered()[4:])
	f.headN = 0
	f.dropAhead()
	for {
		for have < room {
			// With the last of it, the head of a frame that has come behind it: a
			// producer with several requests in flight need not be asked twice.
			end := room
			if room == size {
				end = min(size+headSize, len(buf.b))
			}
			n, err := f.src.Read(buf.b[have:end])
			have += n
			if n > 0 {
				f.progress(n)
				continue
			}
			if err == nil {
				err = io.ErrNoProgress
			} else if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			f.shelves.put(buf, have)
			return nil, nil, err
		}
		if have >= size {
			break
		}
		var err error
		if room, buf, err = f.enlarge(have, buf, pooled); err != nil {
			f.shelves.put(buf, have)
			return nil, nil, err
		}
	}
	f.headN = copy(f.head[:], buf.b[size:have])
	f.trust = max(f.trust, min(size, maxTrust))
	f.size = 0
	buf.used = max(buf.used, have)
	if !pooled {
		return f.shelves.keep(buf, size), nil, nil
	}
	return buf.b[:size:size], buf, nil
}

// enlarge gives a large frame, of which some has come, more room.
func (f *frameReader) enlarge(have int, buf *buffer, pooled bool) (room int, larger *buffer, err error) {
	size := f.size
	room = min(size, 4*have)
	if len(buf.b) >= size {
		return room, buf, f.grow(room)
	}
	if err := f.grow(len(buf.b) + room); err != nil {
		return 0, buf, err
	}
	if room == size && pooled {
		larger = f.shelves.get(size)
	} else {
		larger = &buffer{b: make([]byte, room), class: kept}
	}
	copy(larger.b, buf.b[:have])
	return room, larger, f.grow(room)
}

// runBytes is how many bytes of large frames are handled before what was answered
// goes out: the peer is to have something to do meanwhile.
const runBytes = 320 << 10

// another tells whether the whole of another Produce has come that can be read while
// what was read before is in use: it is buffered, or, behind a large frame, lies in
// the socket.
func (f *frameReader) another() bool {
	b := f.buffered()
	if len(b) < headSize {
		f.run = 0
		return false
	}
	size, err := f.checkLength(b)
	if err != nil || int16(binary.BigEndian.Uint16(b[4:])) != keyProduce {
		f.run = 0
		return false
	}
	if len(b) >= 4+size {
		return true
	}
	if f.ahead == nil && f.large && f.waiting != nil {
		if f.run += size; f.run <= runBytes && f.waiting() >= 4+size-len(b) {
			return true
		}
	}
	f.run = 0
	return false
}

// close gives back what is held.
func (f *frameReader) close() {
	if f.ahead != nil {
		putBuffer(f.ahead)
	}
	f.ahead, f.r, f.w, f.headN = nil, 0, 0, 0
}

// isTimeout tells a deadline from a broken connection.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
