package group

import (
	"fmt"
	"strings"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reply prints an answer as it leaves.
func (s *stage) reply(r machine.Reply) {
	text := short(describeAnswer(r.Body))
	switch {
	case r.Wait.Written:
		text += "   (once written)"
	case len(r.Wait.Keys) > 0:
		text += fmt.Sprintf("   (once %s is committed)", strings.Join(r.Wait.Keys, ", "))
	}
	s.say("%s%s: %s", s.clock(), s.names[r.Ticket], text)
	if strings.Count(s.out.String(), "\n") > 2000 {
		s.t.Fatal("the play does not end")
	}
}

func describeAnswer(body any) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch r := body.(type) {
	case error:
		add("error: %v", r)
	case *kmsg.JoinGroupResponse:
		add("%s member=%s", codeName(r.ErrorCode), r.MemberID)
		if r.ErrorCode != 0 {
			break
		}
		add(" generation=%d protocol=%s leader=%s", r.Generation, orNull(r.Protocol), r.LeaderID)
		if r.ProtocolType == nil || *r.ProtocolType != "consumer" {
			add(" type=%s", orNull(r.ProtocolType))
		}
		if r.SkipAssignment {
			add(" skip-assignment")
		}
		if len(r.Members) > 0 {
			var ms []string
			for _, m := range r.Members {
				at := ""
				if m.InstanceID != nil {
					at = "@" + *m.InstanceID
				}
				topics := map[string]bool{}
				ok := addTopics(topics, m.ProtocolMetadata)
				ms = append(ms, fmt.Sprintf("%s%s:%v", m.MemberID, at, topicsText(ok, topics)))
			}
			add(" members=%v", ms)
		}
	case *kmsg.SyncGroupResponse:
		add("%s", codeName(r.ErrorCode))
		if r.ErrorCode == 0 {
			add(" assignment=%q type=%s protocol=%s", r.MemberAssignment, orNull(r.ProtocolType), orNull(r.Protocol))
		}
	case *kmsg.HeartbeatResponse:
		add("%s", codeName(r.ErrorCode))
	case *kmsg.LeaveGroupResponse:
		add("%s", codeName(r.ErrorCode))
		for _, m := range r.Members {
			at := ""
			if m.InstanceID != nil {
				at = "@" + *m.InstanceID
			}
			add(" [%s%s %s]", m.MemberID, at, codeName(m.ErrorCode))
		}
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("[%s-%d %s]", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("[%s-%d %s]", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.OffsetFetchResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("[%s-%d=%d/%s %s]", t.Topic, p.Partition, p.Offset, text(*p.Metadata), codeName(p.ErrorCode))
			}
		}
		for _, g := range r.Groups {
			add("%s %s: ", g.Group, codeName(g.ErrorCode))
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					add("[%s-%d=%d/%s epoch=%d %s]", t.Topic, p.Partition, p.Offset, text(*p.Metadata), p.LeaderEpoch, codeName(p.ErrorCode))
				}
			}
		}
	case *kmsg.OffsetDeleteResponse:
		add("%s", codeName(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(" [%s-%d %s]", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			add("[%s %s %s type=%q protocol=%q", g.Group, g.State, codeName(g.ErrorCode), g.ProtocolType, g.Protocol)
			if g.ErrorMessage != nil {
				add(" %q", *g.ErrorMessage)
			}
			for _, m := range g.Members {
				topics := map[string]bool{}
				ok := addTopics(topics, m.ProtocolMetadata)
				at := ""
				if m.InstanceID != nil {
					at = "@" + *m.InstanceID
				}
				add(" %s%s of %s %s reads=%v has=%q", m.MemberID, at, m.ClientID, m.ClientHost, topicsText(ok, topics), m.MemberAssignment)
			}
			add("]")
		}
	case *kmsg.ListGroupsResponse:
		if len(r.Groups) == 0 {
			add("no groups")
		}
		for _, g := range r.Groups {
			add("[%s %s %s %q]", g.Group, g.GroupState, g.GroupType, g.ProtocolType)
		}
	case *kmsg.DeleteGroupsResponse:
		for _, g := range r.Groups {
			add("[%s %s", g.Group, codeName(g.ErrorCode))
			if g.ErrorMessage != nil {
				add(" %q", *g.ErrorMessage)
			}
			add("]")
		}
	default:
		add("%T", body)
	}
	return b.String()
}

// text shortens what is long.
func text(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%d bytes", len(s))
	}
	return s
}

func topicsText(ok bool, topics map[string]bool) string {
	if !ok {
		return "?"
	}
	names := make([]string, 0, len(topics))
	for n := range topics {
		names = append(names, n)
	}
	// One or two names: the lesser first.
	if len(names) == 2 && names[1] < names[0] {
		names[0], names[1] = names[1], names[0]
	}
	return strings.Join(names, "+")
}
