package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs (33), versions 0-2. KIP-133; flexible from v2.
//
// The older of the two: what a request says of a resource replaces all that the
// resource had set, so that what is not named is deleted. Broker loggers cannot
// be changed with it.

func (b *Broker) alterConfigs(c *call, req *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	resp := kmsg.NewPtrAlterConfigsResponse()
	ask := *req
	ask.Resources = nil
	done := func(r kmsg.AlterConfigsRequestResource, code int16, msg string) {
		a := kmsg.NewAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode = r.ResourceType, r.ResourceName, code
		if msg != "" {
			a.ErrorMessage = &msg
		}
		resp.Resources = append(resp.Resources, a)
	}
	times := map[configResource]int{}
	for _, r := range req.Resources {
		times[configResource{r.ResourceType, r.ResourceName}]++
	}
	for _, r := range onceEach(b, c, req.Resources, func(r kmsg.AlterConfigsRequestResource) configResource {
		return configResource{r.ResourceType, r.ResourceName}
	}) {
		switch code, msg := b.mayChange(c, configResource{r.ResourceType, r.ResourceName}, times); {
		case code != 0:
			done(r, code, msg)
		case r.ResourceType == kmsg.ConfigResourceTypeBrokerLogger:
			done(r, kerr.InvalidRequest.Code, "Unknown resource type BROKER_LOGGER")
		case r.ResourceType == kmsg.ConfigResourceTypeBroker && r.ResourceName == itoa(b.nodeID) && b.kindOf(c.Conn.Listener) == onBroker:
			after := map[string]string{}
			for _, cfg := range r.Configs {
				if cfg.Value != nil {
					after[cfg.Name] = *cfg.Value
				}
			}
			if code, msg := b.checkListeners(c.image, within(after)); code != 0 {
				done(r, code, msg)
				continue
			}
			ask.Resources = append(ask.Resources, r)
		default:
			ask.Resources = append(ask.Resources, r)
		}
	}
	if len(ask.Resources) == 0 {
		return resp
	}
	got, err := c.change(&ask, b.requestTimeout())
	if err != nil {
		code, msg := changeFailed(err)
		for _, r := range ask.Resources {
			done(r, code, msg)
		}
		return resp
	}
	resp.Resources = append(resp.Resources, got.(*kmsg.AlterConfigsResponse).Resources...)
	return resp
}
