package group

import (
	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// leave handles LeaveGroup: one member up to v2, a batch from v3 on, where an
// admin may remove static members by instance id alone (KIP-345).
func (t *turn) leave(q machine.Request, r *kmsg.LeaveGroupRequest) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = invalidGroupID
		t.reply(q.Ticket, resp, machine.Wait{})
		return
	}
	members := r.Members
	if r.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = r.MemberID
		members = []kmsg.LeaveGroupRequestMember{one}
	}
	exists := t.look(r.Group) != nil
	left := false
	for _, who := range members {
		code := unknownMemberID
		if exists {
			code = t.leaveOne(t.edit(r.Group), who)
		}
		left = left || code == none
		if r.Version < 3 {
			resp.ErrorCode = code
			continue
		}
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = who.MemberID, who.InstanceID, code
		resp.Members = append(resp.Members, out)
	}
	if !left {
		t.reply(q.Ticket, resp, machine.Wait{})
		return
	}
	l := t.edit(r.Group)
	if l.state != empty {
		// Also after a pending member alone: whom the group waited for is not known
		// to be the rest.
		t.membersLeft(r.Group, l)
	}
	w := machine.Wait{Keys: []string{r.Group}}
	if len(t.d.Records) > 0 {
		w = machine.Wait{Written: true}
	}
	t.reply(q.Ticket, resp, w)
}

func (t *turn) leaveOne(l *live, who kmsg.LeaveGroupRequestMember) int16 {
	if who.MemberID == "" {
		if who.InstanceID == nil {
			return unknownMemberID
		}
		i := l.static(*who.InstanceID)
		if i < 0 {
			return unknownMemberID
		}
		t.expel(l, i, unknownMemberID)
		return none
	}
	if i := l.pendingIndex(who.MemberID); i >= 0 {
		l.dropPending(i)
		return none
	}
	if code := l.validate(who.MemberID, who.InstanceID); code != none {
		return code
	}
	t.expel(l, l.index(who.MemberID), unknownMemberID)
	return none
}
