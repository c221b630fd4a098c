package storage

import (
	"maps"
	"reflect"
	"testing"
	"time"
)

func TestCheckpointFile(t *testing.T) {
	c := checkpoint{{"b", 1}: 5, {"a", 10}: 7, {"a", 9}: 0}
	if got := string(c.encode()); got != "0\n3\na 9 0\na 10 7\nb 1 5\n" {
		t.Errorf("%q", got)
	}
	got, err := decodeCheckpoint(c.encode())
	if err != nil || !maps.Equal(got, c) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"1\n0\n", "0\n", "0\nx\n", "0\n-1\n", "0\n1\n", "0\n1\na 0\n", "0\n1\na 0 1 2\n", "0\n1\na -1 0\n", "0\n1\na 0 -1\n", "0\n0\na 0 1\n", "0\n2\na 0 1\na 0 2\n"} {
		if got, err := decodeCheckpoint([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if got, err := decodeCheckpoint(nil); err != nil || len(got) != 0 {
		t.Errorf("empty file: %v %v", got, err)
	}
}

func TestMetaFile(t *testing.T) {
	m := meta{clusterID: "a=b", nodeID: 3, directory: [16]byte{1, 2, 3}}
	got, err := decodeMeta(m.encode(time.UnixMilli(0)))
	if err != nil || got != m {
		t.Errorf("%+v %v", got, err)
	}
	for name, c := range map[string]struct {
		text string
		want meta
		bad  bool
	}{
		"kafka":         {text: "#\n#Sun Nov 29 17:54:00 UTC 2026\ndirectory.id=0QAAAAAAAAAAAAAAAAAAAQ\nversion=1\nnode.id=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n", want: meta{clusterID: "4L6g3nShT-eMCtK--X86sw", nodeID: 1, directory: [16]byte{0xd1, 15: 1}}},
		"order mark":    {text: "\xef\xbb\xbfversion=1\r\nnode.id=2\r\ncluster.id=x\r\n", want: meta{clusterID: "x", nodeID: 2}},
		"version 0":     {text: "version=0\nbroker.id=7\n", want: meta{nodeID: 7}},
		"spaces":        {text: "  version : 1 \r\nnode.id 2\ncluster.id=x\n", bad: true}, // "1 " is not a version
		"no directory":  {text: "version=1\nnode.id=2\ncluster.id=x\n", want: meta{clusterID: "x", nodeID: 2}},
		"no cluster":    {text: "version=1\nnode.id=2\n", bad: true},
		"no node":       {text: "version=1\ncluster.id=x\n", bad: true},
		"new version":   {text: "version=2\ncluster.id=x\nnode.id=1\n", bad: true},
		"reserved id":   {text: "version=1\nnode.id=2\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", bad: true},
		"no uuid":       {text: "version=1\nnode.id=2\ncluster.id=x\ndirectory.id=zz\n", bad: true},
		"negative node": {text: "version=1\nnode.id=-2\ncluster.id=x\n", bad: true},
		"empty":         {text: "", bad: true},
	} {
		got, err := decodeMeta([]byte(c.text))
		if (err != nil) != c.bad || (err == nil && !reflect.DeepEqual(got, c.want)) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

func TestPartitionDirNames(t *testing.T) {
	for name, want := range map[string]partitionKey{"t-0": {"t", 0}, "a-b-12": {"a-b", 12}, "a--3": {"a-", 3}, "__consumer_offsets-49": {"__consumer_offsets", 49}} {
		if k, ok := parsePartitionDir(name); !ok || k != want {
			t.Errorf("%s: %v %v", name, k, ok)
		}
	}
	for _, name := range []string{"t", "t-", "-1", "t-x", "t-01", "t-+1", "t-99999999999", "t-0.0123456789abcdef-delete", ""} {
		if k, ok := parsePartitionDir(name); ok {
			t.Errorf("%s is taken for %v", name, k)
		}
	}
	long := doomedDir(string(make([]byte, 249)), 1234567, deleteSuffix)
	if len(long) != maxName {
		t.Errorf("%d characters", len(long))
	}
	if a, b := doomedDir("t", 0, deleteSuffix), doomedDir("t", 0, deleteSuffix); a == b || len(a) != len("t-0.")+32+len(deleteSuffix) {
		t.Errorf("%s and %s", a, b)
	}
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add([]byte("0\n2\na 9 0\nb 10 7\n"))
	f.Add([]byte("0\n2147483647\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCheckpoint(b)
		if err != nil {
			return
		}
		d, err := decodeCheckpoint(c.encode())
		if err != nil || !maps.Equal(c, d) {
			t.Fatalf("%q decodes as %v, again as %v, %v", b, c, d, err)
		}
	})
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add([]byte("#\nversion=1\nnode.id=1\ncluster.id=x\ndirectory.id=0QAAAAAAAAAAAAAAAAAAAQ\n"))
	f.Add([]byte("version=0\nbroker.id=1\n"))
	f.Add([]byte("a\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if m.nodeID < 0 {
			t.Fatalf("%q: node %d", b, m.nodeID)
		}
		_ = decodeClean(b)
	})
}
