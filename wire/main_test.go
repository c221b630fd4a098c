package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"millrace/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a handler made of functions.
type fake struct {
	serves func(listener string, key, version int16) bool
	handle func(ctx context.Context, r *Request) Reply
}

func (f fake) Serves(listener string, key, version int16) bool {
	if f.serves == nil {
		req := kmsg.RequestForKey(key)
		return req != nil && version >= 0 && version <= req.MaxVersion()
	}
	return f.serves(listener, key, version)
}

func (f fake) Handle(ctx context.Context, r *Request) Reply { return f.handle(ctx, r) }

func (f fake) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	return oneByOne(f.Handle, ctx, requests, replies)
}

// later is a pending reply.
type later struct {
	done  chan struct{}
	reply Reply
}

func newLater() *later                 { return &later{done: make(chan struct{})} }
func (l *later) Done() <-chan struct{} { return l.done }
func (l *later) Reply() Reply          { return l.reply }
func (l *later) become(r Reply)        { l.reply = r; close(l.done) }
func answer(s string) Reply            { return Reply{Body: NewBody([]byte(s))} }
func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	return zap.New(core), logs
}

// world is a server on an in-memory network.
type world struct {
	t      *testing.T
	net    *wiretest.Network
	server *Server
	served sync.WaitGroup
	writes atomic.Int64 // by the server
}

// countingListener counts the writes of the connections it accepts.
type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{nc.(*wiretest.Conn), l.writes}, nil
}

type countingConn struct {
	*wiretest.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// newWorld starts a server, in a bubble, on "broker:9092" (listener PLAINTEXT) and
// "broker:9093" (listener INTERNAL, reserved).
func newWorld(t *testing.T, o ServerOptions) *world {
	t.Helper()
	o.PoisonBuffers = true
	o.ReservedListeners = []string{"INTERNAL"}
	w := &world{t: t, net: wiretest.New(), server: NewServer(o)}
	for name, addr := range map[string]string{"PLAINTEXT": "broker:9092", "INTERNAL": "broker:9093"} {
		l, err := w.net.Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		w.served.Go(func() {
			if err := w.server.Serve(context.Background(), name, countingListener{l, &w.writes}); err != nil {
				t.Errorf("Serve %s: %v", name, err)
			}
		})
	}
	synctest.Wait()
	return w
}

func (w *world) close() {
	w.server.Close()
	w.served.Wait()
	if n := w.server.Stats().BudgetInUse; n != 0 {
		w.t.Errorf("%d bytes of budget were not given back", n)
	}
	for name, n := range w.server.Stats().Connections {
		if n != 0 {
			w.t.Errorf("listener %s still counts %d connections", name, n)
		}
	}
}

func (w *world) dial() *peer { return w.dialTo("client", "broker:9092") }

func (w *world) dialTo(from, addr string) *peer {
	w.t.Helper()
	nc, err := w.net.Dialer(from)(context.Background(), "tcp", addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return &peer{t: w.t, nc: nc}
}

// peer is a raw client.
type peer struct {
	t  *testing.T
	nc net.Conn
}

// frame builds a frame with a v1 header of client id "c", and a tagged section
// where the version is flexible.
func frame(key, version int16, id int32, body string) []byte {
	b := []byte{0, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(b, 0, 1, 'c')
	if flexible(key, version) {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := p.nc.Write(all); err != nil {
		p.t.Fatalf("writing %d bytes: %v", len(all), err)
	}
}

func (p *peer) produce(id int32, body string) { p.t.Helper(); p.send(frame(keyProduce, 7, id, body)) }
func (p *peer) other(id int32, body string)   { p.t.Helper(); p.send(frame(3, 1, id, body)) }

// recv reads one response with a v0 header.
func (p *peer) recv() (id int32, body string, err error) {
	var head [8]byte
	if _, err := io.ReadFull(p.nc, head[:]); err != nil {
		return 0, "", err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(p.nc, b); err != nil {
		return 0, "", err
	}
	return int32(binary.BigEndian.Uint32(head[4:])), string(b), nil
}

func (p *peer) expect(id int32, body string) {
	p.t.Helper()
	gotID, got, err := p.recv()
	if err != nil {
		p.t.Fatalf("waiting for reply %d: %v", id, err)
	}
	if gotID != id || got != body {
		p.t.Fatalf("got reply %d %q, want %d %q", gotID, got, id, body)
	}
}

// silent checks that nothing comes for a while.
func (p *peer) silent(d time.Duration) {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(d))
	defer p.nc.SetReadDeadline(time.Time{})
	id, body, err := p.recv()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("expected silence, got reply %d %q, error %v", id, body, err)
	}
}

// ended checks that the server ended the connection with nothing more to read.
func (p *peer) ended() {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(p.nc)
	if err != nil || len(b) != 0 {
		p.t.Fatalf("expected the end of the connection, got %d bytes (%q), error %v", len(b), b, err)
	}
	p.nc.Close()
}
