//go:build compat

package adopt

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
)

// requests are what both brokers are sent, in order: the same bytes.
func requests(first int64) []request {
	chance := rand.New(rand.NewPCG(7, 11))
	var out []request
	put := func(topic string, b rawBatch) { out = append(out, request{topic, b.bytes()}) }
	for i := range 80 {
		at := first + int64(i)*1000
		noise := make([]byte, 40_000)
		for j := range noise {
			noise[j] = byte(chance.IntN(256))
		}
		// Times that grow, that fall back and that are the same; no key, no value, no header, an empty one.
		put("plain", rawBatch{first: at - int64(i%3)*2500, records: []record{
			{key: []byte("k"), value: noise, headers: []kgo.RecordHeader{{Key: "h", Value: []byte{1}}, {Key: "null"}, {Key: "", Value: []byte{}}}},
			{at: -700}, {key: []byte{}, value: []byte{}, at: 700},
		}})
		put("dense", rawBatch{first: at, codec: i % 5, records: []record{{value: noise[:30]}, {value: noise[30:90], at: int64(i % 2)}}})
		put("packed", rawBatch{first: at, codec: 1 + i%4, records: []record{{key: noise[:10], value: noise}, {value: bytes.Repeat([]byte("y"), 3000), at: 5}}})
		put("trimmed", rawBatch{first: at, records: []record{{value: noise}}})
		put("stamped", rawBatch{first: at, codec: i % 5, records: []record{{value: noise[:50]}}})
		// Three producers, one of which gets new epochs.
		id := int64(4000 + i%3)
		epoch, sequence := int16(0), int32(i/3*2)
		if id == 4001 {
			epoch, sequence = int16(i/30), int32(i%30/3*2)
		}
		put("producers", rawBatch{first: at, producer: id, epoch: epoch, sequence: sequence, records: []record{{value: noise[:20_000]}, {value: noise[:10], at: 3}}})
		// Keys that come again, in batches of which all, some or no records stay.
		records := []record{{key: fmt.Append(nil, "often ", i%5), value: noise}, {key: fmt.Append(nil, "often ", (i+1)%5), value: noise[:9], at: 1}}
		if i%4 == 0 {
			records = append(records, record{key: fmt.Append(nil, "once ", i), value: []byte("stays"), at: 2})
		}
		b := rawBatch{first: at, records: records}
		if i%7 == 0 {
			b.producer, b.sequence = int64(5000+i), 0
		}
		put("compacted", b)
		b.codec = i / 16
		put("repacked", b)
	}
	return out
}

type request struct {
	topic string
	batch []byte
}

var sameTopics = map[string]string{
	"plain":     "segment.bytes=1048576 index.interval.bytes=4096",
	"dense":     "index.interval.bytes=0",
	"packed":    "segment.bytes=1048576",
	"trimmed":   "segment.bytes=1048576",
	"stamped":   "message.timestamp.type=LogAppendTime",
	"producers": "segment.bytes=1048576 index.interval.bytes=1000",
	"repacked":  "segment.bytes=1048576 min.cleanable.dirty.ratio=0.01",
	"compacted": "segment.bytes=1048576 index.interval.bytes=500 min.cleanable.dirty.ratio=0.01",
}

// write sends everything to a broker.
func write(t *testing.T, addr, dir string, list []request) {
	t.Helper()
	ctx, adm := t.Context(), kadm.NewClient(client(t, addr))
	for _, topic := range sortedKeys(sameTopics) {
		set := map[string]*string{}
		for kv := range strings.FieldsSeq(sameTopics[topic]) {
			k, v, _ := strings.Cut(kv, "=")
			set[k] = &v
		}
		r, err := adm.CreateTopic(ctx, 1, 1, set, topic)
		ok(t, cmp.Or(err, r.Err))
	}
	awaitLeaders(t, addr, sortedKeys(sameTopics)...)
	c := conn(t, addr)
	for i, r := range list {
		if sameTopics[r.topic] == sameTopics["stamped"] {
			time.Sleep(2 * time.Millisecond) // each batch gets a time of its own: which is the latest is in the index
		}
		if a := produceReady(t, c, r); a != 0 {
			t.Fatalf("request %d, to %s: error %d", i, r.topic, a)
		}
	}
	_, err := adm.DeleteRecords(ctx, kadm.Offsets{"trimmed": {0: {Topic: "trimmed", Partition: 0, At: 40}}})
	ok(t, err)
	commit(t, addr)
	// One cleaning of all that may be cleaned.
	compact := "compact"
	_, err = adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, "compacted", "repacked")
	ok(t, err)
	// And what lies below the log start is gone.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, below := os.Stat(filepath.Join(dir, "trimmed-0", "00000000000000000000.log"))
		text, _ := os.ReadFile(filepath.Join(dir, "cleaner-offset-checkpoint"))
		if strings.Contains(string(text), "compacted 0 ") && strings.Contains(string(text), "repacked 0 ") && below != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was cleaned or removed: %q, %v", text, below)
		}
	}
}

// produceReady waits for a leader that is a moment late.
func produceReady(t *testing.T, c *frame.Conn, r request) int16 {
	t.Helper()
	for n := 0; ; n++ {
		a := produce(t, c, r.topic, 0, r.batch)
		if (a.ErrorCode != 3 && a.ErrorCode != 6) || n == 100 {
			return a.ErrorCode
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSameRequestsSameFiles sends a Kafka and a Millrace the same requests and compares what both have on disk: byte for
// byte where nothing but the requests decides, and as Kafka's own tool shows it.
func TestSameRequestsSameFiles(t *testing.T) {
	list := requests(time.Now().Add(-time.Hour).UnixMilli())
	dir := t.TempDir()
	k, err := kafka.Start(t.Context(), kafka.Options{Dir: dir, Properties: map[string]string{"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "500", "offsets.retention.check.interval.ms": "500"}})
	ok(t, err)
	theirs := filepath.Join(dir, "data")
	write(t, k.Bootstrap, theirs, list)
	k.Stop()
	mine := filepath.Join(dir, "ours")
	b := ours(t, mine)
	write(t, b.Bootstrap, mine, list)
	ok(t, b.Stop())

	for _, topic := range sortedKeys(sameTopics) {
		files := [2]map[string][]byte{}
		for i, root := range []string{theirs, mine} {
			files[i] = map[string][]byte{}
			at := filepath.Join(root, topic+"-0")
			names, err := os.ReadDir(at)
			ok(t, err)
			for _, n := range names {
				if n.Name() == "partition.metadata" || strings.HasSuffix(n.Name(), ".deleted") {
					continue
				}
				b, err := os.ReadFile(filepath.Join(at, n.Name()))
				ok(t, err)
				files[i][n.Name()] = b
			}
		}
		a, b := sortedKeys(files[0]), sortedKeys(files[1])
		if !slices.Equal(a, b) {
			t.Errorf("%s: Kafka has %v, here are %v", topic, a, b)
		}
		for _, name := range a {
			x, y := files[0][name], files[1][name]
			if strings.HasSuffix(name, ".snapshot") {
				x, y = byProducer(x), byProducer(y)
			}
			if y != nil && !bytes.Equal(x, y) && topic != "stamped" && topic != "repacked" {
				t.Errorf("%s-0/%s: %s", topic, name, unlike(x, y))
			}
		}
	}
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"} {
		x, y := checkpoint(t, theirs, name), checkpoint(t, mine, name)
		if !slices.Equal(x, y) {
			t.Errorf("%s: Kafka says %q, here it says %q", name, x, y)
		}
	}
	x, y := show(t, theirs), show(t, mine)
	for _, file := range sortedKeys(x.files) {
		topic := strings.TrimSuffix(filepath.Dir(file), "-0")
		if sameTopics[topic] == "" {
			continue
		}
		a, b := decided(topic, x.files[file]), decided(topic, y.files[file])
		if i := firstUnequal(a, b); i >= 0 {
			t.Errorf("of %s the tool shows, from line %d on, at Kafka and here:\n%.600s\n%.600s", file, i, strings.Join(a[i:min(i+3, len(a))], "\n"), strings.Join(b[min(i, len(b)):min(i+3, len(b))], "\n"))
		}
	}
	if a, b := ofTopics(x.findings), ofTopics(y.findings); !slices.Equal(a, b) {
		t.Errorf("to the tool looks wrong, at Kafka and here:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for _, dir := range []string{theirs, mine} {
		verified(t, dir)
	}
	p, q := offsetsOf(t, theirs), offsetsOf(t, mine)
	slices.Sort(p)
	slices.Sort(q)
	if !slices.Equal(p, q) {
		t.Errorf("committed offsets: Kafka's are\n%s\nhere they are\n%s", strings.Join(p, "\n"), strings.Join(q, "\n"))
	}
	for _, fate := range []string{
		`"group":"forgetful","topic":"plain","partition":0}} payload: <DELETE>`, `"group":"gone"}} payload: <DELETE>`, `"group":"passing","topic":"plain","partition":0}} payload: <DELETE>`,
		`"metadata":"of passing","commitTimestamp":,"expireTimestamp":}`, `{"group":"members"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":1,"protocol":"range","leader":,"currentStateTimestamp":,"members":[{`,
		`{"group":"left"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":2,"protocol":null,"leader":null,"currentStateTimestamp":,"members":[]`,
	} {
		if !strings.Contains(strings.Join(p, "\n"), fate) {
			t.Errorf("no committed offset, and no group, of the fate %s", fate)
		}
	}
}

// byProducer sorts the entries of a snapshot: Kafka's have no order.
func byProducer(b []byte) []byte {
	const header, size = 10, 46
	if len(b) < header || (len(b)-header)%size != 0 {
		return b
	}
	var entries [][]byte
	for at := header; at < len(b); at += size {
		entries = append(entries, b[at:at+size])
	}
	slices.SortFunc(entries, bytes.Compare)
	// The checksum goes with the order.
	return append(append([]byte{}, b[6:header]...), bytes.Join(entries, nil)...)
}

// decided is what the tool shows of a file that the requests alone decide. Of a topic with the time of the append that is not
// the time, and of one whose compressed batches were built anew not how well they were compressed.
func decided(topic string, lines []string) []string {
	undecided := map[string]*regexp.Regexp{
		"stamped":  regexp.MustCompile(`(timestamp|LogAppendTime|crc): -?\d+`),
		"repacked": regexp.MustCompile(`(position|size|crc): \d+`),
	}[topic]
	out := slices.Clone(lines)
	for i := range out {
		if undecided != nil {
			out[i] = undecided.ReplaceAllString(out[i], "$1")
		}
	}
	if len(out) > 0 && strings.HasPrefix(out[0], "producerId: ") {
		slices.Sort(out)
	}
	return out
}

// ofTopics are the findings in files that were compared.
func ofTopics(findings []string) (out []string) {
	for _, f := range findings {
		if !strings.Contains(f, "stamped-0/") && !strings.Contains(f, "repacked-0/") && !strings.Contains(f, "__") {
			out = append(out, f)
		}
	}
	return out
}

// firstUnequal is where two lists differ first; -1: nowhere.
func firstUnequal(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// unlike tells where two files begin to differ.
func unlike(x, y []byte) string {
	i := 0
	for i < min(len(x), len(y)) && x[i] == y[i] {
		i++
	}
	part := func(b []byte) string { return hex.EncodeToString(b[min(max(i-8, 0), len(b)):min(i+60, len(b))]) }
	return fmt.Sprintf("Kafka's %d bytes and the %d here differ from %d on:\n%s\n%s", len(x), len(y), i, part(x), part(y))
}

// checkpoint is what an offset checkpoint says of the test's topics.
func checkpoint(t *testing.T, dir, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	ok(t, err)
	var out []string
	for line := range strings.Lines(string(b)) {
		if topic, _, is := strings.Cut(line, " "); is && sameTopics[topic] != "" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}
