package peer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that a process has used in all its threads, ended
// ones included, since it started. It reads the process's own clock, which
// counts in nanoseconds what /proc/PID/stat tells in hundredths of a second.
func CPU(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED: what the scheduler has counted
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("read the clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Memory is what a process has resident, in bytes.
type Memory struct {
	All int64
	Own int64 // without mapped files, such as the program itself
}

// Resident is what a process has resident.
func Resident(pid int) (m Memory, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		var to *int64
		switch f[0] {
		case "VmRSS:":
			to = &m.All
		case "RssAnon:":
			to = &m.Own
		default:
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return m, fmt.Errorf("read the memory of process %d: %w", pid, err)
		}
		*to = n << 10
	}
	if m.All == 0 || m.Own == 0 {
		return m, fmt.Errorf("process %d tells no resident memory", pid)
	}
	return m, nil
}
