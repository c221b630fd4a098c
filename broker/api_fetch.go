package broker

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/broker/session"
	"millrace/controller/image"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/wire"
)

// Fetch (1), versions 0-18. KIP-74 (limits), KIP-98 (isolation), KIP-227
// (sessions, v7), KIP-320 (leader epochs, v9), KIP-392 (fetching from
// followers, v11), KIP-595 (diverging epochs, v12), KIP-516 (topic ids, v13),
// KIP-903 (replica epochs, v15), KIP-951 (current leaders, v16), KIP-1166
// (the follower's high watermark, v18).
//
// Partitions are read in the order of the request; once records were found,
// what later ones give counts against the response's limit. A fetch that found
// too little lets go of it, registers one waiter on all its partitions, looks
// again, waits in the goroutine that read the request, and reads once more. Where
// the log goes on behind the segment that was read from, nobody waits for more, as
// an answer has of one segment only.
//
// Versions below 4 are given message sets (old_sets.go). Below 3 a first batch
// that is larger than the limits is left out.

// fetchRead is one partition of a fetch: what was asked, who serves it, and
// what was found.
type fetchRead struct {
	asked session.Partition
	name  string // of the topic, where an id was resolved
	part  *partition.Partition
	code  int16 // why it is not read
	// absent: there is no such topic or partition for this client. Kafka takes
	// these out before it reads, waits for the others, and puts them last.
	absent bool
	found  partition.ReadResult
	err    error
	place  partition.Watching
	// segment is the one that was read from before the wait.
	segment batch.Offset
}

func (b *Broker) fetch(c *call) wire.Reply {
	req := c.msg.(*kmsg.FetchRequest)
	f := &fetching{b: b, c: c, req: req}
	code := f.begin()
	if f.turn != nil {
		defer b.sessions.end(f.session, f.turn)
	}
	if code != 0 {
		return f.refuse(code)
	}
	f.resolve()
	if req.IsolationLevel != 0 && req.IsolationLevel != 1 && slices.ContainsFunc(f.reads, func(r fetchRead) bool { return !r.absent }) {
		// Kafka falls over the level once there is something to read with it.
		return f.refuseEach(kerr.UnknownServerError.Code)
	}
	if f.readPatiently(); req.MaxWaitMillis > 0 && f.waits() {
		f.release()
		f.wait()
		f.readPatiently()
	}
	return f.answer()
}

// readPatiently reads, and again after a moment where nothing was found for lack
// of file descriptors.
func (f *fetching) readPatiently() {
	f.read()
	for n := 0; log.AwaitDescriptor(f.lack(), n); n++ {
		f.release()
		f.read()
	}
}

// lack is a lack of descriptors for which nothing was found, if there is one.
func (f *fetching) lack() (lack error) {
	for i := range f.reads {
		r := &f.reads[i]
		if r.found.Records.Len() > 0 {
			return nil
		}
		if errors.Is(r.err, log.ErrNoDescriptor) {
			lack = r.err
		}
	}
	return lack
}

// futureReplica is what a broker's own replica that moves to another directory
// fetches as: it reads to the log end, and is no consumer.
const futureReplica = -3

// fetching is one Fetch request on its way.
type fetching struct {
	b           *Broker
	c           *call
	req         *kmsg.FetchRequest
	replica     int32
	brokerEpoch int64 // of the replica; -1 below v15
	session     int32 // of an incremental request
	turn        *turn // of a large session, or nil
	empty       bool  // its session was closed: nothing is left to fetch, or too much
	maxBytes    int64
	minBytes    int64
	kept        int // bytes converted for an old client before they are sent
	reads       []fetchRead
}

func (f *fetching) byID() bool { return f.c.Version >= 13 }

func (f *fetching) key(topic string, id [16]byte, index int32) session.Key {
	if f.byID() {
		return session.Key{ID: id, Index: index}
	}
	return session.Key{Topic: topic, Index: index}
}

// begin turns the request into the list of partitions to read. The code
// refuses the whole request.
func (f *fetching) begin() int16 {
	req, c := f.req, f.c
	f.replica, f.brokerEpoch = req.ReplicaID, -1
	if c.Version >= 15 {
		f.replica, f.brokerEpoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	f.maxBytes = int64(min(req.MaxBytes, f.b.config.Int("fetch.max.bytes")))
	f.minBytes = min(int64(req.MinBytes), f.maxBytes)
	c.Mark = markConsumer
	if f.replica >= 0 {
		c.Mark = markFollower
	}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	asked := make([]session.Partition, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a := session.Partition{
				Key: f.key(t.Topic, t.TopicID, p.Partition), CurrentLeaderEpoch: max(batch.LeaderEpoch(p.CurrentLeaderEpoch), partition.AnyEpoch),
				FetchOffset: batch.Offset(p.FetchOffset), LastFetchedEpoch: max(batch.LeaderEpoch(p.LastFetchedEpoch), partition.AnyEpoch),
				LogStart: batch.Offset(p.LogStartOffset), MaxBytes: p.PartitionMaxBytes,
			}
			if c.Version < 9 {
				a.CurrentLeaderEpoch = partition.AnyEpoch
			}
			if c.Version < 12 {
				a.LastFetchedEpoch = partition.AnyEpoch
			}
			asked = append(asked, a)
		}
	}
	if c.Version < 7 {
		f.take(session.Unique(asked))
		return 0
	}
	sessions := f.b.sessions
	if session.Full(req.SessionEpoch) {
		if req.SessionID != session.None {
			sessions.close(req.SessionID)
		}
		f.take(session.Unique(asked))
		return 0
	}
	var forgotten []session.Key
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			forgotten = append(forgotten, f.key(t.Topic, t.TopicID, p))
		}
	}
	ps, open, t, err := sessions.resume(c, session.ContinueRequest{
		Now: f.b.now().UnixMilli(), ID: req.SessionID, Epoch: req.SessionEpoch, TopicIDs: f.byID(), Partitions: asked, Forgotten: forgotten,
	})
	if err != nil {
		return codeOf(err)
	}
	f.empty = !open
	f.session, f.turn = req.SessionID, t
	f.take(ps)
	return 0
}

func (f *fetching) take(ps []session.Partition) {
	f.reads = make([]fetchRead, len(ps))
	for i := range ps {
		f.reads[i].asked = ps[i]
	}
}

// resolve finds who serves each partition, and refuses what is not served.
func (f *fetching) resolve() {
	for i := range f.reads {
		r := &f.reads[i]
		r.code, r.absent = f.find(r)
	}
	follower := f.replica >= 0
	slices.SortStableFunc(f.reads, func(a, b fetchRead) int { return a.rank(follower) - b.rank(follower) })
}

// rank is the order of the answer: what was read, the ids that nobody has, the
// rest that is not there. Of what a follower asked for, ids and the rest go
// together.
func (r *fetchRead) rank(follower bool) int {
	switch {
	case !r.absent:
		return 0
	case follower || r.code == kerr.UnknownTopicID.Code:
		return 1
	}
	return 2
}

func (f *fetching) find(r *fetchRead) (code int16, absent bool) {
	c, a := f.c, &r.asked
	var t *image.Topic
	name := a.Topic
	if f.byID() {
		if t = c.image.TopicByID(a.ID); t != nil {
			r.name, name = t.Name, t.Name
		} else if name = a.Name; name == "" {
			return kerr.UnknownTopicID.Code, true
		}
	} else {
		t = c.image.TopicByName(name)
	}
	switch follower := f.replica >= 0; {
	case follower && !c.allowed(auth.ClusterAction, auth.Cluster, auth.ClusterName), !follower && !c.allowed(auth.Read, auth.Topic, name):
		return kerr.TopicAuthorizationFailed.Code, true
	case t == nil && f.byID() && c.image.TopicByName(name).Partition(a.Index) != nil:
		// A session goes on with the name that an id stood for, and that topic
		// was made anew, with this partition.
		return kerr.InconsistentTopicID.Code, false
	case t == nil || a.Index < 0 || int(a.Index) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition.Code, true
	}
	if r.part = f.b.replicas.served(t.ID, a.Index); r.part == nil {
		return f.b.absent(t.ID, a.Index), false
	}
	return 0, false
}

func (f *fetching) request(r *fetchRead, maxBytes int64, minOne bool) partition.ReadRequest {
	q := partition.ReadRequest{
		Offset: r.asked.FetchOffset, MaxBytes: int(maxBytes), MinOne: minOne,
		CurrentLeaderEpoch: r.asked.CurrentLeaderEpoch, LastFetchedEpoch: r.asked.LastFetchedEpoch,
		Replica: f.replica, LeaderOnly: f.c.Version < 11,
	}
	switch {
	case f.replica >= 0 || f.replica == futureReplica:
		q.Isolation = partition.ReadAll
	case f.req.IsolationLevel == 1:
		q.Isolation = partition.ReadCommitted
	}
	return q
}

// waits says whether what was read is too little to be answered at once.
func (f *fetching) waits() bool {
	found, asked := int64(0), false
	for i := range f.reads {
		r := &f.reads[i]
		switch {
		case r.absent:
			continue
		case r.code != 0 || r.err != nil || r.found.Diverging != nil:
			return false
		}
		asked = true
		found += int64(r.found.Records.Len())
	}
	return asked && found < f.minBytes
}

// available estimates how many bytes a read would find. settled says that the
// answer is not to wait, whatever their number: something is refused.
func (f *fetching) available() (found int64, settled bool) {
	for i := range f.reads {
		r := &f.reads[i]
		if r.absent {
			continue
		}
		n, err := r.part.Available(f.request(r, int64(r.asked.MaxBytes), false), r.segment)
		if err != nil {
			return found, true
		}
		found += n
	}
	return found, false
}

// wait returns when enough bytes are there, something is refused, or time is
// up.
func (f *fetching) wait() {
	w := partition.NewWaiter()
	for i := range f.reads {
		if r := &f.reads[i]; !r.absent {
			q := f.request(r, 0, false)
			r.part.Watch(&r.place, w, q.Interest())
		}
	}
	defer func() {
		for i := range f.reads {
			if !f.reads[i].absent {
				f.reads[i].part.Unwatch(&f.reads[i].place)
			}
		}
	}()
	f.b.seen.waits(1)
	defer f.b.seen.waits(-1)
	f.c.Waiting()
	timer := time.NewTimer(time.Duration(f.req.MaxWaitMillis) * time.Millisecond)
	defer timer.Stop()
	var hurry <-chan struct{}
	if f.turn != nil {
		hurry = f.turn.hurry
	}
	for {
		if found, settled := f.available(); settled || found >= f.minBytes {
			return
		}
		select {
		case <-w.C():
		case <-timer.C:
			f.b.seen.expiredFetch(f.replica >= 0)
			return
		case <-hurry:
			return
		case <-f.c.ctx.Done():
			return
		}
	}
}

// read reads every partition. The first batch of the first partition that has
// any comes whole, whatever the limits (KIP-74).
func (f *fetching) read() {
	left, minOne := f.maxBytes, f.c.Version >= wholeInFetch
	for i := range f.reads {
		r := &f.reads[i]
		if r.code != 0 {
			continue
		}
		limit := min(int64(r.asked.MaxBytes), left)
		r.found, r.err = r.part.Read(f.request(r, max(limit, 0), minOne || limit < 0))
		f.b.seen.read(r.part.Topic(), r.err)
		if r.err != nil {
			f.b.tellUnreadable(r.part, r.err, zap.Int64("offset", int64(r.asked.FetchOffset)))
			left = max(left, 0) // a negative one is that of the first partition only
			continue
		}
		n := int64(r.found.Records.Len())
		if limit < 0 && n > 0 {
			// Kafka fails on a negative limit, but only where there is something
			// to read.
			r.found.Records.Release()
			r.found, r.err = partition.ReadResult{}, errNegativeLimit
			n = 0
		}
		if n > 0 {
			minOne = false
		}
		left = max(left-n, 0)
		if r.err == nil {
			f.followed(r)
		}
	}
}

// followed tells a partition what its follower has just been given.
func (f *fetching) followed(r *fetchRead) {
	if f.replica < 0 || r.found.Diverging != nil {
		return
	}
	r.err = r.part.FollowerFetched(r.found.LeaderEpoch, replica.Fetch{
		ID: f.replica, BrokerEpoch: f.brokerEpoch, Offset: r.asked.FetchOffset, LogStart: r.asked.LogStart, LeaderEnd: r.found.LogEnd,
	})
	if r.err != nil {
		r.found.Records.Release()
		r.found = partition.ReadResult{}
	}
}

// answer makes the reply, opening or continuing a session.
func (f *fetching) answer() wire.Reply {
	resp := wire.FetchResponse{}
	results := make([]session.Result, len(f.reads))
	for i := range f.reads {
		r := &f.reads[i]
		res := &results[i]
		res.Key, res.Name, res.Send = r.asked.Key, r.name, true
		res.HighWatermark, res.LogStart = -1, -1
		if r.code != 0 || r.err != nil {
			res.Error = true
			continue
		}
		res.HighWatermark, res.LogStart = r.found.HighWatermark, r.found.LogStart
		res.Bytes, res.Diverging = r.found.Records.Len(), r.found.Diverging != nil
	}
	switch {
	case f.c.Version < 7 || f.req.SessionEpoch == session.Final:
	case f.req.SessionEpoch == session.Initial:
		asked := make([]session.Partition, len(f.reads))
		for i := range f.reads {
			asked[i] = f.reads[i].asked
		}
		resp.SessionID = f.b.sessions.open(session.OpenRequest{
			Now: f.b.now().UnixMilli(), Follower: f.replica >= 0, TopicIDs: f.byID(), Partitions: asked, Results: results, Chance: chance(),
		})
	case !f.empty:
		if err := f.b.sessions.finish(f.session, f.req.SessionEpoch, results); err != nil {
			f.release()
			return f.refuse(codeOf(err))
		}
		resp.SessionID = f.session
	}
	var named nodes
	for i := range f.reads {
		r := &f.reads[i]
		if !results[i].Send {
			r.found.Records.Release()
			continue
		}
		f.add(&resp, results, i, &named)
	}
	if f.c.Version >= 16 {
		for _, id := range named {
			if br := f.c.image.Broker(id); br != nil {
				if e, ok := f.b.endpointFor(f.c.Conn, br); ok {
					resp.Brokers = append(resp.Brokers, wire.FetchBroker{NodeID: id, Host: e.host, Port: e.port, Rack: br.Rack})
				}
			}
		}
	}
	return f.reply(&resp)
}

// reply counts the codes of an answer and encodes it.
func (f *fetching) reply(resp *wire.FetchResponse) wire.Reply {
	if seen := f.b.seen; seen != nil {
		seen.failed(int16(kmsg.Fetch), f.c.Mark, resp.ErrorCode)
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				seen.failed(int16(kmsg.Fetch), f.c.Mark, resp.Topics[i].Partitions[j].ErrorCode)
			}
		}
	}
	return wire.Reply{Body: wire.EncodeFetch(resp, f.c.Version)}
}

// rows is how many partitions of the topic of read i, from there on, the answer
// tells.
func (f *fetching) rows(results []session.Result, i int) int {
	n := 0
	for key := f.reads[i].asked.Key; i < len(f.reads) && f.reads[i].asked.Topic == key.Topic && f.reads[i].asked.ID == key.ID; i++ {
		if results[i].Send {
			n++
		}
	}
	return n
}

// knowsStorageErrors is the first version whose clients know KAFKA_STORAGE_ERROR; older
// ones look for another leader (KIP-112). Other APIs tell it in every version.
const knowsStorageErrors = 6

// add puts one partition into the answer.
func (f *fetching) add(resp *wire.FetchResponse, results []session.Result, i int, named *nodes) {
	r := &f.reads[i]
	key := r.asked.Key
	if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != key.Topic || resp.Topics[n-1].TopicID != key.ID {
		resp.Topics = append(resp.Topics, wire.FetchTopic{Topic: key.Topic, TopicID: key.ID, Partitions: make([]wire.FetchPartition, 0, f.rows(results, i))})
	}
	t := &resp.Topics[len(resp.Topics)-1]
	p := wire.NewFetchPartition(key.Index)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
	var old *downgraded
	if f.c.Version < batchesInFetch && r.part != nil {
		old = f.older(r)
	}
	switch {
	case r.code != 0:
		p.ErrorCode = r.code
		if r.absent {
			p.AbortedTransactions = []wire.FetchAborted{}
		}
	case r.err != nil:
		p.ErrorCode = codeOf(r.err)
	default:
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = int64(r.found.HighWatermark), int64(r.found.LastStable), int64(r.found.LogStart)
		if f.req.IsolationLevel == 1 && f.replica < 0 && f.replica != futureReplica && r.found.Diverging == nil && !r.found.Cut {
			p.AbortedTransactions = make([]wire.FetchAborted, len(r.found.Aborted))
			for i, a := range r.found.Aborted {
				p.AbortedTransactions[i] = wire.FetchAborted{ProducerID: int64(a.ProducerID), FirstOffset: int64(a.FirstOffset)}
			}
		}
		if d := r.found.Diverging; d != nil {
			p.DivergingEpoch = &wire.FetchEpochEnd{Epoch: int32(d.Epoch), EndOffset: int64(d.EndOffset)}
		}
		if n := r.found.Records.Len(); n > 0 {
			switch {
			case old != nil:
				p.Section, n = old, old.Len()
			case len(f.reads) > largeSession:
				records := r.found.Records // many reads are not to be held until one is sent
				p.Section = &records
			default:
				p.Section = &r.found.Records // in reads, which nobody changes any more
			}
			f.b.seen.sent(r.part.Topic(), n, f.replica >= 0)
		} else {
			r.found.Records.Release()
		}
	}
	if f.c.Version < knowsStorageErrors && p.ErrorCode == kerr.KafkaStorageError.Code {
		p.ErrorCode = kerr.NotLeaderForPartition.Code
	}
	if f.c.Version >= 16 && (p.ErrorCode == kerr.NotLeaderForPartition.Code || p.ErrorCode == kerr.FencedLeaderEpoch.Code) {
		if leader, epoch, ok := f.b.leaderOf(f.c, key.Topic, key.ID, key.Index); ok {
			p.CurrentLeader = &wire.FetchCurrentLeader{LeaderID: leader, LeaderEpoch: epoch}
			if f.replica < 0 {
				named.add(leader)
			}
		}
	}
	t.Partitions = append(t.Partitions, p)
}

func (f *fetching) release() {
	for i := range f.reads {
		f.reads[i].found.Records.Release()
		f.reads[i].segment = f.reads[i].found.Segment
		f.reads[i].found, f.reads[i].err = partition.ReadResult{}, nil
	}
}

// errNegativeLimit is a limit in bytes that is below zero.
var errNegativeLimit = errors.New("a fetch of less than nothing")

// refuseEach refuses the request in each of its partitions, which is where
// clients below version 13 look, and in the whole.
func (f *fetching) refuseEach(code int16) wire.Reply {
	resp := wire.FetchResponse{ErrorCode: code, SessionID: f.req.SessionID}
	if f.c.Version < 13 {
		for i := range f.req.Topics {
			rt := &f.req.Topics[i]
			t := wire.FetchTopic{Topic: rt.Topic}
			for j := range rt.Partitions {
				p := wire.NewFetchPartition(rt.Partitions[j].Partition)
				p.ErrorCode, p.AbortedTransactions = code, []wire.FetchAborted{}
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
	}
	return f.reply(&resp)
}

func (f *fetching) refuse(code int16) wire.Reply {
	return f.reply(&wire.FetchResponse{ErrorCode: code})
}

func chance() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:])
}
