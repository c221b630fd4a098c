package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script stands in for the binary: only the command-line contract matters here.
func script(t *testing.T, body string) string {
	path := filepath.Join(t.TempDir(), "millrace")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const obedient = `echo "args: $*" >&2
sleep 60 &
trap 'kill $!; exit 0' TERM
echo "millrace ready bootstrap.servers=127.0.0.1:9,127.0.0.1:10 node.id=1 cluster.id=abc"
wait
`

func TestStartAndStop(t *testing.T) {
	b, err := Start(Options{Binary: script(t, obedient), Dir: "/d", Overrides: []string{"a=b"}})
	if err != nil {
		t.Fatal(err)
	}
	if b.Bootstrap != "127.0.0.1:9" || b.ClusterID != "abc" {
		t.Errorf("bootstrap %q, cluster id %q", b.Bootstrap, b.ClusterID)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if want := "args: serve --override listeners=PLAINTEXT://127.0.0.1:0 --override log.dirs=/d --override a=b"; !strings.Contains(b.Log(), want) {
		t.Errorf("log %q lacks %q", b.Log(), want)
	}
	if err := b.Stop(); err == nil {
		t.Error("stopping a broker that has ended was no error")
	}
}

func TestKill(t *testing.T) {
	b, err := Start(Options{Binary: script(t, strings.Replace(obedient, "sleep 60", "sleep 1", 1))})
	if err != nil {
		t.Fatal(err)
	}
	b.Kill()
	b.Kill()
	<-b.Exited()
}

func TestBadBinaries(t *testing.T) {
	for body, want := range map[string]string{
		"echo oh no >&2; exit 3": "exit status 3",
		"echo hello":             "not its ready line",
		"echo millrace ready bootstrap.servers=1:2 node.id=1": "lacks",
		"exit 0": "exit code 0",
	} {
		if _, err := Start(Options{Binary: script(t, body)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", body, err, want)
		}
	}
	b, err := Start(Options{Binary: script(t, strings.Replace(obedient, "exit 0", "exit 7", 1))})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a bad exit code passed: %v", err)
	}
}
