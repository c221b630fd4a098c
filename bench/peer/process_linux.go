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

// Resident is a process's resident memory in bytes, mapped files included.
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d tells no resident memory", pid)
}
