//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// inParallel runs jobs on a few goroutines and returns when all are done.
func inParallel[T any](jobs []T, f func(T)) {
	var wg sync.WaitGroup
	ch := make(chan T)
	for range 8 {
		wg.Go(func() {
			for j := range ch {
				f(j)
			}
		})
	}
	for _, j := range jobs {
		ch <- j
	}
	close(ch)
	wg.Wait()
}

// raw sends bytes on a connection of their own and tells what came back.
func (v *victim) raw(t *testing.T, bytes []byte, patience time.Duration) frame.Outcome {
	t.Helper()
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Errorf("no connection: %v", err)
		return frame.Outcome{}
	}
	defer c.Close()
	c.Patience = patience
	return c.SendRaw(bytes, nil)
}

// closes holds the broker to closing the connection.
func (v *victim) closes(t *testing.T, what string, bytes []byte) {
	t.Helper()
	if o := v.raw(t, bytes, prompt); !o.Closed {
		got := "an answer"
		if o.Silent {
			got = "silence"
		}
		t.Errorf("%s: %s, want the connection closed", what, got)
	}
}

func sized(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// TestLengths: frames whose length is a lie, and other protocols.
func TestLengths(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	rest := make([]byte, 64)
	for _, n := range []int32{-1 << 31, -1, 0, 1, 3, 7, budget + 1, 1<<31 - 1} {
		v.closes(t, fmt.Sprintf("a frame of length %d", n), append(binary.BigEndian.AppendUint32(nil, uint32(n)), rest...))
	}
	for what, text := range map[string]string{
		"an HTTP request": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"HTTP/2":          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"SSH":             "SSH-2.0-OpenSSH_9.9\r\n",
		"a TLS hello":     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(rest),
	} {
		v.closes(t, what, []byte(text))
	}
	// A frame that ends before its length does, after which the peer stops
	// sending: nothing to answer.
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	good := sized(c.Encode(kmsg.NewPtrApiVersionsRequest()))
	for n := 1; n < len(good); n++ {
		if o := v.raw(t, good[:n], 20*time.Millisecond); !o.Silent {
			t.Errorf("%d of %d bytes of a frame: %s", n, len(good), o)
		}
	}
	// Byte by byte is a request like any other.
	for _, b := range good[:len(good)-1] {
		c.Patience = time.Millisecond
		if o := c.SendRaw([]byte{b}, nil); !o.Silent {
			t.Fatalf("within a slow request: %s", o)
		}
	}
	c.Patience = prompt
	if o := c.SendRaw(good[len(good)-1:], nil); o.Closed || o.Silent {
		t.Errorf("a request sent byte by byte: %s", o)
	}
	c.Close()
	v.check(t, budget+allowance)
	v.ends(t)
}

// TestKeysAndVersions: every key, and of each API the versions around those it
// serves.
func TestKeysAndVersions(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	known := map[int16]served{}
	for _, s := range v.versions(t) {
		known[s.key] = s
	}
	type job struct {
		key, version int16
		closed       bool
	}
	var jobs []job
	const apiVersions = 18
	for key := int16(-1); key <= 200; key++ {
		s, ok := known[key]
		if !ok {
			for _, version := range []int16{-1, 0, 1, 5} {
				jobs = append(jobs, job{key, version, true})
			}
			continue
		}
		for _, version := range []int16{-32768, -1, s.max + 1, 32767} {
			jobs = append(jobs, job{key, version, key != apiVersions})
		}
	}
	for _, key := range []int16{-32768, 201, 1000, 32767} {
		jobs = append(jobs, job{key, 0, true})
	}
	// Advertised for old librdkafka, and not served (KAFKA-18659).
	for version := range int16(3) {
		jobs = append(jobs, job{0, version, true})
	}
	inParallel(jobs, func(j job) {
		what := fmt.Sprintf("key %d version %d", j.key, j.version)
		b := binary.BigEndian.AppendUint16(nil, uint16(j.key))
		b = binary.BigEndian.AppendUint16(b, uint16(j.version))
		b = append(b, 0, 0, 0, 9, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0)
		if j.closed {
			v.closes(t, what, sized(b))
			return
		}
		c, err := frame.Dial(v.Bootstrap)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		resp := kmsg.NewPtrApiVersionsResponse()
		o := c.Send(b, resp)
		if o.Response == nil || resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != apiVersions || resp.ApiKeys[0].MaxVersion != known[apiVersions].max {
			t.Errorf("%s: %s", what, o)
		}
	})
	v.check(t, budget+allowance)
	v.ends(t)
}

// TestHeaders: garbage where the header should be, and client ids of every kind.
func TestHeaders(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	for what, b := range map[string]string{
		"no client id":                      "\x00\x12\x00\x00\x00\x00\x00\x01",
		"half a client id length":           "\x00\x12\x00\x00\x00\x00\x00\x01\x00",
		"a client id cut short":             "\x00\x12\x00\x00\x00\x00\x00\x01\x00\x05abcd",
		"a client id of length 32767":       "\x00\x12\x00\x00\x00\x00\x00\x01\x7f\xffabcd",
		"no header tags":                    "\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff",
		"four thousand million header tags": "\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\x0f\x00\x00",
		"a header tag of two gigabytes":     "\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x01\x00\xff\xff\xff\xff\x07abc",
		"a varint that does not end":        "\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		v.closes(t, what, sized([]byte(b)))
	}
	long := make([]byte, 32767)
	for i := range long {
		long[i] = 'x'
	}
	for _, id := range []string{"", "x", string(long), "\xff\xfe\x00", "a\nb\"c"} {
		c, err := frame.Dial(v.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		c.ClientID = id
		for version := int16(0); version <= 3; version++ {
			req := sample(int16(kmsg.ApiVersions), version)
			if o := c.Ask(req); o.Response == nil {
				t.Errorf("a client id of %d bytes, v%d: %s", len(id), version, o)
			}
		}
		// Such a client is logged, too, when it is refused.
		c.Send(append([]byte("\x03\xe7\x00\x00\x00\x00\x00\x01"), sizedString(id)...), nil)
		c.Close()
	}
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Any negative length is null.
	for _, length := range []string{"\xff\xff", "\xff\xfe", "\x80\x00"} {
		if o := c.Send([]byte("\x00\x12\x00\x00\x00\x00\x00\x01"+length), kmsg.NewPtrApiVersionsResponse()); o.Response == nil {
			t.Errorf("a client id of length %x: %s", length, o)
		}
	}
	if o := c.Send([]byte("\x00\x12\x00\x03\x00\x00\x00\x02\xff\xff\x02\x05\x01a\x07\x00\x02a\x02b\x00"), nil); o.Closed || o.Silent {
		t.Errorf("header tags nobody knows: %s", o)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var jobs [][]byte
	for range 500 {
		b := make([]byte, r.IntN(100))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		jobs = append(jobs, sized(b))
	}
	inParallel(jobs, func(b []byte) {
		if o := v.raw(t, b, 200*time.Millisecond); o.Silent {
			t.Errorf("%d random bytes: silence (%x)", len(b), b)
		}
	})
	v.check(t, budget+allowance)
	v.ends(t)
}

func sizedString(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}
