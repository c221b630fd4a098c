package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// stages writes a log as a life does: it is founded, grows over several pages with
// entries that fill more than one, is cut by a snapshot, overwritten at the end,
// opened again and closed in order. It gives raft.db as it was after each of these.
func stages(t testing.TB, dir string) [][]byte {
	var all [][]byte
	keep := func() {
		b, err := os.ReadFile(filepath.Join(dir, fileName))
		must(t, err)
		all = append(all, b)
	}
	l := open(t, dir)
	founded(t, l)
	must(t, l.Sync())
	keep()
	next := uint64(2)
	grow := func(term uint64, n int) {
		for range n {
			data := strings.Repeat(fmt.Sprintf("topic %d of term %d;", next, term), 6)
			if next%11 == 0 {
				data = strings.Repeat(data, 30)
			}
			must(t, l.Append(hard(term, 2, next-1), []*pb.Entry{entry(next, term, data)}))
			next++
		}
		must(t, l.Sync())
		keep()
	}
	grow(1, 14)
	must(t, l.StoreSnapshot(snapshot(11, 1, "eleven")))
	must(t, l.Compact(snapshot(11, 1, "").GetMetadata(), 10))
	grow(2, 14)
	next = 27
	grow(3, 6)
	must(t, l.Close())
	l = open(t, dir)
	grow(4, 3)
	must(t, l.Close())
	keep()
	return all
}

// whole is all that a log holds.
func whole(t testing.TB, b *Bolt) string {
	out := make([]byte, 0, 1<<15)
	for _, e := range b.entries {
		out = binary.AppendUvarint(out, uint64(proto.Size(e)))
		var err error
		out, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(out, e)
		must(t, err)
	}
	return fmt.Sprint(b.self, b.hard.GetTerm(), b.hard.GetVote(), b.hard.GetCommit(), b.snap, b.founding, b.before, b.beforeTerm, len(b.entries)) + string(out)
}

// readAll reads a database from memory.
func readAll(db []byte) (*Bolt, error) {
	b := &Bolt{picture: newPicture()}
	return b, b.read(bytes.NewReader(db), int64(len(db)))
}

// usedSize is where the pages of a database end that were ever used. bbolt makes
// its file longer than that.
func usedSize(t testing.TB, db []byte) int {
	p, err := openPages(bytes.NewReader(db), int64(len(db)))
	must(t, err)
	return int(p.meta.pages) * int(p.size)
}

// flips changes a bit of every byte, or of every step-th, and gives the places where what is read is
// neither refused nor what it was, and those that do not matter.
func flips(t *testing.T, db []byte, step int) (wrong, spare []int) {
	good, err := readAll(db)
	must(t, err)
	want := whole(t, good)
	db = slices.Clone(db)
	used := usedSize(t, db)
	for at := 0; at < len(db); at += step {
		if at > used && at%4099 != 0 {
			continue
		}
		bit := byte(1) << (at * 5 % 8)
		db[at] ^= bit
		if b, err := readAll(db); err == nil {
			if whole(t, b) == want {
				spare = append(spare, at)
			} else {
				wrong = append(wrong, at)
			}
		}
		db[at] ^= bit
	}
	return wrong, spare
}

func TestEveryByte(t *testing.T) {
	dir := t.TempDir()
	all := stages(t, dir)
	good := all[len(all)-1]
	wrong, spare := flips(t, good, 1)
	if len(wrong) > 0 {
		t.Errorf("a flipped bit at %d was read as something else", wrong)
	}
	size := usedSize(t, good)
	t.Logf("%d bytes of %d do not matter", len(spare), size)
	if size-len(spare) < 10000 {
		t.Errorf("only %d bytes matter", size-len(spare))
	}
	inSpare := map[int]bool{}
	for _, at := range spare {
		inSpare[at] = true
	}

	d := damaged{dir: dir, path: filepath.Join(dir, fileName), good: good[:size]}
	for at := range size {
		// The heads of the pages whole, and some of the rest.
		if at%os.Getpagesize() > 100 && at%127 != 0 {
			continue
		}
		bad := slices.Clone(d.good)
		bad[at] ^= 1 << (at * 5 % 8)
		if refused := d.open(t, fmt.Sprintf("byte %d", at), bad, false); refused == inSpare[at] {
			t.Errorf("byte %d: refused: %v, and it is spare: %v", at, refused, inSpare[at])
		}
	}
	// What does not matter now must not matter to later writes either.
	for i := 0; i < len(spare); i += max(1, len(spare)/30) {
		if spare[i] >= size {
			continue
		}
		bad := slices.Clone(d.good)
		bad[spare[i]] ^= 0xff
		d.open(t, fmt.Sprintf("spare byte %d", spare[i]), bad, true)
	}
}

// TestEveryPage: pages that are gone, cut off, or as they were earlier.
func TestEveryPage(t *testing.T) {
	dir := t.TempDir()
	all := stages(t, dir)
	good := all[len(all)-1]
	size, used := os.Getpagesize(), usedSize(t, good)
	d := damaged{dir: dir, path: filepath.Join(dir, fileName), good: good}
	refused, earlier := 0, 0
	for at := 0; at < used; at += size {
		for _, cut := range []int{at, at + 1, at + size - 1} {
			if !d.open(t, fmt.Sprintf("cut to %d", cut), good[:cut], true) {
				t.Errorf("cut to %d bytes it was opened", cut)
			}
		}
		bad := slices.Clone(good)
		clear(bad[at : at+size])
		if d.open(t, fmt.Sprintf("zeroes in page %d", at/size), bad, true) {
			refused++
		}
		for i, old := range all[:len(all)-1] {
			if at+size > len(old) || bytes.Equal(old[at:at+size], good[at:at+size]) {
				continue
			}
			bad := slices.Clone(good)
			copy(bad[at:], old[at:at+size])
			if d.open(t, fmt.Sprintf("page %d as it was at stage %d", at/size, i), bad, true) {
				earlier++
			}
		}
	}
	if refused < 5 || earlier < 5 {
		t.Errorf("%d pages of zeroes and %d earlier ones were refused", refused, earlier)
	}
}

// damaged is a log whose database is put in the place of a good one.
type damaged struct {
	dir, path string
	good      []byte
}

// open opens the log with this database: it is what it was, or refused in one
// sentence that names the file, with nothing changed. It may be asked to go on
// where it opened.
func (d damaged) open(t *testing.T, what string, db []byte, goOn bool) (refused bool) {
	t.Helper()
	must(t, os.WriteFile(d.path, d.good, 0o644))
	good, err := Open(d.dir)
	must(t, err)
	want := whole(t, good)
	must(t, good.db.Close())
	must(t, os.WriteFile(d.path, db, 0o644))
	before := listing(t, d.dir)
	b, err := Open(d.dir)
	if err != nil {
		if text := err.Error(); strings.Count(text, d.path) != 1 || strings.Contains(text, "\n") {
			t.Errorf("%s: the sentence is %q", what, text)
		}
		if after := listing(t, d.dir); !maps.Equal(before, after) {
			t.Errorf("%s: the directory has changed", what)
		}
		return true
	}
	if got := whole(t, b); got != want {
		t.Errorf("%s: it is read as something else", what)
	}
	if !goOn {
		must(t, b.db.Close())
		return false
	}
	for i := b.last() + 1; i < 60; i += 6 {
		var more []*pb.Entry
		for n := range uint64(6) {
			more = append(more, entry(i+n, 9, strings.Repeat("more", 200)))
		}
		must(t, b.Append(hard(9, 0, i), more))
		b.db.NoSync = true
		must(t, b.Sync())
	}
	b.founding = good.founding // written long ago
	want = whole(t, b)
	must(t, b.db.Close())
	b, err = Open(d.dir)
	if err != nil {
		t.Errorf("%s: after later writes: %v", what, err)
		return false
	}
	if got := whole(t, b); got != want {
		t.Errorf("%s: after later writes it is read as something else", what)
	}
	must(t, b.db.Close())
	return false
}

// listing is what is in a directory.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := os.ReadDir(dir)
	must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name.Name()))
		must(t, err)
		all[name.Name()] = string(b)
	}
	return all
}

// TestUncheckedDamageIsSeen: without the checksums, the test of every byte fails.
func TestUncheckedDamageIsSeen(t *testing.T) {
	all := stages(t, t.TempDir())
	checked = false
	defer func() { checked = true }()
	if wrong, _ := flips(t, all[len(all)-1], 7); len(wrong) < 500 {
		t.Fatalf("only %d bytes that were read as something else", len(wrong))
	}
}

// bare writes a log as the format before this one had it.
func bare(t *testing.T, path string, state map[string][]byte, entries []*pb.Entry) {
	db, err := bbolt.Open(path, 0o644, boltOptions())
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		s, err := tx.CreateBucket(stateBucket)
		must(t, err)
		for k, v := range state {
			must(t, s.Put([]byte(k), v))
		}
		b, err := tx.CreateBucket(entriesBucket)
		must(t, err)
		for _, e := range entries {
			v, err := proto.Marshal(e)
			must(t, err)
			must(t, b.Put(indexKey(e.GetIndex()), v))
		}
		return nil
	}))
	must(t, db.Close())
}

// TestBareFormat: a log without checksums is opened, stays as it is until it is
// written to, and has them then.
func TestBareFormat(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		must(t, err)
		return b
	}
	state := map[string][]byte{
		"format": {1}, "self": indexKey(2), "hard": marshal(hard(3, 2, 7)), "founding": marshal(&pb.ConfState{Voters: []uint64{2}}),
		"compacted": append(indexKey(5), indexKey(1)...),
	}
	bare(t, path, state, []*pb.Entry{entry(6, 1, "six"), entry(7, 2, "seven"), entry(8, 3, "eight")})
	must(t, writeSnapshot(dir, snapshot(5, 1, "five")))
	before := listing(t, dir)
	l := open(t, dir)
	want := show(t, l)
	if !strings.HasSuffix(want, "snapshot=5/1[five] log=6..8\nbefore: 1\n6/1 six\n7/2 seven\n8/3 eight\n") {
		t.Fatal(want)
	}
	must(t, l.db.Close())
	if !maps.Equal(before, listing(t, dir)) {
		t.Error("opening it has changed the directory")
	}
	l = open(t, dir)
	must(t, l.Append(hard(3, 2, 8), nil))
	must(t, l.Close())
	db, err := os.ReadFile(path)
	must(t, err)
	if wrong, _ := flips(t, db, 1); len(wrong) > 0 {
		t.Errorf("written to, a flipped bit at %d is read as something else", wrong)
	}
	l = open(t, dir)
	defer l.Close()
	if got := show(t, l); got != want {
		t.Errorf("written to, it is\n%swant:\n%s", got, want)
	}

	for what, change := range map[string]func(dir string){
		"a later format":         func(string) { state["format"] = []byte{3} },
		"nobody":                 func(string) { state["self"] = indexKey(0) },
		"no members":             func(string) { state["founding"] = nil },
		"more than all":          func(string) { state["hard"] = marshal(hard(3, 2, 9)) },
		"dropped what committed": func(string) { state["compacted"] = append(indexKey(8), indexKey(3)...) },
		"no snapshot":            func(dir string) { must(t, dropSnapshots(dir, math.MaxUint64)) },
	} {
		kept := maps.Clone(state)
		dir := t.TempDir()
		must(t, writeSnapshot(dir, snapshot(5, 1, "five")))
		change(dir)
		bare(t, filepath.Join(dir, fileName), state, []*pb.Entry{entry(6, 1, "six"), entry(7, 2, "seven"), entry(8, 3, "eight")})
		if l, err := Open(dir); err == nil {
			_ = l.db.Close()
			t.Errorf("%s: it was opened", what)
		} else if !strings.Contains(err.Error(), filepath.Join(dir, fileName)) {
			t.Errorf("%s: %v", what, err)
		}
		state = kept
	}
}

// TestInUse: a log that another has open is not taken for a damaged one.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	founded(t, l)
	must(t, l.Sync())
	defer l.Close()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatal(err)
	}
}

// BenchmarkOpen opens a log of as many entries as there are before a snapshot.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir)
	founded(b, l)
	for i := uint64(2); i < 10000; i++ {
		must(b, l.Append(hard(1, 2, i), []*pb.Entry{entry(i, 1, strings.Repeat("x", 400))}))
	}
	must(b, l.Close())
	for b.Loop() {
		l := open(b, dir)
		must(b, l.Abandon())
	}
}

// BenchmarkSync is what a batch costs beside the disk.
func BenchmarkSync(b *testing.B) {
	l := open(b, b.TempDir())
	founded(b, l)
	must(b, l.Sync())
	l.db.NoSync = true
	for i := uint64(2); b.Loop(); i++ {
		must(b, l.Append(hard(1, 2, i), []*pb.Entry{entry(i, 1, strings.Repeat("x", 400))}))
		must(b, l.Sync())
	}
	must(b, l.Abandon())
}

func FuzzDatabase(f *testing.F) {
	for _, db := range stages(f, f.TempDir()) {
		f.Add(db, uint32(len(db)/2), byte(1))
	}
	f.Fuzz(func(t *testing.T, db []byte, at uint32, flip byte) {
		// Heads with checksums are in the way of all else.
		if b, err := readAll(db); err == nil {
			if len(b.entries) > 0 && b.entries[0].GetIndex() != b.before+1 {
				t.Fatalf("entry %d follows %d", b.entries[0].GetIndex(), b.before)
			}
			db = slices.Clone(db)
			db[int(at)%len(db)] ^= flip
			if again, err := readAll(db); err == nil && whole(t, again) != whole(t, b) {
				t.Fatalf("byte %d ^ %#x is read as something else", at, flip)
			}
		}
	})
}

func FuzzStored(f *testing.F) {
	seed := append(make([]byte, sumSize), []byte("\x08\x02\x10\x05")...)
	seal(entriesBucket, indexKey(7), seed)
	f.Add(uint64(7), seed)
	f.Fuzz(func(t *testing.T, index uint64, stored []byte) {
		v, sum, err := unseal(entriesBucket, indexKey(index), stored)
		if err == nil {
			again := append(make([]byte, sumSize), v...)
			if seal(entriesBucket, indexKey(index), again) != sum || !bytes.Equal(again, stored) {
				t.Fatal("what was unsealed is sealed in another way")
			}
		} else if len(stored) >= sumSize && !errors.Is(err, errSum) {
			t.Fatal(err)
		}
		// What lies behind a checksum is decoded as carefully.
		b := &Bolt{picture: newPicture()}
		b.before = index - 1
		if b.readEntry(indexKey(index), stored) == nil && b.last() != index {
			t.Fatalf("entry %d is the last", b.last())
		}
		_ = (&Bolt{picture: newPicture()}).readState(map[string][]byte{"self": indexKey(1), "hard": stored, "founding": stored, "compacted": stored})
		_, _ = readTotal(stored)
	})
}
