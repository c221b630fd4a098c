package frames

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// malformedGroupCases are frames of the group APIs that do not parse, or have
// more than they should.
func malformedGroupCases() []Case {
	var all []Case
	for api, request := range map[kmsg.Key]func(s *Side) kmsg.Request{
		kmsg.FindCoordinator: func(*Side) kmsg.Request {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.CoordinatorKey, r.CoordinatorKeys = marker, []string{marker}
			return r
		},
		kmsg.JoinGroup: func(*Side) kmsg.Request {
			r := kmsg.NewPtrJoinGroupRequest()
			r.Group, r.SessionTimeoutMillis, r.MemberID, r.ProtocolType = marker, 10000, "stranger", "consumer"
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name = "range"
			r.Protocols = append(r.Protocols, p)
			return r
		},
		kmsg.SyncGroup: func(*Side) kmsg.Request {
			r := kmsg.NewPtrSyncGroupRequest()
			r.Group, r.MemberID, r.ProtocolType, r.Protocol = marker, "stranger", kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			return r
		},
		kmsg.Heartbeat: func(*Side) kmsg.Request {
			r := kmsg.NewPtrHeartbeatRequest()
			r.Group, r.MemberID = marker, "stranger"
			return r
		},
		kmsg.LeaveGroup: func(*Side) kmsg.Request {
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Group, r.MemberID = marker, "stranger"
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID = "stranger"
			r.Members = append(r.Members, m)
			return r
		},
		kmsg.OffsetCommit: func(s *Side) kmsg.Request {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group = marker
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = s.Topic("no"), [16]byte{1}
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Metadata = kmsg.StringPtr("m")
			t.Partitions = append(t.Partitions, p)
			r.Topics = append(r.Topics, t)
			return r
		},
		kmsg.OffsetFetch: func(s *Side) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Group = marker
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic, t.Partitions = s.Topic("no"), []int32{0}
			r.Topics = append(r.Topics, t)
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = marker
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.TopicID, gt.Partitions = s.Topic("no"), [16]byte{1}, []int32{0}
			g.Topics = append(g.Topics, gt)
			r.Groups = append(r.Groups, g)
			return r
		},
		kmsg.DescribeGroups: func(*Side) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = []string{marker}
			return r
		},
		kmsg.ListGroups: func(*Side) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.StatesFilter, r.TypesFilter = []string{marker}, []string{marker}
			return r
		},
		kmsg.DeleteGroups: func(*Side) kmsg.Request {
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = []string{marker}
			return r
		},
	} {
		from := int16(0)
		if api == kmsg.OffsetCommit || api == kmsg.OffsetFetch {
			from = 1
		}
		if api == kmsg.ListGroups {
			from = 4 // before, it asks for nothing and lists everything
		}
		all = append(all, Case{API: api, Name: "malformed", From: from, Run: func(s *Side) { s.malformed(request(s)) }})
	}
	slices.SortFunc(all, func(a, b Case) int { return int(a.API - b.API) })
	return all
}

// marker is a group's name that is found again in a frame.
const marker = "marker that nobody else has"

// malformed sends a good frame, then spoilt ones.
func (s *Side) malformed(req kmsg.Request) {
	req.SetVersion(s.Version)
	kind := func() kmsg.Response {
		k := req.ResponseKind()
		k.SetVersion(s.Version)
		return k
	}
	good := kmsg.NewRequestFormatter(kmsg.FormatterClientID("frame")).AppendRequest(nil, req, 7)[4:]
	s.Bytes("good", good, kind())
	s.Bytes("with bytes left over", append(bytes.Clone(good), 1, 2, 3), kind())
	s.Bytes("a byte short", good[:len(good)-1], kind())
	s.Bytes("half", good[:(len(good)+14)/2], kind())
	s.Bytes("without its body", good[:8+2+len("frame")], kind())
	written := append(binary.BigEndian.AppendUint16(nil, uint16(len(marker))), marker...)
	null, long, negative := []byte{255, 255}, binary.BigEndian.AppendUint16(nil, 32767), []byte{128, 0}
	if req.IsFlexible() {
		written = append(binary.AppendUvarint(nil, uint64(len(marker)+1)), marker...)
		null, long, negative = []byte{0}, binary.AppendUvarint(nil, 1<<31), []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}
	}
	at := bytes.Index(good, written)
	if at < 0 {
		s.Fail("the marker is not in the frame")
		return
	}
	put := func(what string, with []byte) {
		b := append(bytes.Clone(good[:at]), with...)
		s.Bytes(what, append(b, good[at+len(written):]...), kind())
	}
	put("a null name", null)
	put("a name longer than the frame", long)
	put("a name of a negative length", negative)
	put("a name that is not UTF-8", append(bytes.Clone(written[:len(written)-len(marker)]), bytes.Repeat([]byte{0xff}, len(marker))...))
}
