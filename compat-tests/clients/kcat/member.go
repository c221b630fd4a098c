package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

// format is how kcat prints a record: numbers and lengths in one line, then the bytes themselves.
const format = `%p %o %T %K %S\n%k%s\n`

// readPrinted reads one record in that format; io.EOF when there is none.
func readPrinted(r *bufio.Reader) (*recfile.Record, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if err == io.EOF && line != "" {
			return nil, fmt.Errorf("kcat ended inside a record: %q", line)
		}
		return nil, err
	}
	var rec recfile.Record
	var keyLen, valueLen int
	if _, err := fmt.Sscanf(line, "%d %d %d %d %d\n", &rec.Partition, &rec.Offset, &rec.Timestamp, &keyLen, &valueLen); err != nil {
		return nil, fmt.Errorf("kcat printed %q: %w", line, err)
	}
	field := func(n int) ([]byte, error) {
		if n < 0 {
			return nil, nil
		}
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	if rec.Key, err = field(keyLen); err == nil {
		rec.Value, err = field(valueLen)
	}
	if err != nil {
		return nil, fmt.Errorf("kcat ended inside a record: %w", err)
	}
	if b, err := r.ReadByte(); err != nil || b != '\n' {
		return nil, fmt.Errorf("kcat printed no line feed after offset %d", rec.Offset)
	}
	return &rec, nil
}

// member is one kcat -G. What it prints is read ahead up to a limit; beyond it kcat waits at its output. Since kcat takes
// part in rebalances only between two records, every question of the driver lets it print some more.
type member struct {
	cmd     *exec.Cmd
	lastOut string
	waited  chan struct{}
	waitErr error

	mu       sync.Mutex
	changed  sync.Cond
	records  []*recfile.Record // printed and not yet asked for
	ahead    int               // how many may wait there
	ended    bool              // no more will come
	assigned []int32
	failed   error // in reading what it printed
}

const (
	readAhead = 2000 // records
	askAhead  = 500  // more with every question
)

// fill reads what kcat prints to its end.
func (m *member) fill(stdout io.Reader) {
	in := bufio.NewReaderSize(stdout, 1<<16)
	for {
		rec, err := readPrinted(in)
		m.mu.Lock()
		if err != nil {
			if err != io.EOF {
				m.failed = err
			}
			m.ended = true
			m.changed.Broadcast()
			m.mu.Unlock()
			io.Copy(io.Discard, in)
			return
		}
		for len(m.records) >= m.ahead {
			m.changed.Wait()
		}
		m.records = append(m.records, rec)
		m.changed.Broadcast()
		m.mu.Unlock()
	}
}

// raise lets more be read ahead.
func (m *member) raise(by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead = max(len(m.records), m.ahead) + by
	m.changed.Broadcast()
}

type members struct {
	mu   sync.Mutex
	open map[string]*member
}

func (ms *members) get(name string) (*member, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.open[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no consumer %s is open", name)
}

// end ends what is left at the end of the agent.
func (ms *members) end() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, m := range ms.open {
		m.cmd.Process.Signal(syscall.SIGTERM)
		m.raise(unlimited)
		<-m.waited
	}
}

func (k *kcat) open(r agent.Request) (any, error) {
	conf, err := k.groupConfig(r)
	if err != nil {
		return nil, err
	}
	m := &member{ahead: readAhead, waited: make(chan struct{})}
	m.changed.L = &m.mu
	m.cmd = exec.Command("kcat", "-b", k.bootstrap, "-F", conf, "-u", "-f", format, "-G", r.Group, r.Topic)
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	var readers sync.WaitGroup
	readers.Go(func() { m.watch(stderr) })
	readers.Go(func() { m.fill(stdout) })
	go func() {
		readers.Wait()
		m.waitErr = m.cmd.Wait()
		close(m.waited)
	}()
	k.members.mu.Lock()
	defer k.members.mu.Unlock()
	k.members.open[r.Consumer] = m
	return nil, nil
}

var (
	rebalanced = regexp.MustCompile(`% Group \S+ rebalanced.*: (assigned|revoked|incremental assign\S*|incremental revo\S*): ?(.*)`)
	inBrackets = regexp.MustCompile(`\[(\d+)\]`)
)

// watch follows the assignments that kcat tells of on standard error.
func (m *member) watch(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		found := rebalanced.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		var parts []int32
		for _, p := range inBrackets.FindAllStringSubmatch(found[2], -1) {
			n, err := strconv.Atoi(p[1])
			if err == nil {
				parts = append(parts, int32(n))
			}
		}
		m.mu.Lock()
		if strings.Contains(found[1], "assign") {
			m.assigned = append(m.assigned, parts...)
			slices.Sort(m.assigned)
			m.assigned = slices.Compact(m.assigned)
		} else {
			m.assigned = slices.DeleteFunc(m.assigned, func(p int32) bool { return slices.Contains(parts, p) })
		}
		m.mu.Unlock()
	}
}

func (k *kcat) consume(r agent.Request) (any, error) {
	m, err := k.members.get(r.Consumer)
	if err != nil {
		return nil, err
	}
	m.lastOut = r.Out
	count := 0
	if r.Count > 0 {
		if count, err = m.take(r.Out, r.Count, limit(r)); err != nil {
			return nil, err
		}
	} else {
		m.raise(askAhead)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]any{"count": count, "assignment": append([]int32{}, m.assigned...)}, nil
}

const unlimited = 1 << 30

// take writes count records (all that come until kcat has ended, if it is unlimited) to a file, or fewer when time is up.
func (m *member) take(path string, count int, limit time.Duration) (n int, err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	w := recfile.NewWriter(out, true)
	deadline := time.Now().Add(limit)
	wake := time.AfterFunc(limit, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})
	defer wake.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for n < count && time.Now().Before(deadline) {
		if len(m.records) == 0 {
			if m.ended {
				break
			}
			m.ahead = readAhead
			m.changed.Broadcast()
			m.changed.Wait()
			continue
		}
		some := m.records[:min(len(m.records), count-n)]
		for _, rec := range some {
			if err := w.Write(rec); err != nil {
				return n, err
			}
		}
		n += len(some)
		m.records = m.records[len(some):]
		m.changed.Broadcast()
	}
	if err := w.Flush(); err != nil {
		return n, err
	}
	if m.ended && count != unlimited && n < count {
		return n, errors.Join(errors.New("kcat has ended"), m.failed)
	}
	return n, m.failed
}

// close ends kcat, which commits what it has printed: that belongs to what was read, so it goes to the last output file.
func (k *kcat) close(r agent.Request) (any, error) {
	m, err := k.members.get(r.Consumer)
	if err != nil {
		return nil, err
	}
	k.members.mu.Lock()
	delete(k.members.open, r.Consumer)
	k.members.mu.Unlock()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	m.raise(unlimited)
	if m.lastOut != "" {
		if _, err := m.take(m.lastOut, unlimited, stepTimeout); err != nil {
			return nil, err
		}
	}
	<-m.waited
	return nil, m.waitErr
}
