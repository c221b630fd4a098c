package oracle

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// unhurried is for how many milliseconds members may be silent, and others wait for
// them: longer than a sequence takes, with restarts on a machine that does much else.
const unhurried = 600000

// tooLarge is larger than a record of __consumer_offsets may be.
const tooLarge = 1100000

// shortRebalance is when the rebalance of some groups runs out.
const shortRebalance = 1500 * time.Millisecond

// grouping is what the members of a group are like.
type grouping struct {
	// short: rebalances run out soon.
	short bool
	// kind is their protocol type.
	kind string
	// subscribes: their metadata are subscriptions, as consumers have them, so that
	// the group knows its topics. Else it is nothing that can be read as one.
	subscribes bool
}

func (g *gen) drawGrouping() grouping {
	return grouping{g.chance(20), oneOf(g.Rand, "consumer", "consumer", "consumer", "consumer", "connect"), g.chance(50)}
}

// consumerSubscription is a consumer's subscription to topics in one of its versions, and
// something behind it.
func consumerSubscription(version int16, behind string, topics ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	b = binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
	if version > 0 {
		b = binary.BigEndian.AppendUint32(b, 0) // no partitions owned
	}
	return append(b, behind...)
}

// other is a protocol type that is not the group's.
func (x grouping) other() string {
	if x.kind == "connect" {
		return "consumer"
	}
	return "connect"
}

// instance is the group instance id of a client; nil for a dynamic member.
func instance(client string, static bool) *string {
	if static && (client == "m2" || client == "m3") {
		return kmsg.StringPtr("i-" + client)
	}
	return nil
}

// grouped is what a member of a group says.
type grouped struct {
	client string
	static bool
}

func (g *gen) grouped() grouped {
	return grouped{client: oneOf(g.Rand, clients...), static: g.chance(85)}
}

func joining(s *side, client, mode string, static bool, of grouping, number int, reason string) *kmsg.JoinGroupRequest {
	m := s.member(client)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = s.name(classicGroup), m.id, instance(client, static), of.kind
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = unhurried, unhurried
	if reason != "" {
		r.Reason = &reason
	}
	protocols := []string{"x:" + client, "y:" + client}
	if rest, ok := strings.CutSuffix(mode, shortly); ok {
		mode, r.SessionTimeoutMillis = rest, int32(shortSession.Milliseconds())
	}
	switch mode {
	case "other metadata":
		protocols[0] += fmt.Sprint(number)
	case "protocols swapped":
		slices.Reverse(protocols)
	case "a protocol alone":
		protocols = protocols[1:]
	case "no protocol shared":
		protocols = []string{"z:" + client}
	case "no protocols":
		protocols = nil
	case "another type":
		r.ProtocolType = of.other()
	case "no type":
		r.ProtocolType = ""
	case "unknown id":
		r.MemberID = "nobody"
	case "new id":
		r.MemberID = ""
	case "session too short":
		r.SessionTimeoutMillis = 5
	case "session too long":
		r.SessionTimeoutMillis = 1800001
	case "empty group":
		r.Group = ""
	case "other's id":
		if client != "m0" {
			r.MemberID = s.member("m0").id
		}
	}
	if of.short {
		r.RebalanceTimeoutMillis = int32(shortRebalance.Milliseconds())
	}
	r.Protocols = []kmsg.JoinGroupRequestProtocol{}
	for _, p := range protocols {
		name, metadata, _ := strings.Cut(p, ":")
		told := []byte(metadata)
		if of.subscribes {
			told = consumerSubscription(int16(number%3), metadata[len(client):], s.name("a"), s.name(map[string]string{"m0": "a", "m1": "b", "m2": "c", "m3": "a"}[client]))
		}
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: told})
	}
	return r
}
