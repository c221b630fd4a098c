package broker

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/config"
	"millrace/controller/image"
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
	times := map[configResource]int{}
	for _, r := range req.Resources {
		times[configResource{r.ResourceType, r.ResourceName}]++
	}
	for _, r := range onceEach(b, c, req.Resources, func(r kmsg.IncrementalAlterConfigsRequestResource) configResource {
		return configResource{r.ResourceType, r.ResourceName}
	}) {
		switch code, msg := b.mayChange(c, configResource{r.ResourceType, r.ResourceName}, times); {
		case code != 0:
			done(r, code, msg)
		case r.ResourceType == kmsg.ConfigResourceTypeBrokerLogger:
			code, msg := b.alterLogger(r, req.ValidateOnly)
			done(r, code, msg)
		case r.ResourceType == kmsg.ConfigResourceTypeBroker && r.ResourceName == itoa(b.nodeID) && b.kindOf(c.Conn.Listener) == onBroker && operable(r):
			if code, msg := b.checkListeners(c.image, within(afterwards(c.image, r))); code != 0 {
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

// operable says that each operation fits its key. One that does not is told of before
// anything is said of values, which the controller does.
func operable(r kmsg.IncrementalAlterConfigsRequestResource) bool {
	for _, c := range r.Configs {
		if op := config.Op(c.Op); op != config.OpSet && op != config.OpDelete {
			if k, known := config.Find(config.BrokerScope, c.Name); !known || k.Type != config.List {
				return false
			}
		}
	}
	return true
}

// afterwards is what a broker would have set after a change. Operations that make no
// sense are left out: the controller refuses them.
func afterwards(img *image.Image, r kmsg.IncrementalAlterConfigsRequestResource) map[string]string {
	after := map[string]string{}
	for _, c := range img.Configs(image.BrokerResource, r.ResourceName).All() {
		after[c.Key] = c.Value
	}
	for _, c := range r.Configs {
		k, known := config.Find(config.BrokerScope, c.Name)
		switch op := config.Op(c.Op); {
		case op == config.OpDelete:
			delete(after, c.Name)
		case c.Value != nil && op == config.OpSet && strings.HasPrefix(c.Name, "listener.name."):
			after[c.Name] = *c.Value
		case c.Value == nil || !known:
		case op == config.OpSet:
			after[c.Name] = *c.Value
		default:
			base, set := after[c.Name]
			if !set {
				base = k.Default
			}
			if v, err := config.ListOp(k, c.Name, op, base, *c.Value); err == nil {
				after[c.Name] = v
			}
		}
	}
	return after
}

func within(m map[string]string) config.Lookup {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// configResource is whose configs a request is about.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// mayChange makes the checks that come before a resource is changed, by whichever
// request: it is named once, who asks may change it, and a broker is changed
// through itself, unless a controller is asked, which knows every broker. The
// code is 0 if it may be changed.
func (b *Broker) mayChange(c *call, r configResource, times map[configResource]int) (int16, string) {
	switch {
	case times[r] > 1:
		return kerr.InvalidRequest.Code, "Each resource must appear at most once."
	case b.kindOf(c.Conn.Listener) == onController && !isConfigResource(r.kind):
		return kerr.UnsupportedVersion.Code, "Unexpected resource type " + itoa(int32(r.kind)) + "."
	case !b.mayAlterConfigs(c, r.kind, r.name):
		return configAuthorizationError(r.kind), ""
	case r.kind == kmsg.ConfigResourceTypeBroker && r.name != "" && b.kindOf(c.Conn.Listener) == onBroker:
		return b.isSelf(r.name)
	}
	return 0, ""
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

// isConfigResource says whether there are configs of a kind of resource.
func isConfigResource(kind kmsg.ConfigResourceType) bool {
	switch kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return true
	}
	return false
}

// onceEach gives the resources of a request as a listener answers them: one that
// is named more than once is refused each time on a broker's, and once on a
// controller's.
func onceEach[R any](b *Broker, c *call, resources []R, of func(R) configResource) []R {
	if b.kindOf(c.Conn.Listener) == onBroker {
		return resources
	}
	var out []R
	seen := map[configResource]bool{}
	for _, r := range resources {
		if !seen[of(r)] {
			out = append(out, r)
		}
		seen[of(r)] = true
	}
	return out
}
