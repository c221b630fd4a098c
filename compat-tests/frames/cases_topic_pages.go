package frames

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicPageCases() []Case {
	return []Case{
		{API: kmsg.DescribeTopicPartitions, Name: "pages", Run: topicPages},
		{API: kmsg.DescribeTopicPartitions, Name: "names", Run: topicNames},
		{API: kmsg.DescribeTopicPartitions, Name: "cursors", Run: topicCursors},
		{API: kmsg.DescribeTopicPartitions, Name: "all", Alone: true, Run: allTopicPages},
	}
}

func (s *Side) page(limit int32, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range topics {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = s.Topic(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (s *Side) pageFrom(topic string, partition, limit int32, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := s.page(limit, topics...)
	cur := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cur.Topic, cur.Partition = s.Topic(topic), partition
	req.Cursor = &cur
	return req
}

func topicPages(s *Side) {
	s.createTopic("b", 5)
	s.createTopic("a", 2)
	s.createTopic("c", 1)
	for _, limit := range []int32{2000, 0, -1, math.MinInt32, math.MaxInt32, 1, 2, 3, 7, 8, 9} {
		s.Ask(fmt.Sprintf("limit %d", limit), s.page(limit, "c", "b", "a"))
	}
	for _, limit := range []int32{1, 2, 3, 4} {
		req := s.page(limit, "a", "b", "c", "no")
		for i := range 20 {
			got, ok := s.Ask(fmt.Sprintf("limit %d, page %d", limit, i), req).Response.(*kmsg.DescribeTopicPartitionsResponse)
			if !ok || got.NextCursor == nil {
				break
			}
			cur := kmsg.NewDescribeTopicPartitionsRequestCursor()
			cur.Topic, cur.Partition = got.NextCursor.Topic, got.NextCursor.Partition
			req.Cursor = &cur
		}
	}
	s.Ask("strangers and a limit", s.page(1, "no", "a", "nope", "z"))
	s.Ask("strangers behind a full page", s.page(2, "a", "aa", "b"))
	s.Ask("strangers behind the last page", s.page(1, "c", "d", "e"))
}

func topicNames(s *Side) {
	s.createTopic("a", 1)
	s.Ask("a topic twice", s.page(10, "a", "a"))
	s.Ask("a stranger twice", s.page(10, "no", "a", "no"))
	s.Ask("malformed", s.page(10, "b c", "a", strings.Repeat("x", 300)))
	s.Ask("wide letters", s.page(10, "é", "a", "\U0001F600", "\uFFEE", "z"))
	empty := s.page(10, "a")
	empty.Topics[0].Topic = ""
	s.Ask("an empty name", empty)
	empty.Topics = append(empty.Topics, s.page(10, "a", "no").Topics...)
	s.Ask("an empty name among others", empty)
	empty.Cursor = s.pageFrom("a", 0, 10).Cursor
	s.Ask("an empty name before the cursor", empty)
	empty.Cursor.Topic = ""
	s.Ask("a cursor at an empty name", empty)
	for _, name := range []string{"__consumer_offsets", "__cluster_metadata", ".", ".."} {
		req := s.page(10, "a")
		req.Topics[0].Topic = name
		s.Ask(name, req)
	}
}

func topicCursors(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 3)
	s.Ask("at its beginning", s.pageFrom("a", 0, 10, "a", "b"))
	s.Ask("in the middle", s.pageFrom("b", 1, 10, "a", "b"))
	s.Ask("at the last", s.pageFrom("b", 2, 10, "a", "b"))
	for _, p := range []int32{3, 4, math.MaxInt32} {
		s.Ask(fmt.Sprintf("behind the last, %d", p), s.pageFrom("b", p, 10, "a", "b"))
		s.Ask(fmt.Sprintf("behind the last of the first, %d", p), s.pageFrom("a", p, 10, "a", "b"))
		s.Ask(fmt.Sprintf("behind the last of the first, %d, and a limit", p), s.pageFrom("a", p, 1, "a", "b"))
	}
	for _, p := range []int32{-1, -2, math.MinInt32} {
		s.Ask(fmt.Sprintf("partition %d", p), s.pageFrom("a", p, 10, "a", "b"))
		s.Ask(fmt.Sprintf("partition %d, a stranger too", p), s.pageFrom("a", p, 10, "a", "no", "b c"))
	}
	s.Ask("a topic not in the list", s.pageFrom("b", 0, 10, "a"))
	s.Ask("a stranger not in the list", s.pageFrom("no", 0, 10, "a", "b"))
	s.Ask("not in the list, internal asked", s.pageFrom("zz", 0, 10, "a", "a"))
	s.Ask("a stranger in the list", s.pageFrom("no", 1, 10, "a", "b", "no", "z"))
	s.Ask("a malformed one in the list", s.pageFrom("b c", 1, 10, "a", "b", "b c"))
	internal := s.pageFrom("a", 0, 10, "b")
	internal.Topics[0].Topic = "__consumer_offsets"
	s.Ask("before an internal one", internal)
}

// allTopicPages asks for all topics and keeps this run's.
func allTopicPages(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	keep := func(r kmsg.Response) {
		resp := r.(*kmsg.DescribeTopicPartitionsResponse)
		kept := []kmsg.DescribeTopicPartitionsResponseTopic{}
		for _, t := range resp.Topics {
			if t.Topic != nil && strings.HasPrefix(*t.Topic, s.Prefix) {
				kept = append(kept, t)
			}
		}
		resp.Topics = kept
		if resp.NextCursor != nil && !strings.HasPrefix(resp.NextCursor.Topic, s.Prefix) {
			resp.NextCursor = nil
		}
	}
	s.AskFor("all", s.page(2000), keep)
	s.AskFor("from a topic", s.pageFrom("b", 0, 2000), keep)
	s.AskFor("from a topic, one", s.pageFrom("a", 0, 1), keep)
	s.AskFor("from its second", s.pageFrom("a", 1, 1), keep)
	s.AskFor("from behind its last", s.pageFrom("a", 2, 1), keep)
	s.AskFor("from between topics", s.pageFrom("aa", 0, 1), keep)
	s.AskFor("from between topics, partition 3", s.pageFrom("aa", 3, 2), keep)
	s.AskFor("from a malformed name", s.pageFrom("a ", 0, 1), keep)
	s.Ask("from a negative partition", s.pageFrom("a", -1, 1))
	behind := s.pageFrom("a", 0, 5)
	behind.Cursor.Topic = "zzzzzzzz"
	s.Ask("from behind all", behind)
	empty := s.pageFrom("a", 0, 2000)
	empty.Cursor.Topic = ""
	s.AskFor("from an empty name", empty, keep)
}
