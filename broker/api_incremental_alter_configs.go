package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// IncrementalAlterConfigs (44), versions 0-1. KIP-339, KIP-1142 (group and
// client-metrics resources).
//
// Topic, group, client-metrics and broker resources are changed by the
// controller and take effect when this broker has applied them. Broker loggers
// belong to the broker that is asked (loggers.go).

func (b *Broker) incrementalAlterConfigs(c *call, req *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	ask := *req
	ask.Resources = nil
	done := func(r kmsg.IncrementalAlterConfigsRequestResource, code int16, msg string) {
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode = r.ResourceType, r.ResourceName, code
		if msg != "" {
			a.ErrorMessage = &msg
		}
		resp.Resources = append(resp.Resources, a)
	}
	type resource struct {
		t kmsg.ConfigResourceType
		n string
	}
	times := map[resource]int{}
	for _, r := range req.Resources {
		times[resource{r.ResourceType, r.ResourceName}]++
	}
	for _, r := range req.Resources {
		id := resource{r.ResourceType, r.ResourceName}
		switch {
		case times[id] > 1:
			done(r, kerr.InvalidRequest.Code, "Each resource must appear at most once.")
		case !b.mayAlterConfigs(c, r.ResourceType, r.ResourceName):
			done(r, configAuthorizationError(r.ResourceType), "")
		case r.ResourceType == kmsg.ConfigResourceTypeBrokerLogger:
			code, msg := b.alterLogger(r, req.ValidateOnly)
			done(r, code, msg)
		case r.ResourceType == kmsg.ConfigResourceTypeBroker && r.ResourceName != "":
			// A broker's configs are changed through that broker.
			if code, msg := b.isSelf(r.ResourceName); code != 0 {
				done(r, code, msg)
				continue
			}
			ask.Resources = append(ask.Resources, r)
		default:
			ask.Resources = append(ask.Resources, r)
		}
	}
	if len(ask.Resources) > 0 {
		got, err := c.change(&ask, b.requestTimeout())
		if err != nil {
			code, msg := changeFailed(err)
			for _, r := range ask.Resources {
				done(r, code, msg)
			}
		} else {
			resp.Resources = append(resp.Resources, got.(*kmsg.IncrementalAlterConfigsResponse).Resources...)
		}
	}
	return resp
}

func (b *Broker) mayAlterConfigs(c *call, t kmsg.ConfigResourceType, name string) bool {
	return b.mayConfigs(c, auth.AlterConfigs, t, name)
}

// mayConfigs asks for a config operation on the resource that guards it.
func (b *Broker) mayConfigs(c *call, op auth.Operation, t kmsg.ConfigResourceType, name string) bool {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		return c.allowed(op, auth.Topic, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return c.allowed(op, auth.Group, name)
	default:
		return c.allowed(op, auth.Cluster, auth.ClusterName)
	}
}

func configAuthorizationError(t kmsg.ConfigResourceType) int16 {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		return kerr.TopicAuthorizationFailed.Code
	case kmsg.ConfigResourceTypeGroupConfig:
		return kerr.GroupAuthorizationFailed.Code
	default:
		return kerr.ClusterAuthorizationFailed.Code
	}
}
