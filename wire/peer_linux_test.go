package wire

import (
	"io"
	"net"
	"testing"
	"time"
)

// What a socket tells of its peer, whatever lies in it unread.
func TestPeerOfASocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name        string
		do          func(peer *net.TCPConn)
		ended, gone bool
	}{
		{"nothing", func(*net.TCPConn) {}, false, false},
		{"a request", func(p *net.TCPConn) { io.WriteString(p, "more") }, false, false},
		{"an end", func(p *net.TCPConn) { p.CloseWrite() }, true, false},
		{"an end behind a request", func(p *net.TCPConn) { io.WriteString(p, "more"); p.CloseWrite() }, true, false},
		{"a reset", func(p *net.TCPConn) { p.SetLinger(0); p.Close() }, true, true},
		{"a reset behind a request", func(p *net.TCPConn) { io.WriteString(p, "more"); p.SetLinger(0); p.Close() }, true, true},
	} {
		peer, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.do(peer.(*net.TCPConn))
		ended, gone := peerOf(nc)
		for range 500 { // it takes a moment to arrive
			if ended == c.ended && gone == c.gone {
				break
			}
			time.Sleep(10 * time.Millisecond)
			ended, gone = peerOf(nc)
		}
		if ended != c.ended || gone != c.gone {
			t.Errorf("%s: ended %v, gone %v", c.name, ended, gone)
		}
		nc.Close()
		peer.Close()
		if ended, gone := peerOf(nc); ended || gone {
			t.Errorf("%s, closed here: ended %v, gone %v", c.name, ended, gone)
		}
	}
}
