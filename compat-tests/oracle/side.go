package oracle

import (
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/normal"
)

// side is one of the two servers in a play: connections to it, and what it has
// told. Steps take from there what they say next, so that a sequence goes deep
// although ids are made up anew in every play.
type side struct {
	addr   string
	prefix string
	dir    string // where its logs lie, once it was asked
	// cluster is the cluster's id, once it was told.
	cluster *string
	conns   map[string]*frame.Conn // by the client's name
	versed  *normal.Normaliser

	topics    map[string][16]byte // ids, by the whole name
	gone      map[string][16]byte // ids of topics that were deleted or made anew
	parts     map[place]*part
	members   map[string]*member
	sessions  map[string]*session
	producers map[string]*producerID
	telemetry map[string]*subscription
	touched   map[string]bool // kinds of things that were asked for: configs, groups
}

type place struct {
	topic string // the whole name
	index int32
}

// part is what is known of a partition.
type part struct {
	start, end int64
	epoch      int32
	epochs     []int32             // all that were told, one after the other
	sequences  map[int64]*sequence // by producer
}

// leads remembers the epoch of a leadership.
func (p *part) leads(epoch int32) {
	p.epoch = epoch
	if n := len(p.epochs); n == 0 || p.epochs[n-1] != epoch {
		p.epochs = append(p.epochs, epoch)
	}
}

// near is an epoch so many leaderships from the present one: one server's may be
// further apart than the other's.
func (p *part) near(by int32) int32 {
	if at := len(p.epochs) - 1 + int(by); by < 0 && at >= 0 {
		return p.epochs[at]
	}
	return p.epoch + by
}

// sequence is what an idempotent producer has written to a partition.
type sequence struct {
	epoch int16
	next  int32
	sent  []sent
}

type sent struct {
	first int32
	count int
	epoch int16
}

// member is a client of a group and what it has been told.
type member struct {
	id         string
	generation int32
	protocol   string
	leader     bool
	joined     bool // it was told a generation and has not left since
}

type session struct{ id, epoch int32 }

type producerID struct {
	id    int64
	epoch int16
}

type subscription struct {
	instance [16]byte
	id       int32
}

func newSide(addr, run, prefix string) *side {
	return &side{
		addr: addr, prefix: prefix, conns: map[string]*frame.Conn{}, versed: normal.New(run, prefix),
		topics: map[string][16]byte{}, gone: map[string][16]byte{}, parts: map[place]*part{}, members: map[string]*member{},
		sessions: map[string]*session{}, producers: map[string]*producerID{}, telemetry: map[string]*subscription{}, touched: map[string]bool{},
	}
}

// name is a name of this play for what a sequence calls so. A name that begins
// with "=" stands for itself.
func (s *side) name(of string) string {
	if own, ok := strings.CutPrefix(of, "="); ok {
		return own
	}
	return s.prefix + of
}

// id is the id of a topic; what does not exist has the stranger's.
func (s *side) id(topic string) [16]byte {
	if id, ok := s.topics[s.name(topic)]; ok {
		return id
	}
	return normal.Stranger
}

// oldID is the id of a topic that was deleted.
func (s *side) oldID(topic string) [16]byte {
	if id, ok := s.gone[s.name(topic)]; ok {
		return id
	}
	return normal.Stranger
}

func (s *side) part(topic string, index int32) *part {
	at := place{s.name(topic), index}
	if s.parts[at] == nil {
		s.parts[at] = &part{sequences: map[int64]*sequence{}}
	}
	return s.parts[at]
}

func (s *side) member(name string) *member {
	if s.members[name] == nil {
		s.members[name] = &member{generation: -1}
	}
	return s.members[name]
}

func (s *side) session(name string) *session {
	if s.sessions[name] == nil {
		s.sessions[name] = &session{}
	}
	return s.sessions[name]
}

// conn is a client's connection, a new one where there is none.
func (s *side) conn(client string) (*frame.Conn, error) {
	if c := s.conns[client]; c != nil {
		return c, nil
	}
	c, err := frame.Dial(s.addr)
	if err != nil {
		return nil, err
	}
	c.ClientID = client
	s.conns[client] = c
	return c, nil
}

func (s *side) hangUp(client string) {
	if c := s.conns[client]; c != nil {
		c.Close()
		delete(s.conns, client)
	}
}

func (s *side) close() {
	for _, c := range s.conns {
		c.Close()
	}
	clear(s.conns)
}

// learn remembers what an answer tells.
func (s *side) learn(client string, req kmsg.Request, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.DescribeClusterResponse:
		if r.ErrorCode == 0 {
			s.cluster = &r.ClusterID
		}
	case *kmsg.MetadataResponse:
		if r.ClusterID != nil {
			s.cluster = r.ClusterID
		}
		for _, t := range r.Topics {
			if t.Topic != nil && t.ErrorCode == 0 {
				s.learnID(*t.Topic, t.TopicID)
				for _, p := range t.Partitions {
					if r.Version >= 7 && p.LeaderEpoch >= 0 {
						s.at(*t.Topic, p.Partition).leads(p.LeaderEpoch)
					}
				}
			}
		}
	case *kmsg.CreateTopicsResponse:
		if req.(*kmsg.CreateTopicsRequest).ValidateOnly {
			return
		}
		for _, t := range r.Topics {
			if t.ErrorCode == 0 {
				s.forgetParts(t.Topic)
				s.learnID(t.Topic, t.TopicID)
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			if t.Topic != nil && t.ErrorCode == 0 {
				if id, ok := s.topics[*t.Topic]; ok {
					s.gone[*t.Topic] = id
				}
				delete(s.topics, *t.Topic)
				s.forgetParts(*t.Topic)
			}
		}
	case *kmsg.DeleteRecordsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					s.at(t.Topic, p.Partition).start = p.LowWatermark
				}
			}
		}
	case *kmsg.ListOffsetsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if r.Version >= 1 && p.ErrorCode == 0 {
					switch whenOf(req.(*kmsg.ListOffsetsRequest), t.Topic, p.Partition) {
					case -1:
						s.at(t.Topic, p.Partition).end = p.Offset
					case -2:
						s.at(t.Topic, p.Partition).start = p.Offset
					}
				}
				if r.Version >= 4 && p.LeaderEpoch >= 0 && p.ErrorCode == 0 {
					at := s.at(t.Topic, p.Partition)
					at.leads(max(at.epoch, p.LeaderEpoch))
				}
			}
		}
	case *kmsg.FetchResponse:
		s.learnFetch(client, req.(*kmsg.FetchRequest), r)
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 && r.ErrorCode != 79 {
			return
		}
		m := s.member(client)
		m.id = r.MemberID
		if r.ErrorCode == 0 {
			m.generation, m.protocol, m.leader, m.joined = r.Generation, "", len(r.Members) > 0, true
			if r.Protocol != nil {
				m.protocol = *r.Protocol
			}
		}
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			s.producers[client] = &producerID{r.ProducerID, r.ProducerEpoch}
		}
	case *kmsg.DescribeLogDirsResponse:
		if len(r.Dirs) > 0 {
			s.dir = r.Dirs[0].Dir
		}
	case *kmsg.GetTelemetrySubscriptionsResponse:
		if r.ErrorCode == 0 {
			s.telemetry[client] = &subscription{r.ClientInstanceID, r.SubscriptionID}
		}
	}
}

// whenOf is the time that a partition was asked about; 0 where that was more
// than one.
func whenOf(req *kmsg.ListOffsetsRequest, topic string, index int32) int64 {
	when, n := int64(0), 0
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p.Partition == index {
				when, n = p.Timestamp, n+1
			}
		}
	}
	if n > 1 {
		return 0
	}
	return when
}

func (s *side) at(whole string, index int32) *part {
	at := place{whole, index}
	if s.parts[at] == nil {
		s.parts[at] = &part{sequences: map[int64]*sequence{}}
	}
	return s.parts[at]
}

func (s *side) learnID(whole string, id [16]byte) {
	if id == ([16]byte{}) {
		return
	}
	if old, ok := s.topics[whole]; ok && old != id {
		s.gone[whole] = old
	}
	s.topics[whole] = id
}

func (s *side) forgetParts(whole string) {
	for at := range s.parts {
		if at.topic == whole {
			delete(s.parts, at)
		}
	}
}

func (s *side) learnFetch(client string, req *kmsg.FetchRequest, r *kmsg.FetchResponse) {
	if req.SessionEpoch >= 0 {
		x := s.session(client)
		switch {
		case r.ErrorCode != 0:
		case req.SessionEpoch == 0:
			x.id, x.epoch = r.SessionID, 1
		case r.SessionID == 0:
			x.id, x.epoch = 0, 0
		default:
			x.epoch++
		}
	}
	for _, t := range r.Topics {
		name := t.Topic
		if r.Version >= 13 {
			for n, id := range s.topics {
				if id == t.TopicID {
					name = n
				}
			}
		}
		if name == "" {
			continue
		}
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.HighWatermark >= 0 {
				at := s.at(name, p.Partition)
				at.end = p.HighWatermark
				if r.Version >= 5 {
					at.start = p.LogStartOffset
				}
			}
		}
	}
}

// oneOf draws from a list.
func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
