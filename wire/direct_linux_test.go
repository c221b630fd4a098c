package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// written makes a file of so many bytes and returns it and them.
func written(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f, b
}

// evict takes a file out of the page cache; false where the system does not.
func evict(t *testing.T, f *os.File) bool {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // a page that was just sent is held for a moment
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		var st unix.Cachestat_t
		if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0); err != nil {
			return false
		}
		if st.Cache == 0 {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// ends are the two ends of a TCP connection.
func ends(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// What lies in the page cache is sent directly; what does not takes a place at
// the gate of those who may wait for the disk.
func TestOnlyCachedSectionsAreSentDirectly(t *testing.T) {
	const n = 3 * directSection
	f, want := written(t, n)
	if !inMemory(int(f.Fd()), 1, n-1) {
		t.Skip("the system does not tell what its page cache holds")
	}
	if inMemory(int(f.Fd()), 1, n+2*unix.Getpagesize()) {
		t.Error("what lies behind the file is in memory")
	}
	client, nc := ends(t)
	slow, direct := 0, 0
	realSlow, realDirect := sysSendfile, sysSendCached
	defer func() { sysSendfile, sysSendCached = realSlow, realDirect }()
	o := output{nc: nc, progress: func(int) {}, counters: &counters{}, disk: newDiskGate(1)}
	sysSendfile = func(out, in int, off *int64, n int) (int, error) {
		if slow++; len(o.disk.gate) != 1 {
			t.Error("the disk is read outside the gate")
		}
		return realSlow(out, in, off, n)
	}
	sysSendCached = func(out, in int, off *int64, n int) (int, error) {
		if direct++; len(o.disk.gate) != 0 || n > directSection {
			t.Errorf("%d bytes at once, %d at the gate", n, len(o.disk.gate))
		}
		return realDirect(out, in, off, n)
	}
	round := func() {
		t.Helper()
		got := make(chan []byte, 1)
		go func() {
			b := make([]byte, n)
			client.SetReadDeadline(time.Now().Add(time.Minute))
			k, _ := io.ReadFull(client, b)
			got <- b[:k]
		}()
		slow, direct = 0, 0
		if sent, err := o.send(&sender{}, f, 0, n); err != nil || sent != n {
			t.Fatalf("sent %d bytes: %v", sent, err)
		}
		if !bytes.Equal(<-got, want) {
			t.Fatal("other bytes came than were sent")
		}
	}
	round()
	if slow != 0 || direct < 3 {
		t.Errorf("in memory: %d direct calls, %d others", direct, slow)
	}
	if !evict(t, f) {
		t.Skip("the file system keeps what it was told it may drop")
	}
	round()
	if slow == 0 {
		t.Errorf("not in memory: %d direct calls, %d others", direct, slow)
	}
}

// A reply of more pieces than one call takes, some of them longer than one call
// may be, arrives whole and in order at a client that reads slowly.
func TestRepliesOfManyPieces(t *testing.T) {
	want := make([]byte, 0, 6<<20)
	var pieces [][]byte
	for i := range 200 {
		p := bytes.Repeat([]byte{byte(i)}, []int{1, referMin, 9000, directStep + 77}[i%4])
		pieces, want = append(pieces, p), append(want, p...)
	}
	s := NewServer(ServerOptions{Handler: fake{handle: func(context.Context, *Request) Reply {
		b := &Body{}
		for _, p := range pieces {
			b.Append(p)
		}
		return Reply{Body: b}
	}}})
	nc, end := overTCP(t, s)
	defer end()
	if err := nc.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, nc: nc}
	for i := range int32(2) {
		p.send(frame(keyProduce, 7, i, "all"))
		p.expect(i, string(want))
	}
}
