package group

import (
	"fmt"
	"strings"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe handles DescribeGroups. A group that is not there is Dead, which from
// v6 on is an error too (KIP-1043).
func (t *turn) describe(q machine.Request, r *kmsg.DescribeGroupsRequest) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = r.Version
	for _, id := range r.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group = id
		l := t.m.seen(id)
		if l == nil {
			out.State = dead
			if r.Version >= 6 {
				out.ErrorCode = groupIDNotFound
				out.ErrorMessage = notFound(id)
			}
		} else {
			describeLive(&out, l)
		}
		resp.Groups = append(resp.Groups, out)
	}
	t.reply(q.Ticket, resp, machine.Wait{Keys: r.Groups})
}

func describeLive(out *kmsg.DescribeGroupsResponseGroup, l *live) {
	out.State = l.state.String()
	out.ProtocolType = l.protocolType
	if l.state == stable {
		out.Protocol = *l.protocol
	}
	for _, m := range l.members {
		e := kmsg.NewDescribeGroupsResponseGroupMember()
		e.MemberID, e.InstanceID, e.ClientID, e.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		// Outside Stable there is no metadata, and the assignment is the last one
		// known.
		e.ProtocolMetadata, e.MemberAssignment = []byte{}, m.assignment
		if l.state == stable {
			e.ProtocolMetadata = m.metadata(*l.protocol)
		}
		out.Members = append(out.Members, e)
	}
}

func notFound(id string) *string {
	s := fmt.Sprintf("Group %s not found.", id)
	return &s
}

// list handles ListGroups. Filters match in any case (KIP-518, KIP-848); a value
// that nothing is called matches nothing.
func (t *turn) list(q machine.Request, r *kmsg.ListGroupsRequest) {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = r.Version
	for _, id := range t.m.sortedIDs() {
		l := t.m.seen(id)
		if l == nil || !among(r.StatesFilter, l.state.String()) || !among(r.TypesFilter, classicType) {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, l.protocolType, l.state.String(), classicType
		resp.Groups = append(resp.Groups, out)
	}
	t.reply(q.Ticket, resp, machine.Wait{})
}

// CountOffsets asks how many committed offsets there are, of all groups; those of
// open transactions do not count yet. CountedOffsets is the answer.
type CountOffsets struct{}

// CountedOffsets answers CountOffsets.
type CountedOffsets int

func (t *turn) countOffsets(q machine.Request) {
	n := 0
	// any order: it is a sum.
	for _, g := range t.m.groups {
		for _, in := range g.offsets {
			n += len(in)
		}
	}
	t.reply(q.Ticket, CountedOffsets(n), machine.Wait{})
}

func among(filter []string, s string) bool {
	if len(filter) == 0 {
		return true
	}
	for _, f := range filter {
		if strings.EqualFold(f, s) {
			return true
		}
	}
	return false
}

// deleteGroups handles DeleteGroups: all that is stored of an Empty group goes,
// offsets of open transactions too.
func (t *turn) deleteGroups(q machine.Request, r *kmsg.DeleteGroupsRequest) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = r.Version
	for _, id := range r.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = id
		g := t.m.groups[id]
		switch {
		case g == nil:
			out.ErrorCode = groupIDNotFound
		case g.live.state != empty:
			out.ErrorCode = nonEmptyGroup
		default:
			for _, ref := range g.refs() {
				if !t.tooMuch() {
					t.forget(ref)
				}
			}
			t.write(&records.GroupMetadataKey{Group: id}, nil, 0)
			t.touches(id)
		}
		resp.Groups = append(resp.Groups, out)
	}
	if t.tooMuch() {
		for i := range resp.Groups {
			resp.Groups[i].ErrorCode = unknownServerError
		}
	}
	t.reply(q.Ticket, resp, machine.Wait{Written: len(t.d.Records) > 0})
}
