package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) describeGroups() Step {
	groups := oneOf(g.Rand, []string{classicGroup}, []string{classicGroup}, []string{classicGroup, "g1"}, []string{"no-group"}, []string{"="}, []string{classicGroup, classicGroup}, []string{})
	operations := g.chance(30)
	return g.asking("admin", fmt.Sprintf("describe groups %v, operations %v", groups, operations), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.IncludeAuthorizedOperations = operations
		for _, n := range groups {
			req.Groups = append(req.Groups, s.name(n))
		}
		return req
	})
}

func (g *gen) listGroups() Step {
	states := oneOf(g.Rand, nil, nil, []string{"Stable"}, []string{"empty", "Dead"}, []string{"PreparingRebalance", "CompletingRebalance"}, []string{"nonsense"}, []string{""})
	types := oneOf(g.Rand, nil, nil, []string{"classic"}, []string{"Consumer"}, []string{"share", "CLASSIC"}, []string{"nonsense"})
	return g.asking("admin", fmt.Sprintf("list groups in %v of %v", states, types), func(s *side) kmsg.Request {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		return req
	})
}

func (g *gen) deleteGroups() Step {
	groups := oneOf(g.Rand, []string{classicGroup}, []string{"g1"}, []string{classicGroup, "g1"}, []string{"no-group"}, []string{"="}, []string{"g1", "g1"}, []string{})
	v := g.pick()
	what := fmt.Sprintf("delete groups %v", groups)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			for _, n := range groups {
				req.Groups = append(req.Groups, s.name(n))
			}
			return req
		})
		p.settleGroup()
	}}
}
