package group

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/wire/records"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestPlays runs the transcripts in testdata: each is a play with the members of
// a group as its cast. A member id is written as its prefix and a number, such as
// a#1: made for the client named a, by the first join of the play.
func TestPlays(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		s := &stage{t: t}
		s.start(Config{InitialRebalanceDelay: 3 * time.Second})
		datadriven.RunTest(t, path, s.play)
	})
}

// stage runs one play.
type stage struct {
	t     *testing.T
	w     *world
	out   strings.Builder
	names map[machine.Ticket]string
	fresh byte
	fault error
	meta  int64 // metadata offset of the image
}

func (s *stage) start(c Config) {
	s.w = newWorld(s.t, c)
	s.names = map[machine.Ticket]string{}
	s.fresh = 0
	s.w.onSend = s.reply
	s.w.onLog = s.record
	s.w.refuse = func(machine.Decision) error {
		err := s.fault
		s.fault = nil
		return err
	}
	s.w.load()
}

// play does one command of a transcript and prints what came of it.
func (s *stage) play(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	s.w.t = t
	a := args{t: t, d: d}
	switch d.Cmd {
	case "config":
		s.start(Config{
			InitialRebalanceDelay: a.duration("delay", 3*time.Second),
			MaxSize:               a.number("max-size", 0),
			OffsetsRetention:      a.duration("retention", 0),
		})
	case "join":
		s.ask(a, s.join(a), a.text("client", a.first()))
	case "sync":
		s.ask(a, s.sync(a), "")
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version = int16(a.number("v", 4))
		r.Group, r.Generation, r.MemberID, r.InstanceID = a.text("group", "g"), int32(a.number("generation", 1)), s.id(a.first()), a.optional("instance")
		s.ask(a, r, "")
	case "leave":
		s.ask(a, s.leave(a), "")
	case "commit":
		s.ask(a, s.commit(a), "")
	case "txn-commit":
		s.ask(a, s.txnCommit(a), "")
	case "end-txn":
		mk := machine.Marker{Producer: machine.Producer{ID: int64(a.number("producer", 7))}, Commit: a.flag("commit")}
		s.w.mark(mk)
	case "fetch":
		s.ask(a, s.fetch(a), "")
	case "delete-offsets":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = a.text("group", "g")
		for _, tp := range a.list("offsets") {
			topic, p := topicPartition(tp)
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rp.Partition = p
			rt.Partitions = append(rt.Partitions, rp)
			r.Topics = append(r.Topics, rt)
		}
		s.ask(a, r, "")
	case "describe":
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Version, r.Groups = int16(a.number("v", 6)), a.listOr("group", "g")
		s.ask(a, r, "")
	case "list":
		r := kmsg.NewPtrListGroupsRequest()
		r.Version, r.StatesFilter, r.TypesFilter = 5, a.list("states"), a.list("types")
		s.ask(a, r, "")
	case "delete-groups":
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Version, r.Groups = 3, a.listOr("group", "g")
		s.ask(a, r, "")
	case "wait":
		dur, err := time.ParseDuration(a.first())
		if err != nil {
			t.Fatal(err)
		}
		s.w.advance(dur)
	case "refuse":
		s.fault = errors.New("the append is refused")
	case "reload":
		s.w.config.MaxSize = a.number("max-size", s.w.config.MaxSize)
		s.w.load()
		s.say("loaded")
	case "topics":
		s.topics(a)
	default:
		d.Fatalf(t, "no such command")
	}
	a.done()
	if s.out.Len() == 0 {
		return "nothing happens\n"
	}
	return s.out.String()
}

func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(&s.out, format+"\n", args...)
}

func (s *stage) ask(a args, body kmsg.Request, client string) {
	if a.d.Cmd == "join" {
		s.fresh++
	}
	s.names[s.w.ticket+1] = a.text("as", a.d.Cmd+" of "+a.first())
	tk := s.w.ask(body, client, [16]byte{15: s.fresh})
	if s.w.open[tk] {
		s.say("%s is parked", s.names[tk])
	}
}

func (s *stage) join(a args) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = int16(a.number("v", 9))
	r.Group = a.text("group", "g")
	r.MemberID = s.id(a.text("member", ""))
	r.InstanceID = a.optional("instance")
	r.SessionTimeoutMillis = int32(a.duration("session", 10*time.Second).Milliseconds())
	r.RebalanceTimeoutMillis = int32(a.duration("rebalance", time.Minute).Milliseconds())
	r.ProtocolType = a.text("type", "consumer")
	for _, p := range a.listOr("protocols", "range:t") {
		name, topics, _ := strings.Cut(p, ":")
		pr := kmsg.NewJoinGroupRequestProtocol()
		pr.Name, pr.Metadata = name, subscription(strings.Split(topics, "+")...)
		if topics == "" {
			pr.Metadata = []byte("opaque")
		}
		r.Protocols = append(r.Protocols, pr)
	}
	if a.flag("no-protocols") {
		r.Protocols = nil
	}
	return r
}

func (s *stage) sync(a args) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = int16(a.number("v", 5))
	r.Group = a.text("group", "g")
	r.MemberID, r.InstanceID, r.Generation = s.id(a.first()), a.optional("instance"), int32(a.number("generation", 1))
	r.ProtocolType, r.Protocol = kmsg.StringPtr(a.text("type", "consumer")), kmsg.StringPtr(a.text("protocol", "range"))
	if a.flag("no-protocol") {
		r.ProtocolType, r.Protocol = nil, nil
	}
	for _, g := range a.list("assign") {
		who, what, _ := strings.Cut(g, "=")
		as := kmsg.NewSyncGroupRequestGroupAssignment()
		as.MemberID, as.MemberAssignment = s.id(who), []byte(what)
		r.GroupAssignment = append(r.GroupAssignment, as)
	}
	return r
}

func (s *stage) leave(a args) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version = int16(a.number("v", 5))
	r.Group = a.text("group", "g")
	who := a.listOr("members", a.first())
	if r.Version < 3 {
		r.MemberID = s.id(who[0])
		return r
	}
	for _, w := range who {
		id, instance, static := strings.Cut(w, "@")
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = s.id(id)
		if static {
			m.InstanceID = &instance
		}
		r.Members = append(r.Members, m)
	}
	return r
}

// offsets are written t-0=5, with /text for metadata.
func (a args) offsets(do func(topic string, partition int32, offset int64, metadata *string)) {
	for _, o := range a.list("offsets") {
		tp, what, _ := strings.Cut(o, "=")
		at, text, has := strings.Cut(what, "/")
		topic, p := topicPartition(tp)
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			a.t.Fatal(err)
		}
		var metadata *string
		if has {
			if size, ok := strings.CutPrefix(text, "x"); ok {
				if n, err := strconv.Atoi(size); err == nil {
					text = strings.Repeat("ä", n)
				}
			}
			metadata = &text
		}
		do(topic, p, n, metadata)
	}
}

func (s *stage) commit(a args) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version = int16(a.number("v", 9))
	r.Group = a.text("group", "g")
	r.MemberID, r.InstanceID, r.Generation = s.id(a.text("member", "")), a.optional("instance"), int32(a.number("generation", -1))
	r.RetentionTimeMillis = -1
	if d := a.duration("keep", 0); d != 0 {
		r.RetentionTimeMillis = d.Milliseconds()
	}
	a.offsets(func(topic string, p int32, at int64, metadata *string) {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic, s.topicID(topic)
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p, at, metadata
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
	})
	return r
}

func (s *stage) txnCommit(a args) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.Version = 4
	r.Group = a.text("group", "g")
	r.ProducerID = int64(a.number("producer", 7))
	r.MemberID, r.InstanceID, r.Generation = s.id(a.text("member", "")), a.optional("instance"), int32(a.number("generation", -1))
	a.offsets(func(topic string, p int32, at int64, metadata *string) {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = topic, s.topicID(topic)
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p, at, metadata
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
	})
	return r
}

func (s *stage) fetch(a args) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version = int16(a.number("v", 9))
	r.RequireStable = a.flag("stable")
	wanted := a.list("offsets")
	if r.Version < 8 {
		r.Group = a.text("group", "g")
		for _, tp := range wanted {
			topic, p := topicPartition(tp)
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = topic, []int32{p}
			r.Topics = append(r.Topics, rt)
		}
		return r
	}
	for _, g := range a.listOr("group", "g") {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = g
		for _, tp := range wanted {
			topic, p := topicPartition(tp)
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic, rt.TopicID, rt.Partitions = topic, s.topicID(topic), []int32{p}
			rg.Topics = append(rg.Topics, rt)
		}
		r.Groups = append(r.Groups, rg)
	}
	return r
}

// topics changes the image: create=(...) and delete=(...).
func (s *stage) topics(a args) {
	var recs []records.Metadata
	was := s.w.image
	if was == nil {
		was = image.New()
	}
	s.meta++
	for _, name := range a.list("delete") {
		recs = append(recs, &records.RemoveTopicRecord{TopicId: was.TopicByName(name).ID})
	}
	for _, name := range a.list("create") {
		id := [16]byte{0: byte(s.meta), 15: name[0]}
		recs = append(recs, &records.TopicRecord{Name: name, TopicId: id})
		p := records.NewPartitionRecord()
		p.TopicId, p.PartitionId, p.Replicas, p.Isr, p.Leader, p.LeaderEpoch, p.PartitionEpoch = id, 0, []int32{1}, []int32{1}, 1, 0, 0
		recs = append(recs, p)
	}
	img, delta := was.Apply(s.meta, recs)
	s.w.image = img
	if a.flag("unseen") {
		return // while nobody led the partition
	}
	s.w.tell(machine.ImageChanged{Image: img, Delta: delta})
}

func (s *stage) topicID(name string) [16]byte {
	if s.w.image != nil {
		if t := s.w.image.TopicByName(name); t != nil {
			return t.ID
		}
	}
	return [16]byte{}
}

func topicPartition(tp string) (string, int32) {
	topic, p, _ := strings.Cut(tp, "-")
	n, err := strconv.ParseInt(p, 10, 32)
	if err != nil {
		panic(err)
	}
	return topic, int32(n)
}

func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, topics
	return m.AppendTo(nil)
}

// Member ids: a#1 in a transcript is a-00000000-0000-4000-8000-000000000001.
var madeID = regexp.MustCompile(`(\w+)-00000000-0000-4000-8000-0000000000([0-9a-f]{2})`)

func (s *stage) id(short string) string {
	name, n, ok := strings.Cut(short, "#")
	if !ok {
		return short
	}
	i, err := strconv.Atoi(n)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%s-00000000-0000-4000-8000-0000000000%02x", name, i)
}

func short(text string) string {
	return madeID.ReplaceAllStringFunc(text, func(id string) string {
		m := madeID.FindStringSubmatch(id)
		n, _ := strconv.ParseInt(m[2], 16, 32)
		return fmt.Sprintf("%s#%d", m[1], n)
	})
}

func codeName(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.ErrorForCode(code).(*kerr.Error).Message
}

// at is the time of what happens, where that is not the time of the command.
func (s *stage) clock() string {
	return fmt.Sprintf("%6.1fs  ", s.w.now.Sub(epoch).Seconds())
}

func (s *stage) record(rec machine.Record) {
	k, _ := records.DecodeKey(rec.Key)
	v, _ := records.DecodeValue(k, rec.Value)
	under := ""
	if rec.Producer != nil {
		under = fmt.Sprintf(" in the transaction of producer %d", rec.Producer.ID)
	}
	switch k := k.(type) {
	case *records.GroupMetadataKey:
		value, _ := v.(*records.GroupMetadataValue)
		if value == nil {
			s.say("%slog: group %s is gone", s.clock(), k.Group)
			return
		}
		var ms []string
		for _, m := range value.Members {
			at := ""
			if m.GroupInstanceId != nil {
				at = "@" + *m.GroupInstanceId
			}
			ms = append(ms, short(m.MemberId)+at+"="+string(m.Assignment))
		}
		s.say("%slog: group %s type=%q generation=%d protocol=%s leader=%s since=%.1fs members=%v", s.clock(), k.Group, value.ProtocolType,
			value.Generation, orNull(value.Protocol), short(orNull(value.Leader)), time.UnixMilli(value.CurrentStateTimestamp).Sub(epoch).Seconds(), ms)
	case *records.OffsetCommitKey:
		value, _ := v.(*records.OffsetCommitValue)
		if value == nil {
			s.say("%slog: group %s forgets %s-%d%s", s.clock(), k.Group, k.Topic, k.Partition, under)
			return
		}
		expires := ""
		if value.ExpireTimestamp != -1 {
			expires = fmt.Sprintf(" until %.1fs", time.UnixMilli(value.ExpireTimestamp).Sub(epoch).Seconds())
		}
		s.say("%slog: group %s commits %s-%d=%d%s%s (version %d)", s.clock(), k.Group, k.Topic, k.Partition, value.Offset, expires, under, rec.Value[1])
	}
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// args reads the arguments of a command. A command's first argument may be a
// name, without a value.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) arg(key string) *datadriven.CmdArg {
	for i := range a.d.CmdArgs {
		if c := &a.d.CmdArgs[i]; c.Key == key && len(c.Vals) > 0 {
			return c
		}
	}
	return nil
}

func (a args) first() string {
	if len(a.d.CmdArgs) > 0 && len(a.d.CmdArgs[0].Vals) == 0 {
		return a.d.CmdArgs[0].Key
	}
	return "somebody"
}

func (a args) flag(key string) bool {
	for _, c := range a.d.CmdArgs {
		if c.Key == key && len(c.Vals) == 0 {
			return true
		}
	}
	return false
}

func (a args) list(key string) []string {
	if c := a.arg(key); c != nil {
		return c.Vals
	}
	return nil
}

func (a args) listOr(key, other string) []string {
	if l := a.list(key); l != nil {
		return l
	}
	return []string{other}
}

func (a args) text(key, other string) string { return a.listOr(key, other)[0] }

func (a args) optional(key string) *string {
	if c := a.arg(key); c != nil {
		return &c.Vals[0]
	}
	return nil
}

func (a args) number(key string, other int) int {
	n, err := strconv.Atoi(a.text(key, strconv.Itoa(other)))
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a args) duration(key string, other time.Duration) time.Duration {
	d, err := time.ParseDuration(a.text(key, other.String()))
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

// known are all argument names, so that a misspelt one fails.
var known = "group v client member instance session rebalance type protocols no-protocols generation protocol no-protocol assign members offsets " +
	"keep producer commit stable states types create delete unseen delay max-size retention as g "

func (a args) done() {
	for i, c := range a.d.CmdArgs {
		if (i > 0 || len(c.Vals) > 0) && !strings.Contains(" "+known, " "+c.Key+" ") {
			a.d.Fatalf(a.t, "no such argument: %s", c.Key)
		}
	}
}
