package wire

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Parts of a reply that are sent together leave nothing held back behind them, also
// where parts of files have to be copied, or a socket does not hold back.
func TestRepliesAreNotHeldBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		plant   func(t *testing.T)
		corks   bool
		trailer int // bytes behind the last section
	}{
		{"sent", func(*testing.T) {}, true, 10},
		{"sent to the end", func(*testing.T) {}, true, 0},
		{"copied", func(t *testing.T) { failSendfile(t) }, true, 10},
		{"copied to the end", func(t *testing.T) { failSendfile(t) }, true, 0},
		{"not held back", func(t *testing.T) {
			real := sysSetsockopt
			sysSetsockopt = func(int, int, int, bool) error { return unix.EOPNOTSUPP }
			t.Cleanup(func() { sysSetsockopt = real })
		}, false, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.plant(t)
			corked := 0
			real := sysSetsockopt
			sysSetsockopt = func(fd, level, name int, on bool) error {
				err := real(fd, level, name, on)
				if on && err == nil {
					corked++
				}
				return err
			}
			defer func() { sysSetsockopt = real }()
			client, nc := ends(t)

			seg := newSegment(t, 300<<10)
			var want []byte
			body := &Body{}
			for i := range 5 {
				body.Append([]byte{1, 2, byte(i)})
				body.AppendSection(seg.section(i*7, 40<<10))
				want = append(append(want, 1, 2, byte(i)), seg.b[i*7:i*7+40<<10]...)
			}
			if c.trailer > 0 {
				body.Append(make([]byte, c.trailer))
				want = append(want, make([]byte, c.trailer)...)
			}
			o := output{nc: nc, progress: func(int) {}, counters: &counters{}, disk: newDiskGate(1)}
			got := make(chan []byte, 1)
			go func() {
				b := make([]byte, 8+len(want))
				client.SetReadDeadline(time.Now().Add(time.Minute))
				n, _ := io.ReadFull(client, b)
				got <- b[:n]
			}()
			s := getSender()
			defer s.free()
			if err := s.add(&o, 1, false, body); err != nil {
				t.Fatal(err)
			}
			if err := s.flush(&o); err != nil {
				t.Fatal(err)
			}
			if b := <-got; len(b) != 8+len(want) || !bytes.Equal(b[8:], want) {
				t.Error("other bytes came than were sent")
			}
			if (corked > 0) != c.corks {
				t.Errorf("held back %d times", corked)
			}
			raw, err := nc.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			held := 1
			if err := raw.Control(func(fd uintptr) { held, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK) }); err != nil || held != 0 || o.corked() {
				t.Errorf("TCP_CORK is %d in the end", held)
			}
		})
	}
}
