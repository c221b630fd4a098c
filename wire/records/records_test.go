package records

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// draw fills v with random content; nil and non-nil both come up where the
// table says nullable, and only there.
func draw(t *rapid.T, v reflect.Value, label string) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		v.SetInt(rapid.Int64Range(-1<<(bits-1), 1<<(bits-1)-1).Draw(t, label))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(rapid.Uint64Range(0, 1<<v.Type().Bits()-1).Draw(t, label))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, label))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, label))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label+" set") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), label)
		}
	case reflect.Array:
		for i := range v.Len() {
			draw(t, v.Index(i), label)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 4).Draw(t, label+" length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i), label)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic("a kind the schemas do not use: " + v.Kind().String())
	}
}

type fielded interface {
	fieldSpans() map[string][2]int16
}

func (s *schema[T]) fieldSpans() map[string][2]int16 {
	spans := map[string][2]int16{}
	for _, x := range s.fields {
		spans[x.name] = [2]int16{x.min, x.max}
	}
	return spans
}

// dropAbsent gives the fields that version does not have their defaults: what a
// round trip through that version leaves.
func dropAbsent(s row, message any, version int16) {
	defaults := reflect.ValueOf(s.defaults()).Elem()
	v := reflect.ValueOf(message).Elem()
	for name, span := range s.(fielded).fieldSpans() {
		if version < span[0] || version > span[1] {
			v.FieldByName(name).Set(defaults.FieldByName(name))
		}
	}
	if g, ok := message.(*GroupMetadataValue); ok {
		for i := range g.Members {
			if version < 3 {
				g.Members[i].GroupInstanceId = nil
			}
			if version < 1 {
				g.Members[i].RebalanceTimeout = -1
			}
		}
	}
}

func allRows() []row {
	var rows []row
	for _, s := range metadataRows {
		if s != nil {
			rows = append(rows, s)
		}
	}
	rows = append(rows, keyRows[:]...)
	return append(rows, valueRows[:]...)
}

func TestEveryFieldOfEveryStructIsInTheTable(t *testing.T) {
	for _, s := range allRows() {
		typ := reflect.TypeOf(s.defaults()).Elem()
		if typ.Name() != s.describe().name {
			t.Errorf("the row %s makes a %s", s.describe().name, typ.Name())
		}
		spans := s.(fielded).fieldSpans()
		if len(spans) != typ.NumField() {
			t.Errorf("%s has %d fields, the table %d", typ.Name(), typ.NumField(), len(spans))
		}
		for i := range typ.NumField() {
			if _, ok := spans[typ.Field(i).Name]; !ok {
				t.Errorf("%s.%s is not in the table", typ.Name(), typ.Field(i).Name)
			}
		}
	}
}

func TestIDs(t *testing.T) {
	for id, s := range metadataRows {
		if s != nil && int(s.describe().id) != id {
			t.Errorf("%s stands at %d but has id %d", s.describe().name, id, s.describe().id)
		}
	}
	for id := range keyRows {
		if k, v := keyRows[id].describe(), valueRows[id].describe(); int(k.id) != id || int(v.id) != id {
			t.Errorf("at %d stand %s with id %d and %s with id %d", id, k.name, k.id, v.name, v.id)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, s := range allRows() {
		d := s.describe()
		for version := d.lowest; version <= d.highest; version++ {
			t.Run(fmt.Sprintf("%s/%d", d.name, version), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					m := s.defaults()
					if rapid.Bool().Draw(t, "filled") {
						draw(t, reflect.ValueOf(m).Elem(), "")
					}
					dropAbsent(s, m, version)
					b := s.appendTo([]byte("head"), m, version)
					if string(b[:4]) != "head" {
						t.Fatalf("the bytes before were changed: %q", b[:4])
					}
					r := reader{b: b[4:]}
					got := s.decode(&r, version)
					if r.err != nil || len(r.b) != 0 {
						t.Fatalf("decoding left %d bytes and error %v", len(r.b), r.err)
					}
					if !reflect.DeepEqual(got, m) {
						t.Fatalf("wrote %+v\nread  %+v", m, got)
					}
					// Cut anywhere, the record is refused.
					if len(b) > 4 {
						r = reader{b: b[4 : 4+rapid.IntRange(0, len(b)-5).Draw(t, "cut")]}
						if s.decode(&r, version); r.err == nil {
							t.Fatal("a cut record was accepted")
						}
					}
				})
			})
		}
	}
}

func TestMetadataFrame(t *testing.T) {
	m := &TopicRecord{Name: "t", TopicId: [16]byte{15: 7}}
	b := AppendMetadata(nil, m)
	got, n, err := DecodeMetadata(append(b, 0xee))
	if err != nil || n != len(b) || !reflect.DeepEqual(got, m) {
		t.Fatalf("got %+v, %d bytes, %v", got, n, err)
	}
	if Name(got) != "TopicRecord" {
		t.Fatalf("name %q", Name(got))
	}
}

func ptr[T any](v T) *T { return &v }

// golden is laid out by hand from Kafka's protocol notation.
func TestGoldenMetadata(t *testing.T) {
	id := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	const idHex = "000102030405060708090a0b0c0d0e0f"
	change := NewPartitionChangeRecord()
	change.PartitionId, change.TopicId = 3, id
	change.Isr, change.Leader = []int32{1}, 1
	change.EligibleLeaderReplicas = []int32{}
	registered := NewRegisterBrokerRecord()
	registered.BrokerId, registered.IncarnationId, registered.BrokerEpoch = 1, id, 9
	registered.EndPoints = []BrokerEndpoint{{Name: "PLAINTEXT", Host: "h", Port: 50000}}
	registered.Features = []BrokerFeature{{Name: "f", MinSupportedVersion: 0, MaxSupportedVersion: 2}}
	registered.LogDirs = [][16]byte{id}
	for _, c := range []struct {
		m    Metadata
		want string
	}{
		{&TopicRecord{Name: "foo", TopicId: id}, "01 02 00 04 666f6f" + idHex + "00"},
		{&ConfigRecord{ResourceType: 2, ResourceName: "foo", Name: "k"}, "01 04 00 02 04 666f6f 02 6b 00 00"},
		{&ConfigRecord{ResourceType: 4, Name: "k", Value: ptr("v")}, "01 04 00 04 01 02 6b 02 76 00"},
		{&NoOpRecord{}, "01 14 00 00"},
		{&BeginTransactionRecord{Name: ptr("n")}, "01 17 00 01 00 02 02 6e"},
		{&EndTransactionRecord{}, "01 18 00 00"},
		{change, "01 05 02 00000003" + idHex + "03 00 05 02 00000001 01 04 00000001 06 01 01"},
		{registered, "01 00 04 00000001 00" + idHex + "0000000000000009" +
			"02 0a 504c41494e54455854 02 68 c350 0000 00" +
			"02 02 66 0000 0002 00 00 01 00 01 00 11 02" + idHex},
		{&ClientQuotaRecord{Entity: []EntityData{{EntityType: "user"}}, Key: "k", Value: 1.5}, "01 0e 00 02 05 75736572 00 00 02 6b 3ff8000000000000 00 00"},
		{&BrokerRegistrationChangeRecord{BrokerId: 2, BrokerEpoch: 5, Fenced: -1}, "01 11 03 00000002 0000000000000005 01 00 01 ff"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendMetadata(nil, c.m); string(got) != string(want) {
			t.Errorf("%s\n got %x\nwant %x", Name(c.m), got, want)
		}
		got, n, err := DecodeMetadata(want)
		if err != nil || n != len(want) || !reflect.DeepEqual(got, c.m) {
			t.Errorf("%s\n got %+v, %d bytes, %v\nwant %+v", Name(c.m), got, n, err, c.m)
		}
	}
}

func TestGoldenOffsets(t *testing.T) {
	key := &OffsetCommitKey{Group: "g", Topic: "t", Partition: 2}
	commit := &OffsetCommitValue{Offset: 5, LeaderEpoch: 3, Metadata: "m", CommitTimestamp: 7, ExpireTimestamp: -1}
	withID := *commit
	withID.TopicId = [16]byte{15: 1}
	retained := &OffsetCommitValue{Offset: 5, LeaderEpoch: -1, Metadata: "m", CommitTimestamp: 7, ExpireTimestamp: 8}
	group := NewGroupMetadataValue()
	group.ProtocolType, group.Generation = "c", 1
	group.Protocol, group.Leader = ptr("p"), ptr("m")
	group.CurrentStateTimestamp = 9
	member := NewMemberMetadata()
	member.MemberId, member.ClientId, member.ClientHost = "m", "i", "/h"
	member.RebalanceTimeout, member.SessionTimeout = 2, 4
	member.Subscription, member.Assignment = []byte{1}, []byte{2, 3}
	group.Members = []MemberMetadata{*member}
	const memberHex = "00000001 0001 6d ffff 0001 69 0002 2f68 00000002 00000004 00000001 01 00000002 0203"
	for _, c := range []struct {
		key     Key
		value   Value
		version int16
		k, v    string
	}{
		{key, commit, OffsetCommitVersion, "0001 0001 67 0001 74 00000002", "0004 0000000000000005 00000003 02 6d 0000000000000007 00"},
		{key, &withID, 4, "0001 0001 67 0001 74 00000002", "0004 0000000000000005 00000003 02 6d 0000000000000007 01 00 10 00000000000000000000000000000001"},
		{key, commit, 3, "0001 0001 67 0001 74 00000002", "0003 0000000000000005 00000003 0001 6d 0000000000000007"},
		{key, retained, OffsetCommitVersionRetained, "0001 0001 67 0001 74 00000002", "0001 0000000000000005 0001 6d 0000000000000007 0000000000000008"},
		{&GroupMetadataKey{Group: "g"}, group, GroupMetadataVersion, "0002 0001 67", "0003 0001 63 00000001 0001 70 0001 6d 0000000000000009" + memberHex},
	} {
		wantKey, _ := hex.DecodeString(strings.ReplaceAll(c.k, " ", ""))
		wantValue, _ := hex.DecodeString(strings.ReplaceAll(c.v, " ", ""))
		if got := EncodeKey(c.key); string(got) != string(wantKey) {
			t.Errorf("key: got %x, want %x", got, wantKey)
		}
		if got := EncodeValue(c.value, c.version); string(got) != string(wantValue) {
			t.Errorf("value: got %x, want %x", got, wantValue)
		}
		k, err := DecodeKey(wantKey)
		if err != nil || !reflect.DeepEqual(k, c.key) {
			t.Errorf("key: got %+v, %v", k, err)
		}
		v, err := DecodeValue(k, wantValue)
		if err != nil || !reflect.DeepEqual(v, c.value) {
			t.Errorf("value: got %+v, %v, want %+v", v, err, c.value)
		}
	}
}

func TestRefused(t *testing.T) {
	metadata := func(h string) error {
		b, err := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = DecodeMetadata(b)
		return err
	}
	for _, c := range []struct {
		name, bytes string
		want        error
	}{
		{"nothing", "", ErrShort},
		{"frame version", "02 14 00 00", ErrVersion},
		{"newer version", "01 14 01 00", ErrVersion},
		{"huge version", "01 14 ffff03 00", ErrVersion},
		{"null name", "01 02 00 00", ErrNull},
		{"endless varint", "01 14 00 ffffffffffff", ErrLength},
		{"long string", "01 02 00 818002", ErrLength},
		{"tag longer than its field", "01 17 00 01 00 03 02 6e 00", ErrTag},
		{"tag beyond the end", "01 17 00 01 00 09 02 6e", ErrShort},
		{"array beyond the end", "01 03 02 00000000 000102030405060708090a0b0c0d0e0f ffffffff07", ErrShort},
	} {
		if err := metadata(c.bytes); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	var unknown *UnknownIDError
	for _, h := range []string{"01 06 00 00", "01 1e 00 00", "01 ffffffff0f 00 00"} {
		if err := metadata(h); !errors.As(err, &unknown) {
			t.Errorf("%s: got %v", h, err)
		}
	}
	if _, err := DecodeKey([]byte{0, 99, 0}); !errors.As(err, &unknown) || unknown.ID != 99 {
		t.Errorf("key with id 99: %v", err)
	}
	if _, err := DecodeKey([]byte{0, 2, 0, 1, 'g', 0}); !errors.Is(err, ErrTrailing) {
		t.Errorf("key with a byte too many: %v", err)
	}
	if v, err := DecodeValue(&OffsetCommitKey{}, nil); v != nil || err != nil {
		t.Errorf("tombstone: %v, %v", v, err)
	}
	if _, err := DecodeValue(&OffsetCommitKey{}, []byte{0, 5}); !errors.Is(err, ErrVersion) {
		t.Errorf("newer value: %v", err)
	}
	if _, err := DecodeValue(&OffsetCommitKey{}, append(EncodeValue(NewOffsetCommitValue(), 4), 0)); !errors.Is(err, ErrTrailing) {
		t.Errorf("value with a byte too many: %v", err)
	}
}

func TestUnknownTagIsSkipped(t *testing.T) {
	got, n, err := DecodeMetadata([]byte{1, 20, 0, 1, 77, 3, 9, 9, 9})
	if err != nil || n != 9 || !reflect.DeepEqual(got, &NoOpRecord{}) {
		t.Fatalf("got %+v, %d, %v", got, n, err)
	}
}

func TestDecodedSharesNothingWithItsInput(t *testing.T) {
	m := NewMemberMetadata()
	m.MemberId, m.Subscription = "abc", []byte("xyz")
	b := EncodeValue(&GroupMetadataValue{ProtocolType: "consumer", Members: []MemberMetadata{*m}}, 3)
	v, err := DecodeValue(&GroupMetadataKey{}, b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	g := v.(*GroupMetadataValue)
	if g.ProtocolType != "consumer" || g.Members[0].MemberId != "abc" || string(g.Members[0].Subscription) != "xyz" {
		t.Fatalf("changed with its input: %+v", g)
	}
}

func TestTooLongStringPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a string that cannot be encoded was accepted")
		}
	}()
	EncodeKey(&GroupMetadataKey{Group: strings.Repeat("g", math.MaxInt16+1)})
}

func TestLengthsAllocateNothing(t *testing.T) {
	var b []byte
	b = append(b, 1, 3, 2)
	b = append(b, make([]byte, 20)...)
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0x07)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, _, err := DecodeMetadata(b); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Fatalf("%d bytes for 100 records of %d", used, len(b))
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	for id, s := range metadataRows {
		if s != nil {
			f.Add(AppendMetadata(nil, s.defaults().(Metadata)))
			f.Add([]byte{1, byte(id), 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := DecodeMetadata(b)
		if err != nil {
			return
		}
		if n < 1 || n > len(b) {
			t.Fatalf("took %d of %d bytes", n, len(b))
		}
		again, _, err := DecodeMetadata(AppendMetadata(nil, m))
		if err != nil {
			t.Fatalf("decoded %+v, which does not decode again: %v", m, err)
		}
		if !reflect.DeepEqual(again, m) && !hasNaN(m) {
			t.Fatalf("decoded %+v, then %+v", m, again)
		}
	})
}

func hasNaN(m Metadata) bool {
	q, ok := m.(*ClientQuotaRecord)
	return ok && math.IsNaN(q.Value)
}

func FuzzDecodeOffsets(f *testing.F) {
	for i := range keyRows {
		k, v := keyRows[i].defaults().(Key), valueRows[i].defaults().(Value)
		for version := int16(0); version <= valueRows[i].describe().highest; version++ {
			f.Add(EncodeKey(k), EncodeValue(v, version))
		}
	}
	f.Fuzz(func(t *testing.T, kb, vb []byte) {
		k, err := DecodeKey(kb)
		if err != nil {
			return
		}
		if got := EncodeKey(k); string(got) != string(kb) {
			t.Fatalf("key %x became %x", kb, got)
		}
		v, err := DecodeValue(k, vb)
		if err != nil || v == nil {
			return
		}
		version := int16(vb[0])<<8 | int16(vb[1])
		again, err := DecodeValue(k, EncodeValue(v, version))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Fatalf("decoded %+v, then %+v, %v", v, again, err)
		}
	})
}

func BenchmarkOffsetCommit(b *testing.B) {
	key := &OffsetCommitKey{Group: "group", Topic: "topic", Partition: 3}
	value := NewOffsetCommitValue()
	value.Offset, value.TopicId = 12345, [16]byte{1}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendKey(buf[:0], key)
		buf = AppendValue(buf, value, OffsetCommitVersion)
	}
}
