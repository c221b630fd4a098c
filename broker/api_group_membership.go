package broker

import (
	"bytes"
	"crypto/rand"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/broker/coordinator"
	"millrace/broker/machine"
)

// JoinGroup (11) 0-9, SyncGroup (14) 0-5, Heartbeat (12) 0-4, LeaveGroup (13)
// 0-5: the membership of classic groups. KIP-345 (static members), KIP-394
// (MEMBER_ID_REQUIRED), KIP-559 (protocol type and name), KIP-800 (reasons),
// KIP-814 (SkipAssignment).
//
// The handlers authorise and find the coordinator's shard; broker/group
// decides. An empty group id is INVALID_GROUP_ID before anything is looked up.

// ask puts a request before the machine that coordinates a group. The code is
// set when there was no answer.
func ask[R kmsg.Response](b *Broker, c *call, group string, body kmsg.Request) (resp R, code int16) {
	shard, code := b.shardOf(c, group)
	if code != 0 {
		return resp, code
	}
	return askShard[R](b, c, shard, body)
}

func askShard[R kmsg.Response](b *Broker, c *call, shard *coordinator.Shard, body kmsg.Request) (resp R, code int16) {
	q := machine.Request{Body: body, Client: machine.Client{ID: c.clientID(), Host: c.host(), Principal: c.Conn.Principal}}
	rand.Read(q.Fresh[:])
	c.Waiting()
	got, err := shard.Do(c.ctx, q)
	if err != nil {
		return resp, coordinatorError(err)
	}
	return got.(R), 0
}

// coordinatorError is the code for a coordinator that did not answer.
func coordinatorError(err error) int16 {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Code
	}
	return kerr.NotCoordinator.Code
}

// mayRead is the check that the membership APIs begin with.
func mayRead(c *call, group string) int16 {
	if !c.allowed(auth.Read, auth.Group, group) {
		return kerr.GroupAuthorizationFailed.Code
	}
	if group == "" {
		return kerr.InvalidGroupID.Code
	}
	return 0
}

func (b *Broker) joinGroup(c *call, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	code := mayRead(c, req.Group)
	if code == 0 {
		code = b.ownProtocols(c, req)
	}
	if code == 0 {
		var resp *kmsg.JoinGroupResponse
		if resp, code = ask[*kmsg.JoinGroupResponse](b, c, req.Group, req); code == 0 {
			return resp
		}
	}
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = code, req.MemberID, -1
	if c.Version < 7 {
		resp.Protocol = kmsg.StringPtr("")
	}
	return resp
}

// protocolMemory is what a protocol takes beside its name and metadata.
const protocolMemory = 64

// ownProtocols makes the metadata that a member brings the group's own. It would
// be kept as a part of the frame it came in, however long that is. Metadata that
// no record of the group could ever hold is refused at once: Kafka keeps it in
// memory, and fails with the same code when the group has assigned and is to be
// written.
func (b *Broker) ownProtocols(c *call, req *kmsg.JoinGroupRequest) int16 {
	size := 0
	for i := range req.Protocols {
		size += protocolMemory + len(req.Protocols[i].Name) + len(req.Protocols[i].Metadata)
	}
	if size > int(b.topicConfig(c.image, offsetsTopic).MaxMessageBytes) {
		return kerr.UnknownServerError.Code
	}
	for i := range req.Protocols {
		req.Protocols[i].Metadata = bytes.Clone(req.Protocols[i].Metadata)
	}
	return 0
}

func (b *Broker) syncGroup(c *call, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	if c.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return resp
	}
	code := mayRead(c, req.Group)
	if code == 0 {
		var resp *kmsg.SyncGroupResponse
		if resp, code = ask[*kmsg.SyncGroupResponse](b, c, req.Group, req); code == 0 {
			return resp
		}
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = code
	return resp
}

func (b *Broker) heartbeat(c *call, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	code := mayRead(c, req.Group)
	if code == 0 {
		var resp *kmsg.HeartbeatResponse
		if resp, code = ask[*kmsg.HeartbeatResponse](b, c, req.Group, req); code == 0 {
			return resp
		}
	}
	if code == kerr.CoordinatorLoadInProgress.Code {
		// A client that is told of loading would rejoin; Kafka lets the member
		// go on (GroupCoordinatorService.heartbeat).
		code = 0
	}
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = code
	return resp
}

func (b *Broker) leaveGroup(c *call, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	code := mayRead(c, req.Group)
	if code == 0 {
		var resp *kmsg.LeaveGroupResponse
		if resp, code = ask[*kmsg.LeaveGroupResponse](b, c, req.Group, req); code == 0 {
			return resp
		}
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = code
	return resp
}
