//go:build compat

package applications

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"millrace/compat-tests/launch"
)

// install fetches the jars that folder/pom.xml names and compiles folder/src, if there is one, into .cache/applications;
// it does nothing when that is up to date. It returns the class path's folders.
func install(t *testing.T, folder string) (libs, classes string) {
	t.Helper()
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	pom := filepath.Join(root, "compat-tests", "applications", folder, "pom.xml")
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(pom), "src", "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	for _, f := range append([]string{pom}, sources...) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%d\n%s", len(text), text)
	}
	want := fmt.Appendf(nil, "%x\n", hash.Sum(nil))
	home := filepath.Join(root, ".cache", "applications", folder)
	libs, classes = filepath.Join(home, "libs"), filepath.Join(home, "classes")
	done := filepath.Join(home, "installed")
	if have, err := os.ReadFile(done); err == nil && bytes.Equal(have, want) {
		return libs, classes
	}
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("Kafka's applications need %s (a JDK of version 17 or newer, and Maven), which is not installed.", program)
		}
	}
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(classes, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+libs)
	if len(sources) > 0 {
		run(t, "javac", append([]string{"--release", "17", "-Xlint:all,-processing,-classfile", "-Werror", "-d", classes, "-cp", libs + "/*"}, sources...)...)
	}
	if err := os.WriteFile(done, want, 0o644); err != nil {
		t.Fatal(err)
	}
	return libs, classes
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// program is a running Java program.
type program struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // valid when exited is closed
}

// java starts a class. It is ended with the test, and its log is shown when the test has failed.
func java(t *testing.T, classPath, class string, args ...string) *program {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	flags := []string{"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.logFile=System.err",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", classPath, class}
	p := &program{name: class, cmd: exec.Command("java", append(flags, args...)...), log: log.Name(), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, dieWithParent()
	p.cmd.Dir = t.TempDir()
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s (is Java installed?): %v", class, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", class, p.tail())
		}
	})
	return p
}

func (p *program) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-32<<10):])
}

// kill ends the program as a crash does.
func (p *program) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// stop lets the program close what it has open. Java's programs end with 143 on SIGTERM, or 0 or 130.
func (p *program) stop(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(limit):
		// Java answers SIGQUIT with the stacks of its threads, in the log.
		p.cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(time.Second)
		p.kill()
		t.Fatalf("%s was still running %v after SIGTERM", p.name, limit)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && !slices.Contains([]int{130, 143}, exit.ExitCode()) && !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("%s ended with %v", p.name, p.err)
	}
}

// eventually asks until it is answered with nil, for at most the limit. A program that ends in the meantime ends the
// waiting; there may be none.
func eventually(t *testing.T, limit time.Duration, p *program, ask func() error) {
	t.Helper()
	if p == nil {
		p = &program{}
	}
	deadline := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
		select {
		case <-p.exited:
			t.Fatalf("%s ended by itself (%v), while waiting: %v", p.name, p.err, err)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
