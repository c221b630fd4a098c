package broker

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// DescribeGroups (15) 0-6, ListGroups (16) 0-5, DeleteGroups (42) 0-3. KIP-430
// (authorized operations), KIP-518 (state filter), KIP-848 (type filter),
// KIP-1043 (GROUP_ID_NOT_FOUND in place of a Dead group), KIP-1331 (message).

func (b *Broker) describeGroups(c *call, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	seen := map[string]bool{}
	for _, name := range req.Groups {
		g := b.describeGroup(c, name, req.IncludeAuthorizedOperations)
		if (seen[name] || len(g.Members) == 0) && !c.pads(sizeOfGroup(&g)) {
			return resp
		}
		seen[name] = true
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

// sizeOfGroup is about what a description takes in memory.
func sizeOfGroup(g *kmsg.DescribeGroupsResponseGroup) int {
	n := int(unsafe.Sizeof(*g)) + len(g.Group)
	for i := range g.Members {
		m := &g.Members[i]
		n += int(unsafe.Sizeof(*m)) + len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
	}
	return n
}

func (b *Broker) describeGroup(c *call, name string, operations bool) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.AuthorizedOperations = name, auth.NotAsked
	out.Members = []kmsg.DescribeGroupsResponseGroupMember{}
	if !c.allowed(auth.Describe, auth.Group, name) {
		out.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return out
	}
	one := kmsg.NewPtrDescribeGroupsRequest()
	one.Version, one.Groups = c.Version, []string{name}
	got, code := ask[*kmsg.DescribeGroupsResponse](b, c, name, one)
	if code != 0 {
		out.ErrorCode = code
		return out
	}
	out = got.Groups[0]
	out.AuthorizedOperations = auth.NotAsked
	if operations && out.ErrorCode == 0 {
		out.AuthorizedOperations = c.operations(auth.Group, name)
	}
	return out
}

func (b *Broker) listGroups(c *call, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	all := c.allowed(auth.Describe, auth.Cluster, auth.ClusterName)
	for _, shard := range b.coordinators.all() {
		got, code := askShard[*kmsg.ListGroupsResponse](b, c, shard, req)
		if code == 0 {
			code = got.ErrorCode
		}
		if code != 0 && code != kerr.NotCoordinator.Code {
			// A shard that is still loading makes the whole list unsure.
			resp.ErrorCode, resp.Groups = code, nil
			return resp
		}
		if code != 0 {
			continue
		}
		for _, g := range got.Groups {
			if all || c.allowed(auth.Describe, auth.Group, g.Group) {
				resp.Groups = append(resp.Groups, g)
			}
		}
	}
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return resp
}

func (b *Broker) deleteGroups(c *call, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	done := map[string]bool{}
	for _, name := range req.Groups {
		if done[name] {
			continue
		}
		done[name] = true
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = name
		if !c.allowed(auth.Delete, auth.Group, name) {
			out.ErrorCode = kerr.GroupAuthorizationFailed.Code
		} else {
			one := kmsg.NewPtrDeleteGroupsRequest()
			one.Version, one.Groups = c.Version, []string{name}
			if got, code := ask[*kmsg.DeleteGroupsResponse](b, c, name, one); code != 0 {
				out.ErrorCode = code
			} else {
				out = got.Groups[0]
			}
		}
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
