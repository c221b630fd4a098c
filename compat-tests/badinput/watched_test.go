//go:build compat && linux

package badinput

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
	v.pid, v.web = v.Pid(), web(v.Log())
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
