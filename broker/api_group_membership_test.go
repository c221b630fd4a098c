package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/controller/image"
)

// What a group keeps of a member is not a part of the frame it came in, and is
// not more than a record can hold.
func TestProtocolsAreTheGroupsOwn(t *testing.T) {
	static, _, err := config.ParseStatic(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, c := &Broker{config: static}, &call{image: image.New()}
	join := func(name string, sizes ...int) (*kmsg.JoinGroupRequest, []byte) {
		frame := make([]byte, 4<<20)
		req := kmsg.NewPtrJoinGroupRequest()
		for _, n := range sizes {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: frame[:n]})
		}
		return req, frame
	}
	req, frame := join("range", 100, 1000)
	if code := b.ownProtocols(c, req); code != 0 {
		t.Fatalf("a usual member: error %d", code)
	}
	frame[0] = 1
	for _, p := range req.Protocols {
		if p.Metadata[0] != 0 {
			t.Error("the metadata is still a part of the frame")
		}
	}
	for name, sizes := range map[string][]int{"one": {1048589}, "two": {600 << 10, 600 << 10}, "": make([]int, 20000)} {
		if req, _ := join(name, sizes...); b.ownProtocols(c, req) != -1 {
			t.Errorf("%d protocols of %d bytes pass", len(sizes), sizes[0])
		}
	}
}
