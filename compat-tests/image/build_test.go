//go:build compat

package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"millrace/compat-tests/launch"
)

// TestBuild builds both images from the Dockerfile with buildah in chroot isolation, on base images of this machine's own, and
// compares their file systems with those that the other tests put together. It takes minutes: `make suites` asks for it with
// MILLRACE_IMAGE_BUILD.
func TestBuild(t *testing.T) {
	if os.Getenv("MILLRACE_IMAGE_BUILD") == "" {
		t.Skip("make suites builds the images")
	}
	need(t, "buildah", "busybox", "go")
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	busybox(t, base)
	buildah := func(args ...string) string {
		t.Helper()
		c := exec.Command("buildah", append([]string{"--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}, args...)...)
		c.Dir = root
		out, err := c.Output()
		if err != nil {
			t.Fatalf("buildah %v: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	c := buildah("from", "scratch")
	buildah("add", "-q", c, base, "/")
	buildah("commit", "-q", c, "localhost/base")
	// The toolchain and the modules come from this machine, so that the build asks no network.
	for _, e := range []string{"PATH=/usr/local/go/bin:/bin:/usr/bin", "GOPATH=/go", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off"} {
		buildah("config", "--env", e, c)
	}
	buildah("commit", "-q", c, "localhost/go")
	for target, whole := range map[string]func(*testing.T, string) image{"kafka": kafkaImage, "bare": bareImage} {
		buildah("bud", "-q", "--pull-never", "--isolation", "chroot", "-f", "docker/Dockerfile", "--target", target, "--build-arg", "GO_IMAGE=localhost/go", "--build-arg", "BASE_IMAGE=localhost/base",
			"-v", value(t, "GOROOT")+":/usr/local/go:ro", "-v", value(t, "GOMODCACHE")+":/go/pkg/mod:ro", "-t", "localhost/"+target, ".")
		built := buildah("mount", buildah("from", "--pull-never", "localhost/"+target))
		together := whole(t, filepath.Join(dir, target)).dir
		// What the engine itself makes at start is in the one and not in the other, as are the places of the mounts
		// above and the files that the builder puts into every container.
		given := map[string]bool{"/dev": true, "/proc": true, "/sys": true, "/etc": target == "bare", "/root": true, "/run": true,
			"/usr/local": true, "/usr/local/go": true, "/go": true, "/go/pkg": true, "/go/pkg/mod": true,
			"/etc/hosts": true, "/etc/hostname": true, "/etc/resolv.conf": true}
		got, want := tree(t, built), tree(t, together)
		for path, what := range want {
			if got[path] != what && !given[path] {
				t.Errorf("%s: %s is %q in the built image, %q in the tests'", target, path, got[path], what)
			}
		}
		for path, what := range got {
			if _, ok := want[path]; !ok && !given[path] && !strings.HasPrefix(path, "/run") {
				t.Errorf("%s: %s (%s) is in the built image only", target, path, what)
			}
		}
	}
}

func value(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tree lists a file system: by path the mode, owner, and where a link leads. The binary's own size is not compared.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out, err := exec.Command("find", root, "-mindepth", "1", "-printf", `/%P\t%M %U %G %l\n`).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	sort.Strings(lines)
	files := map[string]string{}
	for _, line := range lines {
		path, what, _ := strings.Cut(line, "\t")
		files[path] = what
	}
	return files
}
