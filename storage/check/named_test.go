package check_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
)

// TestNamesFilePlaceAndReason spoils one thing in each kind of file of a directory that was closed in order. The finding
// names the file, where in it, the offset where there is one, and why.
func TestNamesFilePlaceAndReason(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 0x41; return b }
	}
	set16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return b }
	}
	set32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	set64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], v); return b }
	}
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				panic(fmt.Sprintf("%q is not in %q", old, b))
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		}
	}
	whole := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	more := func(x ...byte) func([]byte) []byte { return func(b []byte) []byte { return append(b, x...) } }

	const first = "t-0/00000000000000000000"
	clean := report(t, written(t, true)).Partitions[0]
	segment := written(t, true).Bytes(dir + "/" + first + ".log")
	h, _ := batch.ParseHeader(segment)
	second := h.Size() // where the second batch begins
	later := 0         // where one begins that lies above the log start
	for h.BaseOffset < clean.Start {
		later += h.Size()
		h, _ = batch.ParseHeader(segment[later:])
	}
	for _, c := range []struct {
		file  string // the first one with that end
		what  string
		spoil func([]byte) []byte
		want  string
	}{
		{first + ".log", "the base offset of a batch goes back", set64(second, 0), fmt.Sprintf("at %d (offset 2): a batch of offsets 0 to 1 behind offset 1", second)},
		{first + ".log", "the length of a batch", set32(second+8, 1<<30), fmt.Sprintf("at %d (offset 2): a batch of 1073741836 bytes, ", second)},
		{first + ".log", "the length of a batch is too small", set32(second+8, 3), fmt.Sprintf("at %d (offset 2): ", second)},
		{first + ".log", "the leader epoch of a batch", set32(later+12, 9), fmt.Sprintf("leader-epoch-checkpoint (offset %d): the batch is of epoch 9, the file says 1", h.BaseOffset)},
		{first + ".log", "the format of a batch", flip(second + 16), fmt.Sprintf("at %d (offset 2): ", second)},
		{first + ".log", "the checksum of a batch", flip(second + 17), fmt.Sprintf("at %d (offset 2): ", second)},
		{first + ".log", "the codec of a batch", flip(second + 22), fmt.Sprintf("at %d (offset 2): ", second)},
		{first + ".log", "a byte of a record", flip(second + 70), fmt.Sprintf("at %d (offset 2): ", second)},
		{first + ".log", "its last byte is not there", cut(1), "): a batch of "},
		{first + ".log", "zeros follow", more(make([]byte, 100)...), "): "},
		{first + ".log", "a few bytes follow", more(1, 2, 3), "): 3 bytes are left, too few for a batch"},
		{first + ".index", "a position", set32(4, 1<<20), "at 0 (offset "},
		{first + ".index", "an offset", set32(0, 1), "at 0 (offset 1): the batch at position 230 begins at 4"},
		{first + ".index", "half an entry", cut(3), "5 bytes are no whole entry"},
		{first + ".timeindex", "a time", set64(0, 1_700_000_009_000), "at 0 (offset "},
		{first + ".timeindex", "an offset", set32(8, 1<<20), "): the segment's batches end before it"},
		{first + ".timeindex", "half an entry", cut(5), "7 bytes are no whole entry"},
		{first + ".timeindex", "empty", cut(1 << 20), "does not end with the segment's largest time"},
		{".txnindex", "version", set16(0, 3), "at 0 (offset "},
		{".txnindex", "producer", set64(2, 77), "): names producer 77, the marker is of 20"},
		{".txnindex", "first offset", set64(10, 1), "): the transaction ended at "},
		{".txnindex", "last offset", set64(18, 1<<40), "at 0 (offset 1099511627776): no transaction was aborted there"},
		{".txnindex", "last stable offset", set64(26, 1), "leaves the log stable to 1, the log says "},
		{".txnindex", "half an entry", cut(4), "30 bytes are no whole entry"},
		{".snapshot", "version", set16(0, 2), "version 2"},
		{".snapshot", "checksum", flip(3), "stored crc "},
		{".snapshot", "count", flip(9), "stored crc "},
		{".snapshot", "an entry", flip(20), "stored crc "},
		{".snapshot", "cut", cut(1), "stored crc "},
		{".snapshot", "empty", whole(""), "0 bytes"},
		{"t-0/leader-epoch-checkpoint", "version", replace("0\n", "1\n"), `version "1", want 0`},
		{"t-0/leader-epoch-checkpoint", "count", replace("0\n3\n", "0\n2\n"), "bytes after its 2 entries"},
		{"t-0/leader-epoch-checkpoint", "an epoch that is none", replace("\n2 ", "\nx "), "epoch of entry 1"},
		{"t-0/leader-epoch-checkpoint", "an epoch that falls back", replace("\n3 ", "\n2 "), "entries do not increase"},
		{"t-0/leader-epoch-checkpoint", "it begins too early", replace("\n1 5\n", "\n1 4\n"), "(offset 4): begins at 4, the log at 5"},
		{"t-0/partition.metadata", "version", replace("version: 0", "version: 7"), "is no partition.metadata of version 0"},
		{"t-0/partition.metadata", "id", replace("topic_id: dA", "topic_id: !!"), "topic id "},
		{"t-0/partition.metadata", "no id", whole("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"), "topic id is zero"},
		{"/recovery-point-offset-checkpoint", "version", replace("0\n", "4\n"), "is no checkpoint of version 0"},
		{"/recovery-point-offset-checkpoint", "above the log's end", replace(fmt.Sprint(clean.End), "9999"), fmt.Sprintf("(offset 9999): says that t-0 was flushed to 9999, it ends at %d", clean.End)},
		{"/recovery-point-offset-checkpoint", "a partition is missing", whole("0\n0\n"), "does not name t-0"},
		{"/recovery-point-offset-checkpoint", "a partition that is not there", whole(fmt.Sprintf("0\n2\nt 0 %d\nu 3 4\n", clean.End)), "(offset 4): names u-3, which is not there"},
		{"/recovery-point-offset-checkpoint", "a name that is no text", whole(fmt.Sprintf("0\n2\nt 0 %d\n\xe4\x1b[2J 3 4\n", clean.End)), `(offset 4): names "\xe4\x1b[2J-3", which is not there`},
		{"/log-start-offset-checkpoint", "count", replace("\n1\n", "\n2\n"), `has 1 entries and says "2"`},
		{"/log-start-offset-checkpoint", "above the log's end", replace(" 5", " 99999"), fmt.Sprintf("(offset 99999): says that t-0 begins at 99999, it ends at %d", clean.End)},
		{"/replication-offset-checkpoint", "no number", replace("t 0 ", "t 0 x"), "entry 0 is "},
		{"/replication-offset-checkpoint", "above the log's end", whole("0\n1\nt 0 99999\n"), fmt.Sprintf("(offset 99999): says 99999 of t-0, it ends at %d", clean.End)},
		{"/replication-offset-checkpoint", "twice", whole("0\n2\nt 0 1\nt 0 1\n"), "entry 1 is "},
		{"/cleaner-offset-checkpoint", "no end", whole("0\n1\nt 0 1"), "is no checkpoint of version 0"},
		{"/cleaner-offset-checkpoint", "above the log's end", whole("0\n1\nt 0 99999\n"), fmt.Sprintf("(offset 99999): says that t-0 was cleaned to 99999, it ends at %d (mended by the next start)", clean.End)},
		{"/meta.properties", "version", replace("version=1", "version=9"), `meta.properties: version is "9": only 1 and 0 are known`},
		{"/meta.properties", "anything", whole("garbage\n"), `meta.properties: line 1 is "garbage", no key=value: expected version=1 with cluster.id and node.id`},
		{"/meta.properties", "no version", replace("version=1", ""), "version is missing: expected version=1 with cluster.id and node.id"},
		{"/meta.properties", "no node", replace("node.id=1", "node.ib=1"), "node.id is missing"},
		{"/meta.properties", "node", replace("node.id=1", "node.id=-1"), `node.id is "-1": expected a number that is not negative`},
		{"/meta.properties", "cluster", replace("cluster.id=", "cluster.ia="), "cluster.id is missing"},
		{"/meta.properties", "directory", replace("directory.id=", "directory.id=!"), "directory.id is "},
		{"/.kafka_cleanshutdown", "text", replace("{", "["), "is no mark of a clean stop"},
		{"t-0/00000000000000000001.what", "a file of nobody's", whole("x"), "is no file of a segment"},
		{"t-0/00000000000000000000.index.tmp", "an index that was being made", whole("x"), "a file that was being made (mended by the next start)"},
		{"t-0/00000000000000000000.log.cut", "a name that no start removes", whole("x"), "is no file of a segment"},
		{"t-0/notes", "a file of nobody's", whole("x"), "is no file of a partition"},
	} {
		t.Run(c.file+": "+c.what, func(t *testing.T) {
			fs := written(t, true)
			name := find(t, fs, c.file)
			b := bytes.Clone(fs.Bytes(name))
			if c.what == "empty" {
				b = nil
			} else {
				b = c.spoil(b)
			}
			fs.Put(name, b)
			r := report(t, fs)
			file := name
			if strings.HasPrefix(c.want, "leader-epoch-checkpoint") {
				file = dir + "/t-0/leader-epoch-checkpoint"
			}
			for _, f := range r.All() {
				if f.File == file && strings.Contains(f.String(), c.want) && f.Mended == strings.Contains(c.want, "mended") {
					return
				}
			}
			t.Errorf("no finding says %q of %s: %v", c.want, file, r.All())
		})
	}
}

// find is the name of the first file with an end, or that name itself.
func find(t *testing.T, fs *disktest.FS, end string) string {
	t.Helper()
	if strings.HasPrefix(end, "/") {
		return dir + end
	}
	if !strings.HasPrefix(end, ".") {
		return dir + "/" + end
	}
	entries, err := fs.ReadDir(dir + "/t-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, end) {
			return dir + "/t-0/" + e.Name
		}
	}
	t.Fatalf("no %s", end)
	return ""
}

// TestMetadataOfAnEmptyLog: partition.metadata is synced with what is flushed first. Before that a crash may leave it
// without its bytes, also of a log that was emptied, which begins and ends at its recovery point and has no segment.
func TestMetadataOfAnEmptyLog(t *testing.T) {
	for _, c := range []struct {
		point, start batch.Offset
		mended       bool
	}{{-1, -1, true}, {0, 0, true}, {7, 7, true}, {7, 9, true}, {7, 6, false}, {7, -1, false}} {
		fs := disktest.New()
		fs.Put("/d/t-0/partition.metadata", nil)
		p, err := check.CheckPartition(fs, "/d/t-0", check.Options{RecoveryPoint: c.point, LogStart: c.start, HighWatermark: -1})
		if err != nil {
			t.Fatal(err)
		}
		mended := true
		for _, f := range p.Findings {
			mended = mended && f.Mended
		}
		if len(p.Findings) == 0 || mended != c.mended {
			t.Errorf("flushed to %d, begins at %d: %v", c.point, c.start, p.Findings)
		}
	}
}
