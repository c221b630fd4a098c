// Command figures prints what Millrace costs: time from exec to readiness and
// to the first acknowledged record, resident memory when idle, system calls and
// allocations per Produce and per Fetch. Each figure stands beside a floor or a
// peer measured in the same run: a program of a few lines that opens bbolt,
// syncs one write and listens; and, with -kafka, Apache Kafka itself.
//
//	go run ./bench/figures [-rounds 9] [-kafka]
//
// Figures depend on the machine and on what else it does; ratios less so.
// System calls are counted with strace, where it is installed.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/bbolt"

	"millrace/compat-tests/kafka"
)

func main() {
	rounds := flag.Int("rounds", 9, "how often each start is measured")
	peer := flag.Bool("kafka", false, "start Apache Kafka too")
	floor := flag.String("floor", "", "be the floor program, with this directory")
	flag.Parse()
	if *floor != "" {
		beFloor(*floor)
		return
	}
	if err := run(*rounds, *peer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beFloor is the least that a broker with durable metadata does before it is
// ready.
func beFloor(dir string) {
	db, err := bbolt.Open(filepath.Join(dir, "floor.db"), 0o644, nil)
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists([]byte("b"))
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("floor ready bootstrap.servers=%s\n", l.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// process is a started program that prints one line with its address.
type process struct {
	cmd   *exec.Cmd
	addr  string
	ready time.Duration
	begun time.Time
}

var address = regexp.MustCompile(`bootstrap\.servers=([^, ]+)`)

func launch(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line := make([]byte, 512)
	n, err := out.Read(line)
	p.ready = time.Since(p.begun)
	m := address.FindSubmatch(line[:n])
	if err != nil || m == nil {
		p.stop()
		return nil, fmt.Errorf("%s did not become ready: %q %v", name, line[:n], err)
	}
	p.addr = string(m[1])
	return p, nil
}

func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
}

// resident is the process's resident memory in KiB.
func (p *process) resident() int { return residentOf(p.cmd.Process.Pid) }

func residentOf(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

func run(rounds int, peer bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "figures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var floorReady, freshReady, freshFirst, againReady []time.Duration
	var floorMemory, memory []int
	for i := range rounds {
		dir := filepath.Join(work, strconv.Itoa(i))
		os.Mkdir(dir, 0o755)
		f, err := launch(self, "-floor", dir)
		if err != nil {
			return err
		}
		floorReady = append(floorReady, f.ready)
		serve := []string{"serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs=" + dir + "/data", "--log-level", "error"}
		m, err := launch("bin/millrace", serve...)
		if err != nil {
			return err
		}
		freshReady = append(freshReady, m.ready)
		if err := firstRecord(m.addr); err != nil {
			return err
		}
		freshFirst = append(freshFirst, time.Since(m.begun))
		m.stop()
		if m, err = launch("bin/millrace", serve...); err != nil {
			return err
		}
		againReady = append(againReady, m.ready)
		time.Sleep(300 * time.Millisecond)
		floorMemory, memory = append(floorMemory, f.resident()), append(memory, m.resident())
		f.stop()
		m.stop()
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	base := ms(median(floorReady))
	fmt.Printf("medians of %d rounds\n\n", rounds)
	row := func(what string, v, floor float64, unit string) {
		fmt.Printf("  %-48s %9.1f %-4s %6.1f x floor\n", what, v, unit, v/floor)
	}
	row("floor program: exec to listening", base, base, "ms")
	row("exec to ready, empty directory", ms(median(freshReady)), base, "ms")
	row("exec to first acknowledged record, empty directory", ms(median(freshFirst)), base, "ms")
	row("exec to ready, again", ms(median(againReady)), base, "ms")
	floorMiB := float64(median(floorMemory)) / 1024
	row("floor program: resident, idle", floorMiB, floorMiB, "MiB")
	row("resident, idle", float64(median(memory))/1024, floorMiB, "MiB")
	if peer {
		if err := beside(ms(median(freshReady))); err != nil {
			return err
		}
	}
	if err := calls(work); err != nil {
		return err
	}
	if err := syncs(work); err != nil {
		return err
	}
	return allocations()
}

func median[T int | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

// beside starts Apache Kafka on an empty directory.
func beside(ours float64) error {
	if _, err := kafka.Install(context.Background(), kafka.Newest); err != nil {
		return err
	}
	s, err := kafka.Start(context.Background(), kafka.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	took := float64(s.Took.Microseconds()) / 1000
	fmt.Printf("  %-48s %9.1f ms   %6.1f x Millrace\n", "Apache Kafka "+kafka.Newest+": exec to ready", took, took/ours)
	fmt.Printf("  %-48s %9.1f MiB\n", "Apache Kafka "+kafka.Newest+": resident, idle", float64(residentOf(s.PID()))/1024)
	return nil
}

// calls counts the system calls of the two walks with strace: once with idle
// connections, once with so many requests more.
func calls(work string) error {
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Println("\n  system calls: strace is not installed")
		return nil
	}
	m, err := launch("bin/millrace", "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+work+"/calls", "--log-level", "error")
	if err != nil {
		return err
	}
	defer m.stop()
	if err := firstRecord(m.addr); err != nil {
		return err
	}
	fmt.Println()
	for _, w := range []struct {
		name  string
		frame []byte
	}{{"Produce of 1 KiB", produceFrame(1024)}, {"Fetch of 1 KiB", fetchFrame(1100)}, {"Fetch of 64 KiB", fetchFrame(64 << 10)}} {
		const n = 2000
		nc, err := net.Dial("tcp", m.addr)
		if err != nil {
			return err
		}
		for range 200 {
			if _, err := exchange(nc, w.frame); err != nil {
				return err
			}
		}
		report := filepath.Join(work, "strace")
		st := exec.Command("strace", "-f", "-c", "-o", report, "-p", strconv.Itoa(m.cmd.Process.Pid))
		if err := st.Start(); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		for range n {
			if _, err := exchange(nc, w.frame); err != nil {
				return err
			}
		}
		st.Process.Signal(syscall.SIGINT)
		st.Wait()
		nc.Close()
		fmt.Printf("  %-20s %s\n", w.name, perRequest(report, n))
	}
	return nil
}

// perRequest reads strace's summary.
func perRequest(report string, n int) string {
	b, err := os.ReadFile(report)
	if err != nil {
		return err.Error()
	}
	var parts []string
	total := 0.0
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.Contains(f[0], ".") || f[len(f)-1] == "total" {
			continue
		}
		count, err := strconv.Atoi(f[3])
		if err != nil {
			continue
		}
		per := float64(count) / float64(n)
		total += per
		if per >= 0.05 {
			parts = append(parts, fmt.Sprintf("%s %.2f", f[len(f)-1], per))
		}
	}
	return fmt.Sprintf("%.1f system calls: %s", total, strings.Join(parts, ", "))
}

func allocations() error {
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "TestWalkAllocations", "./broker").CombinedOutput()
	if err != nil {
		return fmt.Errorf("counting allocations: %w\n%s", err, out)
	}
	fmt.Println()
	for _, m := range regexp.MustCompile(`(produce|fetch): ([\d.]+) allocations`).FindAllSubmatch(out, -1) {
		fmt.Printf("  %-20s %s allocations\n", m[1], m[2])
	}
	return nil
}

// firstRecord makes a topic by asking for it and produces one record with
// acks=all.
func firstRecord(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version, meta.AllowAutoTopicCreation = 9, true
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr("figures")
	meta.Topics = append(meta.Topics, t)
	if _, err := exchange(nc, frame(meta)); err != nil {
		return err
	}
	body, err := exchange(nc, produceFrame(1024))
	if err != nil {
		return err
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[5:]); err != nil {
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("the first record is refused with error %d", code)
	}
	return nil
}

func frame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("figures")).AppendRequest(nil, req, 1)
}

func exchange(nc net.Conn, frame []byte) ([]byte, error) {
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := nc.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(nc, body)
	return body, err
}
