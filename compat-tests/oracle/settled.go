package oracle

import (
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What happens in a server a moment after its answer is waited for here, so that
// both are in the same state when the next request comes.

// storedAny says whether a commit has stored an offset.
func storedAny(r *kmsg.OffsetCommitResponse) bool {
	return slices.ContainsFunc(r.Topics, func(t kmsg.OffsetCommitResponseTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(p kmsg.OffsetCommitResponseTopicPartition) bool { return p.ErrorCode == 0 })
	})
}

// stir has the coordinators of both sides write something where a group is kept. A
// commit that stores nothing makes a group that readers see when its shard has
// written the next record: without this, when another sequence happens to.
func (p *Play) stir(group string) {
	for i := 0; !p.over; i++ {
		// To the others' lists as to this play's own it is of another sequence.
		name := fmt.Sprintf("orc-stir-%s%d", p.kafka().prefix, i)
		if offsetsPartition(name) != offsetsPartition(group) {
			continue
		}
		for _, s := range p.Sides {
			if err := s.stir(name); err != nil {
				p.fail(err)
			}
		}
		return
	}
}

// stir makes a group and deletes it: two records of its shard.
func (s *side) stir(group string) error {
	c, err := s.conn("watch")
	if err != nil {
		return err
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 4, group, "consumer", 10000, 10000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	kind := join.ResponseKind()
	kind.SetVersion(4)
	if r, ok := c.Send(c.Encode(join), kind).Response.(*kmsg.JoinGroupResponse); !ok || r.ErrorCode != 79 {
		return fmt.Errorf("%s does not let %s be made: %+v", s.addr, group, r)
	}
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = []string{group}
	r, ok := c.Ask(drop).Response.(*kmsg.DeleteGroupsResponse)
	if ok = ok && len(r.Groups) == 1; ok {
		code := r.Groups[0].ErrorCode
		ok = code == 0 || code == 69 && s.versed.Old // nobody has joined
	}
	if !ok {
		return fmt.Errorf("%s does not let %s be deleted: %+v", s.addr, group, r)
	}
	return nil
}

// keepsPace asks again what one server has answered at once and the other after
// waiting: a machine that is busy makes an answer late, but not each time. Whether
// both wait is still the same, as nothing else happens until both have answered. A
// Fetch of a session cannot be asked again.
func (p *Play) keepsPace(x *exchange) bool {
	if f, ok := x.req[0].(*kmsg.FetchRequest); !ok || f.SessionEpoch != -1 {
		return false
	}
	for range 3 {
		again := exchange{wait: x.wait}
		var both sync.WaitGroup
		for i, s := range p.Sides {
			c, err := s.conn("pace")
			if err != nil {
				return false
			}
			c.Patience = patience
			kind := x.req[i].ResponseKind()
			kind.SetVersion(x.req[i].GetVersion())
			raw := c.Encode(x.req[i])
			both.Go(func() {
				o := c.Send(raw, kind)
				again.out[i] = &o
			})
		}
		both.Wait()
		if again.pace(0) == again.pace(1) {
			return true
		}
	}
	return false
}
