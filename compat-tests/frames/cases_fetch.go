package frames

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func fetchCases() []Case {
	return []Case{
		{API: kmsg.Fetch, Name: "offsets", Run: fetchOffsets},
		{API: kmsg.Fetch, Name: "unknown", Run: fetchUnknown},
		{API: kmsg.Fetch, Name: "limits", Run: fetchLimits},
		{API: kmsg.Fetch, Name: "isolation", Run: fetchIsolation},
		{API: kmsg.Fetch, Name: "replicas", Run: fetchReplicas},
		{API: kmsg.Fetch, Name: "epochs", From: 9, Run: fetchEpochs},
		{API: kmsg.Fetch, Name: "waiting", Run: fetchWaiting},
		{API: kmsg.Fetch, Name: "codecs", From: 4, Run: fetchCodecs},
		{API: kmsg.Fetch, Name: "sessions", From: 7, Run: fetchSessions},
		{API: kmsg.Fetch, Name: "sessions and errors", From: 7, Run: fetchSessionErrors},
		{API: kmsg.Fetch, Name: "topics made anew", From: 7, Run: fetchRecreated},
		{API: kmsg.Fetch, Name: "deleted while it waits", Run: fetchDeletedMeanwhile},
	}
}

func fetchOffsets(s *Side) {
	s.createTopic("a", 3)
	s.createTopic("b", 1)
	s.createTopic("empty", 1)
	s.write("a", plain("0", "1", "2"))
	s.write("a", plain("3"))
	s.write("a", plain("4", "5"))
	s.writeTo("a", 1, plain("0"))
	s.write("b", plain("0", "1"))
	for _, o := range []int64{0, 1, 3, 5, 6, 7, -1, -2, math.MaxInt64, math.MinInt64} {
		s.fetch(fmt.Sprintf("from %d", o), read{topic: "a", offset: o})
	}
	s.fetch("empty", read{topic: "empty"})
	s.fetch("beyond empty", read{topic: "empty", offset: 1})
	s.fetch("several", read{topic: "a"}, read{topic: "a", index: 1}, read{topic: "a", index: 2}, read{topic: "b"}, read{topic: "empty"})
	s.fetch("several, mixed", read{topic: "b"}, read{topic: "a", index: 1}, read{topic: "b"}, read{topic: "a"})
	s.fetch("the same twice", read{topic: "a"}, read{topic: "a", offset: 4})
	s.fetch("the same twice, then another", read{topic: "a"}, read{topic: "b"}, read{topic: "a", offset: 4}, read{topic: "a", index: 1})
	s.fetch("good and out of range", read{topic: "a"}, read{topic: "a", index: 1, offset: 9}, read{topic: "b"})
	s.fetch("out of range and good", read{topic: "a", index: 1, offset: 9}, read{topic: "b"})
	s.fetch("nothing")
	req := s.reading(s.Version)
	t := kmsg.NewFetchRequestTopic()
	t.Topic = s.Topic("a")
	if s.Version >= 13 {
		t.TopicID = s.id("a")
	}
	req.Topics = append(req.Topics, t)
	s.Ask("a topic without partitions", req)
}

func fetchUnknown(s *Side) {
	s.createTopic("a", 1)
	s.write("a", plain("0"))
	s.fetch("topic", read{topic: "no"})
	s.fetch("malformed name", read{topic: "a b"})
	for _, p := range []int32{1, -1, math.MaxInt32, math.MinInt32} {
		s.fetch(fmt.Sprintf("partition %d", p), read{topic: "a", index: p})
	}
	s.fetch("good and unknown", read{topic: "a"}, read{topic: "a", index: 9}, read{topic: "no"})
	s.fetch("unknown and good", read{topic: "no"}, read{topic: "a"}, read{topic: "a", index: 9})
	s.fetch("unknown twice", read{topic: "no"}, read{topic: "no", offset: 5})
	if s.Version >= 13 {
		s.fetch("zero id", read{topic: "a", id: &[16]byte{}})
		s.fetch("two strangers", read{topic: "x"}, read{topic: "a"}, read{topic: "y", id: &[16]byte{9, 9, 9}})
	}
}

func fetchLimits(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	s.createTopic("empty", 1)
	size := int32(len(plain("0000").Bytes()))
	for i := range 5 {
		s.write("a", plain(fmt.Sprintf("%04d", i)))
		s.writeTo("a", 1, plain(fmt.Sprintf("%04d", i)))
		s.write("b", plain(fmt.Sprintf("%04d", i)))
	}
	for _, n := range []int32{none, 1, 10, size - 1, size, size + 1, size + 70, 2 * size, 2*size + 16, 5 * size, math.MaxInt32} {
		s.fetch(fmt.Sprintf("partition max %d", n), read{topic: "a", max: n})
		s.fetch(fmt.Sprintf("partition max %d, from 2", n), read{topic: "a", max: n, offset: 2})
		s.fetch(fmt.Sprintf("partition max %d on the second", n), read{topic: "a"}, read{topic: "b", max: n})
		s.fetch(fmt.Sprintf("partition max %d on both", n), read{topic: "a", max: n}, read{topic: "b", max: n})
	}
	s.fetch("partition max -1", read{topic: "a", max: -1})
	s.fetch("partition max -1, nothing there", read{topic: "empty", max: -1})
	s.fetch("partition max -1, out of range", read{topic: "empty", max: -1, offset: 4})
	s.fetch("partition max -1 and good", read{topic: "a", max: -1}, read{topic: "b"})
	s.fetch("partition max -1, unknown", read{topic: "no", max: -1})
	for _, n := range []int32{0, 1, size - 1, size, size + 1, 3 * size, 5*size + 1, 6*size + 20, 7 * size, math.MaxInt32, -1, math.MinInt32} {
		for _, first := range []string{"a", "empty"} {
			req := s.reading(s.Version, read{topic: first}, read{topic: "b"}, read{topic: "a", index: 1, offset: 3})
			req.MaxBytes = n
			s.Ask(fmt.Sprintf("max %d, %s first", n, first), req)
		}
	}
	req := s.reading(s.Version, read{topic: "a", max: 2 * size}, read{topic: "b", max: 2 * size}, read{topic: "a", index: 1})
	req.MaxBytes = 3*size + 10
	s.Ask("both limits", req)
}

func fetchIsolation(s *Side) {
	s.createTopic("a", 2)
	s.write("a", plain("0", "1"))
	for _, level := range []int8{0, 1, 2, -1, 127} {
		req := s.reading(s.Version, read{topic: "a"}, read{topic: "a", index: 1}, read{topic: "no"}, read{topic: "a", index: 1, offset: 5})
		req.IsolationLevel = level
		s.Ask(fmt.Sprintf("level %d", level), req)
	}
	req := s.reading(s.Version, read{topic: "a", offset: 3}, read{topic: "a", index: 4})
	req.IsolationLevel = 1
	s.Ask("committed, out of range and unknown", req)
}

func fetchReplicas(s *Side) {
	s.createTopic("a", 1)
	s.write("a", plain("0", "1"))
	for _, id := range []int32{-2, -3, -4, 5, math.MaxInt32, math.MinInt32} {
		req := s.reading(s.Version, read{topic: "a"})
		if req.ReplicaID = id; s.Version >= 15 {
			req.ReplicaState.ID = id
		}
		s.Ask(fmt.Sprintf("replica %d", id), req)
	}
}

func fetchEpochs(s *Side) {
	s.createTopic("a", 1)
	s.write("a", plain("0", "1"))
	for _, e := range []int32{-1, 0, 1, 5, math.MaxInt32, -2} {
		s.fetch(fmt.Sprintf("current %d", e), read{topic: "a", epoch: &e})
		s.fetch(fmt.Sprintf("current %d, out of range", e), read{topic: "a", epoch: &e, offset: 7})
		s.fetch(fmt.Sprintf("last fetched %d", e), read{topic: "a", lastEpoch: &e})
		s.fetch(fmt.Sprintf("last fetched %d, from 2", e), read{topic: "a", lastEpoch: &e, offset: 2})
		s.fetch(fmt.Sprintf("last fetched %d, from 9", e), read{topic: "a", lastEpoch: &e, offset: 9})
	}
	s.createTopic("empty", 1)
	s.fetch("last fetched, empty", read{topic: "empty", lastEpoch: batch.To(int32(0))})
	s.fetch("a later epoch, unknown", read{topic: "no", epoch: batch.To(int32(9))})
}

func fetchWaiting(s *Side) {
	s.createTopic("a", 2)
	s.write("a", plain("0", "1"))
	ask := func(what string, want time.Duration, wait, least int32, parts ...read) {
		req := s.reading(s.Version, parts...)
		req.MaxWaitMillis, req.MinBytes = wait, least
		s.timed(what, want, req)
	}
	const short = 250 * time.Millisecond
	end := read{topic: "a", offset: 2}
	ask("at the end", short, 250, 1, end)
	ask("at the end, no least", 0, 4000, 0, end)
	ask("at the end, negative least", 0, 4000, -1, end)
	ask("at the end, no wait", 0, 0, 1, end)
	ask("at the end, negative wait", 0, -1, 1, end)
	ask("enough", 0, 4000, 10, read{topic: "a"})
	ask("too little", short, 250, 100000, read{topic: "a"})
	ask("nothing asked", 0, 4000, 1)
	ask("an unknown one", 0, 4000, 1, end, read{topic: "no"})
	ask("an unknown partition", 0, 4000, 1, end, read{topic: "a", index: 5})
	ask("out of range", 0, 4000, 1, end, read{topic: "a", index: 1, offset: 3})
	ask("more than the partition's max", 0, 4000, 10, read{topic: "a", max: 20})
	ask("never more than the partition's max", short, 250, 30, read{topic: "a", max: 20})
	req := s.reading(s.Version, read{topic: "a"})
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 4000, 100000, 30
	s.timed("least above max", 0, req)
	if s.Version >= 9 {
		ask("a fenced epoch", 0, 4000, 1, end, read{topic: "a", index: 1, epoch: batch.To(int32(7))})
	}
	if s.Version >= 12 {
		ask("a diverging epoch", 0, 4000, 1, end, read{topic: "a", lastEpoch: batch.To(int32(0)), offset: 9})
	}
	// Records that come while it waits.
	other := &Side{Prefix: s.Prefix, Addr: s.Addr}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(150 * time.Millisecond)
		other.write("a", plain("2"))
	}()
	req = s.reading(s.Version, end)
	req.MaxWaitMillis, req.MinBytes = 5000, 1
	o := s.Ask("woken", req)
	s.Check("woken in time", o.Took > 100*time.Millisecond && o.Took < 3*time.Second)
	<-done
	other.close()
	if other.err != nil {
		s.Fail("%v", other.err)
	}
}

// fetchDeletedMeanwhile waits for records of a topic that somebody deletes, and of one that
// is made anew at once.
func fetchDeletedMeanwhile(s *Side) {
	for _, topic := range []string{"a", "b", "c", "stays"} {
		s.createTopic(topic, 1)
		if s.Version >= 13 {
			s.id(topic)
		}
	}
	s.write("c", plain("0"))
	ask := func(what, topic string, anew bool, parts ...read) {
		other := &Side{Prefix: s.Prefix, Addr: s.Addr}
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(150 * time.Millisecond)
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{s.Topic(topic)}, 5000
			other.Do(3, del)
			if anew {
				other.createTopic(topic, 1)
			}
		}()
		req := s.reading(s.Version, parts...)
		req.MaxWaitMillis, req.MinBytes = 6000, 100_000
		o := s.Ask(what, req)
		s.Check(what+" in time", o.Took > 100*time.Millisecond && o.Took < 4*time.Second)
		<-done
		other.close()
		if other.err != nil {
			s.Fail("%v", other.err)
		}
	}
	ask("deleted", "a", false, read{topic: "a"})
	ask("made anew", "b", true, read{topic: "b"})
	ask("one of two", "c", false, read{topic: "stays"}, read{topic: "c"})
}

func fetchCodecs(s *Side) {
	for _, c := range []struct {
		name  string
		codec int8
	}{{"gzip", batch.Gzip}, {"zstd", batch.Zstd}} {
		s.createTopic(c.name, 1)
		b := plain(strings.Repeat("compressible ", 100), "x")
		b.Codec = c.codec
		s.write(c.name, b)
		s.fetch(c.name, read{topic: c.name})
	}
	s.createTopic("topic", 1, "compression.type", "gzip")
	s.write("topic", plain("x"))
	o := s.Do(s.Version, s.reading(s.Version, read{topic: "topic"}))
	if resp, ok := o.Response.(*kmsg.FetchResponse); ok && len(resp.Topics) == 1 {
		s.Check("recompressed", batches(resp.Topics[0].Partitions[0].RecordBatches))
	} else {
		s.Fail("recompressed: %v", o)
	}
}

// session goes on with a fetch session.
type session struct {
	s     *Side
	id    int32
	epoch int32
}

func (f *session) ask(what string, forget []read, parts ...read) *kmsg.FetchResponse {
	req := f.s.reading(f.s.Version, parts...)
	req.SessionID, req.SessionEpoch = f.id, f.epoch
	for _, p := range forget {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.Topic = f.s.Topic(p.topic)
		if f.s.Version >= 13 {
			t.TopicID = f.s.id(p.topic)
		}
		t.Partitions = []int32{p.index}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	o := f.s.Ask(fmt.Sprintf("%s, epoch %d", what, f.epoch), req)
	resp, ok := o.Response.(*kmsg.FetchResponse)
	if !ok {
		return kmsg.NewPtrFetchResponse()
	}
	if resp.ErrorCode == 0 {
		f.id = resp.SessionID
		f.epoch++
	}
	return resp
}

func fetchSessions(s *Side) {
	s.createTopic("a", 3)
	s.createTopic("b", 1)
	s.write("a", plain("0", "1"))
	s.write("b", plain("0"))
	f := &session{s: s}
	f.ask("opened", nil, read{topic: "a"}, read{topic: "a", index: 1}, read{topic: "b"})
	f.ask("the same again", nil)
	f.ask("to the ends", nil, read{topic: "a", offset: 2}, read{topic: "b", offset: 1})
	f.ask("nothing new", nil)
	s.writeTo("a", 1, plain("0"))
	f.ask("something new", nil)
	f.ask("taken", nil, read{topic: "a", index: 1, offset: 1})
	s.write("a", plain("2"))
	s.write("b", plain("1"))
	f.ask("two new", nil)
	f.ask("two new again: the order turns", nil)
	f.ask("one forgotten", []read{{topic: "a"}})
	f.ask("one added", nil, read{topic: "a", index: 2})
	f.ask("one forgotten and added", []read{{topic: "b"}}, read{topic: "b"})
	f.ask("a stranger forgotten", []read{{topic: "no"}, {topic: "a", index: 77}})
	f.ask("the same twice", nil, read{topic: "b", offset: 1}, read{topic: "b", offset: 0})
	f.ask("max changed", nil, read{topic: "b", max: 5})
	s.fetch("without the session", read{topic: "a"})
	f.ask("still there", nil, read{topic: "b", offset: 2}, read{topic: "a", index: 1, offset: 1})
	f.ask("all forgotten", []read{{topic: "a"}, {topic: "a", index: 1}, {topic: "a", index: 2}, {topic: "b"}})
	f.ask("closed by that", nil)

	g := &session{s: s}
	g.ask("opened", nil, read{topic: "a", offset: 3})
	old := g.id
	g.epoch = 0
	g.ask("opened in place of it", nil, read{topic: "a", offset: 3})
	h := &session{s: s, id: old, epoch: 1}
	h.ask("the one replaced", nil)
	g.ask("the new one", nil)
	final := s.reading(s.Version, read{topic: "a"})
	final.SessionID, final.SessionEpoch = g.id, -1
	s.Ask("final", final)
	g.ask("after its end", nil)

	e := &session{s: s}
	e.ask("opened with nothing", nil)
	e.ask("nothing yet", nil)
	e.ask("something", nil, read{topic: "a"})
}

func fetchSessionErrors(s *Side) {
	s.createTopic("a", 2)
	s.write("a", plain("0"))
	f := &session{s: s}
	f.ask("opened, with errors", nil, read{topic: "a", offset: 1}, read{topic: "a", index: 7}, read{topic: "no"}, read{topic: "a", index: 1, offset: 9})
	f.ask("errors again", nil)
	f.ask("and again", []read{{topic: "no"}})
	f.ask("one heals", nil, read{topic: "a", index: 1, offset: 0})
	f.ask("what is left", nil)
	f.ask("a bad epoch on one", nil, read{topic: "a", index: 1, epoch: batch.To(int32(9))})
	for _, c := range []struct {
		what      string
		id, epoch int32
	}{
		{"unknown", 12345, 1}, {"unknown, epoch 0", 12345, 0}, {"none, but an epoch", 0, 1}, {"negative id", -5, 3}, {"wrong epoch", f.id, f.epoch + 5},
		{"the epoch before", f.id, f.epoch - 1}, {"negative epoch", f.id, -2}, {"largest epoch", f.id, math.MaxInt32},
	} {
		req := s.reading(s.Version, read{topic: "a"})
		req.SessionID, req.SessionEpoch = c.id, c.epoch
		s.Ask(c.what, req)
	}
	f.ask("the session lives", nil)
	// From names to ids and back.
	other := int16(12)
	if s.Version < 13 {
		other = 13
	}
	req := s.reading(other, read{topic: "a"})
	req.SessionID, req.SessionEpoch = f.id, f.epoch
	s.AskIn(other, "names and ids", req)
	f.ask("still as before", nil)
	bad := s.reading(s.Version, read{topic: "a"})
	bad.IsolationLevel = 9
	bad.SessionID, bad.SessionEpoch = f.id, f.epoch
	s.Ask("a bad isolation level in a session", bad)
	// Its epoch may have moved on; a full request closes it whatever it is.
	last := s.reading(s.Version, read{topic: "a"})
	last.SessionID, last.SessionEpoch = f.id, -1
	s.Ask("ended", last)
}

func fetchRecreated(s *Side) {
	s.createTopic("a", 1)
	s.createTopic("b", 1)
	s.write("a", plain("0"))
	f := &session{s: s}
	f.ask("opened", nil, read{topic: "a"}, read{topic: "b"})
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames, del.TimeoutMillis = []string{s.Topic("a")}, 5000
	s.Do(3, del)
	old := s.ids["a"]
	for range 100 {
		if s.topicID("a") == ([16]byte{}) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // Kafka goes on reading what it is about to drop
	f.ask("after deletion", nil)
	f.ask("after deletion again", nil)
	s.createTopic("a", 1)
	s.write("a", plain("new"))
	delete(s.ids, "a")
	s.id("a")
	f.ask("made anew", nil)
	if s.Version >= 13 {
		s.fetch("by its old id", read{topic: "a", id: &old})
		s.fetch("by its new id", read{topic: "a"})
	}
}
