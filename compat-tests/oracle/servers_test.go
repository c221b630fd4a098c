//go:build compat

package oracle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/compat-tests/frames"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// restartable is a server that a test has started, and that comes back at its
// address with what it has kept.
type restartable interface {
	addr() string
	end(kill bool) error
	// start starts it with some configs beside those that it always has.
	start(beside map[string]string) error
	// used is the processor time that it has taken, over all its restarts.
	used() time.Duration
}

// process is the processor time of a process and of those before it.
type process struct {
	pid  int
	past time.Duration
}

// followed is called when another process has taken its place, or before this
// one ends.
func (p *process) followed(by int) {
	p.past, p.pid = p.used(), by
}

// used is known where there is /proc.
func (p *process) used() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return p.past
	}
	// What follows the name in brackets begins with the third field; 14 and 15 are
	// the hundredths of seconds in user and system mode.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return p.past + time.Duration(ticks)*10*time.Millisecond
}

// checkpoints is how often both servers write down where logs start, and from where on
// they are to be read again: a kill -9 waits for that. Kafka forgets a start that it has
// not written yet, and what it knows of a producer after a cleaning depends on how much
// it has read again.
const checkpoints = 300 * time.Millisecond

// restartAll ends servers and starts them again.
func restartAll(how Restart, all ...restartable) error {
	var beside map[string]string
	if how.Tidying {
		beside = tidying
	}
	if how.Kill {
		time.Sleep(3 * checkpoints)
	}
	each := func(do func(restartable) error) error {
		errs := make([]error, len(all))
		var group sync.WaitGroup
		for i, x := range all {
			group.Go(func() { errs[i] = do(x) })
		}
		group.Wait()
		for i, err := range errs {
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].addr(), err)
			}
		}
		return nil
	}
	ended := each(func(x restartable) error { return x.end(how.Kill) })
	if err := errors.Join(ended, each(func(x restartable) error { return x.start(beside) })); err != nil {
		return err
	}
	return each(func(x restartable) error { return frames.WarmUp(x.addr()) })
}

// scratch is a directory for a server's data: in memory where there is enough of
// it, as no power is cut here.
func scratch(t *testing.T) string {
	t.Helper()
	const memory, enough = "/dev/shm", 6 << 30
	parent := os.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err == nil && uint64(fs.Bavail)*uint64(fs.Bsize) >= enough {
		parent = memory
	}
	sweep(parent)
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%s%d-", scratchName, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

const scratchName = "millrace-oracle-"

// sweep removes what runs have left behind that were ended before their end.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, scratchName+"*-*"))
	for _, dir := range left {
		of, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), scratchName), "-")
		if pid, err := strconv.Atoi(of); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			os.RemoveAll(dir)
		}
	}
}

// apacheKafka is a running Apache Kafka.
type apacheKafka struct {
	process
	options kafka.Options
	server  *kafka.Server
	// classes is a file for what the Java machine has read of Kafka's classes at its
	// first orderly end: each start after it takes half the processor time.
	classes string
	filling bool // classes is being made
	// said is the end of what it has logged, of warnings and worse.
	said *tail
	// again counts the starts that came to nothing and were tried once more.
	again int
}

// tail keeps the end of what is written to it, and passes all on to a file if there
// is one.
type tail struct {
	mu   sync.Mutex
	kept []byte
	file *os.File
}

const tailSize = 32 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept = append(w.kept, b...); len(w.kept) > 2*tailSize {
		w.kept = append(w.kept[:0], w.kept[len(w.kept)-tailSize:]...)
	}
	if w.file != nil {
		w.file.Write(b)
	}
	return len(b), nil
}

// take is what is kept, which is forgotten.
func (w *tail) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := string(w.kept[max(0, len(w.kept)-tailSize):])
	w.kept = w.kept[:0]
	return kept
}

func apache(t *testing.T) *apacheKafka {
	t.Helper()
	jvm := strings.Fields(os.Getenv("MILLRACE_ORACLE_JVM"))
	if jvm == nil {
		jvm = []string{"-Xmx1g"}
	}
	jvm = append(jvm, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
	dir, said := scratch(t), &tail{}
	if path := os.Getenv("MILLRACE_ORACLE_KAFKA_LOG"); path != "" {
		var err error
		if said.file, err = os.Create(path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { said.file.Close() })
	}
	k := &apacheKafka{classes: filepath.Join(dir, "classes.jsa"), said: said,
		options: kafka.Options{Version: os.Getenv("MILLRACE_ORACLE_VERSION"), Dir: dir, Properties: properties, JVM: jvm, Output: said, Logged: true}}
	if k.options.Version != kafka.Oldest {
		k.options.Features = []string{"eligible.leader.replicas.version=0"}
	}
	if err := k.start(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.end(true) })
	return k
}

func (k *apacheKafka) addr() string { return k.server.Bootstrap }

func (k *apacheKafka) start(beside map[string]string) error {
	o := k.options
	o.JVM = slices.Clone(o.JVM)
	o.Properties = maps.Clone(o.Properties)
	maps.Copy(o.Properties, beside)
	switch _, err := os.Stat(k.classes); {
	case slices.ContainsFunc(o.JVM, func(a string) bool { return strings.HasPrefix(a, "-javaagent:") }):
		// An agent changes classes as they are read: Java keeps none then.
	case err == nil:
		o.JVM = append(o.JVM, "-XX:SharedArchiveFile="+k.classes)
	default:
		k.filling = true
		o.JVM = append(o.JVM, "-XX:ArchiveClassesAtExit="+k.classes+".new")
	}
	k.said.take()
	s, err := kafka.Start(context.Background(), o)
	if errors.Is(err, kafka.ErrEnded) {
		// Whatever it found in its way, a person would start it again.
		k.again++
		fmt.Printf("Apache Kafka %v; it is started again. It had said:\n%s\n", err, k.said.take())
		s, err = kafka.Start(context.Background(), o)
	}
	if err != nil {
		return fmt.Errorf("%w; it had said:\n%s", err, k.said.take())
	}
	k.server, k.pid = s, s.PID()
	k.options.Port, k.options.Controller = port(s.Bootstrap), port(s.Controller)
	return nil
}

func port(addr string) int {
	_, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return n
}

// checkpointsAreKept waits until they have been written down once more, from begin to
// end: Kafka does that from time to time, and a busy machine takes longer.
func (k *apacheKafka) checkpointsAreKept() {
	for _, name := range []string{"log-start-offset-checkpoint", "recovery-point-offset-checkpoint"} {
		writes, last := 0, time.Now()
		for begun := last; writes < 2 && time.Since(begun) < 30*time.Second; time.Sleep(checkpoints / 10) {
			files, _ := filepath.Glob(filepath.Join(k.options.Dir, "*", name))
			for _, f := range files {
				if at, err := os.Stat(f); err == nil && at.ModTime().After(last) {
					writes, last = writes+1, at.ModTime()
				}
			}
		}
	}
}

// fallen says whether it has ended without being told to, and prints what it had said.
func (k *apacheKafka) fallen() bool {
	if !k.server.Ended() {
		return false
	}
	if said := k.said.take(); said != "" {
		said = said[max(0, len(said)-8<<10):]
		fmt.Printf("Apache Kafka has ended by itself. It had said:\n%s\n", said)
	}
	return true
}

func (k *apacheKafka) end(kill bool) error {
	k.followed(0)
	if kill && !k.server.Ended() {
		k.checkpointsAreKept()
		k.server.Kill()
	} else if !kill {
		k.server.Stop()
		if k.filling {
			k.filling = false
			os.Rename(k.classes+".new", k.classes) // without it starts are slower
		}
	}
	return nil
}

// aMillrace is a running Millrace.
type aMillrace struct {
	process
	options launch.Options
	broker  *launch.Broker
	// down, if set, is called while it is down.
	down func(dir string) error
	ends bool // it was ended, and not started since
	// fails is told when it has ended by itself: nobody else need notice, as where Kafka
	// has at the same moment.
	fails func(format string, args ...any)
}

func millrace(t *testing.T) *aMillrace {
	t.Helper()
	m := &aMillrace{fails: t.Errorf}
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		m.options.Overrides = append(m.options.Overrides, k+"="+properties[k])
	}
	m.options.Overrides = append(m.options.Overrides, "controller.listener.names=CONTROLLER")
	m.options.Dir = filepath.Join(scratch(t), "data")
	for i, listener := range []string{"PLAINTEXT", "CONTROLLER"} {
		addr, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			m.options.Listen = addr
			m.options.Overrides = append(m.options.Overrides, "listeners=")
		}
		m.options.Overrides[len(m.options.Overrides)-1] += strings.Repeat(",", i) + listener + "://" + addr
	}
	if err := m.start(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.end(false); err != nil {
			t.Errorf("stopping Millrace: %v", err)
		}
	})
	return m
}

func (m *aMillrace) addr() string { return m.broker.Bootstrap }

func (m *aMillrace) start(beside map[string]string) error {
	o := m.options
	o.Overrides = slices.Clone(o.Overrides)
	for _, k := range slices.Sorted(maps.Keys(beside)) {
		o.Overrides = append(o.Overrides, k+"="+beside[k])
	}
	b, err := launch.Start(o)
	if err != nil {
		return err
	}
	m.broker, m.pid, m.ends = b, b.Pid(), false
	return nil
}

func (m *aMillrace) end(kill bool) error {
	m.followed(0)
	select {
	case <-m.broker.Exited():
		if !m.ends {
			m.fails("Millrace had ended by itself. It had said:\n%s", m.broker.Log())
		}
	default:
	}
	m.ends = true
	if kill {
		m.broker.Kill()
	} else if err := m.broker.Stop(); err != nil {
		return err
	}
	if m.down != nil {
		return m.down(m.options.Dir)
	}
	return nil
}
