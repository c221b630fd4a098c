package broker

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/wire"
)

// ApiVersions (18), versions 0-5. KIP-35, KIP-511 (client software), KIP-584
// (features), KIP-1242 (cluster id and node id in the request).
//
// The answer is made from the table in apis.go, and from the applied image for
// what is told of at times. A version not served is
// answered in the v0 schema with UNSUPPORTED_VERSION and this API's own range,
// so that a newer client can step down. Features are told from version 3; up
// to version 3 a feature whose lowest level is 0 is left out (KAFKA-17492).

// softwareName is what KIP-511 lets a client call itself.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (b *Broker) apiVersions(c *call) wire.Reply {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.FinalizedFeaturesEpoch = -1
	if c.Body == nil {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		a := lookup(int16(kmsg.ApiVersions))
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(a.key), MinVersion: a.min, MaxVersion: a.max}}
		c.answered(resp)
		return wire.Reply{Body: wire.Encode(resp)}
	}
	req := c.msg.(*kmsg.ApiVersionsRequest)
	resp.Version = c.Version
	if c.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		c.answered(resp)
		return wire.Reply{Body: wire.Encode(resp)}
	}
	if c.Version >= 5 {
		set := req.ClusterID != nil
		if set != (req.NodeID != -1) {
			resp.ErrorCode = kerr.InvalidRequest.Code
			c.answered(resp)
			return wire.Reply{Body: wire.Encode(resp)}
		}
		// A controller answers whoever asks.
		if set && b.kindOf(c.Conn.Listener) == onBroker && (*req.ClusterID != c.image.ClusterID() || req.NodeID != b.nodeID) {
			resp.ErrorCode = kerr.RebootstrapRequired.Code
			c.answered(resp)
			return wire.Reply{Body: wire.Encode(resp)}
		}
	}
	if c.Version >= 3 {
		first := c.Conn.SoftwareName == ""
		c.Conn.SoftwareName, c.Conn.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
		if first {
			b.seen.named(c.Conn)
		}
	}
	kind := b.kindOf(c.Conn.Listener)
	for i := range table {
		if a := &table[i]; a.on&kind != 0 && (a.told == nil || a.told(c.image)) {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(a.key), MinVersion: a.min, MaxVersion: a.max})
		}
	}
	for _, f := range b.features {
		if c.Version <= 3 && f.Min == 0 {
			continue
		}
		resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
	}
	for _, f := range c.image.Features() {
		if f.Level > 0 {
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.Name, MaxVersionLevel: f.Level, MinVersionLevel: f.Level})
		}
	}
	resp.FinalizedFeaturesEpoch = c.image.Offset()
	c.answered(resp)
	return wire.Reply{Body: wire.Encode(resp)}
}
