package storage

import (
	"errors"
	"testing"
)

// TestNestedDirectories: of directories that lie in one another, or in the root, nothing is touched.
func TestNestedDirectories(t *testing.T) {
	for _, c := range []struct {
		dirs []string
		want string // "": they may be used
	}{
		{[]string{"/data", "/data/inner"}, "data directories are to lie apart: /data/inner lies in /data"},
		{[]string{"/data/inner/most/", "/b", "/data"}, "data directories are to lie apart: /data/inner/most/ lies in /data"},
		{[]string{"/data/../b/x", "/b/"}, "data directories are to lie apart: /data/../b/x lies in /b/"},
		{[]string{"/"}, "data directories are to lie apart: / is the root of the file system"},
		{[]string{"/data", "/data-2", "/datax/data"}, ""},
	} {
		h := newHouse(t, "/elsewhere")
		h.dirs = c.dirs
		h.fs.Trace()
		_, err := h.try(1)
		if c.want == "" {
			h.ok(err)
			continue
		}
		if !errors.Is(err, ErrNested) || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.dirs, err, c.want)
		}
		if done := h.fs.Done(); len(done) != 0 {
			t.Errorf("%v: done all the same: %v", c.dirs, done)
		}
	}
}
