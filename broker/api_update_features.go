package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// UpdateFeatures (57), versions 0-2. KIP-584, KIP-778 (kinds of downgrade and
// dry runs, v1), KIP-1022 (one error for the whole request, v2).
//
// All features change, or none. Which levels there are stands in
// controller/state: no feature is offered at a level that is not built. The
// request's time-out has no effect, as in Kafka.

func (b *Broker) updateFeatures(c *call, req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	refuse := func(code int16, msg string) *kmsg.UpdateFeaturesResponse {
		resp.ErrorCode = code
		if msg != "" {
			resp.ErrorMessage = &msg
		}
		return resp
	}
	if !c.allowed(auth.Alter, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code, errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	got, err := c.change(req, b.requestTimeout())
	if err != nil {
		return refuse(changeFailed(err))
	}
	return got.(*kmsg.UpdateFeaturesResponse)
}
