package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// syncs counts how many syncs of the disk an acknowledged record costs where every record waits for one
// (flush.messages=1): alone, and with others that share it. Beside it stands what a program does that writes and syncs as
// many records one after another.
func syncs(work string) error {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil // said already
	}
	m, err := launch("bin/millrace", "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+work+"/syncs",
		"--override", "log.flush.interval.messages=1", "--log-level", "error")
	if err != nil {
		return err
	}
	defer m.stop()
	if err := firstRecord(m.addr); err != nil {
		return err
	}
	fmt.Println()
	const each = 200
	floor, err := syncedWrites(filepath.Join(work, "floor-writes"), each)
	if err != nil {
		return err
	}
	fmt.Printf("  %-48s %9.0f records/s\n", "floor program: write, fsync", floor)
	for _, producers := range []int{1, 16} {
		rate, err := produceFrom(m.addr, producers, each)
		if err != nil {
			return err
		}
		report := filepath.Join(work, "strace-syncs")
		st := exec.Command("strace", "-f", "-c", "-e", "trace=fdatasync,fsync", "-o", report, "-p", strconv.Itoa(m.cmd.Process.Pid))
		if err := st.Start(); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		_, err = produceFrom(m.addr, producers, each)
		st.Process.Signal(syscall.SIGINT)
		st.Wait()
		if err != nil {
			return err
		}
		count := 0
		b, err := os.ReadFile(report)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) >= 5 && strings.HasSuffix(f[len(f)-1], "sync") {
				n, _ := strconv.Atoi(f[3])
				count += n
			}
		}
		fmt.Printf("  %-48s %9.0f records/s %6.1f x floor, %.2f syncs for each\n",
			fmt.Sprintf("flush.messages=1, acks=all, %d at a time", producers), rate, rate/floor, float64(count)/float64(producers*each))
	}
	return nil
}

// produceFrom sends records of 1 KiB from so many connections, each waiting for its acknowledgement, and says how many
// came through in a second.
func produceFrom(addr string, producers, each int) (float64, error) {
	errs := make(chan error, producers)
	var wg sync.WaitGroup
	begun := time.Now()
	for range producers {
		wg.Go(func() {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer nc.Close()
			f := produceFrame(1024)
			for range each {
				if _, err := exchange(nc, f); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(producers*each) / time.Since(begun).Seconds(), nil
	}
}

// syncedWrites writes and syncs n pieces of 1 KiB, and says how many it did in a second.
func syncedWrites(path string, n int) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	begun := time.Now()
	for range n {
		if _, err := f.Write(make([]byte, 1024)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
