//go:build compat

package adopt

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// clusterID is the one with which the kafka package formats.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qg"

// topicsOfOurs are what Millrace writes for Kafka to go on with.
var topicsOfOurs = []string{"plain", "packed", "trimmed", "compacted", "txn", "stamped", "washed", "rolled", "sequences", "empty"}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func ours(t *testing.T, dir string) *launch.Broker {
	t.Helper()
	b, err := launch.Start(launch.Options{Dir: dir, Env: []string{"CLUSTER_ID=" + clusterID}, Overrides: []string{
		"offsets.topic.num.partitions=4", "log.cleaner.backoff.ms=200", "log.retention.check.interval.ms=1000", "log.initial.task.delay.ms=100", "offsets.retention.check.interval.ms=500",
	}})
	ok(t, err)
	t.Cleanup(b.Kill)
	return b
}

// sequence is an idempotent producer of one partition whose batches the test makes itself.
type sequence struct {
	topic    string
	producer int64
	epoch    int16
	next     int32
	batches  [][]byte
	bases    []int64
}

func begin(t *testing.T, addr, topic string) *sequence {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, 60000, -1, -1
	r := ask[*kmsg.InitProducerIDResponse](t, conn(t, addr), req)
	if r.ErrorCode != 0 {
		t.Fatalf("InitProducerId: error %d", r.ErrorCode)
	}
	return &sequence{topic: topic, producer: r.ProducerID, epoch: r.ProducerEpoch}
}

// batch is the next one.
func (s *sequence) batch(at int32, values ...string) []byte {
	b := rawBatch{first: time.Now().Add(-time.Hour).UnixMilli(), producer: s.producer, epoch: s.epoch, sequence: at}
	for i, v := range values {
		b.records = append(b.records, record{key: []byte("k"), value: []byte(v), at: int64(i)})
	}
	return b.bytes()
}

func (s *sequence) send(t *testing.T, addr string, values ...string) {
	t.Helper()
	b := s.batch(s.next, values...)
	r := produce(t, conn(t, addr), s.topic, 0, b)
	if r.ErrorCode != 0 {
		t.Fatalf("sequence %d: error %d", s.next, r.ErrorCode)
	}
	s.batches, s.bases, s.next = append(s.batches, b), append(s.bases, r.BaseOffset), s.next+int32(len(values))
}

// goesOn says whether a broker knows what the producer has sent last.
func (s *sequence) goesOn(t *testing.T, addr string) {
	t.Helper()
	c, last := conn(t, addr), len(s.batches)-1
	if r := produce(t, c, s.topic, 0, s.batches[last]); r.ErrorCode != 0 || r.BaseOffset != s.bases[last] {
		t.Errorf("the last batch of producer %d once more: error %d, offset %d, not %d", s.producer, r.ErrorCode, r.BaseOffset, s.bases[last])
	}
	if r := produce(t, c, s.topic, 0, s.batch(s.next+1, "a gap")); r.ErrorCode != 45 {
		t.Errorf("a batch of producer %d behind a gap: error %d, not OUT_OF_ORDER_SEQUENCE_NUMBER", s.producer, r.ErrorCode)
	}
	if r := produce(t, c, s.topic, 0, s.batch(s.next, "more")); r.ErrorCode != 0 {
		t.Errorf("the next batch of producer %d: error %d", s.producer, r.ErrorCode)
	}
}

// fillOurs has Millrace write what Kafka is to read, in two leader epochs.
func fillOurs(t *testing.T, dir string) (*launch.Broker, *sequence) {
	t.Helper()
	ctx, b := t.Context(), ours(t, dir)
	fill(t, b.Bootstrap)
	adm := kadm.NewClient(client(t, b.Bootstrap))
	for topic, configs := range map[string]string{
		"stamped":   "message.timestamp.type=LogAppendTime",
		"washed":    "cleanup.policy=compact segment.bytes=1048576 min.cleanable.dirty.ratio=0.01 delete.retention.ms=100000000",
		"rolled":    "segment.bytes=1048576 index.interval.bytes=1000",
		"sequences": "",
		"empty":     "",
	} {
		set := map[string]*string{}
		for kv := range strings.FieldsSeq(configs) {
			k, v, _ := strings.Cut(kv, "=")
			set[k] = &v
		}
		r, err := adm.CreateTopic(ctx, 1, 1, set, topic)
		ok(t, cmp.Or(err, r.Err))
	}
	s := begin(t, b.Bootstrap, "sequences")
	for i := range 7 {
		s.send(t, b.Bootstrap, fmt.Sprint("value ", i), "another")
	}
	now := time.Now().Add(-time.Hour).UnixMilli()
	c := conn(t, b.Bootstrap)
	put := func(topic string, x rawBatch) {
		t.Helper()
		if r := produce(t, c, topic, 0, x.bytes()); r.ErrorCode != 0 {
			t.Fatalf("%s: error %d", topic, r.ErrorCode)
		}
	}
	for i := range 60 {
		value := bytes.Repeat([]byte{byte('a' + i%20)}, 50_000)
		put("rolled", rawBatch{first: now + int64(i*1000), records: []record{{key: fmt.Append(nil, i), value: value}, {value: []byte("x"), at: -500, headers: []kgo.RecordHeader{{Key: "h"}, {Key: "", Value: []byte{0}}}}}})
		put("stamped", rawBatch{first: now, codec: i % 5, records: []record{{key: []byte("k"), value: []byte("v")}, {value: value[:100], at: 10}}})
		x := rawBatch{first: now + int64(i*1000), codec: max(0, i%8-3), records: []record{{key: fmt.Append(nil, "key ", i%7), value: value}, {key: fmt.Append(nil, "once ", i), value: []byte("stays"), at: 1}, {key: fmt.Append(nil, "key ", (i+3)%7), value: value[:i], at: 2}}}
		if i%10 == 9 {
			x.records = append(x.records, record{key: fmt.Append(nil, "once ", i-1), at: 3}) // a tombstone
		}
		if x.codec > 0 { // what does not shrink
			for j := range 30 {
				x.records[0].value = append(x.records[0].value, fmt.Append(nil, i*j*7919)...)
			}
		}
		put("washed", x)
	}
	// The cleaner has done it when all that may be cleaned was.
	cleaned := regexp.MustCompile(`(?m)^washed 0 [1-9]`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, "cleaner-offset-checkpoint"))
		if err == nil && cleaned.Match(text) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was cleaned: %q, %v", text, err)
		}
	}
	ok(t, b.Stop())
	b = ours(t, dir)
	p := client(t, b.Bootstrap)
	for i := range 50 {
		for _, topic := range []string{"plain", "packed", "compacted", "stamped", "rolled"} {
			ok(t, p.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte("in the second epoch")}).FirstErr())
		}
	}
	s.send(t, b.Bootstrap, "in the second epoch", "and one more")
	return b, s
}

// metadataOf is what a broker's metadata say of all its topics.
func metadataOf(t *testing.T, addr string) []described {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	r := ask[*kmsg.MetadataResponse](t, conn(t, addr), req)
	adm := kadm.NewClient(client(t, addr))
	var out []described
	for _, x := range r.Topics {
		d := described{name: *x.Topic, id: x.TopicID, configs: map[string]string{}, epochs: make([]int32, len(x.Partitions))}
		for _, p := range x.Partitions {
			d.epochs[p.Partition] = p.LeaderEpoch
		}
		configs, err := adm.DescribeTopicConfigs(t.Context(), d.name)
		ok(t, err)
		for _, c := range configs[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				d.configs[c.Key] = c.MaybeValue()
			}
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return out
}

// noted is what a broker showed of itself before it ended.
type noted struct {
	topics   []string
	lines    []string
	spans    []span
	raw      map[string][]byte
	metadata []described
	in       map[string]string // the data directory that the metadata are to have for a partition, where none lies under its name
}

func note(t *testing.T, addr string, topics ...string) noted {
	t.Helper()
	w := noted{topics: topics, lines: seen(t, addr, topics...), spans: spansOf(t, addr, topics...), metadata: metadataOf(t, addr)}
	w.raw = allBytes(t, addr, w.spans)
	if len(w.lines) < 2000 {
		t.Fatalf("only %d lines are compared", len(w.lines))
	}
	return w
}

// dataDirs are the data directories in one that a Kafka is started on: one or two.
func dataDirs(dir string) []string {
	out := []string{filepath.Join(dir, "data")}
	if more := filepath.Join(dir, "more"); isThere(more) {
		out = append(out, more)
	}
	return out
}

func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func logDirs(dir string) map[string]string {
	return map[string]string{"log.dirs": strings.Join(dataDirs(dir), ",")}
}

// handOver makes a directory for Kafka out of those of Millrace's, one or two: their partitions, checkpoints and identity as
// they are, beside metadata of Kafka's own that have the topics.
func (w noted) handOver(t *testing.T, to string, from ...string) {
	t.Helper()
	ok(t, os.MkdirAll(to, 0o755))
	if len(from) == 2 {
		ok(t, os.Mkdir(filepath.Join(to, "more"), 0o755))
	}
	ok(t, kafka.Format(t.Context(), kafka.Options{Dir: to, Properties: logDirs(to)}))
	dirs := dataDirs(to)
	for i, data := range dirs {
		for _, name := range []string{"meta.properties", "bootstrap.checkpoint"} {
			if err := os.Remove(filepath.Join(data, name)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(from[i])
		ok(t, err)
		for _, e := range entries {
			if e.Name() != "__cluster_metadata-0" {
				copyAll(t, filepath.Join(from[i], e.Name()), filepath.Join(data, e.Name()))
			}
		}
	}
	var values [][]byte
	for _, d := range w.metadata {
		d.at = nil
		for p := range d.epochs {
			in, name := dirs[0], fmt.Sprintf("%s-%d", d.name, p)
			for _, data := range dirs {
				if filepath.Base(data) == w.in[name] || isThere(filepath.Join(data, name)) {
					in = data
				}
			}
			d.at = append(d.at, directoryID(t, in))
		}
		values = append(values, d.records(1)...)
	}
	values = append(values, producerIDs(1, 100_000))
	addRecords(t, filepath.Join(dirs[0], "__cluster_metadata-0"), values)
}

// goOn has Kafka go on with a directory and tells of everything that is not as it was noted, and of what Kafka itself says
// of it. more is asked of the running Kafka beside that.
func (w noted) goOn(t *testing.T, dir string, clean bool, more func(addr string)) (complain []string) {
	t.Helper()
	log := &kafkaLog{}
	k, err := kafka.Start(t.Context(), kafka.Options{Dir: dir, Properties: logDirs(dir), Output: log, Logged: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.b.String())
	}
	t.Cleanup(func() {
		k.Stop() // whichever it is by then
		if t.Failed() {
			log.save(t)
		}
	})
	add := func(format string, args ...any) { complain = append(complain, fmt.Sprintf(format, args...)) }
	awaitLeaders(t, k.Bootstrap, w.topics...)
	complain = append(complain, unequal(w.lines, seen(t, k.Bootstrap, w.topics...))...)
	if starts := spansOf(t, k.Bootstrap, w.topics...); slices.Equal(starts, w.spans) {
		again := allBytes(t, k.Bootstrap, w.spans)
		for _, name := range sortedKeys(w.raw) {
			if !bytes.Equal(w.raw[name], again[name]) {
				add("%s differs at %s", name, firstUnlike(w.raw[name], again[name]))
			}
		}
	} else {
		add("offsets were %v, at Kafka they are %v", w.spans, starts)
	}
	more(k.Bootstrap)
	for _, line := range log.lines(complaints) {
		if !harmless.MatchString(line) {
			add("Kafka says %s", line)
		}
	}
	k.Stop()
	first := log.kinds()
	if !clean {
		if !slices.ContainsFunc(sortedKeys(first), func(kind string) bool { return strings.Contains(kind, "Recovering unflushed segment") }) {
			add("Kafka did not see that nothing was closed in order: %q", sortedKeys(first))
		}
		return complain
	}
	// What Kafka says of its own directory, closed in order, it may say of ours, and nothing more.
	log = &kafkaLog{}
	k, err = kafka.Start(t.Context(), kafka.Options{Dir: dir, Properties: logDirs(dir), Output: log, Logged: true})
	ok(t, err)
	k.Stop()
	own := log.kinds()
	for _, kind := range sortedKeys(first) {
		// A partition without records has no files here, and gets them there.
		if own[kind] == "" && !strings.HasPrefix(kind, "Created log for ") {
			add("Kafka says what it does not say of a directory of its own: %s", first[kind])
		}
	}
	if len(own) == 0 {
		add("Kafka said nothing of its logs")
	}
	return complain
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	ok(t, err)
	if !info.IsDir() {
		b, err := os.ReadFile(from)
		ok(t, err)
		ok(t, os.WriteFile(to, b, 0o644))
		return
	}
	ok(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	ok(t, err)
	for _, e := range entries {
		copyAll(t, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
	}
}

// TestKafkaStartsOnOurDirectory stops Millrace in order or kills it and has a Kafka, whose metadata have topics of the same
// names and ids, go on with what lies there. A directory that is not as Millrace left it is found out.
func TestKafkaStartsOnOurDirectory(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(map[bool]string{true: "in order", false: "kill -9"}[clean], func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "kafka")
			b, s := fillOurs(t, from)
			w := note(t, b.Bootstrap, topicsOfOurs...)
			if clean {
				ok(t, b.Stop())
			} else {
				b.Kill()
			}
			w.handOver(t, to, from)
			if !clean {
				asKilled(t, showKilled(t, filepath.Join(to, "data")))
			}
			for _, complaint := range w.goOn(t, to, clean, func(addr string) { s.goesOn(t, addr) }) {
				t.Error(complaint)
			}
			if !clean {
				recoverAlike(t, w, from)
				return
			}
			spoilt := filepath.Join(t.TempDir(), "spoilt")
			w.handOver(t, spoilt, from)
			data := filepath.Join(spoilt, "data")
			log := filepath.Join(data, "rolled-0", strings.Repeat("0", 20))
			bytes, err := os.ReadFile(log + ".log")
			ok(t, err)
			bytes[15]++ // the leader epoch of the first batch, which no checksum covers
			ok(t, os.WriteFile(log+".log", bytes, 0o644))
			ok(t, os.Remove(filepath.Join(data, "plain-1", strings.Repeat("0", 20)+".index")))
			ok(t, os.Remove(filepath.Join(data, "log-start-offset-checkpoint")))
			found := strings.Join(w.goOn(t, spoilt, true, func(string) {}), "\n")
			for _, want := range []string{"only here: rolled-0 at 0: ", "only at Kafka: rolled-0 at 0: ", "only here: offsets of trimmed-0: 7 to ", "Could not find offset index file"} {
				if !strings.Contains(found, want) {
					t.Errorf("a spoilt directory is not found out: no %q in\n%s", want, found)
				}
			}
		})
	}
}

// recoverAlike spoils what was not flushed when Millrace was killed, has Kafka and Millrace recover a copy each, and compares
// what both have made of it. Millrace begins in the middle of a segment where it was closed in order before, and keeps what
// was written then: a snapshot, and an entry of the time index. (A batch whose offsets go back is cut off here; Kafka takes it,
// and the log ends where that ends.)
func recoverAlike(t *testing.T, w noted, from string) {
	t.Helper()
	theirs, mine := filepath.Join(t.TempDir(), "kafka"), filepath.Join(t.TempDir(), "ours")
	w.handOver(t, theirs, from)
	copyAll(t, from, mine)
	for _, root := range []string{filepath.Join(theirs, "data"), mine} {
		newest := func(topic string) (name string, b []byte) {
			logs, err := filepath.Glob(filepath.Join(root, topic+"-0", "*.log"))
			ok(t, err)
			b, err = os.ReadFile(logs[len(logs)-1])
			ok(t, err)
			return logs[len(logs)-1], b
		}
		spoil := func(topic string, f func(b []byte) []byte) {
			name, b := newest(topic)
			ok(t, os.WriteFile(name, f(b), 0o644))
		}
		spoil("plain", func(b []byte) []byte { return b[:len(b)-1] })                      // half a batch at the end
		spoil("packed", func(b []byte) []byte { return append(b, make([]byte, 5000)...) }) // zeros
		spoil("stamped", func(b []byte) []byte { b[len(b)-200] ^= 1; return b })           // good batches behind a bad one
		spoil("rolled", func(b []byte) []byte { return append(b, 1, 2, 3) })               // too little for a batch
	}
	// A cleaning that was interrupted while it put the names right, another while it wrote, and a removal.
	for _, root := range []string{filepath.Join(theirs, "data"), mine} {
		at := func(topic, name string) string { return filepath.Join(root, topic+"-0", name) }
		first := strings.Repeat("0", 20)
		for _, suffix := range []string{".log", ".index", ".timeindex"} {
			ok(t, os.Rename(at("washed", first+suffix), at("washed", first+suffix+".swap")))
			ok(t, os.WriteFile(at("plain", first+suffix+".cleaned"), []byte("half"), 0o644))
			ok(t, os.WriteFile(at("packed", first+suffix+".deleted"), []byte("old"), 0o644))
		}
	}
	k, err := kafka.Start(t.Context(), kafka.Options{Dir: theirs})
	ok(t, err)
	k.Stop()
	b := ours(t, mine)
	ok(t, b.Stop())
	for _, topic := range w.topics {
		for _, suffix := range []string{".log", ".index", ".timeindex", ".snapshot"} {
			files := func(root string) map[string][]byte {
				out := map[string][]byte{}
				names, err := filepath.Glob(filepath.Join(root, topic+"-*", "*"+suffix))
				ok(t, err)
				for _, name := range names {
					b, err := os.ReadFile(name)
					ok(t, err)
					if suffix == ".snapshot" {
						b = byProducer(b)
					}
					if len(b) > 0 { // a partition without records has no files here
						out[filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name)] = b
					}
				}
				return out
			}
			x, y := files(filepath.Join(theirs, "data")), files(mine)
			if suffix == ".snapshot" {
				for name := range y {
					if x[name] == nil {
						delete(y, name)
					}
				}
			}
			if a, b := sortedKeys(x), sortedKeys(y); !slices.Equal(a, b) {
				t.Errorf("after recovery Kafka has %v, here are %v", a, b)
			}
			for _, name := range sortedKeys(x) {
				if suffix == ".timeindex" {
					y[name] = entriesOf(y[name], x[name], 12)
				}
				if y[name] != nil && !bytes.Equal(x[name], y[name]) {
					t.Errorf("after recovery %s: %s", name, unlike(x[name], y[name]))
				}
			}
		}
	}
	for _, root := range []string{filepath.Join(theirs, "data"), mine} {
		for _, suffix := range []string{".swap", ".cleaned", ".deleted"} {
			if left, _ := filepath.Glob(filepath.Join(root, "*", "*"+suffix)); len(left) > 0 {
				t.Errorf("after recovery %v are left", left)
			}
		}
	}
	verified(t, mine)
}

// entriesOf keeps those entries of a file that another one has, too.
func entriesOf(b, other []byte, size int) (out []byte) {
	in := map[string]bool{}
	for e := range slices.Chunk(other, size) {
		in[string(e)] = true
	}
	for e := range slices.Chunk(b, size) {
		if in[string(e)] {
			out = append(out, e...)
		}
	}
	return out
}

// span is where a partition begins and ends.
type span struct {
	topic     string
	partition int32
	from, to  int64
}

func spansOf(t *testing.T, addr string, topics ...string) (out []span) {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	starts, err := adm.ListStartOffsets(t.Context(), topics...)
	ok(t, err)
	ends, err := adm.ListEndOffsets(t.Context(), topics...)
	ok(t, err)
	starts.Each(func(o kadm.ListedOffset) {
		e, _ := ends.Lookup(o.Topic, o.Partition)
		ok(t, cmp.Or(o.Err, e.Err))
		out = append(out, span{o.Topic, o.Partition, o.Offset, e.Offset})
	})
	slices.SortFunc(out, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return out
}

// allBytes is what Fetch serves of partitions, by name.
func allBytes(t *testing.T, addr string, spans []span) map[string][]byte {
	t.Helper()
	c, out := conn(t, addr), map[string][]byte{}
	for _, x := range spans {
		out[fmt.Sprintf("%s-%d", x.topic, x.partition)] = stored(t, c, x.topic, x.partition, x.from, x.to)
	}
	return out
}

// awaitLeaders waits until each partition of some topics has a leader.
func awaitLeaders(t *testing.T, addr string, topics ...string) {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		d, err := adm.ListTopics(t.Context(), topics...)
		if err == nil {
			err = d.Error()
		}
		missing := ""
		for _, x := range d {
			for _, p := range x.Partitions {
				if p.Leader < 0 {
					missing = fmt.Sprintf("%s-%d has no leader", x.Topic, p.Partition)
				}
			}
		}
		if err == nil && missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, %v", missing, err)
		}
	}
}

// directoryID reads a data directory's id.
func directoryID(t *testing.T, data string) (id [16]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "meta.properties"))
	ok(t, err)
	m := regexp.MustCompile(`(?m)^directory\.id=(.*)$`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no directory.id in %q", b)
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(m[1]))
	ok(t, err)
	copy(id[:], raw)
	return id
}
