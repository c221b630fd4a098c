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
	free()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Error(err)
	}
}
