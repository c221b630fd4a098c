//go:build compat

package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millrace/compat-tests/launch"
)

// image is a file system and what the Dockerfile says of it.
type image struct {
	dir  string   // where its file system stands, not to be written to
	env  []string // its ENV lines
	user string   // uid:gid
	cmd  []string // ENTRYPOINT and CMD
}

// need ends the test with a plain sentence where a program that the imitation is built on is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("the image's tests need %s (Debian: busybox-static, nftables, iproute2, util-linux)", p)
		}
	}
	if os.Geteuid() != 0 {
		t.Fatal("the image's tests make namespaces, which takes root")
	}
}

// kafkaImage puts the default image's file system together.
func kafkaImage(t *testing.T, dir string) image {
	t.Helper()
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	busybox(t, dir)
	// Files only: an empty directory of this machine's is in no clone and in no build.
	run(t, "sh", "-c", `cd "$0" && find . -type f -print0 | tar --null -c -T - | tar -x -C "$1"`, filepath.Join(root, "docker", "rootfs"), dir)
	install(t, filepath.Join(dir, "opt/millrace/millrace"))
	run(t, "chroot", dir, "/bin/sh", "/opt/millrace/install.sh")
	d := dockerfile(t, filepath.Join(root, "docker", "Dockerfile"))
	return image{dir: dir, env: d["kafka"].env, user: "1000:1000", cmd: d["kafka"].cmd}
}

// bareImage puts the second image's file system together.
func bareImage(t *testing.T, dir string) image {
	t.Helper()
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	install(t, filepath.Join(dir, "millrace"))
	run(t, "install", "-D", "-m", "644", filepath.Join(root, "docker", "bare.properties"), filepath.Join(dir, "etc/millrace/defaults.properties"))
	run(t, "install", "-d", "-o", "1000", "-g", "1000", filepath.Join(dir, "data"))
	run(t, "install", "-d", filepath.Join(dir, "proc"), filepath.Join(dir, "dev"), filepath.Join(dir, "etc"))
	d := dockerfile(t, filepath.Join(root, "docker", "Dockerfile"))
	return image{dir: dir, env: d["bare"].env, user: "1000:1000", cmd: d["bare"].cmd}
}

// busybox makes what the base image has: a shell, the usual small programs under their names, and the files of users.
func busybox(t *testing.T, dir string) {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "sbin", "usr/bin", "usr/sbin", "etc", "proc", "dev", "sys", "tmp", "root", "var", "home", "lib"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o1777); err != nil {
		t.Fatal(err)
	}
	run(t, "cp", path, filepath.Join(dir, "bin/busybox"))
	run(t, "chroot", dir, "/bin/busybox", "--install", "-s")
	write(t, filepath.Join(dir, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n", 0o644)
	write(t, filepath.Join(dir, "etc/group"), "root:x:0:\nnobody:x:65534:\n", 0o644)
}

func install(t *testing.T, at string) {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	run(t, "install", "-D", "-m", "755", binary, at)
}

// stage is what the tests must know of one stage of the Dockerfile.
type stage struct {
	env []string
	cmd []string
}

var word = regexp.MustCompile(`"([^"]*)"`)

// dockerfile reads the ENV, ENTRYPOINT and CMD lines of a Dockerfile's stages, so that what is tested is what is written there.
func dockerfile(t *testing.T, path string) map[string]stage {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stages, name := map[string]stage{}, ""
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		keyword, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := stages[name]
		switch keyword {
		case "FROM":
			name = rest[strings.LastIndex(rest, " ")+1:]
			continue
		case "ENV":
			s.env = append(s.env, strings.Fields(rest)...)
		case "ENTRYPOINT", "CMD":
			for _, w := range word.FindAllStringSubmatch(rest, -1) {
				s.cmd = append(s.cmd, w[1])
			}
		}
		stages[name] = s
	}
	return stages
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// run carries out a command that has to succeed.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(append([]string{name}, args...), " "), err, out)
	}
}

// try carries out a command whose failure is told.
func try(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
