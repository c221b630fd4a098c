package frames

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// connectionCases are about frames that no handler sees: unknown keys and
// versions, headers and bodies that do not parse. They run once, under the
// highest version of ApiVersions.
func connectionCases() []Case {
	return []Case{
		{API: kmsg.ApiVersions, Name: "versions nobody has", From: 5, Run: versionsNobodyHas},
		{API: kmsg.ApiVersions, Name: "keys nobody has", From: 5, Run: keysNobodyHas},
		{API: kmsg.ApiVersions, Name: "headers", From: 5, Run: oddHeaders},
		{API: kmsg.ApiVersions, Name: "bodies", From: 5, Run: oddBodies},
	}
}

// header is a request header: version 1, or 2 with tags.
func header(key, version int16, client *string, tags []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	if client == nil {
		b = binary.BigEndian.AppendUint16(b, math.MaxUint16)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(*client)))
		b = append(b, *client...)
	}
	return append(b, tags...)
}

// oldVersions is an answer to ApiVersions in version 0.
func oldVersions() kmsg.Response { return &kmsg.ApiVersionsResponse{} }

// versionsNobodyHas sends ApiVersions in versions that are not served: answered
// in version 0, whatever the body, if the header parses.
func versionsNobodyHas(s *Side) {
	me := "x"
	for _, v := range []int16{6, 7, 99, math.MaxInt16, -1, math.MinInt16} {
		tags := []byte{0}
		if v < 0 {
			tags = nil
		}
		s.Bytes(fmt.Sprintf("version %d", v), header(18, v, &me, tags), oldVersions())
		s.Bytes(fmt.Sprintf("version %d without client", v), header(18, v, nil, tags), oldVersions())
		s.Bytes(fmt.Sprintf("version %d and a body of junk", v), append(header(18, v, &me, tags), 1, 2, 3, 4, 5, 255), oldVersions())
		s.Bytes(fmt.Sprintf("version %d without tags", v), header(18, v, &me, nil), oldVersions())
		s.Bytes(fmt.Sprintf("version %d, bad tags", v), header(18, v, &me, []byte{9}), oldVersions())
	}
	got := s.Bytes("what it then tells", header(18, 50, &me, []byte{0}), oldVersions())
	if r, ok := got.Response.(*kmsg.ApiVersionsResponse); ok {
		s.Check("its ranges", fmt.Sprint(r.ApiKeys))
	}
}

// keysNobodyHas sends keys and versions for which the connection is closed.
func keysNobodyHas(s *Side) {
	me := "x"
	for _, k := range []struct{ key, version int16 }{
		{-1, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {52, 0}, {53, 0}, {56, 2}, {58, 0}, {62, 0}, {63, 0}, {67, 0}, {70, 0}, {73, 0}, {82, 0}, {95, 0}, {96, 0}, {127, 0}, {128, 0},
		{1000, 0}, {math.MaxInt16, 0}, {math.MinInt16, 0},
		{0, 14}, {0, -1}, {0, math.MaxInt16}, {1, 19}, {1, -1}, {2, 12}, {2, -1}, {3, 14}, {3, -1}, {8, 11}, {9, 11}, {10, 7}, {11, 10}, {19, 8}, {20, 7}, {22, 6}, {22, 7}, {32, 5}, {37, 4}, {44, 2}, {60, 3},
	} {
		for _, tags := range [][]byte{nil, {0}} {
			s.Bytes(fmt.Sprintf("key %d, version %d, %d tag bytes", k.key, k.version, len(tags)), append(header(k.key, k.version, &me, tags), make([]byte, 40)...), nil)
		}
	}
}

func oddHeaders(s *Side) {
	me, empty := "x", ""
	raw := func(what string, frame []byte, kind kmsg.Response) { s.Bytes(what, frame, kind) }
	raw("nothing", nil, nil)
	raw("one byte", []byte{0}, nil)
	raw("a key", []byte{0, 18}, nil)
	raw("a key and a version", []byte{0, 18, 0, 0}, nil)
	raw("no client id", []byte{0, 18, 0, 0, 0, 0, 0, 7}, oldVersions())
	raw("half a client id", []byte{0, 18, 0, 0, 0, 0, 0, 7, 0, 9, 'a'}, oldVersions())
	raw("a negative client id", []byte{0, 18, 0, 0, 0, 0, 0, 7, 255, 0}, oldVersions())
	raw("a null client id", header(18, 0, nil, nil), oldVersions())
	raw("an empty client id", header(18, 0, &empty, nil), oldVersions())
	odd := "\xff\xfe"
	raw("a client id that is not UTF-8", header(18, 0, &odd, nil), oldVersions())
	raw("bytes left over", append(header(18, 0, &me, nil), 1, 2, 3), oldVersions())
	// Metadata v9 of no topics: flexible from there on.
	body := []byte{1, 0, 0, 0, 0}
	flexible := func() kmsg.Response { return &kmsg.MetadataResponse{Version: 9} }
	raw("no tags", append(header(3, 9, &me, []byte{0}), body...), flexible())
	raw("an unknown tag", append(header(3, 9, &me, []byte{1, 100, 2, 1, 2}), body...), flexible())
	raw("two unknown tags", append(header(3, 9, &me, []byte{2, 100, 1, 9, 101, 0}), body...), flexible())
	raw("two tags in the wrong order", append(header(3, 9, &me, []byte{2, 101, 0, 100, 0}), body...), flexible())
	raw("a tag twice", append(header(3, 9, &me, []byte{2, 100, 0, 100, 0}), body...), flexible())
	raw("a tag that is cut", header(3, 9, &me, []byte{1, 100, 9, 1}), flexible())
	raw("a tag of a huge size", append(header(3, 9, &me, []byte{1, 100, 255, 255, 255, 255, 7}), body...), flexible())
	raw("a huge number of tags", append(header(3, 9, &me, []byte{255, 255, 255, 255, 15}), body...), flexible())
	raw("a varint without end", append(header(3, 9, &me, []byte{255, 255, 255, 255, 255, 255}), body...), flexible())
	raw("no tags at all", header(3, 9, &me, nil), flexible())
}

func oddBodies(s *Side) {
	me := "x"
	old := func() kmsg.Response { return &kmsg.MetadataResponse{Version: 4} }
	send := func(what string, version int16, body ...byte) {
		tags := []byte{}
		if version >= 9 {
			tags = []byte{0}
		}
		kind := old()
		kind.SetVersion(version)
		s.Bytes(what, append(header(3, version, &me, tags), body...), kind)
	}
	send("nothing", 4)
	send("an empty array", 4, 0, 0, 0, 0, 0)
	send("an empty array and junk", 4, 0, 0, 0, 0, 0, 9, 9, 9)
	send("without its last field", 4, 0, 0, 0, 0)
	send("an array of one, cut", 4, 0, 0, 0, 1, 0, 5, 'a')
	send("a null name", 4, 0, 0, 0, 1, 255, 255, 0)
	send("a name of negative length", 4, 0, 0, 0, 1, 255, 254, 0)
	send("an array of 2 thousand million", 4, 127, 255, 255, 255, 0)
	send("an array of 1000, cut", 4, 0, 0, 3, 232, 0, 0)
	send("a boolean of 2", 4, 0, 0, 0, 0, 2)
	send("an empty compact array", 9, 1, 0, 0, 0, 0)
	send("an unknown tag", 9, 1, 0, 0, 0, 1, 50, 1, 7)
	send("an array of 200 by varint, cut", 9, 200, 1)
	send("an array of a huge varint", 9, 255, 255, 255, 255, 15, 0)
	send("a compact name that is cut", 9, 2, 100, 'a', 0, 0, 0, 0)
	send("a null compact name", 9, 2, 0, 0, 0, 0, 0, 0)
	// What was bad ended its connection, and nothing else.
	s.Ask("a good one", func() kmsg.Request {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "a", "b"
		return r
	}())
}
