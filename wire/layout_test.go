package wire

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// everyRequest calls f for every request in every version that kmsg knows.
func everyRequest(f func(key, version int16)) {
	for key := range int16(kmsg.MaxKey + 1) {
		if req := kmsg.RequestForKey(key); req != nil {
			for version := range req.MaxVersion() + 1 {
				f(key, version)
			}
		}
	}
}

// randomly fills a request: arrays of up to n entries, some values null.
func randomly(r *rand.Rand, v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(r.Uint32())))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(r.Uint32() % 256))
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.String:
		v.SetString(strings.Repeat("s", r.IntN(4)*r.IntN(100)))
	case reflect.Array:
		for i := range v.Len() {
			randomly(r, v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(n+1), n+1))
		for i := range v.Len() {
			randomly(r, v.Index(i), n)
		}
	case reflect.Pointer:
		// A string of a version in which it may not be null is written as "".
		if v.Type().Elem().Kind() == reflect.String && r.IntN(3) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		randomly(r, v.Elem(), n)
	case reflect.Struct:
		if v.Type() == tagsType {
			if r.IntN(4) == 0 {
				v.Addr().Interface().(*kmsg.Tags).Set(1000+r.Uint32N(1000), []byte("tag"))
			}
			return
		}
		for i := range v.NumField() {
			if !isVersion(v, i) {
				randomly(r, v.Field(i), n)
			}
		}
	}
}

// What kmsg encodes is walked from the first byte to the last, in every version
// of every request; cut anywhere it is refused.
func TestLayoutsFitWhatIsEncoded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	seen := 0
	everyRequest(func(key, version int16) {
		l := layoutOf(key, version)
		if l == nil {
			t.Fatalf("%s v%d has no layout", kmsg.NameForKey(key), version)
		}
		for range 20 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			randomly(r, reflect.ValueOf(req).Elem(), 3)
			b := req.AppendTo(nil)
			s := surveyor{walker: walker{b: b, flexible: req.IsFlexible()}}
			s.value(l)
			if s.err != nil || len(s.b) != 0 {
				t.Errorf("%s v%d: %v, %d of %d bytes left", kmsg.NameForKey(key), version, s.err, len(s.b), len(b))
				return
			}
			if len(b) < l.least {
				t.Errorf("%s v%d takes at least %d bytes, and %d were enough", kmsg.NameForKey(key), version, l.least, len(b))
			}
			if len(b) > 0 {
				if _, err := survey(l, req.IsFlexible(), b[:r.IntN(len(b))]); err == nil {
					t.Errorf("%s v%d: cut short it passed", kmsg.NameForKey(key), version)
				}
			}
			seen++
		}
	})
	if seen < 5000 {
		t.Errorf("only %d requests", seen)
	}
}

// What a survey says that decoding takes is what it takes: never much less.
func TestSurveyMeasuresMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	r := rand.New(rand.NewPCG(2, 2))
	everyRequest(func(key, version int16) {
		var b []byte
		for range 20 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			randomly(r, reflect.ValueOf(req).Elem(), 12)
			if more := req.AppendTo(nil); len(more) > len(b) {
				b = more
			}
		}
		if len(b) < 200 {
			return
		}
		memory, err := survey(layoutOf(key, version), flexible(key, version), b)
		if err != nil {
			t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), version, err)
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = req.ReadFrom(b)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), version, err)
		}
		took := int64(after.TotalAlloc - before.TotalAlloc)
		if took > 2*memory+4<<10 || memory > 5*took+4<<10 {
			t.Errorf("%s v%d: decoding %d bytes took %d, the survey said %d", kmsg.NameForKey(key), version, len(b), took, memory)
		}
	})
}

// Counts that lie are refused before anything is made room for, and so is what
// Kafka's parser refuses.
func TestSurveyRefuses(t *testing.T) {
	for _, c := range []struct {
		name         string
		key, version int16
		body         string
		want         error
	}{
		{"Metadata v0, all topics", 3, 0, "\x00\x00\x00\x00", nil},
		{"Metadata v0, null", 3, 0, "\xff\xff\xff\xff", errNull},
		{"Metadata v1, null", 3, 1, "\xff\xff\xff\xff", nil},
		{"Metadata v1, -2 topics", 3, 1, "\xff\xff\xff\xfe", nil},
		{"Metadata v0, one topic", 3, 0, "\x00\x00\x00\x01\x00\x01t", nil},
		{"Metadata v0, bytes left over", 3, 0, "\x00\x00\x00\x01\x00\x01t more", nil},
		{"Metadata v0, a null name", 3, 0, "\x00\x00\x00\x01\xff\xff", errNull},
		{"Metadata v0, a name cut short", 3, 0, "\x00\x00\x00\x01\x00\x05t", errCutShort},
		{"Metadata v0, more topics than bytes", 3, 0, "\x00\x00\x00\x03\x00\x01t\x00\x01", errCutShort},
		{"Metadata v0, 2^31-1 topics", 3, 0, "\x7f\xff\xff\xff\x00\x01t", errCutShort},
		{"Metadata v9, a long name", 3, 9, "\x02\x81\x80\x02" + strings.Repeat("x", 1<<15) + "\x00\x00\x00\x00\x00", errLongString},
		{"Metadata v9, a longest name", 3, 9, "\x02\x80\x80\x02" + strings.Repeat("x", 1<<15-1) + "\x00\x00\x00\x00\x00", nil},
		{"Metadata v9, tags that lie", 3, 9, "\x01\x00\x00\x00\x7f", errBadTags},
		{"SyncGroup v0, a null assignment", 14, 0, "\x00\x01g\x00\x00\x00\x01\x00\x01m\x00\x00\x00\x01\x00\x01m\xff\xff\xff\xff", errNull},
		{"Produce v3, null records", 0, 3, "\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff", nil},
	} {
		l := layoutOf(c.key, c.version)
		memory, err := survey(l, flexible(c.key, c.version), []byte(c.body))
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if memory > 100+2*int64(len(c.body)) {
			t.Errorf("%s: would take %d bytes", c.name, memory)
		}
	}
	if layoutOf(-1, 0) != nil || layoutOf(0, -1) != nil || layoutOf(0, 99) != nil || layoutOf(1000, 0) != nil || layoutOf(0, 14+1) != nil {
		t.Error("a request that is not known has a layout")
	}
}

// Walking random bytes ends, and never says that little is much.
func FuzzSurvey(f *testing.F) {
	f.Add(int16(3), int16(12), []byte("\x02\x00"))
	f.Fuzz(func(t *testing.T, key, version int16, b []byte) {
		l := layoutOf(key, version)
		if l == nil {
			return
		}
		if memory, _ := survey(l, flexible(key, version), b); memory > 200*int64(len(b)+10) {
			t.Errorf("%s v%d: %d bytes are said to take %d", kmsg.NameForKey(key), version, len(b), memory)
		}
	})
}

func BenchmarkSurveyProduce(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 11
	for range 3 {
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = "a-topic-of-some-length"
		rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Records: make([]byte, 1000)})
		req.Topics = append(req.Topics, rt)
	}
	body := req.AppendTo(nil)
	l := layoutOf(0, 11)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := survey(l, true, body); err != nil {
			b.Fatal(err)
		}
	}
}
