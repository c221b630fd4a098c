package adopt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/log"
	"millrace/wire/records"
)

// lying makes the metadata of a topic of one partition that lie in a directory.
func lying(name string, b byte, dir [16]byte) []records.Metadata {
	out := topic(name, b, node)
	out[1].(*records.PartitionRecord).Directories = [][16]byte{dir}
	return out
}

// registered makes the registration of a broker with directories.
func registered(dirs ...[16]byte) *records.RegisterBrokerRecord {
	r := records.NewRegisterBrokerRecord()
	r.BrokerId, r.BrokerEpoch, r.IncarnationId, r.LogDirs = node, 1, id(77), dirs
	return r
}

// writeMetadata puts a metadata log in the place of another.
func writeMetadata(t *testing.T, dir string, lists ...[]records.Metadata) {
	t.Helper()
	write(t, filepath.Join(dir, metadataDir, strings.Repeat("0", 20)+".log"), bytesOf(metadataLog(0, lists...)))
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

func directoryOf(dir string) [16]byte { return storage.Inspect(nil, dir).Identity.Directory }

// TestDirectoryLeftOut names one of two directories. What lies in the other is told of, and no start begins it anew; nor what
// may lie there, as nobody has said yet where it does.
func TestDirectoryLeftOut(t *testing.T) {
	there, lost := kafka(t), kafka(t)
	var unassigned [16]byte
	writeMetadata(t, there, lying("a", 1, directoryOf(there)), lying("lost", 2, directoryOf(lost)), lying("other", 9, directoryOf(lost)), lying("untold", 4, unassigned),
		lying("fresh", 5, directoryOf(there)), list(registered(directoryOf(there), directoryOf(lost))))
	to := filepath.Join(t.TempDir(), "ours")
	name := storage.FormatID(directoryOf(lost))
	_, err := Run(Options{From: []string{there}, To: []string{to}})
	if !errors.Is(err, ErrDirectoryMissing) || !strings.Contains(err.Error(), name+", in which lost-0, untold-0 lie") || !strings.Contains(err.Error(), "more than "+there) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("something was written")
	}
	r, err := Run(Options{From: []string{there}, To: []string{to}, WithoutMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	// What lies where it is not said to lie is whole all the same.
	if r.Topics != 5 || r.Logs != 2 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{
		"lost-0: it lies in the data directory with the directory.id " + name + ", which is none of those named",
		"untold-0: it lies in the data directory with the directory.id " + name + ", which is none of those named",
		"fresh-0 has no files in the directories: it begins anew, empty",
	} {
		if !slices.Contains(r.Left, want) {
			t.Errorf("it does not tell %q: %q", want, r.Left)
		}
	}
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{to}, NodeID: node})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	img := seeded(t, to)
	for name, elsewhere := range map[string]bool{"a": false, "other": false, "fresh": false, "lost": true, "untold": true} {
		x := img.TopicByName(name)
		_, err := s.LogAt(storage.Where{Directory: x.Partitions[0].Directories[0]}, name, x.ID, 0, log.DefaultConfig())
		if errors.Is(err, storage.ErrElsewhere) != elsewhere || !elsewhere && err != nil {
			t.Errorf("the log of %s: %v", name, err)
		}
	}
	// A directory in which nothing is known to lie, and with which the broker was registered, is missing too; one that it was
	// registered with before is not.
	writeMetadata(t, there, list(registered(directoryOf(lost))), lying("a", 1, directoryOf(there)), list(registered(directoryOf(there))))
	if _, err := Run(Options{From: []string{there}, To: []string{filepath.Join(t.TempDir(), "ours")}}); err != nil {
		t.Errorf("a directory of an earlier life: %v", err)
	}
	writeMetadata(t, there, lying("a", 1, directoryOf(there)), list(registered(directoryOf(lost), directoryOf(there))))
	if _, err := Run(Options{From: []string{there}, To: []string{filepath.Join(t.TempDir(), "ours")}}); !errors.Is(err, ErrDirectoryMissing) || !strings.Contains(err.Error(), name) {
		t.Errorf("a directory that is empty, as far as is known: %v", err)
	}
	if r, err := Run(Options{From: []string{there}, To: []string{filepath.Join(t.TempDir(), "ours")}, WithoutMissing: true}); err != nil || !slices.Contains(r.Left, "the data directory with the directory.id "+name+", which is none of those named") {
		t.Errorf("without it: %+v, %v", r, err)
	}
}

// TestMetadataOfAnother: the directory of the metadata is the node's, and the only one.
func TestMetadataOfAnother(t *testing.T) {
	from, other, twin := kafka(t, bytesOf(metadataLog(0, topic("a", 1, node)))), kafka(t, bytesOf(metadataLog(0, topic("a", 1, node)))), kafka(t)
	meta := filepath.Join(other, "meta.properties")
	write(t, meta, bytes.Replace(read(t, meta), []byte("MkU3OEVBNTcwNTJENDM2Qg"), []byte("MkU3OEVBNTcwNTJENDM2Rg"), 1))
	rename(t, filepath.Join(from, metadataDir), filepath.Join(from, "away"))
	if _, err := Run(Options{From: []string{from}, Metadata: other, To: []string{filepath.Join(t.TempDir(), "ours")}}); err == nil || !strings.Contains(err.Error(), other+" is of node 5 of cluster MkU3OEVBNTcwNTJENDM2Rg") {
		t.Errorf("metadata of another cluster: %v", err)
	}
	rename(t, filepath.Join(from, "away"), filepath.Join(from, metadataDir))
	remove(t, filepath.Join(twin, "a-0"), filepath.Join(twin, "other-0"), filepath.Join(twin, "stray-0"))
	if _, err := Run(Options{From: []string{from, twin}, To: []string{filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y")}}); err == nil || !strings.Contains(err.Error(), "both hold "+metadataDir) {
		t.Errorf("metadata twice: %v", err)
	}
	if _, err := Run(Options{From: []string{from}, Metadata: from + "/.", To: []string{filepath.Join(t.TempDir(), "ours")}}); err != nil {
		t.Errorf("metadata where they are looked for anyway: %v", err)
	}
}

// contents are the records of a log that was taken over, by their offsets.
func contents(t *testing.T, dirs []string, name string, b byte) (out []string) {
	t.Helper()
	s, err := storage.Open(storage.StoreOptions{Dirs: dirs, NodeID: node})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	l, err := s.Log(name, id(b), 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := eachRecord(l, func(r batch.Record) { out = append(out, fmt.Sprintf("%d %s", r.Offset, r.Value)) }, func(o batch.Offset) { t.Errorf("the record at %d is not read", o) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// segmentFile is a file of the segment of a topic's only partition that begins at an offset.
func segmentFile(dir, name string, base int, suffix string) string {
	return filepath.Join(dir, name+"-0", fmt.Sprintf("%020d%s", base, suffix))
}

// TestLeftovers takes over what a stop leaves half done: replacements by the cleaner at each of their steps, removals, copies on
// their way to another directory.
func TestLeftovers(t *testing.T) {
	const hex = "0123456789abcdef0123456789abcdef"
	whole := []string{"0 v", "1 v", "2 v"}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string // records
		left  string
	}{
		"nothing": {func(*testing.T, string) {}, whole, ""},
		"a replacement that is not finished": {func(t *testing.T, dir string) {
			write(t, segmentFile(dir, "a", 0, ".log.cleaned"), []byte("half"))
			write(t, segmentFile(dir, "a", 0, ".index.cleaned"), make([]byte, 800))
		}, whole, ""},
		"a finished replacement beside what it replaces": {func(t *testing.T, dir string) {
			b := read(t, segmentFile(dir, "a", 0, ".log"))
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			write(t, segmentFile(dir, "a", 0, ".log.swap"), append(bytes.Clone(b[:h.Size()]), b[2*h.Size():]...))
			write(t, segmentFile(dir, "a", 0, ".index.swap"), nil)
			write(t, segmentFile(dir, "a", 0, ".timeindex.swap"), nil)
		}, []string{"0 v", "2 v"}, ""},
		"a finished replacement half renamed": {func(t *testing.T, dir string) {
			rename(t, segmentFile(dir, "a", 0, ".log"), segmentFile(dir, "a", 0, ".log.swap"))
			rename(t, segmentFile(dir, "a", 0, ".timeindex"), segmentFile(dir, "a", 0, ".timeindex.swap"))
		}, whole, ""},
		"two finished replacements, of which one lacks its files": {func(t *testing.T, dir string) {
			write(t, segmentFile(dir, "a", 0, ".log.swap"), read(t, segmentFile(dir, "a", 0, ".log")))
			write(t, segmentFile(dir, "a", 0, ".timeindex.cleaned"), make([]byte, 12))
		}, whole, ""},
		"removed segments": {func(t *testing.T, dir string) {
			write(t, segmentFile(dir, "a", 0, ".log.deleted"), []byte("old"))
			write(t, segmentFile(dir, "a", 0, ".index.deleted"), []byte("old"))
		}, whole, ""},
		"indexes as large as they may become": {func(t *testing.T, dir string) {
			if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err == nil {
				return // of those that were closed they are cut
			}
			write(t, segmentFile(dir, "a", 0, ".index"), make([]byte, 1<<20))
			rename(t, segmentFile(dir, "a", 0, ".log"), segmentFile(dir, "a", 0, ".log.swap"))
			write(t, segmentFile(dir, "a", 0, ".timeindex.swap"), make([]byte, 1<<20))
		}, whole, ""},
		"a deleted partition": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "gone-0."+hex+"-delete"))
		}, whole, "gone-0." + hex + "-delete is of a partition that was deleted"},
		"a partition put aside": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "gone-0."+hex+"-stray"))
		}, whole, "gone-0." + hex + "-stray was put aside by Kafka"},
		"a copy on its way": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "a-0."+hex+"-future"))
			write(t, filepath.Join(dir, "a-0."+hex+"-future", "partition.metadata"), read(t, filepath.Join(dir, "a-0", "partition.metadata")))
			b := read(t, segmentFile(dir, "a", 0, ".log"))
			write(t, filepath.Join(dir, "a-0."+hex+"-future", strings.Repeat("0", 20)+".log"), b[:len(b)/3])
		}, whole, "a-0." + hex + "-future is a part of a-0"},
		"a copy whose renaming was cut short": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "a-0"), filepath.Join(dir, "a-0."+hex+"-future"))
		}, whole, ""},
		"a copy of another topic": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "a-0."+hex+"-future"))
		}, whole, "a-0." + hex + "-future is of another topic of that name"},
		"a copy that does not say of which topic": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "a-0."+hex+"-future"))
			remove(t, filepath.Join(dir, "a-0."+hex+"-future", "partition.metadata"))
		}, whole, "a-0." + hex + "-future has no topic id in a partition.metadata: it belongs to no partition"},
		"a copy of nothing": {func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "stray-0"), filepath.Join(dir, "stray-0."+hex+"-future"))
		}, whole, "stray-0." + hex + "-future belongs to no partition"},
		"a partition behind a link": {func(t *testing.T, dir string) {
			away := filepath.Join(t.TempDir(), "away")
			rename(t, filepath.Join(dir, "a-0"), away)
			if err := os.Symlink(away, filepath.Join(dir, "a-0")); err != nil {
				t.Fatal(err)
			}
		}, whole, ""},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean %v", name, clean), func(t *testing.T) {
				t.Parallel()
				dir := kafka(t)
				writeMetadata(t, dir, lying("a", 1, directoryOf(dir)), list(registered(directoryOf(dir))))
				if !clean {
					unclean(t, dir)
				}
				c.spoil(t, dir)
				to := filepath.Join(t.TempDir(), "ours")
				r, err := Run(Options{From: []string{dir}, To: []string{to}})
				if err != nil {
					t.Fatal(err)
				}
				if left := strings.Join(r.Left, "\n"); !strings.Contains(left, c.left) || strings.Contains(left, "begins anew") {
					t.Errorf("it does not tell of %q:\n%s", c.left, left)
				}
				if got := contents(t, []string{to}, "a", 1); !slices.Equal(got, c.want) {
					t.Errorf("the records are %q, not %q", got, c.want)
				}
				if info, err := os.Stat(segmentFile(to, "a", 0, ".index")); err != nil || info.Size() > 1000 {
					t.Errorf("the index: %+v, %v", info, err)
				}
				names, err := filepath.Glob(filepath.Join(to, "*", "*"))
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range names {
					if ext := filepath.Ext(n); slices.Contains([]string{".swap", ".cleaned", ".deleted"}, ext) || strings.Contains(n, hex) {
						t.Errorf("%s is left", n)
					}
				}
			})
		}
	}
}

// TestMoveOfTwo: a copy that the metadata have in its directory is the log if the one that it is made of is gone, and only then.
// Both under the plain name are what Kafka leaves in a crash, and does not start on.
func TestMoveOfTwo(t *testing.T) {
	const future = "a-0.0123456789abcdef0123456789abcdef-future"
	for _, gone := range []bool{false, true} {
		from := []string{kafka(t), kafka(t)}
		remove(t, filepath.Join(from[1], metadataDir), filepath.Join(from[1], "stray-0"), filepath.Join(from[1], "other-0"), filepath.Join(from[0], "stray-0"), filepath.Join(from[0], "other-0"))
		writeMetadata(t, from[0], lying("a", 1, directoryOf(from[1])), list(registered(directoryOf(from[0]), directoryOf(from[1]))))
		to := []string{filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y")}
		if _, err := Run(Options{From: from, To: to}); err == nil || !strings.Contains(err.Error(), "a-0 is in "+from[0]+" and in "+from[1]+": the metadata have it in "+from[1]) && !strings.Contains(err.Error(), "a-0 is in "+from[1]+" and in "+from[0]+": the metadata have it in "+from[1]) {
			t.Errorf("under one name in both: %v", err)
		}
		rename(t, filepath.Join(from[1], "a-0"), filepath.Join(from[1], future))
		at := 0
		if gone {
			remove(t, filepath.Join(from[0], "a-0"))
			at = 1
		}
		r, err := Run(Options{From: from, To: to})
		if err != nil || r.Logs != 1 || r.Records != 3 || len(r.Left) != 1-at {
			t.Fatalf("gone %v: %+v, %v", gone, r, err)
		}
		if _, err := os.Stat(filepath.Join(to[at], "a-0")); err != nil {
			t.Errorf("gone %v: %v", gone, err)
		}
		if got := contents(t, to, "a", 1); len(got) != 3 {
			t.Errorf("gone %v: %q", gone, got)
		}
		if !gone {
			continue
		}
		// A copy that nobody was told of is not whole.
		writeMetadata(t, from[0], lying("a", 1, directoryOf(from[0])), list(registered(directoryOf(from[0]), directoryOf(from[1]))))
		if r, err = Run(Options{From: from, To: []string{filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y")}}); err != nil || r.Logs != 0 || !strings.Contains(strings.Join(r.Left, "\n"), future+" is a part of a-0") {
			t.Errorf("a copy that is not whole: %+v, %v", r, err)
		}
	}
}

// messageSet is one message of an old format.
func messageSet(magic byte, offset int64, value string) []byte {
	m := []byte{0, 0, 0, 0, magic, 0}
	if magic == 1 {
		m = binary.BigEndian.AppendUint64(m, uint64(time.Now().UnixMilli()))
	}
	m = append(binary.BigEndian.AppendUint32(append(m, 255, 255, 255, 255), uint32(len(value))), value...)
	binary.BigEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(offset)), uint32(len(m))), m...)
}

// TestOldMessageSets: what Kafka wrote before 0.11 is refused by name, wherever in a log it stands, and never cut off as if a
// crash had left it; what only looks like it is.
func TestOldMessageSets(t *testing.T) {
	for _, magic := range []byte{0, 1} {
		old := slices.Concat(messageSet(magic, 0, "x"), messageSet(magic, 1, strings.Repeat("long ", 300_000)))
		bad := messageSet(magic, 3, "x")
		bad[len(bad)-1]++
		for name, c := range map[string]struct {
			spoil   func(whole []byte) []byte
			refused string
			written bool
		}{
			"all of it":        {func([]byte) []byte { return old }, "a-0 has some (%s begins with one)", false},
			"its beginning":    {func(b []byte) []byte { return append(bytes.Clone(old), b...) }, "a-0 has some (%s begins with one)", false},
			"its end":          {func(b []byte) []byte { return append(bytes.Clone(b), messageSet(magic, 3, "x")...) }, "%s holds one at position ", true},
			"remains of one":   {func(b []byte) []byte { return append(bytes.Clone(b), bad...) }, "", true},
			"a half of one":    {func(b []byte) []byte { return append(bytes.Clone(b), bad[:len(bad)-2]...) }, "", true},
			"zeros behind":     {func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 3000)...) }, "", true},
			"a few bytes more": {func(b []byte) []byte { return append(bytes.Clone(b), 1, 2, 3) }, "", true},
		} {
			t.Run(fmt.Sprintf("magic %d, %s", magic, name), func(t *testing.T) {
				t.Parallel()
				dir := unclean(t, kafka(t, bytesOf(metadataLog(0, topic("a", 1, node)))))
				path := segmentFile(dir, "a", 0, ".log")
				whole := read(t, path)
				write(t, path, c.spoil(whole))
				to := filepath.Join(t.TempDir(), "ours")
				r, err := Run(Options{From: []string{dir}, To: []string{to}})
				if c.refused == "" {
					if err != nil || r.Records != 3 {
						t.Errorf("%+v, %v", r, err)
					}
					return
				}
				if want := fmt.Sprintf(c.refused, path); !errors.Is(err, ErrOldSets) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, without %q", err, want)
				}
				if _, err := os.Stat(to); (err == nil) != c.written {
					t.Errorf("written: %v", err)
				}
				if storage.Inspect(disk.OS{}, to).Formatted {
					t.Error("the directory is marked as the node's")
				}
			})
		}
	}
}

// TestFramesInPieces: where the batches of a segment begin does not depend on how its bytes come.
func TestFramesInPieces(t *testing.T) {
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(1, nil, make([]byte, 100))
	whole := append(bytes.Repeat(u.Bytes(), 5), messageSet(1, 5, "x")...)
	for size := 1; size < 400; size++ {
		var f frames
		for piece := range slices.Chunk(whole, size) {
			if n, err := f.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !f.old || f.at != int64(5*len(u.Bytes())) {
			t.Fatalf("in pieces of %d: %+v", size, f)
		}
	}
}
