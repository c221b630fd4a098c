package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/config"
	"millrace/controller/image"
)

// DescribeConfigs (32), versions 0-4. KIP-133, KIP-226 (synonyms, v1), KIP-569
// (types and documentation, v3), KIP-1142 (group and client-metrics
// resources).
//
// A null or empty list of names asks for all; unknown names are left out in
// silence, as Kafka does. A broker describes only itself; the empty broker
// name stands for the cluster-wide defaults, of which only those set are told.

// The config sources (v1+) of a value nobody set, and of a logger's level.
const (
	sourceDefault = 5
	sourceLogger  = 6
)

func (b *Broker) describeConfigs(c *call, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	seen := map[configResource]bool{}
	// One kind of resource that there is not refuses them all.
	unknown := slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return !isConfigResource(r.ResourceType) })
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		var entries []config.Entry
		code, msg := kerr.InvalidRequest.Code, "The request names a resource type that has no configs."
		if !unknown {
			entries, code, msg = b.describeResource(c, r)
		}
		out.ErrorCode, out.ErrorMessage = code, &msg
		for _, e := range entries {
			if len(r.ConfigNames) > 0 && !slices.Contains(r.ConfigNames, e.Name) {
				continue
			}
			out.Configs = append(out.Configs, configEntry(e, req))
		}
		asked := configResource{r.ResourceType, r.ResourceName}
		if (seen[asked] || anyNameHasConfigs(r.ResourceType)) && !c.pads(sizeOfConfigs(&out)) {
			return resp
		}
		seen[asked] = true
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// anyNameHasConfigs says whether a kind of resource has configs under every name,
// whether there is such a thing or not.
func anyNameHasConfigs(kind kmsg.ConfigResourceType) bool {
	return kind == kmsg.ConfigResourceTypeGroupConfig || kind == kmsg.ConfigResourceTypeClientMetrics
}

// sizeOfConfigs is about what a description takes, sent.
func sizeOfConfigs(r *kmsg.DescribeConfigsResponseResource) int {
	n := len(r.ResourceName) + len(*r.ErrorMessage)
	text := func(s *string) int {
		if s == nil {
			return 4
		}
		return 4 + len(*s)
	}
	for i := range r.Configs {
		e := &r.Configs[i]
		n += 16 + len(e.Name) + text(e.Value) + text(e.Documentation)
		for j := range e.ConfigSynonyms {
			s := &e.ConfigSynonyms[j]
			n += 8 + len(s.Name) + text(s.Value)
		}
	}
	return n
}

func configEntry(e config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	out.Source, out.IsDefault = kmsg.ConfigSource(e.Source), e.Source == sourceDefault
	out.ConfigType = kmsg.ConfigType(e.Type)
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Value, syn.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, syn)
		}
	}
	// That of a logger is empty, not absent, whether it was asked for or not.
	if e.Source == sourceLogger || req.IncludeDocumentation && e.Doc != "" {
		out.Documentation = &e.Doc
	}
	return out
}

func (b *Broker) describeResource(c *call, r kmsg.DescribeConfigsRequestResource) ([]config.Entry, int16, string) {
	if !b.mayConfigs(c, auth.DescribeConfigs, r.ResourceType, r.ResourceName) {
		return nil, configAuthorizationError(r.ResourceType), ""
	}
	name := r.ResourceName
	ownName := itoa(b.nodeID)
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if !validTopicName(name) {
			return nil, kerr.InvalidTopicException.Code, "Topic name is invalid: " + strconv.Quote(name)
		}
		if c.image.TopicByName(name) == nil {
			return nil, kerr.UnknownTopicOrPartition.Code, ""
		}
		return b.config.DescribeTopic(dynamic(c.image, image.BrokerResource, ""), dynamic(c.image, image.BrokerResource, ownName), dynamic(c.image, image.TopicResource, name)), 0, ""
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return b.config.DescribeBrokerDefaults(dynamic(c.image, image.BrokerResource, ""), dynamicNames(c.image, "")...), 0, ""
		}
		if code, msg := b.isSelf(name); code != 0 {
			return nil, code, msg
		}
		return b.config.DescribeBroker(dynamic(c.image, image.BrokerResource, ""), dynamic(c.image, image.BrokerResource, ownName), dynamicNames(c.image, "", ownName)...), 0, ""
	case kmsg.ConfigResourceTypeBrokerLogger:
		if name == "" {
			return nil, kerr.InvalidRequest.Code, "Broker id must not be empty"
		}
		if code, msg := b.isSelf(name); code != 0 {
			return nil, code, msg
		}
		level := b.loggerLevel()
		return []config.Entry{{Name: rootLogger, Value: &level, Source: sourceLogger}}, 0, ""
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, kerr.InvalidRequest.Code, "Client metrics subscription name must not be empty"
		}
		return b.config.DescribeClientMetrics(dynamic(c.image, image.ClientMetricsResource, name)), 0, ""
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, kerr.InvalidRequest.Code, "Group name must not be empty"
		}
		return b.config.DescribeGroup(dynamic(c.image, image.BrokerResource, ""), dynamic(c.image, image.BrokerResource, ownName), dynamic(c.image, image.GroupResource, name)), 0, ""
	default:
		return nil, kerr.InvalidRequest.Code, "Unsupported resource type: " + strconv.Itoa(int(r.ResourceType))
	}
}

func (b *Broker) isSelf(name string) (int16, string) {
	if id, err := strconv.ParseInt(name, 10, 32); err != nil {
		return kerr.InvalidRequest.Code, "Broker id must be an integer, but it is: " + name
	} else if int32(id) != b.nodeID {
		return kerr.InvalidRequest.Code, "Unexpected broker id, expected " + itoa(b.nodeID) + " or empty string, but received " + name
	}
	return 0, ""
}

func dynamic(img *image.Image, kind image.ResourceType, name string) config.Lookup {
	return img.Configs(kind, name).Get
}

// dynamicNames lists what is set dynamically for brokers, sorted.
func dynamicNames(img *image.Image, brokers ...string) []string {
	var names []string
	for _, broker := range brokers {
		for _, c := range img.Configs(image.BrokerResource, broker).All() {
			names = append(names, c.Key)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
