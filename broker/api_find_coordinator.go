package broker

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
)

// FindCoordinator (10), versions 0-6. KIP-98 (key types, v1), KIP-699 (many
// keys, v4), KIP-932 (share coordinators, v6).
//
// The internal topic is created within the request that first needs it, and
// the answer names its leader once that has loaded; Kafka answers
// COORDINATOR_NOT_AVAILABLE meanwhile. Types whose coordinator is not built
// (transactions, share groups) answer UNSUPPORTED_VERSION and are logged.

// Coordinator key types.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

func (b *Broker) findCoordinator(c *call, req *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.Version < 4 {
		one := b.coordinatorOf(c, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = one.ErrorCode, one.NodeID, one.Host, one.Port
		resp.ErrorMessage = one.ErrorMessage
		if one.ErrorCode == 0 {
			resp.ErrorMessage = kmsg.StringPtr("NONE")
		}
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.coordinatorOf(c, req.CoordinatorType, key))
	}
	return resp
}

func (b *Broker) coordinatorOf(c *call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	// In the form of many keys Kafka gives words only to a type it does not know.
	words := c.Version < 4
	fail := func(e *kerr.Error) kmsg.FindCoordinatorResponseCoordinator {
		out.ErrorCode, out.ErrorMessage = e.Code, kmsg.StringPtr("")
		if words {
			out.ErrorMessage = kmsg.StringPtr(errorText(e.Code))
		}
		return out
	}
	switch kind {
	case coordinatorGroup:
		if !c.allowed(auth.Describe, auth.Group, key) {
			return fail(kerr.GroupAuthorizationFailed)
		}
	case coordinatorTransaction:
		if !c.allowed(auth.Describe, auth.TransactionalID, key) {
			return fail(kerr.TransactionalIDAuthorizationFailed)
		}
		b.refused.Warn("transactions are not built yet: FindCoordinator for a transactional id is refused", zap.String("key", key))
		fail(kerr.UnsupportedVersion)
		out.ErrorMessage = kmsg.StringPtr("This broker does not serve transactions.")
		return out
	case coordinatorShare:
		if c.Version < 6 || !isSharePartition(key) {
			return fail(kerr.InvalidRequest)
		}
		b.refused.Warn("share groups are not built yet: FindCoordinator for a share partition is refused", zap.String("key", key))
		return fail(kerr.UnsupportedVersion)
	default:
		words = true
		return fail(kerr.InvalidRequest)
	}
	c.Waiting()
	topic, err := b.offsetsTopic(c.ctx)
	if err != nil {
		return fail(kerr.CoordinatorNotAvailable)
	}
	c.image = b.applied()
	at := groupPartition(key, len(topic.Partitions))
	if b.coordinators.loaded(c.ctx, at) != nil {
		return fail(kerr.CoordinatorNotAvailable)
	}
	leader := c.image.Broker(topic.Partitions[at].Leader)
	if leader == nil || leader.Fenced {
		return fail(kerr.CoordinatorNotAvailable)
	}
	e, ok := b.endpointFor(c.Conn, leader)
	if !ok {
		return fail(kerr.CoordinatorNotAvailable)
	}
	out.NodeID, out.Host, out.Port = leader.ID, e.host, e.port
	out.ErrorMessage = kmsg.StringPtr("")
	return out
}

// isSharePartition says whether a key names a share partition: GROUP:TOPICID:PARTITION
// with the id in base64 for URLs (KIP-932). A group may have colons in its
// name; colons at the end of the key are nothing.
func isSharePartition(key string) bool {
	parts := strings.Split(strings.TrimRight(key, ":"), ":")
	n := len(parts)
	if n < 3 || strings.TrimSpace(strings.Join(parts[:n-2], ":")) == "" {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(parts[n-2], "=="))
	if err != nil || len(id) != 16 {
		return false
	}
	_, err = strconv.ParseInt(parts[n-1], 10, 32)
	return err == nil
}
