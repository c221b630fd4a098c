// Package session keeps fetch sessions (KIP-227): what a client fetches is remembered, so that its next request names
// only what changed, and is answered only with what changed.
//
// It is pure and takes no lock: a Shard is one of the eight parts that the sessions of a broker are spread over, each of
// which its owner guards by itself. It reads no log; it is told what was found and says what of it to send.
//
// A fetch goes like this. A full request (epoch 0 or -1) closes the session it names, with Close in that session's home
// shard; its partitions are read as they came (Unique), and after that one with epoch 0 asks any shard, each in turn, to
// Open a session. An incremental request asks the home shard to Continue, reads the partitions it is given, and tells the
// same shard with Finish what was found.
package session

import (
	"errors"
	"fmt"
	"math"

	"millrace/storage/batch"
)

// Shards is how many shards a broker has.
const Shards = 8

// DefaultSlots is max.incremental.fetch.session.cache.slots, over all shards.
const DefaultSlots = 1000

// MostPartitions is how many partitions the sessions of all shards may have. Kafka bounds the number of sessions alone;
// but what a session and a fetch in it take is a few hundred bytes for each partition, whether it is there or not, and the
// request that asks for all of it is short. Followers come first, as they do at Kafka's slots: consumers' sessions make
// room for theirs. Whoever finds no room goes on without a session, as where there is no slot.
const MostPartitions = 1 << 18

// evictAfter is how long, in ms, a session may be idle, or a session is safe from others after it was opened.
const evictAfter = 120_000

// None is the session id of a fetch without a session.
const None int32 = 0

// The epochs of requests that are not incremental.
const (
	Initial int32 = 0  // open a session
	Final   int32 = -1 // without a session, or the last of one
)

// Full says that a request of that epoch names everything it wants.
func Full(epoch int32) bool { return epoch == Initial || epoch == Final }

// next is the epoch after one.
func next(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

// The answers to an incremental request that does not fit its session; all of them leave the session as it is.
var (
	ErrUnknown  = errors.New("the fetch session is not known")                              // FETCH_SESSION_ID_NOT_FOUND
	ErrEpoch    = errors.New("the fetch session epoch is not the one expected")             // INVALID_FETCH_SESSION_EPOCH
	ErrTopicIDs = errors.New("the fetch session uses topic ids and the request names them") // FETCH_SESSION_TOPIC_ID_ERROR, or the reverse
)

// Key names a partition: by Topic below version 13, by ID from then on; the other is zero.
type Key struct {
	Topic string
	ID    [16]byte
	Index int32
}

// Partition is what a client asks of one partition.
type Partition struct {
	Key
	// Name is what ID stood for when it was first resolved: the session goes on by it after the id is gone. "" by name.
	Name               string
	CurrentLeaderEpoch batch.LeaderEpoch
	FetchOffset        batch.Offset
	LastFetchedEpoch   batch.LeaderEpoch
	LogStart           batch.Offset // a follower's
	MaxBytes           int32
}

// Unique is a request's partitions without repetition, in the order in which each first came; what came last counts.
func Unique(ps []Partition) []Partition {
	if len(ps) < 2 {
		return ps
	}
	at := make(map[Key]int, len(ps))
	out := make([]Partition, 0, len(ps))
	for _, p := range ps {
		if i, ok := at[p.Key]; ok {
			out[i] = p
			continue
		}
		at[p.Key] = len(out)
		out = append(out, p)
	}
	return out
}

// Result is what was found for a partition.
type Result struct {
	Key
	Name          string // of the topic, where ID was resolved
	HighWatermark batch.Offset
	LogStart      batch.Offset
	Bytes         int  // of records
	Error         bool // an error is answered
	Preferred     bool // another replica is named
	Diverging     bool // a diverging epoch is answered
	// Send is set by Finish: the partition belongs into the answer.
	Send bool
}

// cached is a partition of a session.
type cached struct {
	Partition
	highWatermark batch.Offset // as last sent; -1 so that it is sent
	logStart      batch.Offset
	before, after *cached // in the order in which they are read
}

// learn keeps the first name that an id was resolved to.
func (c *cached) learn(name string) {
	if c.Name == "" {
		c.Name = name
	}
}

// session is one client's.
type session struct {
	id       int32
	epoch    int32 // expected of the next request
	follower bool
	ids      bool // by topic id
	parts    map[Key]*cached
	ring     cached // ring.after is the first and ring.before the last
	created  int64
	used     int64
}

func (s *session) push(c *cached) {
	c.before, c.after = s.ring.before, &s.ring
	c.before.after, c.after.before = c, c
}

func (c *cached) unlink() {
	c.before.after, c.after.before = c.after, c.before
}

// Shard holds some of a broker's sessions. It is not safe for concurrent use.
type Shard struct {
	index    int32
	slots    int
	most     int // partitions
	sessions map[int32]*session
	evicted  int64
	parts    int
	gone     func(id int32)
}

// New makes the shards of a broker, for so many sessions in all. gone, which may be nil, is called with each session that
// ends, by whatever calls the shard.
func New(slots int, gone func(id int32)) [Shards]*Shard {
	if gone == nil {
		gone = func(int32) {}
	}
	var all [Shards]*Shard
	for i := range all {
		all[i] = &Shard{index: int32(i), slots: slots / Shards, most: MostPartitions / Shards, sessions: map[int32]*session{}, gone: gone}
	}
	return all
}

// span is how many session ids belong to a shard.
const span = math.MaxInt32 / Shards

// Home is the index of the shard that a session lives in.
func Home(id int32) int {
	if id < 0 {
		return 0
	}
	return min(int(id/span), Shards-1)
}

// Close ends a session; one that is not known is none of its business.
func (s *Shard) Close(id int32) {
	if x := s.sessions[id]; x != nil {
		s.remove(x)
	}
}

func (s *Shard) remove(x *session) {
	delete(s.sessions, x.id)
	s.parts -= len(x.parts)
	s.gone(x.id)
}

// OpenRequest asks for a session.
type OpenRequest struct {
	Now      int64 // ms
	Follower bool
	TopicIDs bool // Fetch from version 13 on
	// Partitions are those of the request and Results what was found for each.
	Partitions []Partition
	Results    []Result
	// Chance is a random number that the session id is made of.
	Chance uint32
}

// Open opens a session for a full request that was just read, and returns its id; None where there is no room. The
// client's next epoch is 1.
func (s *Shard) Open(r OpenRequest) int32 {
	if !s.holds(len(r.Partitions), r.Follower, r.Now) {
		return None
	}
	if len(s.sessions) >= s.slots && !s.evict(r.Follower, len(r.Partitions), r.Now) {
		return None
	}
	x := &session{id: s.fresh(r.Chance), epoch: next(Initial), follower: r.Follower, ids: r.TopicIDs, parts: make(map[Key]*cached, len(r.Partitions)), created: r.Now, used: r.Now}
	x.ring.before, x.ring.after = &x.ring, &x.ring
	if len(r.Partitions) != len(r.Results) {
		panic(fmt.Sprintf("session: %d partitions and %d results", len(r.Partitions), len(r.Results)))
	}
	for i, p := range r.Partitions {
		f := r.Results[i]
		if f.Key != p.Key {
			panic(fmt.Sprintf("session: result %d is for %v, not for %v", i, f.Key, p.Key))
		}
		c := &cached{Partition: p, highWatermark: f.HighWatermark, logStart: f.LogStart}
		c.learn(f.Name)
		if f.Error {
			c.highWatermark = batch.NoOffset
		}
		x.parts[p.Key] = c
		x.push(c)
	}
	s.sessions[x.id] = x
	s.parts += len(x.parts)
	return x.id
}

// fresh makes an id of this shard that is not in use.
func (s *Shard) fresh(chance uint32) int32 {
	low := int64(s.index)*span + 1 // 0 is no session
	n := int64(span) - 1
	for i := int64(chance) % n; ; i = (i + 1) % n {
		if id := int32(low + i); s.sessions[id] == nil {
			return id
		}
	}
}

// holds says whether there is room for so many more partitions, and makes it by ending sessions: idle ones first, and for
// a follower then consumers' ones, those of the least worth first, which are the fewest partitions that can make room.
// Nobody else is evicted for that: a consumer's large session would take the place of many small ones. Where all of that
// would not be enough, nobody is.
func (s *Shard) holds(more int, follower bool, now int64) bool {
	if s.parts+more <= s.most {
		return true
	}
	idle := func(x *session) bool { return now-x.used > evictAfter }
	kept := more
	// any order: it is a sum.
	for _, x := range s.sessions {
		if !idle(x) && (!follower || x.follower) {
			kept += len(x.parts)
		}
	}
	if kept > s.most {
		return false
	}
	for s.parts+more > s.most {
		x := s.idlest()
		if !idle(x) {
			x = s.least(func(x *session) bool { return !x.follower })
		}
		s.remove(x)
		s.evicted++
	}
	return true
}

// idlest is the session that was not used for the longest time; ties go to the lower id.
func (s *Shard) idlest() (idle *session) {
	// any order: ties are decided.
	for _, x := range s.sessions {
		if idle == nil || x.used < idle.used || (x.used == idle.used && x.id < idle.id) {
			idle = x
		}
	}
	return idle
}

// worth orders sessions by what they are worth keeping: a follower's above a consumer's, then by size.
func worth(follower bool, size int) int64 {
	w := int64(size)
	if follower {
		w += 1 << 40
	}
	return w
}

func (x *session) worth() int64 { return worth(x.follower, len(x.parts)) }

// least is the session of the least worth of some; ties go to the lower id.
func (s *Shard) least(of func(*session) bool) (least *session) {
	// any order: ties are decided.
	for _, x := range s.sessions {
		if of(x) && (least == nil || x.worth() < least.worth() || x.worth() == least.worth() && x.id < least.id) {
			least = x
		}
	}
	return least
}

// evict makes room for a session if it may.
func (s *Shard) evict(follower bool, size int, now int64) bool {
	// A session that is not old yet is safe from consumers, and a follower's from everybody.
	least := s.least(func(x *session) bool { return now-x.created > evictAfter || follower && !x.follower })
	switch idle := s.idlest(); {
	case idle != nil && now-idle.used > evictAfter:
		s.remove(idle)
	case least != nil && worth(follower, size) > least.worth():
		s.remove(least)
	default:
		return false
	}
	s.evicted++
	return true
}

// ContinueRequest is an incremental request.
type ContinueRequest struct {
	Now        int64 // ms
	ID         int32
	Epoch      int32
	TopicIDs   bool // Fetch from version 13 on
	Partitions []Partition
	Forgotten  []Key
}

// Fits says whether an incremental request is the next one of its session, and how many partitions that has.
func (s *Shard) Fits(r ContinueRequest) (partitions int, err error) {
	x := s.sessions[r.ID]
	switch {
	case x == nil:
		return 0, ErrUnknown
	case x.epoch != r.Epoch:
		return 0, ErrEpoch
	case x.ids != r.TopicIDs:
		return 0, ErrTopicIDs
	}
	return len(x.parts), nil
}

// Continue takes over what an incremental request changes and returns the session's partitions in the order in which they
// are to be read. open is false where the last partition was forgotten, or where there is no room for more: the session is
// closed, and the answer, with what the request itself named, carries no session id.
func (s *Shard) Continue(r ContinueRequest) (ps []Partition, open bool, err error) {
	if _, err := s.Fits(r); err != nil {
		return nil, false, err
	}
	x := s.sessions[r.ID]
	was := len(x.parts)
	for _, p := range r.Partitions {
		if c := x.parts[p.Key]; c != nil {
			p.Name = c.Name
			c.Partition = p
			continue
		}
		c := &cached{Partition: p, highWatermark: batch.NoOffset, logStart: batch.NoOffset}
		x.parts[p.Key] = c
		x.push(c)
	}
	for _, k := range r.Forgotten {
		if c := x.parts[k]; c != nil {
			c.unlink()
			delete(x.parts, k)
		}
	}
	s.parts += len(x.parts) - was
	x.used, x.epoch = r.Now, next(x.epoch)
	if len(x.parts) == 0 || len(x.parts) > was && !s.holds(0, x.follower, r.Now) {
		s.remove(x)
		return Unique(r.Partitions), false, nil
	}
	ps = make([]Partition, 0, len(x.parts))
	for c := x.ring.after; c != &x.ring; c = c.after {
		ps = append(ps, c.Partition)
	}
	return ps, true, nil
}

// Finish ends an incremental request of the given epoch: it sets Send in the results that belong into the answer, and
// puts partitions that gave records behind the others, so that each has its turn. ErrEpoch says that the session went on
// meanwhile: nothing but the error is to be sent.
func (s *Shard) Finish(id, epoch int32, results []Result) error {
	x := s.sessions[id]
	if x == nil {
		// Evicted or closed while the request waited: the answer still stands, and the next request learns of it.
		for i := range results {
			results[i].Send = true
		}
		return nil
	}
	if x.epoch != next(epoch) {
		return ErrEpoch
	}
	for i := range results {
		r := &results[i]
		c := x.parts[r.Key]
		if c == nil {
			continue
		}
		r.Send = r.Bytes > 0 || r.HighWatermark != c.highWatermark || r.LogStart != c.logStart || r.Preferred || r.Error || r.Diverging
		c.highWatermark, c.logStart = r.HighWatermark, r.LogStart
		c.learn(r.Name)
		if r.Error {
			c.highWatermark = batch.NoOffset // so that it is sent when the error is over
		}
		if r.Send && r.Bytes > 0 {
			c.unlink()
			x.push(c)
		}
	}
	return nil
}

// Stats are numbers of a shard.
type Stats struct {
	Sessions   int
	Partitions int
	Evicted    int64
}

// Stats counts.
func (s *Shard) Stats() Stats {
	return Stats{Sessions: len(s.sessions), Partitions: s.parts, Evicted: s.evicted}
}
