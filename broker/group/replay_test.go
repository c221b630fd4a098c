package group

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOldRecords loads what older brokers wrote.
func TestOldRecords(t *testing.T) {
	protocol, leader := "range", "m"
	for version := int16(0); version <= 4; version++ {
		v := records.NewGroupMetadataValue()
		v.ProtocolType, v.Generation, v.Protocol, v.Leader, v.CurrentStateTimestamp = "consumer", 5, &protocol, &leader, 1000
		mb := records.NewMemberMetadata()
		mb.MemberId, mb.SessionTimeout, mb.RebalanceTimeout = "m", 7000, 20000
		mb.Subscription, mb.Assignment = subscription("t"), []byte("x")
		v.Members = append(v.Members, *mb)
		m := New(Config{})
		if why := m.Replay(machine.Record{Key: records.EncodeKey(&records.GroupMetadataKey{Group: "g"}), Value: records.EncodeValue(v, version)}); why != "" {
			t.Fatalf("version %d: %s", version, why)
		}
		m.Handle(epoch, machine.Loaded{})
		l := m.groups["g"].live
		wantRebalance, wantSince := int32(20000), int64(1000)
		if version < 1 {
			wantRebalance = 7000 // there was none: the session timeout counts
		}
		if version < 2 {
			wantSince = -1
		}
		got := l.members[0]
		if l.state != stable || l.generation != 5 || got.rebalance != wantRebalance || l.since != wantSince || !l.subscribes("t") || l.subscribes("u") {
			t.Errorf("version %d is loaded as %+v, %+v", version, l, got)
		}
		if want := epoch.Add(7 * time.Second); !got.deadline.Equal(want) {
			t.Errorf("version %d: the session ends at %v", version, got.deadline)
		}
	}
	m := New(Config{})
	for version := int16(0); version <= 4; version++ {
		v := records.NewOffsetCommitValue()
		v.Offset, v.CommitTimestamp, v.Metadata = int64(version)+10, 1, "note"
		if version == 1 {
			v.ExpireTimestamp = 77
		}
		k := &records.OffsetCommitKey{Group: "g", Topic: "t", Partition: int32(version)}
		if why := m.Replay(machine.Record{Key: records.EncodeKey(k), Value: records.EncodeValue(v, version)}); why != "" {
			t.Fatalf("version %d: %s", version, why)
		}
		o := m.groups["g"].offsets.get("t", int32(version))
		if o.offset != int64(version)+10 || o.metadata != "note" || (o.expires == 77) != (version == 1) || o.leaderEpoch != -1 {
			t.Errorf("version %d is loaded as %+v", version, o)
		}
	}
	legacy := machine.Record{
		Key:   records.EncodeKey(&records.LegacyOffsetCommitKey{Group: "g", Topic: "t", Partition: 9}),
		Value: records.EncodeValue(&records.LegacyOffsetCommitValue{Offset: 3, CommitTimestamp: 4}, 0),
	}
	if why := m.Replay(legacy); why != "" || m.groups["g"].offsets.get("t", 9).offset != 3 {
		t.Fatalf("the oldest form: %s", why)
	}
	legacy.Value = nil
	if why := m.Replay(legacy); why != "" || m.groups["g"].offsets.get("t", 9) != nil {
		t.Fatalf("its tombstone: %s", why)
	}
}

// TestOffsetsAllGone: a group whose offsets have all been deleted is one after a
// restart, too, until the retention check ends it.
func TestOffsetsAllGone(t *testing.T) {
	v := records.NewOffsetCommitValue()
	v.Offset, v.CommitTimestamp = 3, 1
	key := records.EncodeKey(&records.OffsetCommitKey{Group: "g", Topic: "t"})
	m := New(Config{})
	for _, value := range [][]byte{records.EncodeValue(v, 3), nil} {
		if why := m.Replay(machine.Record{Key: key, Value: value}); why != "" {
			t.Fatal(why)
		}
	}
	m.Handle(epoch, machine.Loaded{})
	if g := m.groups["g"]; g == nil || len(g.offsets) != 0 || g.live == nil || g.live.state != empty {
		t.Errorf("the group is %+v", g)
	}
	end := records.EncodeKey(&records.GroupMetadataKey{Group: "g"})
	if why := m.Replay(machine.Record{Key: end}); why != "" || m.groups["g"] != nil {
		t.Errorf("after its end (%s) it is %+v", why, m.groups["g"])
	}
}

// TestForeignRecords: what the machine cannot use is skipped, with the reason,
// and changes nothing.
func TestForeignRecords(t *testing.T) {
	key := func(id uint16, rest string) []byte { return append(binary.BigEndian.AppendUint16(nil, id), rest...) }
	good := records.EncodeKey(&records.GroupMetadataKey{Group: "g"})
	for name, rec := range map[string]machine.Record{
		"a consumer group's epoch": {Key: key(3, "\x00\x01g"), Value: []byte{0, 0, 0, 0, 0, 1, 0}},
		"a share group's":          {Key: key(11, "\x00\x01g"), Value: []byte{0, 0}},
		"an id of the future":      {Key: key(99, ""), Value: []byte{0, 0}},
		"no key":                   {},
		"a cut key":                {Key: key(2, "\x00\x05g"), Value: []byte{0, 0}},
		"a value of the future":    {Key: good, Value: []byte{0, 9, 0}},
		"a cut value":              {Key: good, Value: []byte{0, 3, 0}},
	} {
		m := New(Config{})
		if why := m.Replay(rec); why == "" || strings.Contains(why, "\n") {
			t.Errorf("%s: %q", name, why)
		}
		if len(m.groups) > 0 {
			t.Errorf("%s made a group", name)
		}
	}
	// A member without a protocol is nothing that Kafka writes; it must not do
	// harm.
	v := records.NewGroupMetadataValue()
	v.Members = append(v.Members, *records.NewMemberMetadata())
	m := New(Config{})
	if why := m.Replay(machine.Record{Key: good, Value: records.EncodeValue(v, 3)}); why != "" {
		t.Fatal(why)
	}
	d := m.Handle(epoch, machine.Loaded{})
	for range 10 {
		d = m.Handle(d.Deadline, machine.Expire{})
		if len(d.Records) > 0 {
			d = m.Handle(epoch, machine.Refused{})
		}
	}
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{"g"}
	m.Handle(epoch, machine.Request{Ticket: 1, Body: r})
}

// TestStringsThatCannotBeStored are refused, for an encoder would panic.
func TestStringsThatCannotBeStored(t *testing.T) {
	long := strings.Repeat("x", records.MaxString)
	w := newWorld(t, Config{OffsetMetadataMaxBytes: 1 << 20})
	var got any
	w.onSend = func(r machine.Reply) { got = r.Body }
	w.load()
	join := func(client string, change func(r *kmsg.JoinGroupRequest)) int16 {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis = 5, "g", "consumer", 10000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		change(r)
		w.ask(r, client, [16]byte{1})
		return got.(*kmsg.JoinGroupResponse).ErrorCode
	}
	for name, code := range map[string]int16{
		"group":    join("c", func(r *kmsg.JoinGroupRequest) { r.Group = long + "x" }),
		"type":     join("c", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long + "x" }),
		"protocol": join("c", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long + "x" }),
		"instance": join("c", func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long }),
		"client":   join(long, func(r *kmsg.JoinGroupRequest) {}),
	} {
		if code != unknownServerError {
			t.Errorf("a long %s: error %d", name, code)
		}
	}
	c := kmsg.NewPtrOffsetCommitRequest()
	c.Version = 9
	metadata := long + "x"
	c.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Metadata: &metadata}}}}
	w.ask(c, "", [16]byte{})
	if code := got.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != offsetMetadataTooLarge {
		t.Errorf("long metadata: error %d", code)
	}
	c.Group = long + "x"
	w.ask(c, "", [16]byte{})
	if code := got.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != unknownServerError {
		t.Errorf("a long group: error %d", code)
	}
}
