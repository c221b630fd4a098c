package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&family{
		name: "sessions", weight: 12, length: 40,
		open: func(g *gen) []Step { return g.createTopics([]string{}, []string{"max.message.bytes", "2000"}) },
		steps: []maker{
			{40, (*gen).sessionFetch},
			{20, (*gen).produce},
			{4, (*gen).deleteRecords},
			{3, (*gen).truncatedTopic},
			{2, (*gen).createPartitions},
		},
	})
}

// sessionFetch fetches in a session (KIP-227): opens it, goes on in it with
// partitions that come, change and go, or says what does not fit.
func (g *gen) sessionFetch() Step {
	client := oneOf(g.Rand, "s0", "s1")
	mode := oneOf(g.Rand, "go on", "go on", "go on", "go on", "go on", "go on", "open", "open", "close", "close and open", "old epoch", "epoch too high", "unknown id", "none")
	var parts []wanted
	var list []string
	n := g.IntN(3)
	if mode == "open" || mode == "close and open" {
		n = 1 + g.IntN(3)
	}
	for range n {
		w := g.wanted()
		w.offset = oneOf(g.Rand, offset{"start", 0}, offset{"end", 0}, offset{"end", 0}, w.offset)
		parts = append(parts, w)
		list = append(list, w.String())
	}
	var forget []place
	if mode == "go on" && g.chance(25) {
		forget = append(forget, place{g.topic(), g.partition()})
	}
	most := oneOf[int32](g.Rand, 50<<20, 50<<20, 50<<20, 300)
	v := g.pick()
	if g.chance(60) {
		// A session is of names or of ids: mostly this client keeps to one.
		if client == "s0" {
			v = v.above(13)
		} else {
			v = v.below(13)
		}
	}
	waits := int32(0)
	if g.chance(10) {
		waits = 250
	}
	replica := int32(-1)
	if g.chance(6) {
		replica = oneOf[int32](g.Rand, 5, 5, 1, -2) // a follower's sessions are worth more than a consumer's
	}
	what := fmt.Sprintf("fetch in a session, %s, replica %d, max %d, wait %d: %s; forget %v", mode, replica, most, waits, strings.Join(list, "; "), forget)
	return g.askingIn(client, v, what, func(s *side) kmsg.Request {
		req := fetching(s, parts...)
		req.MaxBytes, req.MaxWaitMillis, req.MinBytes, req.ReplicaID, req.ReplicaState.ID = most, waits, 1, replica, replica
		x := s.session(client)
		req.SessionID, req.SessionEpoch = x.id, x.epoch
		switch mode {
		case "open":
			req.SessionID, req.SessionEpoch = 0, 0
		case "close":
			req.SessionEpoch = -1
		case "close and open":
			req.SessionEpoch = 0
		case "old epoch":
			req.SessionEpoch = max(1, x.epoch-1)
		case "epoch too high":
			req.SessionEpoch = x.epoch + 1
		case "unknown id":
			req.SessionID, req.SessionEpoch = 123456789, 1
		case "none":
			req.SessionID, req.SessionEpoch = 0, -1
		}
		for _, f := range forget {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID, t.Partitions = s.name(f.topic), s.id(f.topic), []int32{f.index}
			req.ForgottenTopics = append(req.ForgottenTopics, t)
		}
		return req
	})
}
