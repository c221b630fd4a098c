package brokertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inFile is the effect of a server property that cannot be changed at runtime.
func inFile(key, value string, without, with string, see func(s *shown) string) effect {
	return effect{static: map[string]string{key: value}, see: see, without: without, with: with}
}

// word is an error's name, or "fine".
func word(code int16) string {
	if code == 0 {
		return "fine"
	}
	return kerr.TypedErrorForCode(code).Message
}

func (s *shown) ask(req kmsg.Request) kmsg.Response {
	s.Helper()
	resp, err := s.raw.Broker(int(s.n.Info.NodeID)).Request(context.Background(), req)
	if err != nil {
		s.Fatal(err)
	}
	return resp
}

func TestTopicDefaultConfigs(t *testing.T) {
	created := func(s *shown) string {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = true
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr("made")
		req.Topics = append(req.Topics, t)
		got := s.ask(req).(*kmsg.MetadataResponse).Topics[0]
		return fmt.Sprintf("%s, %d partitions", word(got.ErrorCode), len(got.Partitions))
	}
	levels(t, []effect{
		inFile("num.partitions", "3", "fine, 1 partitions", "fine, 3 partitions", created),
		inFile("auto.create.topics.enable", "false", "fine, 1 partitions", "UNKNOWN_TOPIC_OR_PARTITION, 0 partitions", created),
		inFile("delete.topic.enable", "false", "fine", "TOPIC_DELETION_DISABLED", func(s *shown) string {
			got, err := s.adm.DeleteTopics(context.Background(), "events")
			if err != nil {
				s.Fatal(err)
			}
			if got["events"].Err == nil {
				return "fine"
			}
			return got["events"].Err.(*kerr.Error).Message
		}),
	})
}

// join has a member join a group, with the id it was given, and says with what
// outcome, and after how long.
func (s *shown) join(group string, session int32) (string, time.Duration) {
	s.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, session, 10000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
	begin := time.Now()
	got := s.ask(req).(*kmsg.JoinGroupResponse)
	if got.ErrorCode == kerr.MemberIDRequired.Code {
		req.MemberID = got.MemberID
		got = s.ask(req).(*kmsg.JoinGroupResponse)
	}
	return word(got.ErrorCode), time.Since(begin)
}

func TestGroupConfigs(t *testing.T) {
	joined := func(s *shown) string { outcome, _ := s.join("readers", 10000); return outcome }
	levels(t, []effect{
		inFile("group.min.session.timeout.ms", "20000", "fine", "INVALID_SESSION_TIMEOUT", joined),
		inFile("group.max.session.timeout.ms", "8000", "fine", "INVALID_SESSION_TIMEOUT", joined),
		inFile("group.initial.rebalance.delay.ms", "5000", "fine after 0s", "fine after 5s", func(s *shown) string {
			outcome, after := s.join("readers", 10000)
			return fmt.Sprintf("%s after %s", outcome, after)
		}),
		inFile("group.max.size", "1", "fine, then fine", "fine, then GROUP_MAX_SIZE_REACHED", func(s *shown) string {
			first, _ := s.join("readers", 10000)
			second, _ := s.join("readers", 10000)
			return first + ", then " + second
		}),
	})
}

// commit stores an offset of a group without members.
func (s *shown) commit(group, metadata string) string {
	s.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "events"
	meta, err := s.adm.Metadata(context.Background(), "events")
	if err != nil {
		s.Fatal(err)
	}
	t.TopicID = meta.Topics["events"].ID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = 7, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return word(s.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

func (s *shown) committed(group string) string {
	s.Helper()
	got, err := s.adm.FetchOffsets(context.Background(), group)
	if err != nil {
		s.Fatal(err)
	}
	o, ok := got.Lookup("events", 0)
	return map[bool]string{true: fmt.Sprintf("at %d", o.At), false: "nothing"}[ok]
}

// groupLog is where the only group's offsets are stored.
func (s *shown) groupLog() string {
	s.Helper()
	for p := range 4 {
		name := fmt.Sprintf("/data/__consumer_offsets-%d/00000000000000000000.log", p)
		if len(s.n.Disk.Bytes(name)) > 0 {
			return name
		}
	}
	s.Fatal("no offsets are stored")
	return ""
}

func TestOffsetConfigs(t *testing.T) {
	const attributes = 22
	levels(t, []effect{
		inFile("offset.metadata.max.bytes", "3", "fine", "OFFSET_METADATA_TOO_LARGE", func(s *shown) string { return s.commit("readers", "four") }),
		inFile("offsets.topic.num.partitions", "3", "4 partitions", "3 partitions", func(s *shown) string {
			s.commit("readers", "")
			got, err := s.adm.ListTopicsWithInternal(context.Background(), "__consumer_offsets")
			if err != nil {
				s.Fatal(err)
			}
			return fmt.Sprintf("%d partitions", len(got["__consumer_offsets"].Partitions))
		}),
		inFile("offsets.topic.segment.bytes", "2000000", "104857600", "2000000", func(s *shown) string {
			s.commit("readers", "")
			got, err := s.adm.DescribeTopicConfigs(context.Background(), "__consumer_offsets")
			if err != nil {
				s.Fatal(err)
			}
			for _, c := range got[0].Configs {
				if c.Key == "segment.bytes" {
					return *c.Value
				}
			}
			return "not shown"
		}),
		inFile("offsets.topic.compression.codec", "1", "codec 0, then at 7", "codec 1, then at 7", func(s *shown) string {
			s.commit("readers", "")
			stored := fmt.Sprintf("codec %d", s.n.Disk.Bytes(s.groupLog())[attributes]&7)
			s.n.Kill()
			s.n.Start()
			return stored + ", then " + s.committed("readers")
		}),
		inFile("offsets.load.buffer.size", "1", "at 7, few reads", "at 7, many reads", func(s *shown) string {
			for range 200 {
				s.commit("readers", "")
			}
			name := s.groupLog()
			s.n.Stop()
			reads := 0
			s.n.Disk.Refuse(func(op, at string) error {
				if op == "read" && at == name {
					reads++
				}
				return nil
			})
			s.n.Start()
			return s.committed("readers") + map[bool]string{true: ", many reads", false: ", few reads"}[reads > 200]
		}),
		{static: map[string]string{"offsets.retention.minutes": "60"}, see: func(s *shown) string {
			s.commit("readers", "")
			time.Sleep(2 * time.Hour)
			return s.committed("readers")
		}, without: "at 7", with: "nothing"},
	})
	for _, c := range []struct{ interval, want string }{{"3600000", "at 7"}, {"60000", "nothing"}} {
		e := effect{see: func(s *shown) string {
			s.commit("readers", "")
			time.Sleep(20 * time.Minute)
			return s.committed("readers")
		}}
		e.level(t, "offsets.retention.check.interval.ms="+c.interval, map[string]string{"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": c.interval}, c.want)
	}
}

func TestProducerConfigs(t *testing.T) {
	for _, c := range []struct{ interval, want string }{{"600000", "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {"1000", "fine"}} {
		e := effect{see: func(s *shown) string {
			s.fill(1, 10)
			id, _, err := s.c.ProducerID(context.Background())
			if err != nil {
				s.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if err := produceSequence(s.n, s.c, "events", id, 1000); err != nil {
				return err.(*kerr.Error).Message
			}
			return "fine"
		}}
		e.level(t, "producer.id.expiration.check.interval.ms="+c.interval, map[string]string{"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": c.interval}, c.want)
	}
}

func (s *shown) fetchOnce() *kmsg.FetchResponse {
	s.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.SessionID, req.SessionEpoch = 50<<20, 1, 0, 0
	meta, err := s.adm.Metadata(context.Background(), "events")
	if err != nil {
		s.Fatal(err)
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = "events", meta.Topics["events"].ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 50 << 20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return s.ask(req).(*kmsg.FetchResponse)
}

func TestFetchConfigs(t *testing.T) {
	levels(t, []effect{
		inFile("fetch.max.bytes", "1024", "all", "a part", func(s *shown) string {
			s.fill(10, 1000)
			got := len(s.fetchOnce().Topics[0].Partitions[0].RecordBatches)
			return map[bool]string{true: "all", false: "a part"}[got >= 10000]
		}),
		inFile("max.incremental.fetch.session.cache.slots", "0", "a session", "no session", func(s *shown) string {
			s.fill(1, 10)
			return map[bool]string{true: "a session", false: "no session"}[s.fetchOnce().SessionID != 0]
		}),
	})
}

// versions asks for the API versions on a connection of its own and leaves it
// open. It is false if no answer comes within a second.
func (s *shown) versions() (answered bool) {
	s.Helper()
	nc, err := s.n.Net.Dial(context.Background(), "tcp", "broker:9092")
	if err != nil {
		return false
	}
	s.Cleanup(func() { nc.Close() })
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	if _, err := nc.Write(frame); err != nil {
		return false
	}
	nc.SetReadDeadline(time.Now().Add(time.Second))
	_, err = io.ReadFull(nc, make([]byte, 4))
	return err == nil
}

// many opens so many connections and says how many of them are served.
func (s *shown) many(n int) int {
	served := 0
	for range n {
		if s.versions() {
			served++
		}
	}
	return served
}

func TestConnectionConfigs(t *testing.T) {
	few := func(s *shown) string {
		return map[bool]string{true: "all served", false: "not all served"}[s.many(20) == 20]
	}
	var effects []effect
	for key, value := range map[string]string{
		"max.connections": "10", "max.connections.per.ip": "10", "max.connections.per.ip.overrides": "10.0.0.2:10",
		"max.connection.creation.rate":                         "1",
		"listener.name.plaintext.max.connections":              "10",
		"listener.name.plaintext.max.connection.creation.rate": "1",
	} {
		e := effect{broker: key, value: value, see: few, without: "all served", with: "not all served"}
		if strings.HasPrefix(key, "listener.name.") {
			// A single listener's is a broker's own.
			e.level(t, ", not set", nil, e.without)
			e.level(t, ", of the broker", nil, e.with)
			e.level(t, ", in the file", map[string]string{key: value}, e.with)
			continue
		}
		effects = append(effects, e)
	}
	levels(t, effects)
	levels(t, []effect{
		inFile("connections.max.idle.ms", "10000", "open", "closed", func(s *shown) string {
			nc, err := s.n.Net.Dial(context.Background(), "tcp", "broker:9092")
			if err != nil {
				s.Fatal(err)
			}
			defer nc.Close()
			nc.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err = nc.Read(make([]byte, 1)); err == io.EOF {
				return "closed"
			}
			return "open"
		}),
		inFile("socket.request.max.bytes", "1000", "open", "closed", func(s *shown) string {
			nc, err := s.n.Net.Dial(context.Background(), "tcp", "broker:9092")
			if err != nil {
				s.Fatal(err)
			}
			defer nc.Close()
			if _, err := nc.Write(binary.BigEndian.AppendUint32(nil, 2000)); err != nil {
				s.Fatal(err)
			}
			nc.SetReadDeadline(time.Now().Add(time.Second))
			if _, err = nc.Read(make([]byte, 1)); err == io.EOF {
				return "closed"
			}
			return "open"
		}),
	})
}

// What a checkpoint says after twenty seconds, by how often it is written.
func TestCheckpointConfigs(t *testing.T) {
	says := func(file string, prepare func(s *shown)) func(s *shown) string {
		return func(s *shown) string {
			time.Sleep(2 * time.Second) // the first look at the files
			prepare(s)
			time.Sleep(20 * time.Second)
			for _, line := range strings.Split(string(s.n.Disk.Bytes("/data/"+file)), "\n") {
				if strings.HasPrefix(line, "events 0 ") {
					return line
				}
			}
			return "nothing"
		}
	}
	three := func(s *shown) { s.fill(3, 10) }
	late := says("recovery-point-offset-checkpoint", three)
	recovery := inFile("log.flush.offset.checkpoint.interval.ms", "5000", "nothing", "events 0 3", late)
	recovery.beside = map[string]string{"flush.messages": "1"}
	levels(t, []effect{recovery,
		inFile("replica.high.watermark.checkpoint.interval.ms", "60000", "events 0 3", "nothing", says("replication-offset-checkpoint", three))})
}

// A start opens so many logs at a time in each data directory.
func TestRecoveryThreads(t *testing.T) {
	took := func(threads string) (d time.Duration) {
		bubble(t, map[string]string{"num.recovery.threads.per.data.dir": threads, "num.partitions": "12"}, func(t *testing.T, n *Node) {
			c := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			makeTopic(t, n, c, "t", 12)
			writeEach(t, n, "t", 12)
			n.Kill()
			n.Disk.Slow(func(name string) time.Duration {
				if strings.HasPrefix(name, "/data/t-") && strings.HasSuffix(name, ".log") {
					return time.Second
				}
				return 0
			})
			begun := time.Now()
			n.Start()
			d = time.Since(begun)
			n.Disk.Slow(nil)
		})
		return d
	}
	one, three := took("1"), took("3")
	if one < 12*time.Second || three > one/2 {
		t.Errorf("one at a time takes %v, three at a time %v", one, three)
	}
}

// A broker that is heard of less often than its session allows is fenced
// meanwhile.
func TestSessionConfigs(t *testing.T) {
	for _, c := range []struct{ interval, session, want string }{{"2000", "9000", "never fenced"}, {"2000", "1000", "fenced"}, {"20000", "9000", "fenced"}} {
		t.Run(c.interval+" "+c.session, func(t *testing.T) {
			bubble(t, map[string]string{"broker.heartbeat.interval.ms": c.interval, "broker.session.timeout.ms": c.session}, func(t *testing.T, n *Node) {
				s := newShown(t, n)
				s.ask(kmsg.NewPtrApiVersionsRequest())
				saw := "never fenced"
				for range 300 {
					time.Sleep(100 * time.Millisecond)
					req := kmsg.NewPtrDescribeClusterRequest()
					req.IncludeFencedBrokers = true
					for _, b := range s.ask(req).(*kmsg.DescribeClusterResponse).Brokers {
						if b.IsFenced {
							saw = "fenced"
						}
					}
				}
				if saw != c.want {
					t.Errorf("it was %s, not %s", saw, c.want)
				}
			})
		})
	}
}

func TestIdentityConfigs(t *testing.T) {
	told := func(s *shown) string {
		b := s.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse).Brokers[0]
		rack := "no rack"
		if b.Rack != nil {
			rack = *b.Rack
		}
		return fmt.Sprintf("%d, %s", b.NodeID, rack)
	}
	levels(t, []effect{
		inFile("broker.rack", "r7", "1, no rack", "1, r7", told),
		inFile("node.id", "7", "1, no rack", "7, no rack", told),
		inFile("broker.id", "7", "1, no rack", "7, no rack", told),
	})
}
