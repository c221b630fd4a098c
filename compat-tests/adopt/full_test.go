//go:build compat

package adopt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/compat-tests/launch"
)

// fullDisks imports a directory to disks that are too small for it, each a bit larger than the one before, until one is not.
// Wherever the disk is full, the import says so and what is to be done, the next one says it again, and no broker starts on what
// there is.
func fullDisks(t *testing.T, program, from string) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "disk")
	ok(t, os.Mkdir(at, 0o755))
	mounted := false
	t.Cleanup(func() {
		if mounted {
			ok(t, syscall.Unmount(at, 0))
		}
	})
	to := filepath.Join(at, "ours")
	imported := func() (string, error) {
		out, err := exec.Command(program, "import", from, "--log-dir", to, "--abort-transactions").CombinedOutput()
		return string(out), err
	}
	where := map[string]int{} // what was being done
	for size := 64 << 10; ; size += size/4 + 4096 {
		if err := syscall.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
			t.Skipf("a disk that is full needs the right to mount one: %v", err)
		}
		mounted = true
		out, err := imported()
		if err == nil {
			if len(where) < 2 {
				t.Errorf("the disk was full only at %v", where)
			}
			t.Logf("%d bytes are enough; before, it failed to %v", size, where)
			verified(t, to)
			b, err := launch.Start(launch.Options{Dir: to})
			if err == nil {
				b.Kill()
			} else if !strings.Contains(err.Error(), "no space left") {
				t.Errorf("a start on a disk that is all but full: %v", err)
			}
			ok(t, syscall.Unmount(at, 0))
			mounted = false
			return
		}
		what, _, _ := strings.Cut(strings.TrimPrefix(out, "millrace: import: "), " ")
		where[what]++
		if !strings.Contains(out, "no space left on device") || !strings.Contains(out, "; remove what is in "+to+" before the next try") || strings.Count(out, "\n") != 1 {
			t.Fatalf("a disk of %d bytes: %v, %s", size, err, out)
		}
		if out, err = imported(); err == nil || !strings.Contains(out, to+" is not empty: an import into it has not come to its end: remove what is in it, and import again") {
			t.Fatalf("again, to a disk of %d bytes: %v, %s", size, err, out)
		}
		serve := exec.Command(program, "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+to)
		if out, err := serve.CombinedOutput(); err == nil || !strings.Contains(string(out), "an import into it has not come to its end") {
			t.Fatalf("a broker on what is there: %v, %s", err, out)
		}
		ok(t, syscall.Unmount(at, 0))
		mounted = false
		if size > 64<<20 {
			t.Fatal("no disk is large enough")
		}
	}
}
