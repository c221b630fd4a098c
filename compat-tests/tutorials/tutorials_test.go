//go:build compat

package tutorials

import (
	"os/exec"
	"testing"

	"millrace/compat-tests/launch"
)

// TestTutorials runs the tutorials; run.sh compares what each of them read with
// what it sent.
func TestTutorials(t *testing.T) {
	bootstrap, _ := launch.ForTest(t)
	out, err := exec.CommandContext(t.Context(), "sh", "run.sh", bootstrap).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
