package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFormatAndInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	if s := Inspect(nil, dir); s.Exists || s.Formatted || s.Err != nil {
		t.Errorf("a missing directory: %+v", s)
	}
	if err := Format(nil, dir, Identity{ClusterID: "c=1", NodeID: 4}, time.UnixMilli(0)); err != nil {
		t.Fatal(err)
	}
	s := Inspect(nil, dir)
	if !s.Exists || !s.Formatted || s.Err != nil || s.Identity.ClusterID != "c=1" || s.Identity.NodeID != 4 || s.Identity.Directory == ([16]byte{}) {
		t.Errorf("%+v", s)
	}
	store, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 4})
	if err != nil {
		t.Fatal(err)
	}
	if store.ClusterID() != "c=1" || store.DirectoryID() != s.Identity.Directory {
		t.Errorf("opened as %s, %x", store.ClusterID(), store.DirectoryID())
	}
	if err := store.Close(true); err != nil {
		t.Error(err)
	}
}

// What is wrong with a meta.properties is told with its file and line, and
// stops the start.
func TestBrokenMeta(t *testing.T) {
	for text, want := range map[string]string{
		"version=1\nnode.id=x\ncluster.id=c\n":  `: line 2: node.id is "x": expected a number that is not negative`,
		"version=1\nnode.id=-1\ncluster.id=c\n": `: line 2: node.id is "-1": expected a number that is not negative`,
		"version=1\ncluster.id=c\n":             ": node.id is missing",
		"garbage\n":                             ": version is missing: expected version=1 with cluster.id and node.id",
		"":                                      ": version is missing: expected version=1 with cluster.id and node.id",
		"version=\nnode.id=1\n":                 ": line 1: version is missing: expected version=1 with cluster.id and node.id",
		"version=0\nnode.id=1\n":                ": broker.id is missing",
		"broker.id=x\n":                         `: line 1: broker.id is "x": expected a number that is not negative`,
		"#\n\nversion=2\n":                      `: line 3: version is "2": only 1 and 0 are known`,
		"version=1\nnode.id=1\n":                ": cluster.id is missing",
		"version=1\nnode.id=1\ncluster.id=\n":   ": line 3: cluster.id is missing",
		"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=zz\n": `: line 4: directory.id: "zz" is no uuid`,
		"version=1\nnode.id=1\ncluster.id=\\u12\n":              `: line 3: escape in "cluster.id=\\u12"`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1})
		if !errors.Is(err, ErrMeta) || !strings.HasSuffix(err.Error(), dir+"/"+metaFile+want) {
			t.Errorf("%q: %v", text, err)
		}
		if _, _, again := Owner(nil, []string{dir}); again == nil || again.Error() != err.Error() {
			t.Errorf("%q: asked for its owner: %v", text, again)
		}
		if s := Inspect(nil, dir); !s.Formatted || !errors.Is(s.Err, ErrMeta) {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestKafkaMetadataOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := KafkaMetadata(nil, file); err == nil || !strings.Contains(err.Error(), file+" is a file") {
		t.Error(err)
	}
}

func TestKafkaMetadata(t *testing.T) {
	const checkpoint = "00000000000000000000-0000000000.checkpoint"
	for name, c := range map[string]struct {
		files map[string]int
		want  string
	}{
		"nothing":        {},
		"formatted":      {files: map[string]int{checkpoint: 400}},
		"an empty log":   {files: map[string]int{checkpoint: 400, "00000000000000000000.log": 0}},
		"ours":           {files: map[string]int{"raft.db": 100}},
		"used":           {files: map[string]int{checkpoint: 400, "00000000000000000000.log": 1}, want: "00000000000000000000.log"},
		"a later image":  {files: map[string]int{"00000000000000000100-0000000001.checkpoint": 1}, want: "00000000000000000100-0000000001.checkpoint"},
		"a rolled log":   {files: map[string]int{"00000000000000000000.log": 0, "00000000000000000100.log": 9}, want: "00000000000000000100.log"},
		"an index alone": {files: map[string]int{"00000000000000000000.index": 10}},
	} {
		dir := t.TempDir()
		for file, size := range c.files {
			at := filepath.Join(dir, metadataDir, file)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, make([]byte, size), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := KafkaMetadata(nil, dir)
		if err != nil || filepath.Base(got) != c.want && got+c.want != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
