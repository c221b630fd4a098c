package disktest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/storage/disk"
)

// TestConform asks the same of the real file system and of the one in memory.
func TestConform(t *testing.T) {
	for name, at := range map[string]struct {
		fs  disk.FS
		dir string
	}{
		"os":     {disk.OS{}, t.TempDir()},
		"memory": {New(), "/data"},
	} {
		t.Run(name, func(t *testing.T) { conform(t, at.fs, at.dir) })
	}
}

func conform(t *testing.T, d disk.FS, root string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
	dir := root + "/a/b"
	must(d.MkdirAll(dir))
	must(d.MkdirAll(dir))
	_, err := d.Open(dir+"/x", disk.Write)
	is(err, fs.ErrNotExist)
	_, err = d.Stat(dir + "/x")
	is(err, fs.ErrNotExist)
	_, err = d.ReadDir(root + "/none")
	is(err, fs.ErrNotExist)
	is(d.Remove(dir+"/x"), fs.ErrNotExist)
	is(d.Rename(dir+"/x", dir+"/y"), fs.ErrNotExist)

	f, err := d.Open(dir+"/x", disk.Write|disk.Create)
	must(err)
	_, err = f.WriteAt([]byte("hello"), 0)
	must(err)
	_, err = f.WriteAt([]byte("there"), 5000)
	must(err)
	must(f.Sync())
	if n, err := f.Size(); err != nil || n != 5005 {
		t.Fatalf("size %d, %v", n, err)
	}
	b := make([]byte, 10)
	if n, err := f.ReadAt(b, 4999); n != 6 || err != io.EOF || !bytes.Equal(b[:n], []byte("\x00there")) {
		t.Fatalf("%d %q %v", n, b, err)
	}
	if n, err := f.WriteAllAt([][]byte{[]byte("th"), {}, []byte("es"), []byte("e")}, 5000); n != 5 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := f.ReadAt(b, 4999); n != 6 || err != io.EOF || !bytes.Equal(b[:n], []byte("\x00these")) {
		t.Fatalf("%d %q %v", n, b, err)
	}
	many := make([][]byte, 2500) // more than one system call takes
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	if n, err := f.WriteAllAt(many, 6000); n != len(many) || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	for _, at := range []int{0, 1023, 1024, 2048, 2490} {
		if _, err := f.ReadAt(b, 6000+int64(at)); err != nil || !bytes.Equal(b, slices.Concat(many[at:at+10]...)) {
			t.Fatalf("at %d: %v %v", at, b, err)
		}
	}
	must(f.Truncate(3))
	must(f.Truncate(8))
	if n, err := f.ReadAt(b[:8], 0); n != 8 || err != nil || !bytes.Equal(b[:8], []byte("hel\x00\x00\x00\x00\x00")) {
		t.Fatalf("%d %q %v", n, b[:8], err)
	}
	must(f.Truncate(10 << 20))
	if n, err := f.ReadAt(b, 9<<20); n != 10 || err != nil || !bytes.Equal(b, make([]byte, 10)) {
		t.Fatalf("%d %q %v", n, b, err)
	}
	// An open file follows its name, and outlives it.
	must(d.Rename(dir+"/x", dir+"/y"))
	must(f.Truncate(2))
	if got, err := disk.ReadFile(d, dir+"/y", 100); err != nil || string(got) != "he" {
		t.Fatalf("%q %v", got, err)
	}
	must(d.Remove(dir + "/y"))
	if n, err := f.ReadAt(b[:2], 0); n != 2 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	must(f.Close())

	must(disk.Replace(d, dir, "z", []byte("one")))
	must(disk.Replace(d, dir, "z", []byte("two")))
	if got, err := disk.ReadFile(d, dir+"/z", 3); err != nil || string(got) != "two" {
		t.Fatalf("%q %v", got, err)
	}
	var long *disk.TooLongError
	if _, err := disk.ReadFile(d, dir+"/z", 2); !errors.As(err, &long) {
		t.Fatalf("error %v", err)
	}
	_, err = d.Open(dir+"/z", disk.Write|disk.Create|disk.Exclusive)
	is(err, fs.ErrExist)
	g, err := d.Open(dir+"/z", disk.Write|disk.Create|disk.Truncated)
	must(err)
	if n, _ := g.Size(); n != 0 {
		t.Fatalf("size %d after cutting", n)
	}
	must(g.Close())
	ro, err := d.Open(dir+"/z", 0)
	must(err)
	if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("write to a file opened for reading")
	}
	must(ro.Close())

	must(d.MkdirAll(dir + "/sub"))
	names, err := d.ReadDir(dir)
	must(err)
	if !slices.Equal(names, []disk.Entry{{Name: "sub", Dir: true}, {Name: "z"}}) {
		t.Fatalf("%v", names)
	}
	if err := d.Remove(dir); err == nil {
		t.Fatal("a directory with files was removed")
	}
	must(d.SyncDir(dir))
	must(d.Rename(dir, root+"/a/c"))
	if got, err := d.Stat(root + "/a/c/z"); err != nil || got.Size != 0 || got.Dir {
		t.Fatalf("%v %v", got, err)
	}
	must(d.RemoveAll(root + "/a"))
	must(d.RemoveAll(root + "/a"))
	_, err = d.Stat(root + "/a/c/z")
	is(err, fs.ErrNotExist)

	must(d.MkdirAll(root))
	l, err := d.Lock(root + "/.lock")
	must(err)
	_, err = d.Lock(root + "/.lock")
	is(err, disk.ErrLocked)
	must(l.Close())
	l, err = d.Lock(root + "/.lock")
	must(err)
	must(l.Close())
}

func put(t *testing.T, f *FS, name, data string, sync bool) {
	t.Helper()
	x, err := f.Open(name, disk.Write|disk.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.WriteAt([]byte(data), 0); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := x.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	f := New()
	if err := f.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	put(t, f, "/d/kept", "synced", true)
	put(t, f, "/d/empty", "not synced", false)
	if err := f.SyncDir("/d"); err != nil {
		t.Fatal(err)
	}
	put(t, f, "/d/kept", "SYNC", false)
	put(t, f, "/d/nameless", "synced", true)
	x, _ := f.Open("/d/kept", disk.Write)
	f.Crash(nil)
	if got := string(f.Bytes("/d/kept")); got != "synced" {
		t.Errorf("kept: %q", got)
	}
	if got := f.Bytes("/d/empty"); got == nil || len(got) != 0 {
		t.Errorf("empty: %q", got)
	}
	if got := f.Bytes("/d/nameless"); got != nil {
		t.Errorf("nameless: %q", got)
	}
	if _, err := x.WriteAt([]byte("x"), 0); !errors.Is(err, ErrStopped) {
		t.Errorf("a file of before the crash: %v", err)
	}
}

func TestCrashMayKeepAnyPart(t *testing.T) {
	const size = 4 * sectorSize
	seen := map[string]bool{}
	for seed := range uint64(400) {
		f := New()
		put(t, f, "/a", string(bytes.Repeat([]byte("."), size)), true)
		if err := f.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		put(t, f, "/a", string(bytes.Repeat([]byte("x"), size)), false)
		if err := f.Rename("/a", "/b"); err != nil {
			t.Fatal(err)
		}
		f.Crash(rand.New(rand.NewPCG(seed, 1)))
		name := "a"
		got := f.Bytes("/a")
		if got == nil {
			name, got = "b", f.Bytes("/b")
		}
		if len(got) != size {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		sectors := ""
		for i := 0; i < size; i += sectorSize {
			s := got[i : i+sectorSize]
			if !bytes.Equal(s, bytes.Repeat(s[:1], sectorSize)) {
				t.Fatalf("seed %d: half a sector", seed)
			}
			sectors += string(s[:1])
		}
		seen[name+sectors] = true
	}
	if len(seen) < 2*14 {
		t.Fatalf("only %d outcomes of 32", len(seen))
	}
}

func TestStopAndFail(t *testing.T) {
	f := New()
	put(t, f, "/a", "1", true) // create, write, sync
	if n := f.Ops(); n != 3 {
		t.Fatalf("%d operations", n)
	}
	f.FailAt(1, io.ErrShortWrite)
	x, _ := f.Open("/a", disk.Write)
	if n, err := x.WriteAt([]byte("2345"), 0); n != 2 || !errors.Is(err, io.ErrShortWrite) {
		t.Fatalf("%d %v", n, err)
	}
	if got := string(f.Bytes("/a")); got != "23" {
		t.Fatalf("%q", got)
	}
	f.StopAt(2)
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := x.Sync(); !errors.Is(err, ErrStopped) || !f.Stopped() {
		t.Fatal(err)
	}
	if _, err := f.Stat("/a"); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	f.Kill()
	if got := string(f.Bytes("/a")); got != "23" {
		t.Fatalf("%q", got)
	}
}

func TestDeafSyncLosesData(t *testing.T) {
	f := New()
	f.Deaf(func(op, name string) bool { return op == "sync" })
	put(t, f, "/a", "1", true)
	if err := f.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	f.Crash(nil)
	if got := f.Bytes("/a"); got == nil || len(got) != 0 {
		t.Fatalf("%q", got)
	}
}
