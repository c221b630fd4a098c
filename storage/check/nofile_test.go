package check_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/storage/check"
	"millrace/storage/disk"
)

// TestNoFile puts something that is no file in the place of each kind of file. The checker names it and goes on, and so does
// the dump.
func TestNoFile(t *testing.T) {
	files := map[string][]byte{}
	for name, b := range tree(t, written(t, true)) {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			files[rest] = b
		}
	}
	const soiled = "v-0/notes" // somewhere else, behind most of them
	base := filepath.Join(t.TempDir(), "data")
	put := func(name string, b []byte) {
		t.Helper()
		at := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range files {
		put(name, b)
	}
	put(soiled, nil)
	shown := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		err := check.Dump(disk.OS{}, base, check.DumpOptions{}, func(x check.Item) error {
			out[x.File] += lineOf(x) + "\n"
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return out
	}
	want := shown()
	kinds := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if kinds[kindOf(dir+"/"+name)] {
			continue
		}
		kinds[kindOf(dir+"/"+name)] = true
		at := filepath.Join(base, name)
		for what, c := range map[string]struct {
			put func() error
			say string
		}{
			"a directory":       {func() error { return os.MkdirAll(filepath.Join(at, "x"), 0o755) }, "is a directory, where a file belongs"},
			"a link to one":     {func() error { return os.Symlink(t.TempDir(), at) }, "is a directory, where a file belongs"},
			"a link to nothing": {func() error { return os.Symlink("nowhere", at) }, "is a link that leads to nothing"},
			"a link to itself":  {func() error { return os.Symlink(filepath.Base(at), at) }, "is a link that leads to itself"},
			"a link to its file": {func() error {
				put("../"+filepath.Base(at), files[name])
				return os.Symlink("../../"+filepath.Base(at), at)
			}, ""},
		} {
			if what == "a link to its file" && strings.Count(name, "/") != 1 {
				continue
			}
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			if err := c.put(); err != nil {
				t.Fatal(err)
			}
			r, err := check.Directory(disk.OS{}, base, false)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			said, other := "", false
			for _, f := range r.All() {
				if f.File == at && f.Reason == c.say && !f.Mended {
					said = f.String()
				}
				other = other || f.File == filepath.Join(base, soiled)
			}
			if (said == "") != (c.say == "") || c.say != "" && (r.Sound() || said != at+": "+c.say) || len(r.Partitions) != 4 {
				t.Errorf("%s, %s: said is %q of %v", name, what, said, r.All())
			}
			if !other {
				t.Errorf("%s, %s: what is wrong elsewhere is not found: %v", name, what, r.All())
			}
			got := shown()
			if c.say != "" && got[at] != fmt.Sprintf("%s@-1: unreadable reason=%s\n", at, c.say) {
				t.Errorf("%s, %s: shown is %q", name, what, got[at])
			}
			for file, text := range want {
				if (file != at || c.say == "") && got[file] != text {
					t.Errorf("%s, %s: of %s something else is shown", name, what, file)
				}
			}
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			put(name, files[name])
		}
	}
	if len(kinds) < 25 {
		t.Errorf("only these kinds of files: %v", kinds)
	}
}
