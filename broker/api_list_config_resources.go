package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/image"
)

// ListConfigResources (74), versions 0-1. KIP-1000 (v0, ListClientMetricsResources:
// names of client metrics subscriptions only), KIP-1142 (v1: by type).
//
// Topics are listed whether they set anything or not, groups and subscriptions
// only if they do, brokers and their loggers if they are alive.

// listedTypes are the types of resources that can be listed, in the order they
// are answered in.
var listedTypes = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic,
}

func (b *Broker) listConfigResources(c *call, req *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if !c.allowed(auth.DescribeConfigs, auth.Cluster, auth.ClusterName) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	}
	var wanted []kmsg.ConfigResourceType
	switch {
	case c.Version == 0:
		wanted = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	case len(req.ResourceTypes) == 0:
		wanted = listedTypes
	}
	if c.Version > 0 {
		for _, t := range req.ResourceTypes {
			kind := kmsg.ConfigResourceType(t)
			if !slices.Contains(listedTypes, kind) {
				resp.ErrorCode = kerr.UnsupportedVersion.Code
				return resp
			}
			if !slices.Contains(wanted, kind) {
				wanted = append(wanted, kind)
			}
		}
	}
	for _, kind := range wanted {
		for _, name := range resourcesOf(c.image, kind) {
			r := kmsg.NewListConfigResourcesResponseConfigResource()
			r.Name, r.Type = name, int8(kind)
			resp.ConfigResources = append(resp.ConfigResources, r)
		}
	}
	return resp
}

func resourcesOf(img *image.Image, kind kmsg.ConfigResourceType) []string {
	var names []string
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		for t := range img.Topics() {
			names = append(names, t.Name)
		}
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		for br := range img.Brokers() {
			if !br.Fenced {
				names = append(names, itoa(br.ID))
			}
		}
	default:
		names = img.ConfigResources(image.ResourceType(kind))
	}
	return names
}
