package adopt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/disk"
)

// TestDamagedMetadata flips bits of one of four batches in the last segment. Whatever a batch behind it says was committed, so
// that only what can be the remains of a write is taken for the log's end.
func TestDamagedMetadata(t *testing.T) {
	batches := metadataLog(0, topic("a", 1, node), topic("other", 9, node), topic("c", 3, node), topic("d", 4, node))
	from := kafka(t)
	dir := filepath.Join(from, metadataDir)
	file := dir + "/" + strings.Repeat("0", 20) + ".log"
	for place, at := range map[string]int{"base offset": 7, "length": 11, "long length": 8, "magic": 16, "checksum": 18, "attributes": 22, "last offset": 26, "records": 80} {
		for _, clean := range []bool{true, false} {
			for n := range batches {
				all := bytesOf(batches)
				all[len(bytesOf(batches[:n]))+at] ^= 0x40
				write(t, file, all)
				m, err := readMetadata(disk.OS{}, dir, clean, "MkU3OEVBNTcwNTJENDM2Qg", image.Node{ID: node})
				if n == len(batches)-1 && !clean && place != "base offset" {
					if want := fmt.Sprintf("%d bytes at the end of %s, from offset 6 on, which are no whole batch", len(batches[n]), file); err != nil || m.img.NumTopics() != 3 || !slices.Equal(m.texts, []string{want}) {
						t.Errorf("%s of the last batch: %+v, %v", place, m, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), fmt.Sprint("offset ", 2*n)) {
					t.Errorf("%s of batch %d, clean %v: %+v, %v", place, n, clean, m, err)
				}
				if n == 1 && place == "records" {
					to := filepath.Join(t.TempDir(), "ours")
					if !clean {
						unclean(t, from)
					}
					if _, again := Run(Options{From: []string{from}, To: []string{to}}); again == nil || again.Error() != err.Error() {
						t.Errorf("the import says %v, and not %v", again, err)
					}
					if _, err := os.Stat(to); err == nil {
						t.Error("something was written")
					}
					write(t, filepath.Join(from, ".kafka_cleanshutdown"), nil)
				}
			}
		}
	}
}

// TestImportCutShort fails an import at each of the files that it writes, as a full disk does, and wants to be told then and by
// the next try what is to be done; nobody starts on what there is. Kafka's directory stays as it was.
func TestImportCutShort(t *testing.T) {
	from := kafka(t, bytesOf(metadataLog(0, topic("a", 1, node))))
	files := 0
	for cut := 0; ; cut++ {
		to := filepath.Join(t.TempDir(), "ours")
		files = 0
		var full string
		_, err := Run(Options{From: []string{from}, To: []string{to}, create: func(path string) (*os.File, error) {
			if files++; files == cut+1 {
				full = path
				return os.OpenFile("/dev/full", os.O_WRONLY, 0)
			}
			return os.Create(path)
		}})
		if cut == files {
			if err != nil || cut < 5 {
				t.Fatalf("after %d files: %v", files, err)
			}
			break
		}
		if info, no := os.Stat(filepath.Join(from, strings.TrimPrefix(full, to))); no == nil && info.Size() == 0 {
			continue // nothing is written to an empty file
		}
		if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "remove what is in "+to+" before") {
			t.Fatalf("a full disk at file %d: %v", cut, err)
		}
		again := func() error {
			_, err := Run(Options{From: []string{from}, To: []string{to}})
			return err
		}
		if err := again(); err == nil || !strings.Contains(err.Error(), to+" is not empty: an import into it has not come to its end: remove what is in it") {
			t.Fatalf("again, after file %d: %v", cut, err)
		}
		if s, err := storage.Open(storage.StoreOptions{Dirs: []string{to}, NodeID: node}); err == nil || !strings.Contains(err.Error(), "an import into it has not come to its end") {
			if err == nil {
				s.Close(false)
			}
			t.Fatalf("a broker on what there is after file %d: %v", cut, err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := again(); err != nil {
			t.Fatalf("once that was done: %v", err)
		}
		if seeded(t, to).NumTopics() != 1 {
			t.Error("the topic is not there")
		}
		if _, err := os.Stat(filepath.Join(to, storage.UnfinishedFile)); err == nil {
			t.Error("an import that has ended says that it has not")
		}
	}
}

// TestImportKilled kills imports at files that they write and at moments at which they look at the clock, which they do up to
// their end. Whoever comes next is told what is to be done.
func TestImportKilled(t *testing.T) {
	if at := os.Getenv(killedAt); at != "" {
		var from, to string
		var files, looks int
		if _, err := fmt.Sscanf(at, "%s %s %d %d", &from, &to, &files, &looks); err != nil {
			t.Fatal(err)
		}
		count := func(left *int) {
			if *left--; *left == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		_, err := Run(Options{From: []string{from}, To: []string{to},
			Now:    func() time.Time { count(&looks); return time.Now() },
			create: func(path string) (*os.File, error) { count(&files); return os.Create(path) },
		})
		t.Fatalf("it came to its end: %v", err)
	}
	from := kafka(t, bytesOf(metadataLog(0, topic("a", 1, node))))
	looks, files := 0, 0
	if _, err := Run(Options{From: []string{from}, To: []string{filepath.Join(t.TempDir(), "whole")},
		Now:    func() time.Time { looks++; return time.Now() },
		create: func(path string) (*os.File, error) { files++; return os.Create(path) },
	}); err != nil {
		t.Fatal(err)
	}
	if looks < 3 || files < 5 {
		t.Fatalf("%d looks at the clock, %d files", looks, files)
	}
	for _, at := range [][2]int{{1, 0}, {files / 2, 0}, {files, 0}, {0, 1}, {0, looks / 2}, {0, looks}} {
		to := filepath.Join(t.TempDir(), "ours")
		cmd := exec.Command(os.Args[0], "-test.run", "^TestImportKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d", killedAt, from, to, at[0], at[1]))
		out, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("killed at %v: %v, %s", at, err, out)
		}
		if _, err := Run(Options{From: []string{from}, To: []string{to}}); !errors.Is(err, ErrNotEmpty) || !errors.Is(err, storage.ErrUnfinished) {
			t.Errorf("once more, killed at %v: %v", at, err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if r, err := Run(Options{From: []string{from}, To: []string{to}}); err != nil || r.Logs != 1 {
			t.Errorf("once that was done, killed at %v: %+v, %v", at, r, err)
		}
	}
}

const killedAt = "MILLRACE_TEST_KILLED_AT"
