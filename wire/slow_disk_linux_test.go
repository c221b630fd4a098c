//go:build amd64 || arm64

package wire

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// stuckDisk has every part of a file that is sent wait for the disk until the
// test ends or free is called; reached says that a send has begun to wait.
func stuckDisk(t *testing.T) (reached <-chan struct{}, free func()) {
	was := noCachestat.Swap(true)
	begun, let := make(chan struct{}, 64), make(chan struct{})
	real := sysSendfile
	sysSendfile = func(out, in int, off *int64, n int) (int, error) {
		begun <- struct{}{}
		<-let
		return real(out, in, off, n)
	}
	freed := false
	free = func() {
		if !freed {
			freed = true
			close(let)
		}
	}
	t.Cleanup(func() {
		free()
		noCachestat.Store(was)
		sysSendfile = real
	})
	return begun, free
}

// closedByServer waits for the end of a connection and says whether there was one.
func closedByServer(t *testing.T, nc net.Conn) bool {
	t.Helper()
	if err := nc.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, nc)
	return !isTimeout(err)
}

// A connection whose reply waits for the disk is closed as any other, and whoever
// closes it does not wait: the idle ones behind it are closed too.
func TestClosingDoesNotWaitForTheDisk(t *testing.T) {
	reached, free := stuckDisk(t)
	seg := newSegment(t, 1<<20)
	s, addr := serveTCP(t, ServerOptions{IdleTimeout: 200 * time.Millisecond, Handler: fetchHandler(func() *FetchResponse {
		return response(partitionOf(0, nil, seg.section(0, 1<<20)))
	})})
	defer free()
	reading := dialTCP(t, addr)
	if _, err := reading.Write(fetchRequest(1)); err != nil {
		t.Fatal(err)
	}
	<-reached
	idle := dialTCP(t, addr)
	if !closedByServer(t, reading) {
		t.Error("a connection whose reply waits for the disk is not closed")
	}
	if !closedByServer(t, idle) {
		t.Error("an idle connection waits for another one's disk")
	}
	if s.Stats().Connections["PLAINTEXT"] == 0 {
		t.Error("a connection left the books while its reply holds a segment")
	}
	time.Sleep(100 * time.Millisecond) // it is looked for idle ones a few times
	if n := s.Stats().Idle["PLAINTEXT"]; n != 2 {
		t.Errorf("two connections were closed for being idle, and %d are counted", n)
	}
	free()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Error(err)
	}
}

// While one send waits for the disk nothing is sent directly, however much of it is
// in memory: what is read ahead for the one may be part of another, and a direct call
// that waited would hold up everybody.
func TestNothingIsSentDirectlyWhileTheDiskIsRead(t *testing.T) {
	f, _ := written(t, 2*directSection)
	if !inMemory(int(f.Fd()), 0, directSection) {
		t.Skip("the system does not tell what its page cache holds")
	}
	direct := 0
	real := sysSendCached
	sysSendCached = func(out, in int, off *int64, n int) (int, error) {
		direct++
		return real(out, in, off, n)
	}
	defer func() { sysSendCached = real }()
	client, nc := ends(t)
	go io.Copy(io.Discard, client)
	o := output{nc: nc, progress: func(int) {}, counters: &counters{}, disk: newDiskGate(2)}
	send := func() int {
		t.Helper()
		direct = 0
		if _, err := o.send(&sender{}, f, 0, directSection); err != nil {
			t.Fatal(err)
		}
		return direct
	}
	if send() == 0 {
		t.Error("what is in memory is not sent directly")
	}
	o.disk.send(func() (int, error) {
		if n := send(); n > 0 {
			t.Errorf("%d parts were sent directly", n)
		}
		return 0, nil
	})
	o.disk.last.Store(o.disk.clock() - int64(stirTime))
	if send() == 0 {
		t.Error("nothing is sent directly any more")
	}
}

// What lies in memory goes out while every place of those who wait for the disk is
// taken, whether it is sent or copied.
func TestCachedSectionsDoNotWaitForTheDisk(t *testing.T) {
	seg := newSegment(t, 2*directSection)
	if !inMemory(int(seg.file.Fd()), 0, directSection) {
		t.Skip("the system does not tell what its page cache holds")
	}
	client, nc := ends(t)
	go io.Copy(io.Discard, client)
	o := output{nc: nc, progress: func(int) {}, counters: &counters{}, disk: newDiskGate(1)}
	sent := make(chan error, 1)
	let := make(chan struct{})
	inside := make(chan struct{})
	go o.disk.send(func() (int, error) { close(inside); <-let; return 0, nil })
	<-inside
	go func() {
		s := getSender()
		body := &Body{}
		body.AppendSection(seg.section(0, 100))
		body.AppendSection(seg.section(200, directSection))
		body.AppendSection(seg.section(7, sectionCopyMax))
		err := s.add(&o, 1, false, body)
		if err == nil {
			err = s.flush(&o)
		}
		s.free()
		sent <- err
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Error(err)
		}
		close(let)
	case <-time.After(20 * time.Second):
		t.Error("what is in memory waits for the disk")
		close(let)
		<-sent
	}
}

// No stretch as long as what systems read ahead lies between two probes.
func TestProbes(t *testing.T) {
	for _, n := range []int{1, 2, readAhead - 1, readAhead, readAhead + 1, 3*readAhead - 5, directSection} {
		const off = 12345
		last, probes := int64(off+n), 0
		if !probe(off, n, func(at int64) bool {
			if probes++; at < off || at >= off+int64(n) || last-at > readAhead {
				t.Errorf("of %d bytes: %d, after %d", n, at-off, last-off)
			}
			last = at
			return true
		}) {
			t.Errorf("%d bytes are not there", n)
		}
		if n > readAhead && last != off || probes > n/readAhead+2 {
			t.Errorf("of %d bytes: %d probes, the last at %d", n, probes, last-off)
		}
		for miss := 1; miss <= probes; miss++ {
			k := 0
			if probe(off, n, func(int64) bool { k++; return k != miss }) || k != miss {
				t.Errorf("of %d bytes: probe %d is not heeded", n, miss)
			}
		}
	}
}
