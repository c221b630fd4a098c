// Package peer starts what the benchmarks measure, each as a process of its own
// on loopback with a fresh directory: Millrace, Apache Kafka, franz-go's kfake,
// and the floor. It reads what a process has used.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// The names of the subjects.
const (
	Millrace = "Millrace"
	Kafka    = "Kafka"
	Kfake    = "kfake"
	Floor    = "floor"
)

// Peer is a running server.
type Peer struct {
	Name string
	Addr string // HOST:PORT
	PID  int
	Dir  string // where its data lies
	// Began is when its process was started; what Kafka's formatting takes lies
	// before.
	Began time.Time
	HTTP  string // where Millrace serves profiles, if it was asked to

	stop, again func() error
}

// Stop ends the process and removes its data.
func (p *Peer) Stop() error {
	return errors.Join(p.stop(), os.RemoveAll(p.Dir))
}

// CPU is the processor time that the peer has used since it started.
func (p *Peer) CPU() (time.Duration, error) { return CPU(p.PID) }

// JVM is how Kafka's own scripts start a broker, instead of how tests that only
// compare answers do.
var JVM = []string{"-Xms1G", "-Xmx1G", "-server", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"}

// Properties are set on every peer that has them: what was deleted is gone
// soon, so that the figures of a run of an hour find memory and disk as the
// first ones did. All others are each server's own defaults.
var Properties = map[string]string{"log.segment.delete.delay.ms": "200"}

// Fetch gets what peers need that is not here yet, so that they can be started
// where nothing can be fetched.
func Fetch(ctx context.Context, names []string) error {
	if slices.Contains(names, Kafka) {
		if _, err := kafka.Install(ctx, kafka.Newest); err != nil {
			return err
		}
	}
	if slices.Contains(names, Kfake) {
		if _, err := buildKfake(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a peer by name on a directory made in work.
func Start(ctx context.Context, name, work string) (*Peer, error) {
	dir, err := os.MkdirTemp(work, name+"-")
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: name, Dir: dir}
	switch name {
	case Millrace:
		err = p.millrace(launch.Options{Args: []string{"--log-level", "warn"}})
	case Kafka:
		err = p.kafka(ctx)
	case Kfake:
		err = p.kfake(ctx)
	case Floor:
		err = p.floor()
	default:
		err = errors.New("no such peer")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), os.RemoveAll(dir))
	}
	return p, nil
}

// StartProfiled starts a Millrace that serves profiles.
func StartProfiled(work string) (*Peer, error) {
	dir, err := os.MkdirTemp(work, "profiled-")
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: Millrace, Dir: dir}
	if p.HTTP, err = launch.FreeAddress(); err == nil {
		err = p.millrace(launch.Options{Args: []string{"--http-address", p.HTTP, "--http-pprof", "--log-level", "warn"}})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Millrace for a profile: %w", err), os.RemoveAll(dir))
	}
	return p, nil
}

// StartWith starts a Millrace with more configs and gives away its log.
func StartWith(work string, log io.Writer, overrides ...string) (*Peer, error) {
	dir, err := os.MkdirTemp(work, "millrace-")
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: Millrace, Dir: dir}
	if err := p.millrace(launch.Options{Log: log, Overrides: overrides}); err != nil {
		return nil, errors.Join(fmt.Errorf("start Millrace: %w", err), os.RemoveAll(dir))
	}
	return p, nil
}

func (p *Peer) millrace(o launch.Options) error {
	again := o
	o.Dir, o.Overrides = filepath.Join(p.Dir, "data"), slices.Clone(o.Overrides)
	for k, v := range Properties {
		o.Overrides = append(o.Overrides, k+"="+v)
	}
	p.Began = time.Now()
	b, err := launch.Start(o)
	if err != nil {
		return err
	}
	p.Addr, p.PID, p.stop = b.Bootstrap, b.Pid(), b.Stop
	p.again = func() error {
		b.Kill()
		return p.millrace(again)
	}
	return nil
}

// Restart ends a Millrace as kill -9 does and starts it on the same directory.
func (p *Peer) Restart() error {
	if err := p.again(); err != nil {
		p.stop = func() error { return nil }
		return fmt.Errorf("start Millrace again: %w", err)
	}
	return nil
}

func (p *Peer) kafka(ctx context.Context) error {
	s, err := kafka.Start(ctx, kafka.Options{Dir: p.Dir, JVM: JVM, Properties: Properties})
	if err != nil {
		return err
	}
	p.Began = time.Now().Add(-s.Took)
	p.Addr, p.PID = s.Bootstrap, s.PID()
	p.stop = func() error { s.Stop(); return nil }
	return nil
}

func (p *Peer) kfake(ctx context.Context) error {
	binary, err := buildKfake(ctx)
	if err != nil {
		return err
	}
	return p.program(binary, filepath.Join(p.Dir, "data"))
}

func buildKfake(ctx context.Context) (string, error) {
	root, err := launch.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, ".cache", "bench", "kfake")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, ".")
	cmd.Dir = filepath.Join(root, "bench", "kfake")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kfake: %w\n%s", err, out)
	}
	return binary, nil
}

func (p *Peer) floor() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return p.program(self, "-floor", p.Dir)
}

// program starts one of ours: it prints a line with its address and serves
// until its standard input ends, which it does when this process dies.
func (p *Peer) program(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.Began = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	p.stop = func() error {
		in.Close()
		timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		defer timer.Stop()
		_, err := io.Copy(io.Discard, out)
		return errors.Join(err, cmd.Wait())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "bootstrap.servers=")
	if err != nil || !ok {
		return errors.Join(fmt.Errorf("not ready: %q", line), err, p.stop())
	}
	p.Addr, p.PID = addr, cmd.Process.Pid
	return nil
}
