// Package monitor is the HTTP side of a broker: /metrics for Prometheus, /healthz
// and /readyz for whoever supervises the process, and /debug/pprof where it is
// asked for.
//
// It decides nothing: what is shown comes from a Source, whether the broker is
// ready too. It has no authentication and listens where it is told; without a
// host that is loopback. Nothing here exists, and nothing is counted, while no
// address is given.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/broker/metrics"
)

// Source is what is shown.
type Source interface {
	// Gather tells every value there is now. Several may be gathered at once.
	Gather(ctx context.Context, emit metrics.Emit)
	// GatherClients tells what clients have pushed (KIP-714): with each value the
	// metric's name, and label names and values in turn.
	GatherClients(emit func(name, help string, kind metrics.Kind, value float64, labels []string))
	// Ready is nil when clients are served, and says why not otherwise.
	Ready() error
}

// Options of a server.
type Options struct {
	// Address is HOST:PORT, :PORT or PORT; without a host it is loopback.
	Address string
	// Profiles serves /debug/pprof.
	Profiles bool
	Listen   func(ctx context.Context, address string) (net.Listener, error) // nil: TCP
}

// Server serves HTTP.
type Server struct {
	http    *http.Server
	socket  net.Listener
	done    chan error
	cancel  context.CancelFunc // of what handlers do
	running handlers
}

// handlers counts the handlers that run. http.Server waits for those that end in
// time only, and http.TimeoutHandler for none.
type handlers struct {
	mu       sync.Mutex
	stopping bool
	running  sync.WaitGroup
}

// counted is a handler whose end stop waits for, and that begins no more after.
func (h *handlers) counted(of http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		if h.stopping {
			h.mu.Unlock()
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		h.running.Add(1)
		h.mu.Unlock()
		defer h.running.Done()
		of.ServeHTTP(w, r)
	})
}

func (h *handlers) stop() {
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
	h.running.Wait()
}

// gatherTimeout bounds one scrape.
const gatherTimeout = 8 * time.Second

// writeTimeout bounds how long an answer is on its way: whoever does not read it is
// not to hold it, and a file descriptor that a client could have, for good. Profiles
// have the time they take on top.
const writeTimeout = 30 * time.Second

// Loopback completes an address: without a host it is 127.0.0.1.
func Loopback(address string) (string, error) {
	whole := address
	if !strings.Contains(whole, ":") {
		whole = ":" + whole
	}
	host, port, err := net.SplitHostPort(whole)
	if err != nil {
		return "", fmt.Errorf("%s: expected host:port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%s: the port is to be a number below 65536", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Start listens and serves until Stop.
func Start(ctx context.Context, o Options, s Source) (*Server, error) {
	address, err := Loopback(o.Address)
	if err != nil {
		return nil, fmt.Errorf("the HTTP address: %w", err)
	}
	listen := o.Listen
	if listen == nil {
		listen = func(ctx context.Context, address string) (net.Listener, error) {
			var lc net.ListenConfig
			return lc.Listen(ctx, "tcp", address)
		}
	}
	socket, err := listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("serving HTTP on %s: %w", address, err)
	}
	m := &Server{socket: socket, done: make(chan error, 1)}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	m.http = &http.Server{
		Handler: m.running.counted(handler(running, &m.running, o, s)), BaseContext: func(net.Listener) context.Context { return running },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: writeTimeout, IdleTimeout: 2 * time.Minute,
	}
	go func() { m.done <- m.http.Serve(socket) }()
	return m, nil
}

// Address is where it listens.
func (m *Server) Address() string { return m.socket.Addr().String() }

// Stop ends the server; requests that run have a second, then they are cancelled.
// When it returns, no handler runs.
func (m *Server) Stop() error {
	defer m.running.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if m.http.Shutdown(ctx) != nil {
		m.http.Close()
	}
	m.cancel()
	if err := <-m.done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

// handler is what is served; what runs longer than its request ends with ctx, and
// counts among running.
func handler(ctx context.Context, running *handlers, o Options, s Source) http.Handler {
	mux := http.NewServeMux()
	index := "/metrics\tPrometheus metrics\n/healthz\t200 while the process lives\n/readyz\t\t200 while clients are served, else 503 and why\n"
	if o.Profiles {
		index += "/debug/pprof/\tGo's profiles\n"
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, index) })
	mux.Handle("GET /metrics", metricsHandler(ctx, running, s))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// metricsHandler serves /metrics, in the style that ?style= names.
func metricsHandler(ctx context.Context, running *handlers, s Source) http.Handler {
	byStyle := map[string]http.Handler{}
	for _, style := range []style{styleNow, styleOld} {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(&collector{ctx: ctx, source: s, style: style}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		// One scrape at a time: whoever comes meanwhile is told to come again.
		gathers := promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 2})
		// It is counted within: the time-out leaves it behind.
		byStyle[string(style)] = http.TimeoutHandler(running.counted(gathers), gatherTimeout+time.Second, "gathering takes too long\n")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("style")
		if name == "" {
			name = string(styleNow)
		}
		h, ok := byStyle[name]
		if !ok {
			http.Error(w, fmt.Sprintf("there is no style %q: jmx1 (the default) or jmx0", name), http.StatusBadRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
