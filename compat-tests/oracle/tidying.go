package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// While servers tidy up, what is too old goes within moments, which are not the
// same on both. So nothing is compared before both are done, and that is seen by
// what is made to go beforehand: records of a topic that keeps none, and groups
// whose offsets have run out.

// fading keeps nothing, once somebody looks at it.
const fading = "fading"

// fadingGroups are groups that hold nothing but an offset that has run out: one
// beside each of those whose offsets are compared.
func fadingGroups(s *side) []string {
	var list []string
	for _, beside := range []string{classicGroup, "g1"} {
		for i := 0; ; i++ {
			name := fmt.Sprintf("fading-%s-%d", beside, i)
			if offsetsPartition(s.name(name)) == offsetsPartition(s.name(beside)) {
				list = append(list, name)
				break
			}
		}
	}
	return list
}

// fade makes what has to go when the servers tidy up.
func (p *Play) fade() {
	p.makeTopic(pick{}, fading, 1, []string{"retention.ms", "1"})
	for _, group := range fadingGroups(p.kafka()) {
		p.ask("committer", pick{from: 2, to: 4}, "commit to "+group+" for a millisecond", func(s *side) kmsg.Request {
			r := committing(s, group, []committed{{topic: fading, offset: 1, epoch: -1, metadata: kmsg.StringPtr("")}})
			r.RetentionTimeMillis = 1
			return r
		})
	}
	p.settleGroup()
}

// faded waits until both servers have tidied up.
func (p *Play) faded() {
	names := fadingGroups(p.kafka())
	p.coordinated(names...)
	p.led(fading)
	p.until(agreement, func(s *side) bool {
		return !strings.Contains(groupStates(s, names...), "Empty")
	})
	for range 3 {
		for _, s := range p.Sides {
			if p.over {
				return
			}
			if err := s.pass(fading); err != nil {
				p.fail(err)
			}
		}
	}
	p.passes()
	// Producers are looked at by a clock of each log's own, and as often.
	time.Sleep(time.Second)
	p.settle(func(s *side) string {
		return groupStates(s, append(names, classicGroup, "g1")...) + "; " + offsetTopics(s)
	})
}

// retention is a draw of what a topic keeps. Records are from more than an hour
// ago, or from the last minutes.
func (g *gen) retention() []string {
	return oneOf(g.Rand, []string{"retention.bytes", "0"}, []string{"retention.bytes", "700"}, []string{"retention.bytes", "1500"}, []string{"retention.bytes", "4000"},
		[]string{"retention.ms", "3600000"}, []string{"retention.ms", "36000000"}, []string{"retention.bytes", "2000", "retention.ms", "3600000"})
}

// someTimes are times that are looked up: around those of most records, and out of
// line.
func (g *gen) someTimes() []int64 {
	list := []int64{then - 1000, then, then + 1000, then + 110*60e3}
	for range 3 {
		list = append(list, g.storedTime())
	}
	return list
}
