package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
)

// newTorn is a log of 40 batches that was closed in order and whose newest segment was cut within the last one. In its directory
// lie the batches up to 20 in an older segment.
func newTorn(t *testing.T) *lived {
	x := newLived(t)
	x.o.HighWatermark = 1 << 40
	x.o.LowerRecoveryPoint = func(o batch.Offset) error { x.o.RecoveryPoint = min(o, x.o.RecoveryPoint); return nil }
	x.add(20)
	x.ok(x.log.Roll())
	x.add(20)
	x.stops()
	name := x.o.Dir + "/" + fileName(20, suffixLog)
	b := x.fs.Bytes(name)
	x.fs.Put(name, b[:len(b)-9])
	return x
}

// stops ends the log's life in order.
func (x *lived) stops() {
	x.t.Helper()
	x.ok(x.log.Close())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
}

// isTorn says that a start has told of the damage, and what the log is like.
func (x *lived) isTorn(what string, r Report) {
	x.t.Helper()
	if x.log.end != 40 || len(r.Damage) != 1 || r.Damage[0].Offset != 39 || r.Lost != 0 || r.Cut != nil || len(r.Dropped) > 0 {
		x.t.Fatalf("%s: the log ends at %d: %+v", what, x.log.end, r)
	}
}

// goesOn appends, and has what was appended outlive kills and stops in order.
func (x *lived) goesOn(what string) {
	x.t.Helper()
	for life := range batch.Offset(4) {
		x.add(1)
		x.readsAll(40, 41+life)
		if life == 1 {
			x.stops()
		} else {
			x.fs.Kill()
		}
		if r, _ := x.open(life == 1); r.Cut != nil || r.Lost != 0 || len(r.Damage) > 0 || len(x.log.Producers()) != 1 {
			x.t.Fatalf("%s: the start after life %d: %+v", what, life, r)
		}
	}
	x.readsAll(40, 44)
}

// TestTornIsLeftAlone: a start that finds a log torn writes nothing, so that nothing can refuse it: no lack of descriptors that
// is over a moment later, and no disk that is full.
func TestTornIsLeftAlone(t *testing.T) {
	for _, clean := range []bool{true, false} {
		x := newTorn(t)
		x.fs.Refuse(func(op, name string) error {
			if op != "open" && op != "read" && op != "stat" && op != "readdir" && op != "list" || strings.Contains(name, "40.") && !strings.HasSuffix(name, suffixSnapshot) {
				return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
			}
			return nil
		})
		r, c := x.open(clean)
		x.isTorn("a full disk", r)
		if c.Changes != 0 || x.log.directory.Offline() != nil {
			t.Errorf("a start makes %d changes: %v", c.Changes, x.log.directory.Offline())
		}
		x.fs.Refuse(nil)
		x.goesOn("a full disk")
	}
}

// TestTornWithoutDescriptors: whatever is lacking when the log is opened, or when the first append begins a segment, the log is as it
// was when that is over; and so it is for whom a kill, or a stop, comes first.
func TestTornWithoutDescriptors(t *testing.T) {
	lacks := 0
	for _, then := range []string{"again", "kill", "stop"} {
		for _, atOpen := range []bool{true, false} {
			for _, op := range []string{"open", "syncdir"} {
				for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixSnapshot, suffixSnapshot + suffixTmp, "/t-0"} {
					what := fmt.Sprintf("%s of %s, at the start %v, then %s", op, suffix, atOpen, then)
					x := newTorn(t)
					lack := func() {
						lackFor(x.fs, op, func(name string) bool {
							hit := strings.HasSuffix(name, suffix) && (strings.Contains(name, "40.") || suffix == "/t-0")
							if hit {
								lacks++
							}
							return hit
						})
					}
					if atOpen {
						lack()
						if _, _, err := Open(x.o); err != nil && !errors.Is(err, ErrNoDescriptor) {
							t.Fatalf("%s: %v", what, err)
						}
						x.fs.Refuse(nil)
					}
					r, _ := x.open(true)
					x.isTorn(what, r)
					if !atOpen {
						lack()
						if err := appendOne(x.log); err != nil && !errors.Is(err, ErrNoDescriptor) {
							t.Fatalf("%s: %v", what, err)
						}
						x.fs.Refuse(nil)
						if x.log.end != 40 { // it lacked nothing
							continue
						}
					}
					switch then {
					case "kill":
						x.fs.Kill()
						r, _ = x.open(false)
					case "stop":
						x.stops()
						r, _ = x.open(true)
					}
					if len(r.Damage) > 0 {
						x.isTorn(what, r)
					}
					x.goesOn(what)
				}
			}
		}
	}
	if lacks < 20 {
		t.Errorf("only %d were lacking", lacks)
	}
}

// TestTornStaysTorn: what is done to a log that is torn, but for an append, leaves the next start the same to find.
func TestTornStaysTorn(t *testing.T) {
	for what, do := range map[string]func(x *lived){
		"nothing":         func(*lived) {},
		"an epoch":        func(x *lived) { x.ok(x.log.AssignEpoch(3)) },
		"a flush":         func(x *lived) { x.ok(errors.Join(x.log.Flush(), x.log.FlushRolled())) },
		"a log start":     func(x *lived) { x.ok(x.log.SetLogStart(10)); x.o.LogStart = 10 },
		"the end deleted": func(x *lived) { x.ok(x.log.SetLogStart(40)); x.o.LogStart = 40 },
		"a retention": func(x *lived) {
			c := x.o.Config
			c.RetentionBytes = int64(len(x.fs.Bytes(x.o.Dir + "/" + fileName(20, suffixLog))))
			x.log.SetConfig(c)
			gone, err := x.log.Retain(time.UnixMilli(10_000))
			if x.ok(err); len(gone) != 1 {
				x.t.Errorf("%v went", gone)
			}
		},
	} {
		for _, first := range []bool{true, false} {
			for _, clean := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, found after a stop %v, again %v", what, first, clean), func(t *testing.T) {
					x := newTorn(t)
					r, _ := x.open(first)
					x.isTorn("at first", r)
					do(x)
					for range 2 {
						if clean {
							x.stops()
						} else {
							x.fs.Kill()
						}
						r, _ := x.open(clean)
						x.isTorn("then", r)
						if x.log.start != max(x.o.LogStart, x.log.segs[0].base) {
							t.Errorf("the log starts at %d", x.log.start)
						}
					}
					if what == "the end deleted" {
						x.add(1)
						x.readsAll(40, 41)
						return
					}
					x.goesOn("then")
				})
			}
		}
	}
}

// TestTornRolls: who begins a segment without an append does so behind the torn one, and who removes it does that.
func TestTornRolls(t *testing.T) {
	for what, do := range map[string]func(x *lived){
		"a roll": func(x *lived) { x.ok(x.log.Roll()) },
		"a retention of all": func(x *lived) {
			c := x.o.Config
			c.RetentionBytes = 0
			x.log.SetConfig(c)
			gone, err := x.log.Retain(time.UnixMilli(10_000))
			if x.ok(err); len(gone) != 2 {
				x.t.Errorf("%v went", gone)
			}
		},
		"a gap that no segment holds": func(x *lived) {
			u := batch.NewBuilder(batch.BuilderOptions{})
			u.Add(1, nil, nil)
			b := u.Bytes()
			batch.Patch(b, 1<<40, 0)
			_, err := x.log.AppendAsFollower(b)
			x.ok(err)
		},
	} {
		x := newTorn(t)
		x.open(true)
		do(x)
		end, segments := x.log.end, x.log.View().Segments()
		x.fs.Kill()
		if r, _ := x.open(false); x.log.end != end || len(r.Damage) > 0 || r.Cut != nil || r.Lost != 0 || x.log.View().Segments() != segments {
			t.Errorf("%s: the log ends at %d: %+v", what, x.log.end, r)
		}
	}
}

// TestTornIsTruncated: a truncation takes the end away that cannot be read.
func TestTornIsTruncated(t *testing.T) {
	for _, to := range []batch.Offset{38, 30, 20, 10, 0} {
		x := newTorn(t)
		x.open(true)
		x.ok(x.log.Truncate(to))
		x.fs.Kill()
		if r, _ := x.open(false); x.log.end != to || len(r.Damage) > 0 {
			t.Fatalf("to %d: the log ends at %d: %+v", to, x.log.end, r)
		}
		x.add(3)
		x.readsAll(0, to+3)
	}
	x := newTorn(t)
	x.open(true)
	if err := x.log.Truncate(39); !isCorrupt(err) || x.log.directory.Offline() != nil || x.log.usable() != nil {
		t.Errorf("to what cannot be found: %v", err)
	}
	x.fs.Kill()
	r, _ := x.open(false)
	x.isTorn("after a truncation that was refused", r)
	x.goesOn("then")
}

// TestTornPowerCut takes the power away at each operation of what a torn log's first append, a flush and a stop do.
func TestTornPowerCut(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		for seed := range uint64(8) {
			x := newTorn(t)
			name := x.o.Dir + "/" + fileName(20, suffixLog)
			was := bytes.Clone(x.fs.Bytes(name))
			x.open(true)
			x.fs.StopAt(n)
			flushed := batch.Offset(40)
			err := appendOne(x.log)
			if err == nil {
				if err = x.log.Flush(); err == nil {
					flushed = 41
					if seed%2 == 0 {
						x.o.RecoveryPoint = x.log.RecoveryPoint()
					}
					err = x.log.Close()
				}
			}
			over = err == nil && !x.fs.Stopped()
			x.fs.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			r, _ := x.open(false)
			if x.log.end < flushed || r.Lost > 0 {
				t.Fatalf("power cut at %d, %d: flushed to %d, the log ends at %d: %+v", n, seed, flushed, x.log.end, r)
			}
			end := x.log.end
			x.ok(appendOne(x.log))
			x.readsAll(40, end+1)
			if !bytes.Equal(x.fs.Bytes(name), was) {
				t.Fatal("the torn segment was changed")
			}
		}
		if over {
			if n < 8 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// TestTornAndWrittenTo: a segment that was written to since the log was closed is not taken for one that was not, when a kill
// leaves it damaged below the recovery point: what was appended is behind the damage.
func TestTornAndWrittenTo(t *testing.T) {
	x := newLived(t)
	x.add(40)
	x.closed()
	x.add(3)
	x.fs.Kill()
	name := x.o.Dir + "/" + fileName(0, suffixLog)
	b := bytes.Clone(x.fs.Bytes(name))
	clear(b[39*170 : 39*170+61])
	x.fs.Put(name, b)
	var damaged *DamagedError
	for range 2 {
		if _, _, err := Open(Options{FS: x.fs, Dir: x.o.Dir, Topic: "t", Config: x.o.Config, RecoveryPoint: 40, Now: x.o.Now}); !errors.As(err, &damaged) {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(x.fs.Bytes(name), b) {
		t.Error("the segment was changed")
	}
}

// TestSegmentsThatCameSince: a file that somebody put beside a log that was closed in order neither ends it elsewhere nor keeps it
// from being opened, and what is appended then outlives kills and stops.
func TestSegmentsThatCameSince(t *testing.T) {
	for name, c := range map[string]struct {
		base batch.Offset
		from int64 // of the bytes of the newest segment; -1: none
		size int64
	}{
		"torn, at the log end":           {40, 0, 40},
		"zeroes, at the log end":         {40, -1, 40},
		"empty, at the log end":          {40, -1, 0},
		"empty, far behind it":           {5000, -1, 0},
		"torn, far behind it":            {5000, 0, 40},
		"other offsets', far behind it":  {5000, 0, 200},
		"other offsets', at the log end": {40, 0, 200},
	} {
		for _, clean := range []bool{true, false} {
			x := newLived(t)
			x.o.HighWatermark = 1 << 40
			x.o.LowerRecoveryPoint = func(o batch.Offset) error { x.o.RecoveryPoint = min(o, x.o.RecoveryPoint); return nil }
			x.add(20)
			x.ok(x.log.Roll())
			x.add(20)
			x.stops()
			b := make([]byte, c.size)
			if c.from >= 0 {
				copy(b, x.fs.Bytes(x.o.Dir + "/" + fileName(20, suffixLog))[c.from:])
			}
			x.fs.Put(x.o.Dir+"/"+fileName(c.base, suffixLog), b)
			r, _ := x.open(clean)
			if x.log.end != 40 || r.Lost != 0 || len(r.Damage) > 0 {
				t.Errorf("%s, clean %v: the log ends at %d: %+v", name, clean, x.log.end, r)
				continue
			}
			x.readsAll(0, 40)
			x.goesOn(name)
		}
	}
}
