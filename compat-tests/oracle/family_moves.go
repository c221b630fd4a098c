package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&family{
		name: "moves", weight: 4, length: 24,
		open: func(g *gen) []Step {
			return append(g.createTopics([]string{}), g.asking("admin", "describe log dirs of everything", func(*side) kmsg.Request {
				return kmsg.NewPtrDescribeLogDirsRequest()
			}))
		},
		steps: []maker{
			{12, (*gen).move},
			{6, (*gen).describeLogDirs},
			{4, (*gen).reassign},
			{3, (*gen).listReassignments},
			{4, (*gen).produce},
			{3, (*gen).fetch},
			{3, (*gen).createWell},
			{2, (*gen).truncatedTopic},
		},
	})
}

// move has partitions lie in another data directory, or in the only one there is,
// where they lie already (KIP-113).
func (g *gen) move() Step {
	type asked struct {
		where string
		at    []place
	}
	var list []asked
	seen := map[place]bool{}
	for range oneOf(g.Rand, 0, 1, 1, 1, 2) {
		a := asked{where: oneOf(g.Rand, "its own", "its own", "/no/such/directory", "relative", "")}
		for range g.IntN(4) {
			at := place{g.topic(), g.partition()}
			if !seen[at] {
				a.at = append(a.at, at)
			}
			seen[at] = true
		}
		list = append(list, a)
	}
	return g.asking("admin", fmt.Sprintf("move to directories %v", list), func(s *side) kmsg.Request {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		for _, a := range list {
			d := kmsg.NewAlterReplicaLogDirsRequestDir()
			d.Dir = a.where
			if a.where == "its own" {
				d.Dir = s.dir
			}
			for _, at := range a.at {
				t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
				t.Topic, t.Partitions = s.name(at.topic), []int32{at.index}
				d.Topics = append(d.Topics, t)
			}
			req.Dirs = append(req.Dirs, d)
		}
		return req
	})
}
