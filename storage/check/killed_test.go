package check_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
)

// killed is a directory as kill -9 has left it, and where its batches lie.
type killed struct {
	files map[string][]byte
	point batch.Offset // the recovery point
	at    map[string][]placed
	bytes int64 // of all segments
}

// placed is where a batch lies in its segment.
type placed struct {
	pos, size int
	offset    batch.Offset
}

func leftByKill(t *testing.T) killed {
	t.Helper()
	base := written(t, false)
	k := killed{files: map[string][]byte{}, at: map[string][]placed{}}
	for _, d := range []string{dir, dir + "/t-0"} {
		entries, err := base.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.Dir {
				k.files[d+"/"+e.Name] = base.Bytes(d + "/" + e.Name)
			}
		}
	}
	for name, b := range k.files {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		k.bytes += int64(len(b))
		for pos := 0; pos < len(b); {
			h, err := batch.ParseHeader(b[pos:])
			if err != nil {
				t.Fatal(err)
			}
			k.at[name] = append(k.at[name], placed{pos, h.Size(), h.BaseOffset})
			pos += h.Size()
		}
	}
	lines := strings.Fields(string(k.files[dir+"/recovery-point-offset-checkpoint"]))
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil || n == 0 {
		t.Fatalf("the recovery point: %q", lines)
	}
	k.point = batch.Offset(n)
	return k
}

// spoilt is the directory with one bit of one file changed.
func (k *killed) spoilt(name string, at, bit int) *disktest.FS {
	fs := disktest.New()
	for n, b := range k.files {
		if n == name {
			b = bytes.Clone(b)
			b[at] ^= 1 << bit
		}
		fs.Put(n, b)
	}
	return fs
}

// hit is the batch that a byte of a segment belongs to.
func (k *killed) hit(name string, at int) placed {
	for _, p := range k.at[name] {
		if at < p.pos+p.size {
			return p
		}
	}
	panic(fmt.Sprintf("%s has no byte %d", name, at))
}

// behind is how many batches follow one in the log.
func (k *killed) behind(p placed) (n int) {
	for _, list := range k.at {
		for _, q := range list {
			if q.offset > p.offset {
				n++
			}
		}
	}
	return n
}

// start is what a start on a directory comes to.
type start struct {
	end     batch.Offset
	bytes   int64 // of the segments that are left
	told    []observer.LoggedEntry
	content string
}

func (k *killed) start(fs *disktest.FS) (start, error) {
	core, lines := observer.New(zap.WarnLevel)
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir}, FS: fs, NodeID: 1, Logger: zap.New(core), Now: func() time.Time { return time.UnixMilli(1_700_000_100_000) }})
	if err != nil {
		return start{}, err
	}
	defer s.Close(false)
	l, err := s.Log("t", [16]byte{1}, 0, smallConfig())
	if err != nil {
		return start{}, err
	}
	if s.ClusterID() != cluster {
		return start{}, errors.New("of another cluster")
	}
	if names, err := fs.ReadDir(dir); err != nil || slices.ContainsFunc(names, func(e disk.Entry) bool { return strings.HasSuffix(e.Name, "-stray") }) {
		return start{}, errors.Join(errors.New("put aside"), err)
	}
	out := start{end: l.View().LogEnd(), told: lines.All()}
	out.bytes = size(fs)
	// What cannot be read is not the content that was written.
	if out.content, err = logContent(l.View(), l.Producers()); err != nil {
		out.content = err.Error()
	}
	return out, nil
}

// size is how long the partition's segments are together.
func size(fs *disktest.FS) (n int64) {
	names, err := fs.ReadDir(dir + "/t-0")
	if err != nil {
		return -1
	}
	for _, e := range names {
		if strings.HasSuffix(e.Name, ".log") {
			n += int64(len(fs.Bytes(dir + "/t-0/" + e.Name)))
		}
	}
	return n
}

// said are the lines with a message.
func (s *start) said(message string) (list []map[string]any) {
	for _, e := range s.told {
		if e.Message == message {
			list = append(list, e.ContextMap())
		}
	}
	return list
}

const (
	saidCut    = "log was cut at the first bad batch"
	saidDamage = "log is damaged below its recovery point"
)

// cutRightly: a log that was cut ends at or behind the recovery point, and what went was told.
func (k *killed) cutRightly(s *start) error {
	lines := s.said(saidCut)
	if len(lines) != 1 {
		return fmt.Errorf("%d lines of cuts", len(lines))
	}
	l := lines[0]
	switch {
	case s.end < k.point:
		return fmt.Errorf("it ends at %d, below the recovery point %d", s.end, k.point)
	case l["offset"] != int64(s.end):
		return fmt.Errorf("it ends at %d: %v", s.end, l)
	case l["bytes"] != k.bytes-s.bytes:
		return fmt.Errorf("%d bytes are missing: %v", k.bytes-s.bytes, l)
	}
	return nil
}

// Where a batch has its leader epoch, and the magic behind it.
const inEpoch, inMagic = 12, 16

// TestCorruptedBytesAfterKill changes bytes of every kind of file of a directory that kill -9 has left. Behind the
// recovery point a log is cut at the batch that was hit, and it is told how much went; below it the damage is told, by the
// start where it reads there and by the checker, and nothing is cut. What other files say is made anew, refused, or found.
func TestCorruptedBytesAfterKill(t *testing.T) {
	k := leftByKill(t)
	want, err := k.start(k.spoilt("", 0, 0))
	if err != nil || want.bytes != k.bytes {
		t.Fatalf("%d of %d bytes, %v", want.bytes, k.bytes, err)
	}
	chance := rand.New(rand.NewPCG(5, 6))
	kinds := map[string]map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(k.files)) {
		b := k.files[name]
		kind := name[strings.LastIndexAny(name, "./")+1:]
		n := *bits
		if testing.Short() {
			n = 6
		}
		for _, i := range chance.Perm(8 * len(b))[:min(n, 8*len(b))] {
			at, bit := i/8, i%8
			bad := func(format string, args ...any) {
				t.Errorf("%s: bit %d of byte %d: %s", name, bit, at, fmt.Sprintf(format, args...))
			}
			fs := k.spoilt(name, at, bit)
			r := report(t, fs)
			found := len(r.All()) > 0
			s, err := k.start(fs)
			where, what := kind, "harmless"
			switch {
			case kind == "log":
				p := k.hit(name, at)
				if where = "log below"; p.offset >= k.point {
					where = "log behind"
				}
				switch {
				case err != nil && where == "log below" && strings.Contains(err.Error(), "below the recovery point") && size(fs) == k.bytes:
					what = "refused" // and left as it is
				case err != nil:
					bad("%v", err)
				case where == "log below" && (s.bytes != k.bytes || s.end != want.end || len(s.said(saidCut)) > 0):
					bad("cut to %d of %d bytes", s.bytes, k.bytes)
				case where == "log below" && s.content != want.content:
					if what = "found"; r.Sound() {
						bad("the checker finds nothing to worry about:\n%s", firstDifference(s.content, want.content))
					}
					if len(s.said(saidDamage)) > 0 {
						what = "told"
					}
				case s.bytes != k.bytes:
					what = "cut"
					if err := k.cutRightly(&s); err != nil {
						bad("%v", err)
					}
					// An offset or a length may say of the next batch that it is the bad one, and behind what
					// has no length, or is of no known format, nothing is found.
					in := at - p.pos
					if in > inMagic && s.end != p.offset || in >= batch.HeaderSize && s.said(saidCut)[0]["readable batches"] != int64(k.behind(p)) {
						bad("cut at %d where offset %d was hit, with %d behind it: %v", s.end, p.offset, k.behind(p), s.said(saidCut)[0])
					}
				case s.content != want.content && !found && at-p.pos >= inEpoch && at-p.pos < inMagic:
					what = "not covered" // by any checksum: leaders write their epoch into what producers have made
				case s.content != want.content && !found:
					bad("neither found nor harmless:\n%s", firstDifference(s.content, want.content))
				case s.content != want.content:
					what = "found"
				}
			case err != nil:
				what = "refused"
			case s.bytes != k.bytes:
				bad("cut to %d of %d bytes", s.bytes, k.bytes)
			case found:
				what = "found"
			case s.content != want.content:
				bad("neither found nor harmless:\n%s", firstDifference(s.content, want.content))
			case len(s.told) > len(want.told):
				what = "told"
			}
			if kinds[where] == nil {
				kinds[where] = map[string]int{}
			}
			kinds[where][what]++
		}
	}
	for where, list := range map[string][]string{
		"log behind": {"cut"}, "log below": {"told", "found", "refused"}, "index": {"found"}, "timeindex": {"found"}, "txnindex": {"found"}, "snapshot": {"found"},
		"leader-epoch-checkpoint": {"found"}, "recovery-point-offset-checkpoint": {"found"}, "metadata": {"found", "refused"}, "properties": {"refused", "found"},
	} {
		n := 0
		for _, what := range list {
			n += kinds[where][what]
		}
		if n == 0 {
			t.Errorf("%s: none of %v: %v", where, list, kinds[where])
		}
	}
	t.Logf("%v", kinds)
}

// TestOffsetAcrossTheRecoveryPoint changes what no checksum covers: the offset of a batch below the recovery point becomes
// one behind it, so that the next is out of order. That is damage below the point, and what follows stays.
func TestOffsetAcrossTheRecoveryPoint(t *testing.T) {
	k := leftByKill(t)
	for name, list := range k.at {
		for i, p := range list {
			if p.offset >= k.point || list[len(list)-1].offset < k.point {
				continue // it lies behind, or all of its segment below
			}
			fs := k.spoilt(name, p.pos+5, 0) // 65536 more
			s, err := k.start(fs)
			if n := size(fs); n != k.bytes || err == nil || !strings.Contains(err.Error(), "below the recovery point") {
				t.Errorf("batch %d of %s, at %d: %d of %d bytes are left, %v; %v", i, name, p.offset, n, k.bytes, err, s.said(saidCut))
			}
		}
	}
}
