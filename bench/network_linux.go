package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// congestionFile is what TCP does when it believes that a path is full.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// inOwnNetwork runs this program once more in a network of its own, that has a
// loopback and nothing else, where TCP is as most systems have it. On a system
// whose connections pace what they send (BBR) a connection over loopback is
// now three times as dear as the next and now not, whoever serves. done says
// that the other one has run, or that it could not: then err is nil, and why is
// said.
func inOwnNetwork(ctx context.Context) (done bool, why string, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, "", err
	}
	cmd := exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "-network", "here")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// It goes when this one does, which the system tells by the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return false, err.Error(), nil
	}
	if err = cmd.Wait(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			os.Exit(max(failed.ExitCode(), 1))
		}
	}
	return true, "", err
}

// setUpNetwork makes the loopback of a new network usable.
func setUpNetwork() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set up a network: %w", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err == nil {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err != nil {
		return fmt.Errorf("set up loopback: %w", err)
	}
	// What only an administrator of the whole system may choose is not to be had
	// here; between two ends of a loopback that loses nothing reno is what cubic is.
	if err := os.WriteFile(congestionFile, []byte("reno"), 0o644); err != nil {
		// As in a container whose /proc/sys is not to be written: the figures' page says which it was.
		fmt.Fprintf(os.Stderr, "TCP stays as the system has it: %v\n", err)
	}
	return nil
}

// network says in words how TCP sends.
func network() string {
	b, err := os.ReadFile(congestionFile)
	if err != nil {
		return ""
	}
	return "TCP with " + strings.TrimSpace(string(b))
}
