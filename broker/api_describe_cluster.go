package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// DescribeCluster (60), versions 0-2. KIP-700, KIP-919 (endpoint types, v1),
// KIP-1073 (fenced brokers, v2).

const (
	endpointBroker     = 1
	endpointController = 2
)

func (b *Broker) describeCluster(c *call, req *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = endpointBroker // with an error too, whatever was asked
	resp.ClusterAuthorizedOperations = auth.NotAsked
	resp.ControllerID = -1
	kind := int8(endpointBroker)
	if b.kindOf(c.Conn.Listener) == onController {
		kind = endpointController
	}
	if c.Version == 0 {
		req.EndpointType = endpointBroker
	}
	if req.EndpointType != kind {
		msg := "The request was sent to an endpoint of the wrong type."
		code := kerr.MismatchedEndpointType.Code
		if req.EndpointType != endpointBroker && req.EndpointType != endpointController {
			code, msg = kerr.UnsupportedEndpointType.Code, "Unsupported endpoint type "+itoa(int32(req.EndpointType))
		}
		if c.Version == 0 {
			code = kerr.InvalidRequest.Code
		}
		resp.ErrorCode, resp.ErrorMessage = code, &msg
		return resp
	}
	resp.ClusterID, resp.EndpointType = c.image.ClusterID(), kind
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = 0
		if c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
			resp.ClusterAuthorizedOperations = c.operations(auth.Cluster, auth.ClusterName)
		}
	}
	if kind == endpointController {
		resp.ControllerID = b.controller.LeaderID()
		db := kmsg.NewDescribeClusterResponseBroker()
		if e, ok := b.controllerEndpoint(c.Conn); ok {
			db.NodeID, db.Host, db.Port = b.nodeID, e.host, e.port
			resp.Brokers = append(resp.Brokers, db)
		}
		return resp
	}
	for br := range c.image.Brokers() {
		if br.Fenced && !(c.Version >= 2 && req.IncludeFencedBrokers) {
			continue
		}
		e, ok := b.endpointFor(c.Conn, br)
		if !ok {
			continue
		}
		db := kmsg.NewDescribeClusterResponseBroker()
		db.NodeID, db.Host, db.Port, db.Rack, db.IsFenced = br.ID, e.host, e.port, br.Rack, br.Fenced
		resp.Brokers = append(resp.Brokers, db)
		if resp.ControllerID == -1 && !br.Fenced {
			resp.ControllerID = br.ID
		}
	}
	return resp
}
