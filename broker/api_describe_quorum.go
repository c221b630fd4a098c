package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/config"
)

// DescribeQuorum (55), versions 0-2. KIP-595, KIP-836 (fetch and caught-up
// times, v1), KIP-853 (messages, directory ids and the nodes' listeners, v2).
//
// The active controller answers from raft (controller/quorum.go); the broker
// adds where the voters' controller listeners are. Asked for anything but
// partition 0 of __cluster_metadata, it answers UNKNOWN_TOPIC_OR_PARTITION for
// everything. A node that has no controller listener has none to tell of.

func (b *Broker) describeQuorum(c *call, req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	refuse := func(code int16) *kmsg.DescribeQuorumResponse {
		resp.ErrorCode, resp.ErrorMessage = code, kmsg.StringPtr(errorText(code))
		return resp
	}
	if !c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code)
	}
	got, err := c.change(req, b.requestTimeout())
	if err != nil {
		code, _ := changeFailed(err)
		return refuse(code)
	}
	resp = got.(*kmsg.DescribeQuorumResponse)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for _, v := range p.CurrentVoters {
				resp.Nodes = append(resp.Nodes, b.quorumNode(c, v.ReplicaID))
			}
		}
	}
	return resp
}

// quorumNode is where a voter is reached: this node by its own listeners, others
// by what the configuration says of them.
func (b *Broker) quorumNode(c *call, id int32) kmsg.DescribeQuorumResponseNode {
	node := kmsg.DescribeQuorumResponseNode{NodeID: id}
	if id == b.nodeID {
		for _, l := range b.listeners() {
			if l.kind == onController {
				e := b.listenerEndpoint(l, c.Conn)
				node.Listeners = append(node.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: l.name, Host: e.host, Port: uint16(e.port)})
			}
		}
		return node
	}
	names := b.config.ControllerListeners()
	voters := b.config.Voters()
	if at := slices.IndexFunc(voters, func(v config.Voter) bool { return v.ID == id }); at >= 0 && len(names) > 0 {
		node.Listeners = append(node.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: names[0], Host: voters[at].Host, Port: uint16(voters[at].Port)})
	}
	return node
}
