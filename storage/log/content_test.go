package log

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/producer"
)

// TestAppendBehindADamagedHead: the time of a segment's first batch says when to roll. Where it cannot be read what is appended
// goes to a new segment, and no data directory is given up.
func TestAppendBehindADamagedHead(t *testing.T) {
	for _, n := range []int{1, 40, 200} { // with and without entries in the index, and with more than one read holds
		x := newLived(t)
		x.add(n)
		end := x.log.end
		x.ok(x.log.Close())
		x.o.RecoveryPoint = x.log.RecoveryPoint()
		name := x.o.Dir + "/" + fileName(0, suffixLog)
		b := x.fs.Bytes(name)
		clear(b[:batch.HeaderSize])
		x.fs.Put(name, b)
		r, _ := x.open(true)
		if told := len(r.Damage) == 1 && r.Damage[0].Segment == name && r.Damage[0].Position == 0 && r.Damage[0].Offset == 0; told != (n < 200) || x.log.end != end {
			t.Errorf("of %d the log ends at %d: %+v", n, x.log.end, r)
		}
		x.add(5)
		if x.log.directory.Offline() != nil || x.log.View().Segments() != 2 {
			t.Fatalf("%v, %d segments", x.log.directory.Offline(), x.log.View().Segments())
		}
		for range 2 {
			x.readsAll(end, end+5)
			x.fs.Kill()
			x.open(false)
		}
		if got := x.fs.Bytes(name); !bytes.Equal(got, b) {
			t.Error("the damaged segment was changed")
		}
		if _, err := x.log.View().Read(0, end, 1, true); !isCorrupt(err) {
			t.Errorf("a read of what is damaged: %v", err)
		}
	}
}

// readsAll reads each batch of lived.add.
func (x *lived) readsAll(from, end batch.Offset) {
	x.t.Helper()
	if x.log.end != end {
		x.t.Fatalf("the log ends at %d, not at %d", x.log.end, end)
	}
	for o := from; o < end; o++ {
		s, err := x.log.View().Read(o, end, 1, true)
		x.ok(err)
		b, err := sectionBytes(s)
		x.ok(err)
		if h, err := batch.ParseHeader(b); err != nil || h.BaseOffset != o || batch.CheckCRC(b) != nil {
			x.t.Fatalf("%d is read at %d: %v", h.BaseOffset, o, err)
		}
	}
}

// TestSegmentOfAnotherLength changes where the newest segment ends after a stop in order. The start notices, and tells of it;
// nothing of what was flushed is cut, and whatever is appended from then on outlives kills and can be read.
func TestSegmentOfAnotherLength(t *testing.T) {
	const was, now = 40, 5
	each := int64(0) // bytes of a batch
	for _, c := range []struct {
		what   string
		change func(x *lived, b []byte) []byte
		end    batch.Offset // where the log then ends
		reads  batch.Offset // up to where what was there can be read
		damage bool
		lost   batch.Offset
		cut    bool
		goesOn bool // it is read as after a crash
	}{
		{what: "nothing", change: func(_ *lived, b []byte) []byte { return b }, end: was, reads: was},
		{what: "cut within the last batch", change: func(_ *lived, b []byte) []byte { return b[:len(b)-9] }, end: was, reads: was - 1, damage: true},
		{what: "cut within a header", change: func(_ *lived, b []byte) []byte { return b[:(was-1)*each+20] }, end: was, reads: was - 1, damage: true},
		{what: "cut within a batch long before", change: func(_ *lived, b []byte) []byte { return b[:3*each+100] }, end: was, reads: 3, damage: true},
		{what: "cut within the first batch", change: func(x *lived, b []byte) []byte { return b[:100] }, end: was, damage: true},
		{what: "cut between two batches", change: func(_ *lived, b []byte) []byte { return b[:(was-2)*each] }, end: was - 2, reads: was - 2, lost: 2},
		{what: "emptied", change: func(*lived, []byte) []byte { return nil }, lost: was},
		{what: "zeros behind", change: func(_ *lived, b []byte) []byte { return append(b, make([]byte, 100)...) }, end: was, reads: was, cut: true, goesOn: true},
		{what: "a few bytes behind", change: func(_ *lived, b []byte) []byte { return append(b, 1, 2, 3) }, end: was, reads: was, cut: true, goesOn: true},
		{what: "its last batch twice", change: func(_ *lived, b []byte) []byte { return append(b, b[(was-1)*each:]...) }, end: was, reads: was, cut: true, goesOn: true},
		{what: "that of a longer log", change: func(x *lived, b []byte) []byte {
			y := newLived(x.t)
			y.add(was + 3)
			return y.fs.Bytes(y.log.last().log.path)
		}, end: was + 3, reads: was + 3, goesOn: true},
		{what: "that of a longer log, torn", change: func(x *lived, b []byte) []byte {
			y := newLived(x.t)
			y.add(was + 3)
			all := y.fs.Bytes(y.log.last().log.path)
			return all[:len(all)-1]
		}, end: was + 2, reads: was + 2, cut: true, goesOn: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			x := newLived(t)
			x.o.LowerRecoveryPoint = func(o batch.Offset) error { x.o.RecoveryPoint = min(o, x.o.RecoveryPoint); return nil }
			x.add(was)
			x.ok(x.log.Close())
			x.o.RecoveryPoint = x.log.RecoveryPoint()
			name := x.o.Dir + "/" + fileName(0, suffixLog)
			each = int64(len(x.fs.Bytes(name))) / was
			b := c.change(x, bytes.Clone(x.fs.Bytes(name)))
			x.fs.Put(name, b)
			r, _ := x.open(true)
			if x.log.end != c.end || (len(r.Damage) > 0) != c.damage || r.Lost != c.lost || (r.Cut != nil) != c.cut || r.Recovered != c.goesOn {
				t.Fatalf("the log ends at %d: %+v", x.log.end, r)
			}
			if c.damage {
				d := r.Damage[0]
				if d.Segment != name || d.Offset != c.reads || d.Position != each*int64(c.reads) || !strings.Contains(d.Reason.Error(), fmt.Sprintf("closed at offset %d, %d bytes are left", was, int64(len(b))-d.Position)) {
					t.Errorf("told: %+v", d)
				}
			}
			if c.cut && (r.Cut.Segment != name || r.Cut.Bytes == 0 || r.Cut.Offset != c.end) {
				t.Errorf("told: %+v", r.Cut)
			}
			end := c.end
			for life := range 4 {
				x.add(now)
				x.readsAll(end-batch.Offset(life*now), end+now) // what earlier lives have appended, too
				if end += now; life == 2 {
					x.ok(x.log.Close())
					x.o.RecoveryPoint = x.log.RecoveryPoint()
				} else {
					x.fs.Kill() // no flush, no checkpoint
				}
				if r, _ := x.open(life == 2); r.Cut != nil || r.Lost != 0 || len(r.Damage) > 0 {
					t.Fatalf("the start after that: %+v", r)
				}
			}
			x.readsAll(c.end, end)
			for o := range c.end {
				s, err := x.log.View().Read(o, end, 1, true)
				if (err == nil) != (o < c.reads) || err != nil && !isCorrupt(err) {
					t.Errorf("%d is read: %v", o, err)
				}
				s.Release()
			}
			if got := x.fs.Bytes(name); c.damage && !bytes.Equal(got, b) {
				t.Error("the damaged segment was changed")
			}
		})
	}
}

// spoilt is a log on a test disk of which somebody changes files.
type spoilt struct {
	t         *testing.T
	chance    *rand.Rand
	fs        *disktest.FS
	o         Options
	directory *Directory
	log       *Log
	told      Report
	acked     map[batch.Offset][]byte // since the change
	producers batch.ProducerID
}

func newSpoilt(t *testing.T, seed uint64) *spoilt {
	x := &spoilt{t: t, chance: rand.New(rand.NewPCG(seed, 77)), fs: disktest.New(), acked: map[batch.Offset][]byte{}}
	c := DefaultConfig()
	c.IndexIntervalBytes = 300
	c.SegmentBytes = 20_000
	x.o = Options{FS: x.fs, Dir: "/d/t-0", Topic: "t", TopicID: [16]byte{1}, Config: c, RecoveryPoint: -1, LogStart: -1, HighWatermark: 1 << 40, Now: func() time.Time { return time.UnixMilli(10_000) },
		LowerRecoveryPoint: func(o batch.Offset) error { x.o.RecoveryPoint = min(o, x.o.RecoveryPoint); return nil }}
	x.fs.Put("/d/x", nil)
	if err := x.open(false); err != nil {
		t.Fatal(err)
	}
	if err := x.log.AssignEpoch(1); err != nil {
		t.Fatal(err)
	}
	for range 20 + x.chance.IntN(60) {
		if err := x.append(); err != nil {
			t.Fatal(err)
		}
		switch x.chance.IntN(30) {
		case 0:
			if err := x.log.Roll(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := x.log.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	clear(x.acked)
	return x
}

func (x *spoilt) open(clean bool) (err error) {
	x.directory = &Directory{}
	x.o.Directory, x.o.Clean = x.directory, clean
	x.log, x.told, err = Open(x.o)
	return err
}

// append appends a batch, or a transaction that is aborted.
func (x *spoilt) append() error {
	add := func(o batch.BuilderOptions, r producer.Rules, k, v []byte) error {
		u := batch.NewBuilder(o)
		u.Add(int64(1000+x.log.end), k, v)
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			return err
		}
		a, err := x.log.AppendWith(b, h, 1000, r)
		if err == nil {
			x.acked[a.Base] = bytes.Clone(b)
			x.log.SetHighWatermark(x.log.end)
		}
		return err
	}
	if x.chance.IntN(6) > 0 {
		return add(batch.BuilderOptions{}, producer.Rules{}, nil, make([]byte, x.chance.IntN(300)))
	}
	x.producers++
	if err := add(batch.BuilderOptions{Producer: true, ProducerID: x.producers, Transactional: true}, producer.Rules{Verified: true}, nil, []byte("x")); err != nil {
		return err
	}
	k, v := batch.Marker{Type: batch.Abort}.KeyAndValue()
	return add(batch.BuilderOptions{Producer: true, ProducerID: x.producers, BaseSequence: -1, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, k, v)
}

// end ends the process, in order or not.
func (x *spoilt) end(clean bool) error {
	if clean {
		if err := x.log.Close(); err != nil {
			return err
		}
		x.o.RecoveryPoint = x.log.RecoveryPoint()
		return nil
	}
	if x.chance.IntN(2) == 0 {
		if err := x.log.Flush(); err != nil {
			return err
		}
		x.o.RecoveryPoint = x.log.RecoveryPoint()
	}
	x.fs.Kill()
	return nil
}

// reads says of what was appended since the change what cannot be read.
func (x *spoilt) reads() error {
	v := x.log.View()
	for o, want := range x.acked {
		s, err := v.Read(o, v.LogEnd(), 1, true)
		if err != nil {
			return fmt.Errorf("read at %d of %d: %w", o, v.LogEnd(), err)
		}
		b, err := sectionBytes(s)
		if err != nil || !bytes.Equal(b, want) {
			return fmt.Errorf("at %d other bytes are read: %w", o, err)
		}
		// A read_committed reader is told which of them were aborted.
		h, err := batch.ParseHeader(b)
		if err != nil {
			return err
		}
		aborted, err := v.Aborted(o, h.NextOffset())
		if is := slices.ContainsFunc(aborted, func(a AbortedTxn) bool { return a.ProducerID == h.ProducerID }); err != nil || is != h.Attributes.Transactional() {
			return fmt.Errorf("aborted at %d, by producer %d: %v, %w", o, h.ProducerID, aborted, err)
		}
	}
	return nil
}

// kept says whether what was appended stands in the segments, whether or not it can be read.
func (x *spoilt) kept() bool {
	var all []byte
	names, err := x.fs.ReadDir(x.o.Dir)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, suffixLog) && !n.Dir {
			all = append(all, x.fs.Bytes(x.o.Dir+"/"+n.Name)...)
		}
	}
	for _, b := range x.acked {
		if !bytes.Contains(all, b) {
			return false
		}
	}
	return true
}

var spoilings = []struct {
	what string
	do   func(chance *rand.Rand, b []byte) []byte
}{
	{"its head is zero", func(_ *rand.Rand, b []byte) []byte { clear(b[:min(61, len(b))]); return b }},
	{"a bit is another", func(chance *rand.Rand, b []byte) []byte { b[chance.IntN(len(b))] ^= 1 << chance.IntN(8); return b }},
	{"zeros within", func(chance *rand.Rand, b []byte) []byte {
		at := chance.IntN(len(b))
		clear(b[at:min(at+200, len(b))])
		return b
	}},
	{"its end is random", func(chance *rand.Rand, b []byte) []byte {
		for i := max(len(b)-1-chance.IntN(200), 0); i < len(b); i++ {
			b[i] = byte(chance.Uint32())
		}
		return b
	}},
	{"shorter", func(chance *rand.Rand, b []byte) []byte { return b[:max(len(b)-1-chance.IntN(300), 0)] }},
	{"emptied", func(*rand.Rand, []byte) []byte { return nil }},
	{"zeros behind", func(chance *rand.Rand, b []byte) []byte { return append(b, make([]byte, 1+chance.IntN(200))...) }},
	{"random bytes behind", func(chance *rand.Rand, b []byte) []byte {
		for range 1 + chance.IntN(200) {
			b = append(b, byte(chance.Uint32()))
		}
		return b
	}},
	{"a directory", nil},
}

// spoil changes a file of a kind, the last of its kind rather than another. It says of which kind it was.
func (x *spoilt) spoil(how int) (string, bool) {
	names, err := x.fs.ReadDir(x.o.Dir)
	if err != nil {
		x.t.Fatal(err)
	}
	byKind := map[string][]string{}
	for _, n := range names {
		kind := n.Name[strings.LastIndexByte(n.Name, '.')+1:]
		byKind[kind] = append(byKind[kind], n.Name)
	}
	kinds := slices.Sorted(maps.Keys(byKind))
	kind := kinds[x.chance.IntN(len(kinds))]
	if x.chance.IntN(3) == 0 {
		kind = "log"
	}
	of := byKind[kind]
	name := x.o.Dir + "/" + of[len(of)-1]
	if x.chance.IntN(3) == 0 {
		name = x.o.Dir + "/" + of[x.chance.IntN(len(of))]
	}
	b := bytes.Clone(x.fs.Bytes(name))
	if spoilings[how].do == nil {
		if err := errors.Join(x.fs.Remove(name), x.fs.MkdirAll(name)); err != nil {
			x.t.Fatal(err)
		}
		return kind, true
	}
	if len(b) == 0 {
		return kind, false
	}
	x.fs.Put(name, spoilings[how].do(x.chance, b))
	return kind, true
}

// TestSpoiltFiles changes a file of each kind in each way, after a stop in order and after a kill. Whatever it is, no data
// directory is given up for it: the log is not opened, or it is, and then takes what is appended, keeps it over stops and
// kills, and gives it to those who read it.
func TestSpoiltFiles(t *testing.T) {
	seeds := uint64(1200)
	if testing.Short() {
		seeds = 400
	}
	counts := map[string]int{}
	for seed := range seeds {
		if err := spoiltLife(t, seed, counts); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	t.Log(counts)
	for _, kind := range []string{"log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "metadata"} {
		if n := counts["spoilt "+kind]; n < int(seeds)/30 {
			t.Errorf("%d files of kind %s were changed", n, kind)
		}
		if counts["directory "+kind] == 0 || counts["opened "+kind] == 0 {
			t.Errorf("%s: %v", kind, counts)
		}
	}
	for what, least := range map[string]int{"opened": 40, "appended": 300, "opened again": 80, "told": 5, "cut": 2, "refused": 10, "aborted": 100} {
		if n := counts[what]; n < least*int(seeds)/400 {
			t.Errorf("%s: only %d", what, n)
		}
	}
}

// TestSpoiltFilesNotices shows that TestSpoiltFiles would see a log that trusts what it finds, or that blames the disk.
func TestSpoiltFilesNotices(t *testing.T) {
	for what, plant := range map[string]func(){
		"the end of the segment is trusted":    func() { faults.trustClose = true },
		"the transaction index is trusted":     func() { faults.trustTxns = true },
		"the disk is blamed for what it holds": func() { faults.blameDisk = true },
	} {
		t.Run(what, func(t *testing.T) {
			defer func() { faults = faultSwitches{} }()
			plant()
			for seed := range uint64(400) {
				if spoiltLife(t, seed, map[string]int{}) != nil {
					return
				}
			}
			t.Error("nothing is noticed")
		})
	}
}

func spoiltLife(t *testing.T, seed uint64, counts map[string]int) (err error) {
	x := newSpoilt(t, seed)
	how := int(seed) % len(spoilings)
	clean := x.chance.IntN(3) > 0
	if err := x.end(clean); err != nil {
		return err
	}
	kind, ok := x.spoil(how)
	if !ok {
		return nil
	}
	counts["spoilt "+kind]++
	if spoilings[how].do == nil {
		counts["directory "+kind]++
	}
	what := fmt.Sprintf("%s: %s, closed in order %v", kind, spoilings[how].what, clean)
	judge := func(op string, err error) error {
		if offline := x.directory.Offline(); offline != nil {
			return fmt.Errorf("%s: the directory is given up in %s: %w", what, op, offline)
		}
		return err
	}
	if err := x.open(clean); err != nil {
		counts["refused"]++
		return judge("the start", nil)
	}
	counts["opened"]++
	counts["opened "+kind]++
	if len(x.told.Damage)+int(x.told.Lost) > 0 {
		counts["told"]++
	}
	if x.told.Cut != nil {
		counts["cut"]++
	}
	if spoilings[how].do == nil {
		return fmt.Errorf("%s: it is opened", what)
	}
	for life := range 3 {
		before := x.producers
		for range 3 + x.chance.IntN(10) {
			if err := judge("an append", x.append()); err != nil {
				return fmt.Errorf("%s: append: %w", what, err)
			}
			counts["appended"]++
		}
		counts["aborted"] += int(x.producers - before)
		op, err := "", error(nil)
		switch x.chance.IntN(5) {
		case 0:
			op, err = "a roll", x.log.Roll()
		case 1:
			op, err = "a flush", x.log.Flush()
		case 2:
			op = "a look-up"
			_, _, _ = x.log.OffsetForTime(1000+int64(x.chance.IntN(100)), x.log.end)
			_, _, _ = x.log.OffsetOfMaxTimestamp()
			_, _ = x.log.View().Aborted(0, x.log.end)
		case 3:
			op = "a retention"
			_, _ = x.log.Retain(time.UnixMilli(20_000))
		case 4:
			if life < 2 {
				break
			}
			op = "a truncation"
			_ = x.log.Truncate(batch.Offset(x.chance.IntN(int(x.log.end))))
			if err := judge(op, nil); err != nil {
				return err
			}
			_ = x.append()
			return judge("an append behind a truncation", nil)
		}
		if err := judge(op, err); err != nil {
			return fmt.Errorf("%s: %s: %w", what, op, err)
		}
		if err := x.reads(); err != nil {
			return fmt.Errorf("%s: in life %d: %w", what, life, err)
		}
		clean := x.chance.IntN(3) == 0
		if err := judge("a stop", x.end(clean)); err != nil {
			return fmt.Errorf("%s: stop: %w", what, err)
		}
		if err := x.open(clean); err != nil {
			counts["refused again"]++
			if !x.kept() {
				return fmt.Errorf("%s: what was appended is gone: %w", what, err)
			}
			return judge("another start", nil)
		}
		counts["opened again"]++
		if err := x.reads(); err != nil {
			return fmt.Errorf("%s: behind life %d, closed in order %v: %w; %+v", what, life, clean, err, x.told)
		}
	}
	return nil
}
