//go:build compat

package proxy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/compat-tests/launch"
	"millrace/compat-tests/proxy"
	"millrace/compat-tests/run"
)

// TestScenarioNotices runs the scenario behind the proxy: behind the honest one it passes, behind each fault it must fail.
func TestScenarioNotices(t *testing.T) {
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(t.TempDir(), "franz")
	build := exec.Command("go", "build", "-o", agent, "./compat-tests/clients/franz")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	broker, name := launch.ForTest(t)
	t.Logf("broker: %s", name)
	for _, fault := range append([]proxy.Fault{proxy.Honest}, proxy.Faults...) {
		t.Run(fault.String(), func(t *testing.T) {
			tag := fmt.Sprintf("proxy-%s-%d-%d", fault, os.Getpid(), time.Now().UnixMilli())
			p, err := proxy.Start(proxy.Options{Upstream: broker, Fault: fault, Topics: func(name string) bool { return strings.Contains(name, tag) }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			results, a, err := run.Run(ctx, run.Spec{
				Root: root, Dir: t.TempDir(), Bootstrap: p.Addr(), Direct: broker, Records: 4000, Codecs: []string{"none"}, Tag: tag,
				ReadLimit: 5 * time.Second,
				Client:    run.Client{Name: "franz-go behind the proxy", Command: []string{agent}},
			})
			if err != nil {
				t.Errorf("running the scenario: %v", err)
			}
			if err := p.Close(); err != nil {
				t.Errorf("the proxy: %v", err)
			}
			failed := ""
			reached := make(map[string]bool)
			for _, r := range results {
				reached[r.Step] = true
				if r.Outcome == run.Failed {
					failed += fmt.Sprintf("%s: %s\n", r.Step, r.Detail)
				}
			}
			if t.Failed() && a != nil {
				t.Logf("the agent's log:\n%s", a.Log())
			}
			if !reached["compare"] {
				t.Fatalf("the scenario did not reach the comparison:\n%s", failed)
			}
			t.Logf("planted: %q; the scenario: %s", p.Planted(), failed)
			switch planted := p.Planted(); {
			case fault == proxy.Honest && failed != "":
				t.Errorf("behind the honest proxy the scenario fails:\n%s", failed)
			case fault != proxy.Honest && planted == "":
				t.Error("no fault was planted")
			case fault != proxy.Honest && !strings.Contains(failed, "compare: "):
				t.Errorf("the comparison did not notice: %s", planted)
			}
		})
	}
}
