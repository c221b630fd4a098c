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
	now := t.look(r.Group)
	if now != nil {
		here = rosterOf(now)
	}
	var gone departed
	for _, who := range members {
		code := unknownMemberID
		if now != nil {
			code = here.strike(who, &gone)
		}
		if r.Version < 3 {
			resp.ErrorCode = code
			continue
		}
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = who.MemberID, who.InstanceID, code
		resp.Members = append(resp.Members, out)
	}
	if len(gone.members)+len(gone.pending) == 0 {
		t.reply(q.Ticket, resp, machine.Wait{})
		return
	}
	l := t.edit(r.Group)
	t.depart(l, gone)
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
	byID, promised map[string]int // places in members and pending, by member id
	byInstance     map[string]int // places in members, by instance id
	ids            []*member
}

// departed are the places of those who leave, in the order in which they do.
type departed struct{ members, pending []int }

func rosterOf(l *live) roster {
	r := roster{byID: map[string]int{}, promised: map[string]int{}, byInstance: map[string]int{}, ids: l.members}
	for i, m := range l.members {
		r.byID[m.id] = i
		if m.instance != nil {
			r.byInstance[*m.instance] = i
		}
	}
	for i := range l.pending {
		r.promised[l.pending[i].id] = i
	}
	return r
}

// strike takes a member off, or says why it is none.
func (r roster) strike(who kmsg.LeaveGroupRequestMember, gone *departed) int16 {
	if i, ok := r.promised[who.MemberID]; ok && who.MemberID != "" {
		delete(r.promised, who.MemberID)
		gone.pending = append(gone.pending, i)
		return none
	}
	i, ok := r.byID[who.MemberID]
	if who.InstanceID != nil {
		named, here := r.byInstance[*who.InstanceID]
		switch {
		case !here:
			return unknownMemberID
		case who.MemberID == "":
			i, ok = named, true
		case !ok || i != named:
			return fencedInstanceID
		}
	}
	if !ok {
		return unknownMemberID
	}
	m := r.ids[i]
	delete(r.byID, m.id)
	if m.instance != nil {
		delete(r.byInstance, *m.instance)
	}
	gone.members = append(gone.members, i)
	return none
}

// depart ends memberships, all at once: one by one each would be looked for anew.
func (t *turn) depart(l *live, gone departed) {
	t.expel(l, gone.members, unknownMemberID)
	away := map[int]bool{}
	for _, i := range gone.pending {
		away[i] = true
	}
	kept := l.pending[:0]
	for i, p := range l.pending {
		if !away[i] {
			kept = append(kept, p)
		}
	}
	l.pending = kept
}
