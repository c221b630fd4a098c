//go:build compat && linux

package badinput

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/launch"
)

// startWatched starts a broker with HTTP beside it.
func startWatched(t *testing.T, dirs string, overrides ...string) *victim {
	t.Helper()
	v := &victim{log: newJournal()}
	var err error
	if v.Broker, err = launch.Start(launch.Options{Dir: dirs, Overrides: overrides, Log: v.log, Args: []string{"--http-address", "127.0.0.1:0"}}); err != nil {
		t.Fatal(err)
	}
	v.pid = v.Pid()
	// The log and the ready line come by different pipes.
	for end := time.Now().Add(prompt); v.web == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		v.web = web(v.Log())
	}
	if v.web == "" {
		t.Errorf("the log does not tell where HTTP is served:\n%s", v.Log())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's log:\n%s", v.Log())
		}
		v.Kill()
	})
	return v
}

// web is where the broker serves HTTP, as its log says; "" before it does.
func web(log string) string {
	for line := range strings.Lines(log) {
		var l struct{ Message, Address string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Message == "serving HTTP" {
			return "http://" + l.Address
		}
	}
	return ""
}

// get asks for a page; code 0: nothing answered.
func get(url string) (code int, body string) {
	client := http.Client{Timeout: 2 * prompt, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// readyz waits for an answer of /readyz: a directory is seen to be given up at the
// next look.
func (v *victim) readyz(t *testing.T, want int, saying string) {
	t.Helper()
	code, body := 0, ""
	for end := time.Now().Add(prompt); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if code, body = get(v.web + "/readyz"); code == want && strings.Contains(body, saying) {
			return
		}
	}
	t.Errorf("/readyz answers %d %q, want %d and %q", code, body, want, saying)
}

// TestReadyzTellsOfLife: from the first moment on /readyz answers, and says ready
// only when clients are served; while the broker stops, which a client that does
// not read holds up, it says that. /healthz answers as long as the process lives.
func TestReadyzTellsOfLife(t *testing.T) {
	t.Parallel()
	addresses := freeAddresses(t, 2)
	page := "http://" + addresses[1]
	dir := filepath.Join(t.TempDir(), "data")
	options := launch.Options{Dir: dir, Listen: addresses[0], Args: []string{"--http-address", addresses[1]}}
	refused := regexp.MustCompile("connection refused|connection reset|EOF")
	for _, life := range []string{"the first", "another"} {
		b, err := launch.Begin(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Kill)
		starting := 0
		for end := time.Now().Add(prompt); ; {
			code, body := get(page + "/readyz")
			if code == http.StatusOK {
				break
			}
			switch {
			case code == 0 && refused.MatchString(body):
			case code == http.StatusServiceUnavailable && body == "starting\n":
				starting++
			default:
				t.Fatalf("in %s start: %d %q", life, code, body)
			}
			if time.Now().After(end) {
				t.Fatalf("in %s start: still %d %q", life, code, body)
			}
		}
		c, err := frame.Dial(addresses[0])
		if err != nil {
			t.Fatalf("ready, and nobody can connect: %v", err)
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		if r, instead := answer[*kmsg.MetadataResponse](c.Ask(req)); instead != "" || len(r.Brokers) != 1 {
			t.Errorf("ready, and Metadata is %s", instead)
		}
		c.Close()
		if err := b.WaitReady(prompt); err != nil {
			t.Fatal(err)
		}
		t.Logf("in %s start %d answers said starting", life, starting)
		v := &victim{Broker: b, log: newJournal()}
		if life == "the first" {
			v.create(t, topic)
			if stored, failed := v.produceUntil(t, topic, 900_000, 40); failed != 0 {
				t.Fatalf("record %d: error %d", stored, failed)
			}
		}
		// Somebody asks for all of it and does not read.
		lazy, err := frame.Dial(addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer lazy.Close()
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.ReplicaID, fetch.MaxBytes, fetch.SessionEpoch = 7, -1, 36_000_000, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = topic
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.PartitionMaxBytes = 36_000_000
		ft.Partitions = append(ft.Partitions, fp)
		fetch.Topics = append(fetch.Topics, ft)
		if err := lazy.Push(lazy.Encode(fetch)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // it has been read
		stopped := make(chan error, 1)
		go func() { stopped <- b.Stop() }()
		stopping := 0
		for gone := false; !gone; {
			code, body := get(page + "/readyz")
			switch {
			case code == http.StatusOK && stopping == 0: // not told yet
			case code == http.StatusServiceUnavailable && body == "stopping\n":
				if stopping++; stopping == 1 {
					if code, body := get(page + "/healthz"); code != http.StatusOK {
						t.Errorf("while it stops /healthz is %d %q", code, body)
					}
					if code, body := get(page + "/metrics"); code != http.StatusOK || !strings.Contains(body, "kafka_server_kafkaserver_brokerstate") {
						t.Errorf("while it stops /metrics is %d with %d bytes", code, len(body))
					}
				}
			case code == 0 && refused.MatchString(body):
				gone = true
			default:
				t.Fatalf("while it stops: %d %q", code, body)
			}
		}
		if stopping == 0 {
			t.Error("it stopped without saying so")
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// TestReadyzOfAnUnregisteredBroker: a broker that was taken out of its cluster has
// nobody to send clients to, and says so; a restart brings it back.
func TestReadyzOfAnUnregisteredBroker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	v := startWatched(t, dir)
	v.readyz(t, http.StatusOK, "")
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 1
	if r := v.once(t, req).(*kmsg.UnregisterBrokerResponse); r.ErrorCode != 0 {
		t.Fatalf("unregistering: error %d", r.ErrorCode)
	}
	v.readyz(t, http.StatusServiceUnavailable, "a restart registers it again")
	v.ends(t)
	v = startWatched(t, dir)
	v.readyz(t, http.StatusOK, "")
	v.check(t, 2*budget+allowance)
	v.ends(t)
}
