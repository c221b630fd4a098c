package monitor

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker/metrics"
)

// nothing is a source without a value.
type nothing struct{}

func (nothing) Gather(context.Context, metrics.Emit) {}
func (nothing) GatherClients(func(name, help string, kind metrics.Kind, value float64, labels []string)) {
}
func (nothing) Ready() error { return nil }

// pipes is a listener whose connections have no buffer at all.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Who asks and does not read, who sends half a request, and who only connects:
// none of them keeps a connection.
func TestSlowClients(t *testing.T) {
	for what, request := range map[string]string{
		"no reading": "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "half a request": "GET /hea", "nothing": "",
		"a body that does not come": "GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
			m, err := Start(t.Context(), Options{Address: "1", Listen: func(context.Context, string) (net.Listener, error) { return p, nil }}, nothing{})
			if err != nil {
				t.Fatal(err)
			}
			client, server := net.Pipe()
			p.accept <- server
			if _, err := client.Write([]byte(request)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Minute)
			if n, err := client.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%s: the connection is still there: %d bytes, %v", what, n, err)
			}
			client.Close()
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
