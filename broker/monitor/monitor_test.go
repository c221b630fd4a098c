package monitor

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"millrace/broker/metrics"
)

// source shows what a test says.
type source struct {
	ready  error
	gather func(metrics.Emit)
	waits  func(ctx context.Context)
	client func(emit func(string, string, metrics.Kind, float64, []string))
}

func (s *source) Ready() error { return s.ready }
func (s *source) Gather(ctx context.Context, emit metrics.Emit) {
	if s.waits != nil {
		s.waits(ctx)
	}
	if s.gather != nil {
		s.gather(emit)
	}
}
func (s *source) GatherClients(emit func(string, string, metrics.Kind, float64, []string)) {
	if s.client != nil {
		s.client(emit)
	}
}

func handlerOf(o Options, s Source) http.Handler {
	return handler(context.Background(), &handlers{}, o, s)
}

func ask(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(b)
}

func TestHealth(t *testing.T) {
	s := &source{}
	h := handlerOf(Options{}, s)
	for _, c := range []struct {
		ready error
		path  string
		code  int
		says  string
	}{
		{nil, "/healthz", 200, "ok"}, {nil, "/readyz", 200, "ready"},
		{errors.New("starting"), "/healthz", 200, "ok"}, {errors.New("starting"), "/readyz", 503, "starting"},
		{nil, "/debug/pprof/", 404, ""}, {nil, "/other", 404, ""},
	} {
		s.ready = c.ready
		if code, text := ask(t, h, c.path); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s, %v: %d %s", c.path, c.ready, code, text)
		}
	}
	if code, _ := ask(t, handlerOf(Options{Profiles: true}, s), "/debug/pprof/"); code != 200 {
		t.Errorf("profiles that were asked for: %d", code)
	}
	// The root lists what there is, and all that it lists is there.
	for _, o := range []Options{{}, {Profiles: true}} {
		h := handlerOf(o, s)
		code, text := ask(t, h, "/")
		listed := 0
		for line := range strings.Lines(text) {
			path, _, _ := strings.Cut(line, "\t")
			listed++
			if code, _ := ask(t, h, path); code != 200 && code != 503 {
				t.Errorf("%+v: %q is listed and answers %d", o, path, code)
			}
		}
		if want := map[bool]int{false: 3, true: 4}[o.Profiles]; code != 200 || listed != want {
			t.Errorf("%+v: the root answers %d with %q", o, code, text)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// Values with and without labels, both styles, Go's own, and what clients push;
// a series that comes twice takes nothing else with it.
func TestMetrics(t *testing.T) {
	s := &source{
		gather: func(emit metrics.Emit) {
			emit(metrics.BytesIn, 7)
			emit(metrics.BytesIn, 5, "a \"topic\"\xff")
			emit(metrics.TotalTime.Count, 3, "Fetch")
			emit(metrics.LeaderCount, 1)
			emit(metrics.LeaderCount, 2)
		},
		client: func(emit func(string, string, metrics.Kind, float64, []string)) {
			emit("kafka_client_x", "Pushed.", metrics.Gauge, math.Inf(1), []string{"a", "1", "b", "2"})
		},
	}
	h := handlerOf(Options{}, s)
	code, text := ask(t, h, "/metrics")
	for _, want := range []string{
		"# TYPE kafka_server_brokertopicmetrics_bytesin_total counter\n", "kafka_server_brokertopicmetrics_bytesin_total 7\n",
		"kafka_server_brokertopicmetrics_bytesin_total{topic=\"a \\\"topic\\\"\uFFFD\"} 5\n",
		"kafka_network_requestmetrics_totaltimems_count_total{request=\"Fetch\"} 3\n",
		"kafka_client_x{a=\"1\",b=\"2\"} +Inf\n", "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%d, and no %s", code, want)
		}
	}
	if _, text := ask(t, h, "/metrics?style=jmx0"); !strings.Contains(text, "kafka_network_requestmetrics_totaltimems_count{request=\"Fetch\"} 3\n") {
		t.Error("the older style")
	}
	if code, _ := ask(t, h, "/metrics?style=nobody"); code != 400 {
		t.Errorf("a style nobody has: %d", code)
	}
}

func TestLoopback(t *testing.T) {
	for in, want := range map[string]string{"9404": "127.0.0.1:9404", ":9404": "127.0.0.1:9404", "0.0.0.0:1": "0.0.0.0:1", "[::1]:2": "[::1]:2", "localhost:0": "localhost:0"} {
		if got, err := Loopback(in); err != nil || got != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "x", "localhost:99999", "::1:2", "localhost"} {
		if got, err := Loopback(bad); err == nil {
			t.Errorf("%q is taken as %s", bad, got)
		}
	}
}

// A server listens, serves and stops.
func TestServer(t *testing.T) {
	m, err := Start(context.Background(), Options{Address: "0"}, &source{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.Address(), "127.0.0.1:") {
		t.Errorf("listens on %s", m.Address())
	}
	resp, err := http.Get("http://" + m.Address() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, err := Start(context.Background(), Options{Address: m.Address()}, &source{}); err == nil {
		t.Error("two on one address")
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
}

// A handler that is still at it when its second is over is cancelled, and is
// waited for: after Stop nobody gathers, and no profile is taken.
func TestStopWaitsForHandlers(t *testing.T) {
	gathering, ended := make(chan struct{}), make(chan struct{})
	s := &source{waits: func(ctx context.Context) {
		close(gathering)
		<-ctx.Done()
		if _, timed := ctx.Deadline(); !timed || context.Cause(ctx) != context.Canceled {
			t.Errorf("the gatherer ended by %v", context.Cause(ctx))
		}
		close(ended)
	}}
	m, err := Start(context.Background(), Options{Address: "0", Profiles: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for _, path := range []string{"/metrics", "/debug/pprof/trace?seconds=20"} {
		asking.Go(func() {
			if resp, err := http.Get("http://" + m.Address() + path); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	<-gathering
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("a handler outlives the server")
	}
	if code, _ := ask(t, m.http.Handler, "/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("a request after the stop: %d", code)
	}
	asking.Wait()
}
