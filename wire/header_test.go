package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first flexible version of every api, as Kafka 4.4.0 has it (and 3.9 for
// those that 4.x dropped); -1 is never.
var kafkaFlexible = []int16{
	9, 12, 6, 9, 4, 2, 6, 3, 8, 6, 3, 6, 4, 4, 4, 5, 3, -1, 3, 5, // 0-19
	4, 2, 2, 4, 3, 3, 3, 1, 3, 2, 2, 2, 4, 2, 2, 2, 2, 2, 2, 2, // 20-39
	2, 2, 2, 2, 1, 0, 0, -1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, // 40-59
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 60-79
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 80-94
}

func TestFirstFlexible(t *testing.T) {
	if len(kafkaFlexible) != len(firstFlexible) {
		t.Fatalf("%d api keys are known, the table has %d", len(firstFlexible), len(kafkaFlexible))
	}
	for key, want := range kafkaFlexible {
		if got := firstFlexible[key]; got != want {
			t.Errorf("%s is flexible from version %d, Kafka says %d", kmsg.NameForKey(int16(key)), got, want)
		}
	}
	if flexible(-1, 9) || flexible(1000, 9) {
		t.Error("a private key is flexible")
	}
	for v := range int16(6) {
		if flexibleResponse(keyApiVersions, v) {
			t.Errorf("the response header of ApiVersions v%d has tags", v)
		}
	}
	if !flexibleResponse(3, 9) || flexibleResponse(3, 8) {
		t.Error("the response header of Metadata has tags from v9 on")
	}
}

func TestParseHeader(t *testing.T) {
	name := "kgo"
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID(name))
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req.SetVersion(v)
			b := format.AppendRequest(nil, req, 77)[4:]
			h, err := parseHeader(b)
			if err != nil {
				t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), v, err)
			}
			if h.key != key || h.version != v || h.correlationID != 77 {
				t.Fatalf("%s v%d: parsed %+v", kmsg.NameForKey(key), v, h)
			}
			// Of ControlledShutdown v0 kmsg writes the header alone.
			if v0 := key == keyControlledShutdown && v == 0; !v0 && !bytes.Equal(b[h.size:], req.AppendTo(nil)) {
				t.Fatalf("%s v%d: the body does not begin at %d", kmsg.NameForKey(key), v, h.size)
			}
			want := name
			if key == keyControlledShutdown && v == 0 {
				want = ""
			}
			if string(h.clientID) != want {
				t.Fatalf("%s v%d: client id %q, want %q", kmsg.NameForKey(key), v, h.clientID, want)
			}
		}
	}
}

func TestParseHeaderOddities(t *testing.T) {
	head := func(key, version int16, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 9)
		return append(b, rest...)
	}
	for _, c := range []struct {
		name   string
		b      []byte
		size   int
		own    int8
		isNull bool
		err    error
	}{
		{name: "null client id", b: head(3, 1, 0xff, 0xff, 5), size: 10, own: 1, isNull: true},
		{name: "empty client id", b: head(3, 1, 0, 0, 5), size: 10, own: 1},
		{name: "null client id and tags", b: head(3, 9, 0xff, 0xff, 0, 5), size: 11, own: 2, isNull: true},
		{name: "tags skipped", b: head(3, 9, 0, 0, 2, 7, 1, 0xaa, 3, 0, 5), size: 16, own: 2},
		{name: "more tags than bytes", b: head(3, 9, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), err: errBadTags},
		{name: "tag longer than frame", b: head(3, 9, 0, 0, 1, 0, 100), err: errBadTags},
		{name: "tag count of six bytes", b: head(3, 9, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0), err: errBadTags},
		{name: "tag count above 32 bits", b: head(3, 9, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f), err: errBadTags},
		{name: "no tags at all", b: head(3, 9, 0, 0), err: errBadTags},
		{name: "negative client id", b: head(3, 1, 0xff, 0xfe, 5), size: 10, own: 1, isNull: true},
		{name: "client id cut", b: head(3, 1, 0, 5, 'a'), err: errShortHeader},
		{name: "client id length cut", b: head(3, 1, 0), err: errShortHeader},
		{name: "ControlledShutdown v0", b: head(7, 0, 0xff, 0xfe), size: 8},
		{name: "ControlledShutdown v1", b: head(7, 1, 0, 0), size: 10, own: 1},
		{name: "ApiVersions from the future", b: head(18, 99, 0, 0, 0, 1), size: 11, own: 2},
		{name: "ApiVersions from the future, v1 header", b: head(18, 99, 0, 0), err: errBadTags},
		{name: "ApiVersions of a negative version", b: head(18, -5, 0, 0, 1), size: 10, own: 1},
		{name: "short", b: head(3, 1)[:7], err: errShortHeader},
		{name: "empty", err: errShortHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := parseHeader(c.b)
			if err != c.err {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if h.size != c.size || h.own != c.own || (h.clientID == nil) != (c.isNull || h.own == 0) {
				t.Errorf("parsed %+v, want size %d, header v%d, null %v", h, c.size, c.own, c.isNull)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(frame(3, 1, 1, "body")[4:])
	f.Add(frame(3, 9, 1, "body")[4:])
	f.Add([]byte{0, 7, 0, 0, 0, 0, 0, 1, 9})
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 2, 7, 1, 0xaa, 3, 0, 5})
	f.Add([]byte{0, 0, 0, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if h.size < minHeader || h.size > len(b) {
			t.Fatalf("the header takes %d of %d bytes", h.size, len(b))
		}
		weight(h, b)
		// A header that parses does so whatever follows it.
		again, err := parseHeader(append(b[:h.size:h.size], 0xff))
		if err != nil || again.size != h.size {
			t.Fatalf("the header alone parses as %+v, error %v; was %+v", again, err, h)
		}
	})
}
