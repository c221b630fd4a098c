package disk

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Reading a file is not noted in it: what is noted goes through the file system's
// journal, for which a read would wait.
func TestReadsAreNotNoted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("some bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	if err := os.Chtimes(name, old, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []Flag{0, Write} {
		f, err := OS{}.Open(name, flag)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != "some bytes" {
			t.Fatalf("read %q: %v", b, err)
		}
		f.Close()
		i, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		s := i.Sys().(*syscall.Stat_t)
		if at := time.Unix(s.Atim.Unix()); !at.Equal(old) {
			t.Errorf("flag %v: the file was read at %v, it says", flag, at)
		}
	}
}

// Somebody else's file, which one may read, is opened all the same.
func TestFilesOfOthersAreRead(t *testing.T) {
	const name = "/etc/passwd"
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread goes with the goroutine
		if os.Getuid() == 0 {
			if _, err := unix.SetfsuidRetUid(65534); err != nil {
				errs <- err
				return
			}
		}
		if fd, err := syscall.Open(name, syscall.O_NOATIME, 0); err != syscall.EPERM {
			syscall.Close(fd)
			t.Logf("the system lets everybody read a file without noting it: %v", err)
		}
		f, err := OS{}.Open(name, 0)
		if err == nil {
			err = f.Close()
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		t.Error(err)
	}
}
