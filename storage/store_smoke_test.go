package storage

import (
	"testing"

	"millrace/storage/batch"
	"millrace/storage/log"
)

func TestStoreSmoke(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta("c", 1); err != nil {
		t.Fatal(err)
	}
	l, err := s.Log("t", [16]byte{9}, 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(1, nil, []byte("x"))
	h, _ := batch.ParseHeader(b.Bytes())
	if _, err := l.Append(b.Bytes(), h, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1}); err == nil {
		t.Fatal("locked directory opened")
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	s, err = Open(StoreOptions{Dirs: []string{dir}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s.ClusterID() != "c" {
		t.Fatal(s.ClusterID())
	}
	l, err = s.Log("t", [16]byte{9}, 0, log.DefaultConfig())
	if err != nil || l.View().LogEnd() != 1 {
		t.Fatal(err, l)
	}
}
