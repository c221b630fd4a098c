package batch

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

// all reads a batch's records.
func all(t interface{ Fatal(...any) }, b []byte) []Record {
	if err := CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	var out []Record
	for r, err := range Records(b, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestRewrite(t *testing.T) {
	sizes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		kind := codec.Kind(rapid.IntRange(0, 4).Draw(t, "codec"))
		o := BuilderOptions{Base: Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base")), LeaderEpoch: 7, Codec: kind}
		if rapid.Bool().Draw(t, "append time") {
			o.Timestamps = LogAppendTime
		}
		if rapid.Bool().Draw(t, "producer") {
			o.Producer, o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = true, 5, 2, 1<<31-2, rapid.Bool().Draw(t, "transactional")
		}
		u := NewBuilder(o)
		n := rapid.IntRange(1, 12).Draw(t, "records")
		for i := range n {
			var key, value []byte
			if i%5 != 4 {
				key = append([]byte(fmt.Sprint("k", i)), make([]byte, rapid.SampledFrom([]int{0, 0, 0, 300, windowSize, 2*windowSize + 5}).Draw(t, "key"))...)
			}
			if rapid.IntRange(0, 3).Draw(t, "tombstone") > 0 {
				value = bytes.Repeat([]byte{byte('a' + i)}, rapid.SampledFrom([]int{0, 1, 70, 200, windowSize + 5}).Draw(t, "size"))
			}
			u.Add(int64(1000-rapid.IntRange(0, 50).Draw(t, "time")), key, value, RecordHeader{Key: "h", Value: []byte{1}})
		}
		b := u.Bytes()
		before, _ := ParseHeader(b)
		was := all(t, b)
		stays := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "stays")
		if rapid.IntRange(0, 3).Draw(t, "all") == 0 {
			stays = slices.Repeat([]bool{true}, n)
		}
		var want []Record
		tombstone := false
		for i, r := range was {
			if stays[i] {
				want = append(want, r)
				tombstone = tombstone || r.Value == nil
			}
		}
		opts := RewriteOptions{KeepEmpty: rapid.Bool().Draw(t, "keep empty"), Horizon: 123456, ForceHorizon: rapid.IntRange(0, 4).Draw(t, "force") == 0}
		prefix := []byte("before")
		i := 0
		got, out, err := Rewrite(slices.Clone(prefix), b, opts, func(at Offset, key Key, hasValue bool) bool {
			r := was[i]
			if r.Offset != at || key.Null() != (r.Key == nil) || key.Digest() != KeyOf(r.Key).Digest() || hasValue != (r.Value != nil) {
				t.Fatalf("asked for record %d as %d %x %v, it is %+v", i, at, key.Digest(), hasValue, r)
			}
			i++
			return stays[i-1]
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(got, prefix) || out.Read != n || out.Kept != len(want) {
			t.Fatalf("%+v, want %d of %d records behind what was there", out, len(want), n)
		}
		got = got[len(prefix):]
		if len(want) == 0 && !opts.KeepEmpty {
			if len(got) > 0 || out.Header.Length != 0 {
				t.Fatalf("%d bytes are left of nothing", len(got))
			}
			sizes["gone"]++
			return
		}
		h, err := ParseHeader(got)
		if err != nil || h != out.Header || h.Size() != len(got) {
			t.Fatalf("%+v, %v: header %+v", h, err, out.Header)
		}
		if h.BaseOffset != before.BaseOffset || h.LastOffset() != before.LastOffset() || h.LeaderEpoch != before.LeaderEpoch || h.ProducerID != before.ProducerID || h.ProducerEpoch != before.ProducerEpoch ||
			h.BaseSequence != before.BaseSequence || h.LastSequence() != before.LastSequence() || h.Attributes.Transactional() != before.Attributes.Transactional() || int(h.Count) != len(want) {
			t.Fatalf("%+v became %+v", before, h)
		}
		if len(want) == 0 {
			if h.MaxTimestamp != before.MaxTimestamp || h.BaseTimestamp != NoTimestamp || len(all(t, got)) != 0 || len(got) != HeaderSize {
				t.Fatalf("emptied: %+v", h)
			}
			sizes["empty"]++
			return
		}
		if got := all(t, got); !slices.EqualFunc(got, want, same) {
			t.Fatalf("records are\n%+v, want\n%+v", got, want)
		}
		horizon := tombstone || opts.ForceHorizon
		if h.Attributes.DeleteHorizon() != horizon || (horizon && h.BaseTimestamp != 123456) || h.Attributes.Codec() != kind {
			t.Fatalf("horizon %v: %+v", horizon, h)
		}
		if len(want) == n && !horizon {
			if !bytes.Equal(got, b) {
				t.Fatal("a batch that stays whole has changed")
			}
			sizes["whole"]++
			return
		}
		most := NoTimestamp
		for _, r := range want {
			most = max(most, r.Timestamp)
		}
		if h.MaxTimestamp != most {
			t.Fatalf("max timestamp %d, want %d", h.MaxTimestamp, most)
		}
		sizes["rebuilt"]++

		// A batch that has a delete horizon keeps it.
		opts.Horizon = 999999
		again, _, err := Rewrite(nil, got, opts, func(at Offset, _ Key, _ bool) bool { return at != want[0].Offset })
		if err != nil {
			t.Fatal(err)
		}
		if len(want) > 1 && horizon {
			if h, _ := ParseHeader(again); !h.Attributes.DeleteHorizon() || h.BaseTimestamp != 123456 || !slices.EqualFunc(all(t, again), want[1:], same) {
				t.Fatalf("the second time: %+v", h)
			}
		}
	})
	for _, k := range []string{"gone", "empty", "whole", "rebuilt"} {
		if !testing.Short() && sizes[k] == 0 {
			t.Errorf("no batch was %s", k)
		}
	}
}

func same(a, b Record) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) &&
		bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) && slices.EqualFunc(slices.Collect(a.Headers.All()), slices.Collect(b.Headers.All()), func(a, b RecordHeader) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
	})
}

func TestRewriteRefusesWhatIsNoBatch(t *testing.T) {
	u := NewBuilder(BuilderOptions{Codec: codec.Gzip})
	for i := range 3 {
		u.Add(1, []byte{byte(i)}, []byte("value"))
	}
	b := u.Bytes()
	yes := func(Offset, Key, bool) bool { return true }
	for cut := range len(b) {
		if _, _, err := Rewrite(nil, b[:cut], RewriteOptions{}, yes); err == nil {
			t.Fatalf("%d bytes of %d are taken for a batch", cut, len(b))
		}
	}
	bad := slices.Clone(b)
	bad[HeaderSize+12] ^= 0xff
	if _, _, err := Rewrite(nil, bad, RewriteOptions{}, yes); err == nil {
		t.Error("a broken stream is taken for records")
	}
	keys := 0
	if err := WalkKeys(b, nil, func(o Offset, key Key) bool { keys++; return keys < 2 }); err != nil || keys != 2 {
		t.Errorf("%d keys, %v", keys, err)
	}
	if err := WalkKeys(bad, &Scratch{}, func(Offset, Key) bool { return true }); err == nil {
		t.Error("a broken stream has keys")
	}
}
