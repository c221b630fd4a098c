//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// grow gives the array at a place n entries, each of the bytes of the one there
// is, if that is the outermost array; it builds frames that no encoder would.
func grow(key, version int16, n int) []byte {
	c := &frame.Conn{ClientID: "x"}
	req := sample(key, version)
	v := reflect.ValueOf(req).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		one := f.Index(0)
		many := reflect.MakeSlice(f.Type(), n, n)
		for j := range n {
			many.Index(j).Set(one)
			rename(many.Index(j), j)
		}
		f.Set(many)
		return c.Encode(req)
	}
	return nil
}

// rename gives an entry a name of its own.
func rename(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("name-%d", n))
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.String:
				rename(f, n)
				return
			case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.String:
				s := fmt.Sprintf("name-%d", n)
				f.Set(reflect.ValueOf(&s))
				return
			}
		}
	}
}

// TestHuge sends every API one request that is legal and huge. It is answered,
// or refused by closing the connection, and takes no more than the budget.
func TestHuge(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	var answered, closed int
	for _, s := range v.versions(t) {
		// The oldest encoding says most with the fewest bytes, the newest least.
		for _, version := range []int16{s.min, s.max} {
			if s.key == 0 {
				version = s.max
			}
			for _, n := range []int{20_000, 200_000} {
				if n > 20_000 && version != s.max {
					continue
				}
				b := grow(s.key, version, n)
				if b == nil {
					continue
				}
				begun := time.Now()
				o := v.raw(t, sized(b), 3*prompt)
				what := fmt.Sprintf("%s v%d with %d entries, %d KiB", kmsg.NameForKey(s.key), version, n, len(b)>>10)
				switch {
				case o.Silent:
					t.Errorf("%s: silence", what)
				case o.Closed:
					closed++
				default:
					answered++
				}
				took := time.Since(begun)
				if took > prompt {
					t.Errorf("%s took %v", what, took)
				}
				if took > time.Second {
					t.Logf("%s took %v", what, took.Round(time.Millisecond))
				}
				if held := v.peak(t); held > budget+allowance {
					t.Errorf("%s: %d MiB were held", what, held/mib)
				}
			}
		}
	}
	t.Logf("%d answered, %d refused", answered, closed)
	if answered < 20 || closed == 0 {
		t.Errorf("only %d were answered", answered)
	}
	v.check(t, budget+allowance)

	// What says most with two bytes: a Metadata of nothing but empty names.
	for _, n := range []int{1000, 1 << 16, 1 << 20, budget / 2 / 2} {
		b := append([]byte{0, 3, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, binary.BigEndian.AppendUint32(nil, uint32(n))...)
		if o := v.raw(t, sized(append(b, make([]byte, 2*n)...)), prompt); o.Silent {
			t.Errorf("%d empty topics: silence", n)
		}
	}
	// Millions of tags that nobody knows.
	tags := []byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 1, 0, 0, 0}
	tags = binary.AppendUvarint(tags, 4<<20)
	for i := range uint64(4 << 20) {
		tags = append(binary.AppendUvarint(tags, i), 0)
	}
	if o := v.raw(t, sized(tags), prompt); o.Silent {
		t.Errorf("many tags: silence")
	}
	v.check(t, budget+allowance)

	// All at once, from many connections.
	names := grow(int16(kmsg.Metadata), 0, 100_000)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() { v.raw(t, sized(names), 3*prompt) })
	}
	wg.Wait()
	v.check(t, 2*budget+allowance)
	v.ends(t)
}

// TestBigGroups: members with metadata of megabytes, in many groups.
func TestBigGroups(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	req := sample(int16(kmsg.JoinGroup), 3).(*kmsg.JoinGroupRequest)
	for i := range 60 {
		c, err := frame.Dial(v.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Patience = prompt
		req.Group = fmt.Sprintf("big-%d", i)
		req.Protocols[0].Metadata = make([]byte, 20*mib)
		c.Ask(req)
	}
	v.check(t, 3*budget+allowance)
	v.ends(t)
}

// TestDefaults: without a budget in the configuration, clients that send what
// they may do not take all memory either.
func TestDefaults(t *testing.T) {
	t.Parallel()
	v := start(t, filepath.Join(t.TempDir(), "data"), "")
	v.create(t, topic)
	const most = 256*mib + 2*256*mib
	// A Produce of the longest frame there may be, of which the batch is too
	// large for the topic.
	room := 100*mib - 200
	records := append(batch(0, 1, nil), make([]byte, room-61)...)
	binary.BigEndian.PutUint32(records[8:], uint32(room-12))
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range 12 {
		wg.Go(func() {
			c, err := frame.Dial(v.Bootstrap)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.Patience = 6 * prompt
			if got, err := code(c.Ask(produce(9, topic, records))); err == nil && got == messageTooLarge {
				refused.Add(1)
			} else {
				t.Errorf("a Produce of 100 MiB: %d, %v", got, err)
			}
		})
	}
	wg.Wait()
	v.check(t, most)
	// The same of what decoding makes most of.
	b := append([]byte{0, 3, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, binary.BigEndian.AppendUint32(nil, 49*mib)...)
	b = sized(append(b, make([]byte, 2*49*mib)...))
	for range 4 {
		wg.Go(func() {
			if o := v.raw(t, b, 6*prompt); !o.Closed {
				t.Errorf("a Metadata of 49 million topics: %s", o)
			}
		})
	}
	wg.Wait()
	if !strings.Contains(v.Log(), "queued.max.request.bytes") {
		t.Error("the log does not say why the connection was closed")
	}
	v.check(t, most)
	v.ends(t)
}
