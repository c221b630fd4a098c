package floor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"
)

// start serves in this process and returns the address.
func start(t *testing.T) string {
	in, hold := io.Pipe()
	out, w := io.Pipe()
	ended := make(chan error, 1)
	dir := t.TempDir()
	go func() { ended <- Serve(dir, in, w) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	_, addr, _ := strings.Cut(strings.TrimSpace(line), "bootstrap.servers=")
	return addr
}

func dial(t *testing.T, addr string, k Kind, size, parts int) net.Conn {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if _, err := nc.Write(Hello(k, size, size, parts)); err != nil {
		t.Fatal(err)
	}
	return nc
}

func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func answer(t *testing.T, nc net.Conn) []byte {
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// The floors do what they are floors for: a limit that leaves work out would
// flatter nobody but mislead.
func TestFloors(t *testing.T) {
	addr := start(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	in := dial(t, addr, Ingest, 0, 1)
	if _, err := in.Write(append(frame(big), frame([]byte("small"))...)); err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{big, []byte("small")} {
		if got, want := binary.BigEndian.Uint32(answer(t, in)), crc32.Checksum(body, castagnoli); got != want {
			t.Errorf("ingest summed %08x, want %08x", got, want)
		}
	}
	sent := map[Kind][]byte{}
	for _, k := range []Kind{Sendfile, Pread} {
		nc := dial(t, addr, k, 300<<10, 1)
		for range 2 {
			if _, err := nc.Write(frame(make([]byte, 100))); err != nil {
				t.Fatal(err)
			}
			sent[k] = append(sent[k], answer(t, nc)[header:]...)
		}
		if len(sent[k]) != 600<<10 {
			t.Errorf("%c sent %d bytes", k, len(sent[k]))
		}
	}
	for k, got := range sent { // any order: each is looked at by itself
		for i, b := range got {
			if b != got[0]+byte(i*7) {
				t.Fatalf("%c: byte %d is %d behind %d", k, i, b, got[0])
			}
		}
	}
	for n := range int64(40) {
		if at := startOf(n, 16001, span); at%16001 != 0 || at < 0 || at+300<<10 > span || n%16 > 0 && at == startOf(n-1, 16001, span) {
			t.Errorf("connection %d begins at %d", n, at)
		}
	}
	e := dial(t, addr, Echo, 0, 1)
	if _, err := e.Write(append(frame([]byte("first frame.")), frame([]byte("second frame"))...)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first frame.", "second frame"} {
		if got := answer(t, e); string(got[:12]) != want || len(got) != 60 {
			t.Errorf("echo answers %q", got)
		}
	}
	if _, err := Sync(t.TempDir(), 4096, 3); err != nil {
		t.Error(err)
	}
}

// Several parts are written to files of their own, which all connections share,
// and sent from as many, each with its header.
func TestParts(t *testing.T) {
	addr := start(t)
	const parts, size = 3, 40 << 10
	body := bytes.Repeat([]byte("0123456789abcde"), 1000)
	var conns []net.Conn
	for range 2 {
		nc := dial(t, addr, Ingest, 0, parts)
		conns = append(conns, nc)
		if _, err := nc.Write(frame(body)); err != nil {
			t.Fatal(err)
		}
		got := answer(t, nc)
		if want := crc32.Checksum(body[2*len(body)/parts:], castagnoli); binary.BigEndian.Uint32(got) != want || len(got) != ack+(parts-1)*partAck {
			t.Errorf("an acknowledgement of %d bytes: %x", len(got), got[:4])
		}
	}
	stores.Lock()
	s := stores.by[parts]
	for i := range parts {
		b := make([]byte, 2*len(body)/parts)
		if _, err := s.parts[i].file.ReadAt(b, 0); err != nil || s.parts[i].file.end != int64(len(b)) {
			t.Errorf("file %d ends at %d: %v", i, s.parts[i].file.end, err)
		}
		for half := range 2 {
			if piece := body[i*len(body)/parts : (i+1)*len(body)/parts]; !bytes.Equal(b[half*len(piece):(half+1)*len(piece)], piece) {
				t.Errorf("file %d holds other bytes than were sent", i)
			}
		}
	}
	stores.Unlock()
	// One that is full makes room for the next.
	first := &s.parts[0]
	first.Lock()
	first.file.end = segment - 10
	first.Unlock()
	if _, err := conns[0].Write(frame(body)); err != nil {
		t.Fatal(err)
	}
	answer(t, conns[0])
	first.Lock()
	b := make([]byte, len(body)/parts)
	if _, err := first.file.ReadAt(b, 0); err != nil || len(first.full) != 1 || !bytes.Equal(b, body[:len(b)]) {
		t.Errorf("%d files are full: %v", len(first.full), err)
	}
	first.Unlock()
	for _, nc := range conns {
		nc.Close()
	}
	for _, k := range []Kind{Sendfile, Pread} {
		nc := dial(t, addr, k, size, parts)
		for range 2 {
			if _, err := nc.Write(frame(make([]byte, 100))); err != nil {
				t.Fatal(err)
			}
			rest := answer(t, nc)
			if len(rest) != header+parts*size+(parts-1)*partHeader {
				t.Fatalf("%c: %d bytes", k, len(rest))
			}
			for i := range parts {
				if rest = rest[partHeader:]; i == 0 {
					rest = rest[header-partHeader:]
				}
				for j, b := range rest[:size] {
					if b != rest[0]+byte(j*7) {
						t.Fatalf("%c: byte %d of part %d is %d behind %d", k, j, i, b, rest[0])
					}
				}
				rest = rest[size:]
			}
		}
	}
}
