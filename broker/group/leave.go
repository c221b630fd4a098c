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
	var here roster
	exists := t.look(r.Group) != nil
	if exists {
		here = rosterOf(t.look(r.Group))
	}
	left := false
	for _, who := range members {
		code := unknownMemberID
		if exists {
			if code = here.strike(who); code == none {
				t.leaveOne(t.edit(r.Group), who)
			}
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

// roster finds a group's members by what a request calls them: it may list as
// many as fit its frame, and the shard has other groups to serve.
type roster struct {
	byID, promised map[string]bool   // by member id; promised ids are pending ones
	byInstance     map[string]string // member id by instance id
}

func rosterOf(l *live) roster {
	r := roster{byID: map[string]bool{}, promised: map[string]bool{}, byInstance: map[string]string{}}
	for _, m := range l.members {
		r.byID[m.id] = true
		if m.instance != nil {
			r.byInstance[*m.instance] = m.id
		}
	}
	for i := range l.pending {
		r.promised[l.pending[i].id] = true
	}
	return r
}

// strike takes a member off, or says why it is none.
func (r roster) strike(who kmsg.LeaveGroupRequestMember) int16 {
	if r.promised[who.MemberID] {
		delete(r.promised, who.MemberID)
		return none
	}
	id, named := who.MemberID, false
	if who.InstanceID != nil {
		if id, named = r.byInstance[*who.InstanceID]; !named || !r.byID[id] {
			return unknownMemberID
		}
		if who.MemberID != "" && who.MemberID != id {
			return fencedInstanceID
		}
	}
	if !r.byID[id] {
		return unknownMemberID
	}
	delete(r.byID, id)
	if named {
		delete(r.byInstance, *who.InstanceID)
	}
	return none
}

// leaveOne ends the membership of one that is there.
func (t *turn) leaveOne(l *live, who kmsg.LeaveGroupRequestMember) {
	if i := l.pendingIndex(who.MemberID); i >= 0 && who.MemberID != "" {
		l.dropPending(i)
		return
	}
	i := l.index(who.MemberID)
	if who.MemberID == "" {
		i = l.static(*who.InstanceID)
	}
	t.expel(l, i, unknownMemberID)
}
