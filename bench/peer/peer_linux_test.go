package peer

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The clock of another process agrees with what /proc/PID/stat tells of it, and
// counts the threads that have ended.
func TestCPUOfAnotherProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	state, before := "", time.Duration(0)
	for state != "S" { // until it reads
		time.Sleep(20 * time.Millisecond)
		state, before = stat(t, cmd.Process.Pid)
	}
	got, err := CPU(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_, after := stat(t, cmd.Process.Pid)
	const tick = 10 * time.Millisecond
	if got < before-2*tick || got > after+2*tick || got == 0 {
		t.Errorf("the clock says %v, /proc between %v and %v", got, before, after)
	}
	if _, err := CPU(1<<22 - 1); err == nil {
		t.Error("the clock of a process that is not there was read")
	}
	if n, err := Resident(os.Getpid()); err != nil || n.Own < 1<<20 || n.Own > n.All || n.All > 1<<34 {
		t.Errorf("resident %+v, %v", n, err)
	}
}

func stat(t *testing.T, pid int) (state string, used time.Duration) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return f[0], time.Duration(user+system) * 10 * time.Millisecond
}
