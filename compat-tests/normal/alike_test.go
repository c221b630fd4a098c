package normal

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill gives every field of a value something out of few.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		if r.IntN(6) == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		if n := r.IntN(3); n > 0 {
			v.Index(0).SetUint(uint64(n))
		}
	case reflect.String:
		list := []string{"", "a", "b", "c", "d", "orc-1-own", "orc-2-other"}
		v.SetString(list[r.IntN(len(list))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(5) - 1))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(r.IntN(3)))
	}
}

// spoil changes something in a value; false if it met nothing.
func spoil(r *rand.Rand, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || r.IntN(5) == 0 && v.CanSet() {
			old := v.IsNil()
			if v.Set(reflect.Zero(v.Type())); old {
				v.Set(reflect.New(v.Type().Elem()))
			}
			return true
		}
		return spoil(r, v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return false
		}
		for range 10 {
			i := r.IntN(v.NumField())
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Version" && spoil(r, v.Field(i)) {
				return true
			}
		}
		return false
	case reflect.Slice:
		switch n := v.Len(); {
		case n == 0:
			v.Set(reflect.MakeSlice(v.Type(), r.IntN(2), 1))
			return true
		case r.IntN(4) == 0:
			v.Set(v.Slice(0, n-1))
			return true
		case n > 1 && r.IntN(4) == 0:
			swap := reflect.Swapper(v.Interface())
			swap(0, n-1)
			return true
		default:
			return spoil(r, v.Index(r.IntN(n)))
		}
	default:
		fill(r, v)
		return true
	}
}

// TestAlike holds the walk over two answers to what normalised answers say of
// them: it may doubt what is equal, and never takes for equal what is not.
func TestAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var equal, sure, different int
	for range 60 {
		for key := range int16(76) {
			req := kmsg.RequestForKey(key)
			if req == nil {
				continue
			}
			a, b := req.ResponseKind(), req.ResponseKind()
			seed := r.Uint64()
			fill(rand.New(rand.NewPCG(seed, 3)), reflect.ValueOf(a).Elem())
			fill(rand.New(rand.NewPCG(seed, 3)), reflect.ValueOf(b).Elem())
			if r.IntN(3) > 0 {
				spoil(r, reflect.ValueOf(b).Elem())
			}
			of := func() *Normaliser { return New("orc-", "orc-1-") }
			differences := Compare(of(), of(), a, b)
			x, y := of(), of()
			said := Alike(x, y, a, b)
			switch {
			case len(differences) == 0:
				equal++
				if said {
					sure++
				}
			case said:
				t.Fatalf("%T: alike, and yet %v\n%s\n%s", a, differences, Text(a), Text(b))
			default:
				different++
			}
			numbered := 0
			for _, m := range x.ids.names {
				numbered += len(m)
			}
			if !said && numbered != 1 { // the stranger's
				t.Fatalf("%T: not alike, and yet ids are numbered: %v", a, x.ids)
			}
		}
	}
	if equal < 1000 || different < 500 || sure < equal*2/3 {
		t.Errorf("%d equal, of which %d at once, %d different", equal, sure, different)
	}
}

// TestAlikeNumbers shows that ids keep their numbers from answer to answer.
func TestAlikeNumbers(t *testing.T) {
	a, b := New("orc-", "orc-1-"), New("orc-", "orc-1-")
	told := func(id int64) kmsg.Response {
		r := kmsg.NewPtrInitProducerIDResponse()
		r.ProducerID = id
		return r
	}
	for _, step := range []struct {
		a, b int64
		want bool
	}{{7, 100, true}, {8, 101, true}, {7, 100, true}, {7, 101, false}, {9, 100, false}, {9, 102, true}, {-1, -1, true}, {-1, 103, false}, {10, 103, true}} {
		if got := Alike(a, b, told(step.a), told(step.b)); got != step.want {
			t.Errorf("%d and %d: %v", step.a, step.b, got)
		}
		if !step.want {
			continue
		}
		if d := Compare(a, b, told(step.a), told(step.b)); len(d) > 0 {
			t.Errorf("%d and %d, normalised: %v", step.a, step.b, d)
		}
	}
}

// TestAloneIDs: an id that one server tells and the other does not yet is the same one
// when both tell it, and moves no other; what was told as two ids is not one later.
func TestAloneIDs(t *testing.T) {
	told := func(ids ...byte) kmsg.Response {
		r := kmsg.NewPtrMetadataResponse()
		for i, id := range ids {
			name := string(rune('a' + i))
			r.Topics = append(r.Topics, kmsg.MetadataResponseTopic{Topic: &name, TopicID: [16]byte{id}})
		}
		return r
	}
	type step struct {
		a, b   kmsg.Response
		differ int
	}
	for name, steps := range map[string][]step{
		"told later":        {{told(1), told(0), 1}, {told(2), told(12), 0}, {told(1), told(11), 0}, {told(1, 2), told(11, 12), 0}, {told(1), told(12), 1}},
		"before others":     {{told(1), told(0), 1}, {told(1), told(11), 0}, {told(2), told(12), 0}, {told(2), told(11), 1}},
		"alone on both":     {{told(1), told(0), 1}, {told(0), told(11), 1}, {told(1), told(11), 0}, {told(2), told(11), 1}},
		"two in one":        {{told(1, 2), told(11), 1}, {told(2, 1), told(12, 11), 0}, {told(2), told(11), 1}},
		"not another's":     {{told(1), told(11), 0}, {told(2), told(11), 1}, {told(2), told(12), 0}, {told(1), told(12), 1}},
		"an id that is one": {{told(1, 2), told(11, 11), 1}, {told(3), told(13), 0}},
	} {
		a, b := New("", ""), New("", "")
		for i, s := range steps {
			alike := Alike(a, b, s.a, s.b)
			if d := Compare(a, b, s.a, s.b); len(d) != s.differ || alike && len(d) > 0 {
				t.Errorf("%s, step %d: alike %v, %q; want %d", name, i, alike, d, s.differ)
			}
		}
	}
}

// TestUnmeasured: limits between one batch and everything are left out of a Fetch of
// a topic whose batches are made anew in bytes of a server's own, and stay for others.
func TestUnmeasured(t *testing.T) {
	n := New("orc-", "orc-1-")
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "packed", Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "compression.type", Value: kmsg.StringPtr("zstd")}}}, {Topic: "stamped", Configs: []kmsg.CreateTopicsRequestTopicConfig{
		{Name: "message.timestamp.type", Value: kmsg.StringPtr("LogAppendTime")}, {Name: "cleanup.policy", Value: kmsg.StringPtr("compact,delete")}}},
		{Topic: "plain", Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy", Value: kmsg.StringPtr("compact")}}}}
	n.Asked(create)
	for topic, want := range map[string]string{"packed": "1", "stamped": "100", "plain": "100"} {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceName: topic, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
			{Name: "max.message.bytes", Value: kmsg.StringPtr("100")}, {Name: "max.message.bytes", Value: kmsg.StringPtr("1048588")}, {Name: "segment.ms", Value: kmsg.StringPtr("100")}}}}
		n.Asked(r)
		if c := r.Resources[0].Configs; *c[0].Value != want || *c[1].Value != "1048588" || *c[2].Value != "100" {
			t.Errorf("%s: configs became %s %s %s", topic, *c[0].Value, *c[1].Value, *c[2].Value)
		}
	}
	for _, c := range []struct {
		topic      string
		set, after int32
	}{{"packed", 100, 1}, {"packed", 1, 1}, {"packed", 0, 0}, {"packed", -1, -1}, {"packed", 1 << 20, 1 << 20}, {"plain", 100, 100}, {"stamped", 100, 1}} {
		r := kmsg.NewPtrFetchRequest()
		r.MaxBytes, r.MinBytes = c.set, c.set
		r.Topics = []kmsg.FetchRequestTopic{{Topic: c.topic, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: c.set}}}}
		n.Asked(r)
		if got := []int32{r.MaxBytes, r.MinBytes, r.Topics[0].Partitions[0].PartitionMaxBytes}; got[0] != c.after || got[1] != c.after || got[2] != c.after {
			t.Errorf("%s: limits of %d became %d, want %d", c.topic, c.set, got, c.after)
		}
	}
}

// TestUntimed: look-ups by time in a topic whose batches are made anew and cleaned ask for
// its beginning; those that no byte decides stay, and so do other topics'.
func TestUntimed(t *testing.T) {
	n := New("orc-", "orc-1-")
	n.Packed["both"], n.Cleaned["both"] = true, true
	n.Packed["packed"], n.Cleaned["cleaned"] = true, true
	for _, c := range []struct {
		topic      string
		at, became int64
	}{{"both", 0, -2}, {"both", 1700000000000, -2}, {"both", -3, -2}, {"both", -1, -1}, {"both", -2, -2}, {"both", -4, -4}, {"packed", 5, 5}, {"packed", -3, -3}, {"cleaned", 5, 5}} {
		r := kmsg.NewPtrListOffsetsRequest()
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: c.topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: c.at}}}}
		n.Asked(r)
		if got := r.Topics[0].Partitions[0].Timestamp; got != c.became {
			t.Errorf("%s at %d became %d, want %d", c.topic, c.at, got, c.became)
		}
	}
}
