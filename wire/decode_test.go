package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bodies that are out of this world close the connection, with an error from
// the decoder and no memory spent.
func TestDecode(t *testing.T) {
	str := func(n int) string { return strings.Repeat("s", n) }
	meta := func(n int) *kmsg.MetadataRequest {
		r := kmsg.NewPtrMetadataRequest()
		r.Version = 9
		name := str(n)
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		return r
	}
	produce := func(txn, topic int) *kmsg.ProduceRequest {
		r := kmsg.NewPtrProduceRequest()
		r.Version = 9
		id := str(txn)
		r.TransactionID = &id
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: str(topic)}}
		return r
	}
	acl := kmsg.NewPtrDescribeACLsRequest()
	acl.Version = 2
	unknown := *acl
	acl.ResourceType, acl.ResourcePatternType, acl.Operation, acl.PermissionType = 1, 1, 1, 1
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version = 2
	create.Creations = []kmsg.CreateACLsRequestCreation{{}}
	del := kmsg.NewPtrDeleteACLsRequest()
	del.Version = 2
	del.Filters = []kmsg.DeleteACLsRequestFilter{{}}
	for _, c := range []struct {
		name string
		req  kmsg.Request
		bad  error
	}{
		{"longest string", meta(32767), nil},
		{"string too long", meta(32768), errLongString},
		{"Produce", produce(32767, 32767), nil},
		{"Produce with a long transactional id", produce(32768, 1), errLongString},
		{"Produce with a long topic", produce(1, 32768), errLongString},
		{"ACL", acl, nil},
		{"unknown ACL", &unknown, errUnknownEnum},
		{"unknown ACL to create", create, errUnknownEnum},
		{"unknown ACL to delete", del, errUnknownEnum},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := append(c.req.AppendTo(nil), "left over"...)
			_, err := Decode(&Request{Key: c.req.Key(), Version: c.req.GetVersion(), Body: body})
			if !errors.Is(err, c.bad) {
				t.Errorf("error %v, want %v", err, c.bad)
			}
			if _, err := Decode(&Request{Key: c.req.Key(), Version: c.req.GetVersion(), Body: c.req.AppendTo(nil)[:3]}); err == nil {
				t.Error("three bytes were decoded")
			}
		})
	}
	if _, err := Decode(&Request{Key: 999}); err == nil {
		t.Error("api key 999 was decoded")
	}
	// An array that announces two thousand million entries.
	for _, c := range []struct {
		key, version int16
		body         string
	}{
		{3, 1, "\x7f\xff\xff\xff"}, {3, 9, "\xff\xff\xff\xff\x07"}, {0, 7, "\xff\xff\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff"},
		{1, 11, strings.Repeat("\x7f", 40)}, {19, 5, "\xff\xff\xff\xff\x0f"},
	} {
		if _, err := Decode(&Request{Key: c.key, Version: c.version, Body: []byte(c.body)}); err == nil {
			t.Errorf("key %d version %d: decoded %q", c.key, c.version, c.body)
		}
	}
}
