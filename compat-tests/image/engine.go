//go:build compat

package image

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses of the imitated machine: its containers' bridge, and the network that it has to the rest of the world.
const (
	bridgeAddress = "172.17.0.1"
	hostAddress   = "192.0.2.10"
)

var hosts atomic.Int32

// host is a machine that runs containers: a network namespace with a bridge.
type host struct {
	t          *testing.T
	ns         string
	containers int
}

// newHost makes the machine, and takes it down at the test's end.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, ns: fmt.Sprintf("mr%dh%d", os.Getpid(), hosts.Add(1))}
	run(t, "ip", "netns", "add", h.ns)
	t.Cleanup(func() {
		if err := try("ip", "netns", "del", h.ns); err != nil {
			t.Error(err)
		}
	})
	for _, args := range []string{
		"link set lo up",
		"link add docker0 type bridge", "addr add " + bridgeAddress + "/16 dev docker0", "link set docker0 up",
		"link add eth0 type bridge", "addr add " + hostAddress + "/24 dev eth0", "link set eth0 up",
	} {
		run(t, "ip", append([]string{"-n", h.ns}, strings.Fields(args)...)...)
	}
	h.inside(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) })
	return h
}

// inside runs a function on a thread that is in the machine's network.
func (h *host) inside(f func() error) {
	h.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := os.Open("/run/netns/" + h.ns)
		if err != nil {
			done <- err
			return
		}
		defer fd.Close()
		if err := unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		h.t.Fatal(err)
	}
}

// publish does what an engine does for -p PORT:INNER: a proxy for the machine's own loopback, and translation of addresses for
// whatever else comes to the port, the machine's own connections to its outer address included.
func (h *host) publish(port, inner int, c *container) {
	h.t.Helper()
	h.inside(func() error {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { l.Close() })
		go h.proxy(l, fmt.Sprintf("%s:%d", c.ip, inner))
		return nil
	})
	rules := fmt.Sprintf(`table ip nat%d {
		chain pre { type nat hook prerouting priority -100; ip daddr %s tcp dport %d dnat to %s:%d; }
		chain out { type nat hook output priority -100; ip daddr %s tcp dport %d dnat to %s:%d; }
		chain post { type nat hook postrouting priority 100; oifname "docker0" ct status dnat ip saddr %s masquerade; }
	}`, port, hostAddress, port, c.ip, inner, hostAddress, port, c.ip, inner, hostAddress)
	nft := exec.Command("ip", "netns", "exec", h.ns, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(rules)
	if out, err := nft.CombinedOutput(); err != nil {
		h.t.Fatalf("nft: %v\n%s\n%s", err, out, rules)
	}
}

// proxy is the engine's userland proxy.
func (h *host) proxy(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			var out net.Conn
			done := make(chan error, 1)
			go func() {
				runtime.LockOSThread()
				fd, err := os.Open("/run/netns/" + h.ns)
				if err == nil {
					err = unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET)
					fd.Close()
				}
				if err == nil {
					out, err = net.Dial("tcp4", to)
				}
				done <- err
			}()
			if <-done != nil {
				return
			}
			defer out.Close()
			go func() { io.Copy(out, in); out.(*net.TCPConn).CloseWrite() }()
			io.Copy(in, out)
		}()
	}
}

// container is one process tree with a root directory, a network address and a log.
type container struct {
	t    *testing.T
	h    *host
	name string // its host name
	ns   string
	ip   string
	root string
	img  image
	env  []string
	cmd  *exec.Cmd

	mu     sync.Mutex
	log    strings.Builder
	exited chan struct{}
}

// Write takes what the container prints.
func (c *container) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *container) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// create makes a container without starting it, so that files can be put into it and its address is known.
func (h *host) create(img image, env ...string) *container {
	h.t.Helper()
	h.containers++
	n := h.containers
	c := &container{t: h.t, h: h, img: img, env: env, name: fmt.Sprintf("kafka%d", n), ns: fmt.Sprintf("%sc%d", h.ns, n), ip: fmt.Sprintf("172.17.0.%d", n+1)}
	c.root = filepath.Join(h.t.TempDir(), c.name)
	run(h.t, "cp", "-a", img.dir, c.root)
	run(h.t, "ip", "netns", "add", c.ns)
	h.t.Cleanup(func() {
		if err := try("ip", "netns", "del", c.ns); err != nil {
			h.t.Error(err)
		}
	})
	outer := fmt.Sprintf("veth%d", n)
	run(h.t, "ip", "-n", h.ns, "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", c.ns)
	for _, args := range []string{"link set " + outer + " master docker0", "link set " + outer + " up"} {
		run(h.t, "ip", append([]string{"-n", h.ns}, strings.Fields(args)...)...)
	}
	for _, args := range []string{"link set lo up", "addr add " + c.ip + "/16 dev eth0", "link set eth0 up", "route add default via " + bridgeAddress} {
		run(h.t, "ip", append([]string{"-n", c.ns}, strings.Fields(args)...)...)
	}
	if err := os.MkdirAll(filepath.Join(c.root, "etc"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	write(h.t, filepath.Join(c.root, "etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n"+c.ip+" "+c.name+" broker\n", 0o644)
	return c
}

// enter is the start of a command line that runs something in the container's network and root, as its user.
func (c *container) enter(words []string) []string {
	script := `set -e
root=$1 name=$2 user=$3; shift 3
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
hostname "$name"
exec chroot --userspec="$user" "$root" "$@"`
	args := []string{"netns", "exec", c.ns, "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child=KILL", "sh", "-c", script, "sh", c.root, c.name, c.img.user}
	return append(args, words...)
}

func (c *container) environment() []string {
	return append(append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + c.name}, c.img.env...), c.env...)
}

// start runs the container's own command, or another one in its place.
func (c *container) start(command ...string) {
	c.t.Helper()
	if command == nil {
		command = c.img.cmd
	}
	c.cmd = exec.Command("ip", c.enter(command)...)
	c.cmd.Env = c.environment()
	c.cmd.Stdout, c.cmd.Stderr = c, c
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.exited = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		// Pdeathsig is of the thread that starts a process, and some here end with their goroutines: this one stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if started <- err; err != nil {
			return
		}
		c.cmd.Wait()
		close(c.exited)
	}()
	if err := <-started; err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		c.kill()
		if c.t.Failed() {
			c.t.Logf("log of %s:\n%s", c.name, c.logged())
		}
	})
}

func (c *container) kill() {
	syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.exited
}

// stop does what an engine's stop does: SIGTERM to the container's first process, then a wait.
func (c *container) stop() error {
	pid, err := c.first()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("it did not stop within 20 seconds of SIGTERM")
	}
}

// first is the container's process 1 as the machine numbers it: the child of unshare.
func (c *container) first() (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // pid (name) state parent ...
		var state string
		var parent, pid int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != c.cmd.Process.Pid {
			continue
		}
		_, err = fmt.Sscan(string(text), &pid)
		return pid, err
	}
	return 0, errors.New("the container has no first process")
}

// waitFor waits until the container has printed a line.
func (c *container) waitFor(text string) {
	c.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if strings.Contains(c.logged(), text) {
			return
		}
		select {
		case <-c.exited:
			if strings.Contains(c.logged(), text) {
				return
			}
			c.t.Fatalf("the container ended without %q:\n%s", text, c.logged())
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.t.Fatalf("the container did not print %q:\n%s", text, c.logged())
}

// exec runs a command beside the container's own, as an engine's exec does, and gives what it printed and its exit code. It
// shares the network and the root; processes of the container are not seen.
func (c *container) exec(words ...string) (string, int) {
	c.t.Helper()
	cmd := exec.Command("ip", c.enter(words)...)
	cmd.Env = c.environment()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// put copies a file into the container, as an engine's cp does.
func (c *container) put(path, text string, mode os.FileMode) {
	c.t.Helper()
	at := filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		c.t.Fatal(err)
	}
	write(c.t, at, text, mode)
}
