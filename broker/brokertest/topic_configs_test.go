package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shown is a node with a topic "events" of one partition, in which the effect of
// a config is looked for.
type shown struct {
	*testing.T
	n   *Node
	c   *kgo.Client // to produce with
	raw *kgo.Client // for everything else, as is adm
	adm *kadm.Client
}

func newShown(t *testing.T, n *Node) *shown {
	raw := n.Client()
	return &shown{T: t, n: n, c: n.Client(kgo.ProducerBatchCompression(kgo.NoCompression())), raw: raw, adm: kadm.NewClient(raw)}
}

// set changes a config of a topic (by its name), of this broker ("1"), or of all
// brokers ("").
func (s *shown) set(resource, key, value string) {
	s.Helper()
	list := []kadm.AlterConfig{{Name: key, Value: &value}}
	var got kadm.AlterConfigsResponses
	var err error
	switch resource {
	case "":
		got, err = s.adm.AlterBrokerConfigs(context.Background(), list)
	case "1":
		got, err = s.adm.AlterBrokerConfigs(context.Background(), list, 1)
	default:
		got, err = s.adm.AlterTopicConfigs(context.Background(), list, resource)
	}
	if err != nil || got[0].Err != nil {
		s.Fatalf("setting %s of %q to %q: %v, %v", key, resource, value, err, got)
	}
}

// produce sends one record as a batch of its own.
func (s *shown) produce(r kgo.Record) error {
	r.Topic = "events"
	err := s.c.ProduceSync(context.Background(), &r).FirstErr()
	if err != nil {
		s.c.Close() // an idempotent producer that was refused begins anew
		s.c = s.n.Client(kgo.MaxBufferedRecords(1), kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	return err
}

func (s *shown) fill(records, size int) {
	s.Helper()
	for range records {
		if err := s.produce(kgo.Record{Value: make([]byte, size)}); err != nil {
			s.Fatal(err)
		}
	}
}

// files counts the partition's files with a suffix.
func (s *shown) files(suffix string) int {
	list, err := s.n.Disk.ReadDir("/data/events-0")
	if err != nil {
		s.Fatal(err)
	}
	count := 0
	for _, e := range list {
		if strings.HasSuffix(e.Name, suffix) {
			count++
		}
	}
	return count
}

func (s *shown) segments() string { return fmt.Sprintf("%d segments", s.files(".log")) }

// left is how many records the log still has.
func (s *shown) left() string {
	s.Helper()
	start, err := s.adm.ListStartOffsets(context.Background(), "events")
	if err != nil {
		s.Fatal(err)
	}
	end, err := s.adm.ListEndOffsets(context.Background(), "events")
	if err != nil {
		s.Fatal(err)
	}
	from, _ := start.Lookup("events", 0)
	to, _ := end.Lookup("events", 0)
	return fmt.Sprintf("%d left", to.Offset-from.Offset)
}

// stored are the bytes of the first segment.
func (s *shown) stored() []byte { return s.n.Disk.Bytes("/data/events-0/00000000000000000000.log") }

// text is something that compresses.
func text(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, "%s %d ", []string{"order", "payment", "customer", "shipment", "invoice"}[r.IntN(5)], r.IntN(3000))
	}
	return b.Bytes()[:size]
}

// effect is what a topic config does, seen from outside.
type effect struct {
	topic, broker string // the config's two names
	value         string
	static        map[string]string // server properties that mean the same as the value
	beside        map[string]string // the topic's other configs
	see           func(s *shown) string
	without, with string // what is seen
}

func (e *effect) level(t *testing.T, level string, props map[string]string, want string) {
	t.Run(e.topic+e.broker+level, func(t *testing.T) {
		bubble(t, props, func(t *testing.T, n *Node) {
			s := newShown(t, n)
			configs := map[string]*string{}
			for k, v := range e.beside {
				configs[k] = &v
			}
			if _, err := s.adm.CreateTopic(context.Background(), 1, 1, configs, "events"); err != nil {
				t.Fatal(err)
			}
			switch level {
			case ", of the topic":
				s.set("events", e.topic, e.value)
			case ", of the broker":
				s.set("1", e.broker, e.value)
			case ", of the cluster":
				s.set("", e.broker, e.value)
			}
			if got := e.see(s); got != want {
				t.Errorf("seen: %s; want: %s", got, want)
			}
			s.c.Close()
		})
	})
}

// levels looks at a config where nobody sets it, and where it is set on a running
// broker at each level, and in the file.
func levels(t *testing.T, effects []effect) {
	for _, e := range effects {
		e.level(t, ", not set", nil, e.without)
		if e.topic != "" {
			e.level(t, ", of the topic", nil, e.with)
		}
		if e.broker != "" {
			e.level(t, ", of the broker", nil, e.with)
			e.level(t, ", of the cluster", nil, e.with)
			e.level(t, ", in the file", map[string]string{e.broker: e.value}, e.with)
		}
		for key, value := range e.static {
			e.level(t, ", as "+key, map[string]string{key: value}, e.with)
		}
	}
}

func TestRetentionConfigs(t *testing.T) {
	small := map[string]string{"internal.segment.bytes": "200"}
	levels(t, []effect{
		{topic: "retention.ms", broker: "log.retention.ms", value: "3600000", static: map[string]string{"log.retention.minutes": "60", "log.retention.hours": "1"},
			see: func(s *shown) string {
				s.fill(3, 100)
				time.Sleep(50 * time.Minute)
				early := s.left()
				time.Sleep(20 * time.Minute)
				return early + ", then " + s.left()
			}, without: "3 left, then 3 left", with: "3 left, then 0 left"},
		{topic: "retention.bytes", broker: "log.retention.bytes", value: "400", beside: small,
			see: func(s *shown) string {
				s.fill(10, 100)
				time.Sleep(10 * time.Minute)
				return s.left()
			}, without: "10 left", with: "3 left"},
		{topic: "cleanup.policy", broker: "log.cleanup.policy", value: "compact", beside: map[string]string{"retention.ms": "1000"},
			see: func(s *shown) string {
				for range 3 {
					if err := s.produce(kgo.Record{Key: []byte("k"), Value: []byte("v")}); err != nil {
						s.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				return s.left()
			}, without: "0 left", with: "3 left"},
		// Without a policy nothing goes by time or size, and what is below the log start goes all the same.
		{topic: "cleanup.policy", broker: "log.cleanup.policy", value: "", beside: map[string]string{"retention.ms": "1000", "retention.bytes": "200", "internal.segment.bytes": "200"},
			see: func(s *shown) string {
				s.fill(6, 100)
				time.Sleep(10 * time.Minute)
				early := s.left() + " in " + s.segments()
				if _, err := s.adm.DeleteRecords(context.Background(), kadm.Offsets{"events": {0: {Topic: "events", At: 2}}}); err != nil {
					s.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				return early + ", then in " + s.segments()
			}, without: "0 left in 1 segments, then in 1 segments", with: "6 left in 6 segments, then in 4 segments"},
		{topic: "file.delete.delay.ms", broker: "log.segment.delete.delay.ms", value: "600000", beside: map[string]string{"retention.ms": "1000"},
			see: func(s *shown) string {
				s.fill(1, 100)
				// The first look is after half a minute; a minute is the default delay.
				time.Sleep(35 * time.Second)
				early := s.files(".log.deleted")
				time.Sleep(3 * time.Minute)
				return fmt.Sprintf("%d deleted, then %d", early, s.files(".log.deleted"))
			}, without: "1 deleted, then 0", with: "1 deleted, then 1"},
		{static: map[string]string{"log.retention.check.interval.ms": "60000"}, beside: map[string]string{"retention.ms": "60000"},
			see: func(s *shown) string {
				time.Sleep(31 * time.Second) // the first look
				s.fill(1, 100)
				time.Sleep(121 * time.Second)
				return s.left()
			}, without: "1 left", with: "0 left"},
		{static: map[string]string{"log.initial.task.delay.ms": "5000"}, beside: map[string]string{"retention.ms": "1000"},
			see: func(s *shown) string {
				s.fill(1, 100)
				time.Sleep(10 * time.Second)
				return s.left()
			}, without: "1 left", with: "0 left"},
	})
}

func TestSegmentConfigs(t *testing.T) {
	levels(t, []effect{
		{topic: "segment.bytes", broker: "log.segment.bytes", value: "1048576", see: func(s *shown) string {
			s.fill(3, 600000)
			return s.segments()
		}, without: "1 segments", with: "3 segments"},
		{topic: "internal.segment.bytes", value: "300", see: func(s *shown) string {
			s.fill(3, 200)
			return s.segments()
		}, without: "1 segments", with: "3 segments"},
		{topic: "preallocate", broker: "log.preallocate", value: "true", see: func(s *shown) string {
			s.fill(1, 10)
			const name = "/data/events-0/00000000000000000000.log"
			return fmt.Sprintf("room for %d, length below 1000: %v", s.n.Disk.Reserved(name), len(s.stored()) < 1000)
		}, without: "room for 0, length below 1000: true", with: "room for 1073741824, length below 1000: true"},
		{topic: "segment.ms", broker: "log.roll.ms", value: "3600000", static: map[string]string{"log.roll.hours": "1"}, see: func(s *shown) string {
			s.fill(1, 10)
			time.Sleep(50 * time.Minute)
			s.fill(1, 10)
			early := s.segments()
			time.Sleep(20 * time.Minute)
			s.fill(1, 10)
			return early + ", then " + s.segments()
		}, without: "1 segments, then 1 segments", with: "1 segments, then 2 segments"},
		{topic: "segment.jitter.ms", broker: "log.roll.jitter.ms", value: "60000", static: map[string]string{"log.roll.jitter.hours": "1"},
			beside: map[string]string{"segment.ms": "60000"}, see: func(s *shown) string {
				// Twenty minutes less a bit, each with a chance of one in some hundreds to be
				// whole in spite of the jitter.
				for range 20 {
					s.fill(1, 10)
					time.Sleep(59*time.Second + 800*time.Millisecond)
				}
				return map[bool]string{true: "rolls early", false: "rolls in time"}[s.files(".log") > 12]
			}, without: "rolls in time", with: "rolls early"},
		// The first segment has the indexes that it was opened with, as in Kafka.
		{topic: "segment.index.bytes", broker: "log.index.size.max.bytes", value: "24", beside: map[string]string{"index.interval.bytes": "1", "internal.segment.bytes": "1000"}, see: func(s *shown) string {
			s.fill(20, 100)
			return map[bool]string{true: "rolled oftener", false: "rolled at 1000 bytes"}[s.files(".log") > 6]
		}, without: "rolled at 1000 bytes", with: "rolled oftener"},
		{topic: "index.interval.bytes", broker: "log.index.interval.bytes", value: "1", beside: map[string]string{"segment.index.bytes": "24"}, see: func(s *shown) string {
			s.fill(10, 100)
			return map[bool]string{true: "rolled", false: "1 segment"}[s.files(".log") > 1]
		}, without: "1 segment", with: "rolled"},
	})
}

func TestFlushConfigs(t *testing.T) {
	synced := func(s *shown) string {
		for _, op := range s.n.Disk.Done() {
			if strings.HasPrefix(op, "sync /data/events-0/00000000000000000000.log") {
				return "synced"
			}
		}
		return "not synced"
	}
	levels(t, []effect{
		{topic: "flush.messages", broker: "log.flush.interval.messages", value: "3", see: func(s *shown) string {
			s.n.Disk.Trace()
			s.fill(2, 10)
			early := synced(s)
			s.fill(1, 10)
			return early + ", then " + synced(s)
		}, without: "not synced, then not synced", with: "not synced, then synced"},
		{topic: "flush.ms", broker: "log.flush.interval.ms", value: "60000", static: map[string]string{"log.flush.scheduler.interval.ms": "60000"}, see: func(s *shown) string {
			s.n.Disk.Trace()
			s.fill(1, 10)
			time.Sleep(50 * time.Second)
			early := synced(s)
			time.Sleep(15 * time.Second)
			return early + ", then " + synced(s)
		}, without: "not synced, then not synced", with: "not synced, then synced"},
	})
}

func TestMessageConfigs(t *testing.T) {
	named := func(err error) string {
		if err == nil {
			return "taken"
		}
		if code := new(kerr.Error); errors.As(err, &code) {
			return code.Message
		}
		return err.Error()
	}
	sent := func(at time.Duration) func(s *shown) string {
		return func(s *shown) string { return named(s.produce(kgo.Record{Timestamp: time.Now().Add(at)})) }
	}
	levels(t, []effect{
		{topic: "max.message.bytes", broker: "message.max.bytes", value: "1000", see: func(s *shown) string {
			return named(s.produce(kgo.Record{Value: make([]byte, 900)})) + ", " + named(s.produce(kgo.Record{Value: make([]byte, 1000)}))
		}, without: "taken, taken", with: "taken, MESSAGE_TOO_LARGE"},
		{topic: "max.decompressed.message.bytes", broker: "max.decompressed.message.bytes", value: "1000", see: func(s *shown) string {
			s.c.Close()
			s.c = s.n.Client(kgo.ProducerBatchCompression(kgo.GzipCompression()))
			return named(s.produce(kgo.Record{Value: make([]byte, 900)})) + ", " + map[bool]string{true: "taken", false: "refused"}[s.produce(kgo.Record{Value: make([]byte, 100000)}) == nil]
		}, without: "taken, taken", with: "taken, refused"},
		{topic: "message.timestamp.after.max.ms", broker: "log.message.timestamp.after.max.ms", value: "60000", see: sent(30 * time.Minute), without: "taken", with: "INVALID_TIMESTAMP"},
		{topic: "message.timestamp.before.max.ms", broker: "log.message.timestamp.before.max.ms", value: "60000", see: sent(-30 * time.Minute), without: "taken", with: "INVALID_TIMESTAMP"},
		{topic: "message.timestamp.type", broker: "log.message.timestamp.type", value: "LogAppendTime", see: func(s *shown) string {
			if err := s.produce(kgo.Record{Timestamp: time.Now().Add(-time.Minute)}); err != nil {
				s.Fatal(err)
			}
			c := s.n.Client(kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			defer c.Close()
			r := Consume(s.T, c, 1)[0]
			return fmt.Sprintf("type %d, %s old", r.Attrs.TimestampType(), time.Since(r.Timestamp).Round(time.Minute))
		}, without: "type 0, 1m0s old", with: "type 1, 0s old"},
	})
}

// A topic's compression type says how batches are stored, whatever they came in.
func TestCompressionConfigs(t *testing.T) {
	const attributes = 22
	kind := func(s *shown) string {
		s.c.Close()
		s.c = s.n.Client(kgo.ProducerBatchCompression(kgo.SnappyCompression()))
		if err := s.produce(kgo.Record{Value: text(10000)}); err != nil {
			s.Fatal(err)
		}
		return fmt.Sprintf("codec %d", s.stored()[attributes]&7)
	}
	var effects []effect
	for codec, name := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		effects = append(effects, effect{topic: "compression.type", broker: "compression.type", value: name, see: kind, without: "codec 2", with: fmt.Sprintf("codec %d", codec)})
	}
	size := func(s *shown) string {
		if err := s.produce(kgo.Record{Value: text(200000)}); err != nil {
			s.Fatal(err)
		}
		return fmt.Sprint(len(s.stored()))
	}
	levels(t, effects)
	for _, c := range []struct{ codec, least, most string }{{"gzip", "1", "9"}, {"lz4", "1", "17"}, {"zstd", "1", "19"}} {
		var sizes [2]int
		for i, level := range []string{c.least, c.most} {
			for _, from := range []string{"topic", "broker"} {
				bubble(t, nil, func(t *testing.T, n *Node) {
					s := newShown(t, n)
					if _, err := s.adm.CreateTopic(context.Background(), 1, 1, map[string]*string{"compression.type": kmsg.StringPtr(c.codec)}, "events"); err != nil {
						t.Fatal(err)
					}
					s.set(map[string]string{"topic": "events", "broker": "1"}[from], "compression."+c.codec+".level", level)
					size(s)
					was := sizes[i]
					if sizes[i] = len(s.stored()); was != 0 && was != sizes[i] {
						t.Errorf("%s level %s: %d bytes by the topic's config, %d by the broker's", c.codec, level, was, sizes[i])
					}
				})
			}
		}
		if sizes[0] <= sizes[1] {
			t.Errorf("%s: %d bytes at level %s, %d at %s", c.codec, sizes[0], c.least, sizes[1], c.most)
		}
	}
}
