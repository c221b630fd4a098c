//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// mutate spoils a frame behind its key and version: half the time one value in
// it, else its shape.
func mutate(r *rand.Rand, good []byte) []byte {
	b := append([]byte(nil), good...)
	times, ways := 1, 3
	if r.IntN(2) == 0 {
		times, ways = 1+r.IntN(4), 6
	}
	for range times {
		if len(b) <= 9 {
			return b
		}
		at := 8 + r.IntN(len(b)-8)
		switch r.IntN(ways) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2: // a whole number of the kind that breaks things
			n := []uint64{0, 1, 1<<7 - 1, 1 << 7, 1<<15 - 1, 1 << 15, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}[r.IntN(12)]
			var word [8]byte
			binary.BigEndian.PutUint64(word[:], n)
			size := 1 << r.IntN(4)
			copy(b[at:], word[8-size:])
		case 3:
			b = b[:at]
		case 4: // one byte less
			b = append(b[:at], b[at+1:]...)
		case 5: // some more
			more := make([]byte, 1+r.IntN(20))
			for i := range more {
				more[i] = byte(r.Uint32())
			}
			b = append(b[:at], append(more, b[at:]...)...)
		}
	}
	return b
}

// TestMutations sends good requests of every API and version with a few bytes
// changed. Most are refused, some are other good requests; none does harm.
func TestMutations(t *testing.T) {
	t.Parallel()
	seed := uint64(1)
	if text := os.Getenv("MILLRACE_BADINPUT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	v := withBudget(t, "auto.create.topics.enable=true")
	r := rand.New(rand.NewPCG(seed, 7))
	type job struct {
		name string
		b    []byte
	}
	var jobs []job
	c := &frame.Conn{ClientID: "mutant"}
	v.each(t, func(key, version int16) {
		good := c.Encode(sample(key, version))
		for range 30 {
			jobs = append(jobs, job{kmsg.NameForKey(key) + " v" + strconv.Itoa(int(version)), mutate(r, good)})
		}
	})
	r.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var closed, answered, silent atomic.Int64
	begun := time.Now()
	var idle sync.Pool // connections that were answered
	inParallel(jobs, func(j job) {
		c, ok := idle.Get().(*frame.Conn)
		if !ok {
			var err error
			if c, err = frame.Dial(v.Bootstrap); err != nil {
				t.Errorf("no connection: %v", err)
				return
			}
		}
		// A time-out may have become any time: those are not waited for.
		c.Patience = 200 * time.Millisecond
		switch o := c.SendRaw(sized(j.b), nil); {
		case o.Closed:
			closed.Add(1)
		case o.Silent:
			silent.Add(1)
		default:
			answered.Add(1)
			idle.Put(c)
			return
		}
		c.Close()
	})
	t.Logf("seed %d: %d closed, %d answered, %d silent in %v", seed, closed.Load(), answered.Load(), silent.Load(), time.Since(begun).Round(time.Millisecond))
	if closed.Load() < 500 || answered.Load() < 500 || silent.Load() > int64(len(jobs)/10) {
		t.Errorf("of %d: %d closed, %d answered, %d silent", len(jobs), closed.Load(), answered.Load(), silent.Load())
	}
	v.check(t, budget+allowance)
	v.ends(t)
}
