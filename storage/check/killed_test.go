package check_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
)

// killed is a directory as kill -9 has left it, and where its batches lie.
type killed struct {
	files  map[string][]byte
	points map[string]batch.Offset // the recovery point of each topic's partition
	point  batch.Offset            // that of t-0
	at     map[string][]placed     // by the names of t-0's segments
	bytes  int64                   // of all segments of t-0
}

// placed is where a batch lies in its segment.
type placed struct {
	pos, size int
	offset    batch.Offset
}

func leftByKill(t *testing.T) killed {
	t.Helper()
	k := killed{files: tree(t, written(t, false)), at: map[string][]placed{}, points: map[string]batch.Offset{}}
	for name, b := range k.files {
		if !strings.HasPrefix(name, dir+"/t-0/") || !strings.HasSuffix(name, ".log") {
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
	for line := range strings.Lines(string(k.files[dir+"/recovery-point-offset-checkpoint"])) {
		if f := strings.Fields(line); len(f) == 3 {
			n, err := strconv.Atoi(f[2])
			if err != nil || n == 0 {
				t.Fatalf("a recovery point: %q", line)
			}
			k.points[f[0]] = batch.Offset(n)
		}
	}
	if k.point = k.points["t"]; len(k.points) != len(killedTopics) {
		t.Fatalf("recovery points: %v", k.points)
	}
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

// start begins a broker's life there, and reads all logs or one; see contentOf.
func (k *killed) start(fs *disktest.FS, of string) (start, error) {
	core, lines := observer.New(zap.WarnLevel)
	s, err := openTold(fs, zap.New(core))
	if err != nil {
		return start{}, err
	}
	defer s.Close(false)
	out := start{}
	var ends map[string]batch.Offset
	if out.content, ends, err = contentOf(s, fs, killedTopics, of); err != nil {
		return start{}, err
	}
	out.end, out.bytes, out.told = ends["t"], size(fs), lines.All()
	return out, nil
}

// size is how long the segments of t-0 are together.
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

// Where a batch has its length, behind the base offset, its leader epoch, and the magic.
const inLength, inEpoch, inMagic = 8, 12, 16

// TestCorruptedBytesAfterKill changes bytes of every kind of file of a directory that kill -9 has left. Behind the
// recovery point a log is cut at the batch that was hit, and it is told how much went; below it the damage is told, by the
// start where it reads there and by the checker, and nothing is cut. What other files say is made anew, refused, or found.
func TestCorruptedBytesAfterKill(t *testing.T) {
	k := leftByKill(t)
	wanted := map[string]start{}
	for _, of := range []string{"", "t", "u", "v", "w", "future"} {
		s, err := k.start(k.spoilt("", 0, 0), of)
		if err != nil || s.bytes != k.bytes || len(s.content) < 1000 || len(s.said(saidCut))+len(s.said(saidDamage)) > 0 {
			t.Fatalf("of %q: %d of %d bytes, %v", of, s.bytes, k.bytes, err)
		}
		wanted[of] = s
	}
	chance := rand.New(rand.NewPCG(5, 6))
	kinds := map[string]map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(k.files)) {
		if !strings.HasPrefix(name, dir+"/") {
			continue
		}
		b, kind, of := k.files[name], kindOf(name), partitionOf(name)
		want := wanted[of]
		n := bitsOf(kind, of)
		for _, i := range chance.Perm(8 * len(b))[:min(n, 8*len(b))] {
			at, bit := i/8, i%8
			bad := func(format string, args ...any) {
				t.Errorf("%s: bit %d of byte %d: %s", name, bit, at, fmt.Sprintf(format, args...))
			}
			fs := k.spoilt(name, at, bit)
			r := report(t, fs)
			found := len(r.All()) > 0
			s, err := k.start(fs, of)
			where, what := kind, "harmless"
			switch c := r.Cut(); {
			case of != "t" || kind != "log":
			case err != nil && (r.Sound() || c.Bytes > 0):
				bad("the start refuses (%v), the checker says %v", err, r.All())
			case err == nil && c.Bytes != k.bytes-s.bytes:
				bad("the start cuts %d bytes, the checker says %v", k.bytes-s.bytes, r.All())
			case len(s.said(saidCut)) == 1 && (c.Batches < s.said(saidCut)[0]["readable_batches"].(int64) || r.Sound() != (c.Batches == 0)):
				bad("the start says %v, the checker %v", s.said(saidCut), r.All())
			}
			switch {
			case of == "t" && kind == "log":
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
					if in > inMagic && s.end != p.offset || in >= batch.HeaderSize && s.said(saidCut)[0]["readable_batches"] != int64(k.behind(p)) {
						bad("cut at %d where offset %d was hit, with %d behind it: %v", s.end, p.offset, k.behind(p), s.said(saidCut)[0])
					}
				case s.content != want.content && !found && (at-p.pos < inLength || at-p.pos >= inEpoch && at-p.pos < inMagic):
					what = "not covered" // by any checksum: leaders write their epoch and the offset into what producers have made
				case s.content != want.content && !found:
					bad("neither found nor harmless:\n%s", firstDifference(s.content, want.content))
				case s.content != want.content:
					what = "found"
				}
			case err != nil:
				what = "refused"
			case s.bytes != k.bytes || len(s.said(saidCut)) > 0:
				bad("cut: %v", s.said(saidCut)) // all that others than t-0 hold was flushed
			case found && r.Sound() && s.content != want.content && len(s.told) == len(want.told) && !(of == "" && strings.HasSuffix(kind, "-checkpoint")) && !(of != "t" && uncovered(name, b, at)):
				bad("the start is said to mend %v, and it reads otherwise:\n%s", r.All(), firstDifference(s.content, want.content))
			case found:
				what = "found"
			case s.content != want.content && len(s.told) > len(want.told):
				what = "told"
			case s.content != want.content && of != "t" && uncovered(name, b, at):
				what = "not covered"
			case s.content != want.content && (kind == "log-start-offset-checkpoint" || kind == "recovery-point-offset-checkpoint"):
				// Another log start is as good: what leader epochs say of it is as old as the last flush. And from a lower recovery
				// point on a cleaned segment is read again, in which nothing is left of what was aborted.
				what = "not covered"
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
		"leader-epoch-checkpoint": {"found"}, "metadata": {"found", "refused"}, "properties": {"refused", "found"},
		"recovery-point-offset-checkpoint": {"found"}, "log-start-offset-checkpoint": {"found"}, "replication-offset-checkpoint": {"found"}, "cleaner-offset-checkpoint": {"found"},
		"cleaned log": {"found"}, "cleaned index": {"found"}, "cleaned timeindex": {"found"}, "cleaned txnindex": {"found"}, "cleaned snapshot": {"found"}, "cleaned leader-epoch-checkpoint": {"found"}, "cleaned metadata": {"found", "refused"},
		"future log": {"found"}, "future index": {"found"}, "future timeindex": {"found"}, "future snapshot": {"found"}, "future leader-epoch-checkpoint": {"found"}, "future metadata": {"found", "refused"},
		"log.swap": {"found"}, "index.swap": {"found"}, "timeindex.swap": {"found"}, "txnindex.swap": {"found"},
		"log.cleaned": {"harmless"}, "index.cleaned": {"harmless"}, "timeindex.cleaned": {"harmless"}, "txnindex.cleaned": {"harmless"}, "log.deleted": {"harmless"},
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
			s, err := k.start(fs, "t")
			if n := size(fs); n != k.bytes || err == nil || !strings.Contains(err.Error(), "below the recovery point") {
				t.Errorf("batch %d of %s, at %d: %d of %d bytes are left, %v; %v", i, name, p.offset, n, k.bytes, err, s.said(saidCut))
			}
			if r := report(t, k.spoilt(name, p.pos+5, 0)); r.Sound() || r.Cut() != (check.Cut{}) {
				t.Errorf("batch %d of %s: the start refuses, the checker says %v", i, name, r.All())
			}
		}
	}
}
