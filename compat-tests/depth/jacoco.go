package depth

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// jacoco is the version of JaCoCo, and its jars as Maven names them.
const jacoco = "0.8.15"

var jars = map[string]string{
	"agent.jar": "org.jacoco:org.jacoco.agent:" + jacoco + ":jar:runtime",
	"cli.jar":   "org.jacoco:org.jacoco.cli:" + jacoco + ":jar:nodeps",
}

// included are the packages whose classes the agent counts in.
const included = "kafka.server.*:kafka.cluster.*:org.apache.kafka.storage.internals.*:org.apache.kafka.coordinator.*:org.apache.kafka.controller.*:org.apache.kafka.server.*"

// Agent is JaCoCo's agent in a Kafka that may be restarted.
type Agent struct {
	home, scratch string
	port          int
}

// NewAgent fetches JaCoCo with Maven, once, into a directory, and takes a free
// port for an agent. What that counts is kept in a scratch directory.
func NewAgent(ctx context.Context, home, scratch string) (*Agent, error) {
	home = filepath.Join(home, jacoco)
	for name, artifact := range jars {
		path := filepath.Join(home, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := fetch(ctx, home, name, artifact); err != nil {
			return nil, err
		}
	}
	for range 100 {
		// Below the ports that the system gives to whoever asks for any.
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return &Agent{home: home, scratch: scratch, port: l.Addr().(*net.TCPAddr).Port}, nil
		}
	}
	return nil, errors.New("no port is free for JaCoCo's agent")
}

// fetch brings one jar to its place.
func fetch(ctx context.Context, home, name, artifact string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("fetching JaCoCo needs mvn, which is not installed")
	}
	dir, err := os.MkdirTemp("", "jacoco-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy", "-Dartifact="+artifact, "-DoutputDirectory="+dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetching %s with Maven: %w\n%s", artifact, err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("fetching %s with Maven brought %d jars", artifact, len(found))
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	// A jar is there whole or not at all.
	half := filepath.Join(home, name+".half")
	if err := os.WriteFile(half, text, 0o644); err != nil {
		return err
	}
	return os.Rename(half, filepath.Join(home, name))
}

// JVM is the argument that has a java run with the agent.
func (a *Agent) JVM() string {
	return fmt.Sprintf("-javaagent:%s=output=tcpserver,address=127.0.0.1,port=%d,dumponexit=false,includes=%s", filepath.Join(a.home, "agent.jar"), a.port, included)
}

func (a *Agent) data() string { return filepath.Join(a.scratch, "jacoco.exec") }

// Collect keeps what was reached since the agent's java started: it is called
// before that ends.
func (a *Agent) Collect(ctx context.Context) error {
	return a.cli(ctx, "dump", "--address", "127.0.0.1", "--port", fmt.Sprint(a.port), "--destfile", a.data())
}

// Report says what was reached, up to what was collected last. libs is where
// Kafka's jars lie.
func (a *Agent) Report(ctx context.Context, libs string) (*Report, error) {
	report, files := filepath.Join(a.scratch, "report.xml"), filepath.Join(a.scratch, "classes")
	if err := classFiles(libs, files); err != nil {
		return nil, err
	}
	if err := a.cli(ctx, "report", a.data(), "--classfiles", files, "--xml", report); err != nil {
		return nil, err
	}
	f, err := os.Open(report)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if keep := os.Getenv("MILLRACE_ORACLE_DEPTH_XML"); keep != "" {
		text, err := io.ReadAll(f)
		if err == nil {
			err = os.WriteFile(keep, text, 0o644)
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			return nil, err
		}
	}
	return Parse(f)
}

func (a *Agent) cli(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "java", append([]string{"-jar", filepath.Join(a.home, "cli.jar")}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("JaCoCo's %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// classFiles takes the class files of all parts out of Kafka's jars.
func classFiles(libs, to string) error {
	wanted := map[string]bool{}
	for _, p := range parts {
		for _, c := range p.classes {
			wanted[c] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(libs, "kafka*.jar"))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, path := range found {
		if err := unpack(path, to, func(name string) bool {
			base, ok := strings.CutSuffix(name, ".class")
			base, _, _ = strings.Cut(base, "$")
			if ok && wanted[base] {
				seen[base] = true
				return true
			}
			return false
		}); err != nil {
			return err
		}
	}
	for c := range wanted {
		if !seen[c] {
			return fmt.Errorf("no jar in %s has the class %s", libs, c)
		}
	}
	return nil
}

func unpack(path, to string, wanted func(string) bool) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !wanted(f.Name) {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%s in %s: %w", f.Name, path, err)
		}
		text, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return fmt.Errorf("%s in %s: %w", f.Name, path, err)
		}
		at := filepath.Join(to, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
