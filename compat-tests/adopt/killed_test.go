//go:build compat

package adopt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// alikeTopics lie in two data directories, two partitions each.
var alikeTopics = map[string]string{
	"settled": "segment.bytes=1048576 index.interval.bytes=4096", // with transactions that ended either way
	"rolled":  "segment.bytes=1048576 index.interval.bytes=1000",
	"dense":   "index.interval.bytes=0",
	"small":   "",
	"single":  "",
	"open":    "", // with a transaction that stays open
}

// settle has a Kafka write transactions into several segments, every third of which is aborted, and leave one open.
func settle(t *testing.T, addr string) {
	t.Helper()
	ctx := t.Context()
	for p := range int32(2) {
		txn := client(t, addr, kgo.TransactionalID(fmt.Sprint("settled ", p)), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
		for i := range 30 {
			ok(t, txn.BeginTransaction())
			for _, value := range [][]byte{bytes.Repeat([]byte{byte('a' + i)}, 60_000), []byte("v"), nil} {
				ok(t, txn.ProduceSync(ctx, &kgo.Record{Topic: "settled", Partition: p, Key: fmt.Append(nil, i), Value: value}).FirstErr())
			}
			ok(t, txn.EndTransaction(ctx, kgo.TransactionEndTry(i%3 != 0)))
		}
	}
	open := client(t, addr, kgo.TransactionalID("open"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(14*time.Minute))
	ok(t, open.BeginTransaction())
	ok(t, open.ProduceSync(ctx, &kgo.Record{Topic: "open", Value: []byte("undecided")}).FirstErr())
}

// goesOnAlike are requests that both brokers are sent before they are killed.
func goesOnAlike(first int64) (out []request) {
	for i := range 90 {
		at := first + int64(i)*1000
		value := bytes.Repeat([]byte{byte('a' + i%20), byte(i)}, 20_000)
		for _, topic := range []string{"settled", "rolled"} {
			out = append(out, request{topic, rawBatch{first: at, codec: i % 5 * (i % 2), records: []record{{key: fmt.Append(nil, i), value: value}, {value: value[:i], at: 3}}}.bytes()})
		}
		out = append(out, request{"dense", rawBatch{first: at, records: []record{{value: value[:100]}, {at: 1}}}.bytes()})
	}
	out = append(out, request{"small", rawBatch{first: first, records: []record{{value: []byte("one")}, {value: []byte("two"), at: 7}}}.bytes()})
	out = append(out, request{"single", rawBatch{first: first, records: []record{{value: []byte("one")}}}.bytes()})
	return append(out, request{"open", rawBatch{first: first, records: []record{{value: []byte("behind what is undecided")}, {at: 1}}}.bytes()})
}

// TestKilledAlike has a Kafka write transactions in two data directories, takes them over, and sends both the same. Both are
// killed, and Kafka's tool finds the same in what both have left. Then a Kafka goes on with what Millrace has left.
func TestKilledAlike(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	theirs := filepath.Join(dir, "theirs")
	ok(t, os.MkdirAll(filepath.Join(theirs, "more"), 0o755))
	o := kafka.Options{Dir: theirs, Properties: logDirs(theirs), Features: []string{"eligible.leader.replicas.version=0"}}
	k, err := kafka.Start(ctx, o)
	ok(t, err)
	t.Cleanup(func() { k.Kill() })
	adm := kadm.NewClient(client(t, k.Bootstrap))
	topics := sortedKeys(alikeTopics)
	for _, topic := range topics {
		set := map[string]*string{}
		for kv := range strings.FieldsSeq(alikeTopics[topic]) {
			key, v, _ := strings.Cut(kv, "=")
			set[key] = &v
		}
		r, err := adm.CreateTopic(ctx, 2, 1, set, topic)
		ok(t, cmp.Or(err, r.Err))
	}
	awaitLeaders(t, k.Bootstrap, topics...)
	settle(t, k.Bootstrap)
	ok(t, adm.CommitAllOffsets(ctx, "readers", kadm.Offsets{"settled": {0: {Topic: "settled", At: 3, LeaderEpoch: -1}}}))
	k.Stop()

	mine := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	binary, err := launch.Binary()
	ok(t, err)
	if out, err := exec.Command(binary, "import", strings.Join(dataDirs(theirs), ","), "--log-dir", strings.Join(mine, ",")).CombinedOutput(); err != nil || !strings.Contains(string(out), ": left open") {
		t.Fatalf("%v: %s", err, out)
	}
	b := ours(t, strings.Join(mine, ","))
	k, err = kafka.Start(ctx, o)
	ok(t, err)
	awaitLeaders(t, k.Bootstrap, topics...)
	first := time.Now().Add(-time.Hour).UnixMilli()
	for _, addr := range []string{k.Bootstrap, b.Bootstrap} {
		c := conn(t, addr)
		for i, r := range goesOnAlike(first) {
			for p := range int32(2) {
				if a := produce(t, c, r.topic, p, r.batch); a.ErrorCode != 0 {
					t.Fatalf("request %d, to %s-%d: error %d", i, r.topic, p, a.ErrorCode)
				}
			}
		}
	}
	w := note(t, b.Bootstrap, topics...)
	b.Kill()
	k.Kill()

	kinds := map[string]bool{}
	for i, from := range dataDirs(theirs) {
		x, y := showKilled(t, from), showKilled(t, mine[i])
		if a, b := len(alikeFiles(x)), len(alikeFiles(y)); a != b || a < 20 {
			t.Errorf("of %d files of Kafka's the tool shows what decides, and of %d here", a, b)
		}
		aborted := 0
		for file, a := range alikeFiles(x) {
			b := y.files[file]
			if at := firstUnequal(a, alikeLines(file, b)); at >= 0 {
				t.Errorf("of %s the tool shows, from line %d on, at Kafka and here:\n%.600s\n%.600s", file, at, strings.Join(a[at:min(at+3, len(a))], "\n"), strings.Join(b[min(at, len(b)):min(at+3, len(b))], "\n"))
			}
			if strings.HasSuffix(file, ".txnindex") {
				aborted += len(b)
			}
		}
		if aborted < 8 {
			t.Errorf("%d aborted transactions are shown", aborted)
		}
		// Here the newest entries of an active index are in memory: one of which nothing has reached the file yet is, to the
		// tool, what Kafka's is before its first entry.
		decides := func(root string, s shown) (out []string) {
			for _, f := range s.findings {
				kinds[kindOfFinding(f)] = kinds[kindOfFinding(f)] || root == from
				if name := regexp.MustCompile(`:(\S+index)`).FindStringSubmatch(f); name != nil && isActive(filepath.Join(root, name[1])) || strings.Contains(f, "__") {
					continue
				}
				out = append(out, f)
			}
			return out
		}
		if a, b := decides(from, x), decides(mine[i], y); !slices.Equal(a, b) {
			t.Errorf("to the tool looks wrong, at Kafka and here:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		for _, said := range x.last {
			kinds[said] = true
		}
		asKilled(t, y)
		asKilled(t, x)
	}
	wrong := filepath.Join(dir, "wrong")
	copyAll(t, mine[0], wrong)
	for _, name := range segmentFiles(t, wrong, ".index", ".timeindex", ".txnindex") {
		if b, err := os.ReadFile(name); err == nil && len(b) > 40 && !isActive(name) {
			b[len(b)/2&^7+3] ^= 2 // in one entry
			ok(t, os.WriteFile(name, b, 0o644))
		}
	}
	missed := 0
	if s := showKilled(t, wrong); len(s.findings) > 0 {
		for _, f := range s.findings {
			if !s.isKafkasToo(f) {
				missed++
			}
		}
	}
	if missed < 4 {
		t.Errorf("of indexes of closed segments that are wrong the tool finds %d", missed)
	}
	for _, kind := range saidOfKafkas {
		if !kinds[kind] {
			t.Errorf("the tool does not say of a directory of Kafka's: %s", kind)
		}
	}

	back := filepath.Join(dir, "back")
	w.handOver(t, back, mine...)
	for _, complaint := range w.goOn(t, back, false, func(string) {}) {
		t.Error(complaint)
	}
	// What is not as it was left is found out.
	spoilt := filepath.Join(dir, "spoilt")
	w.handOver(t, spoilt, mine...)
	name := filepath.Join(spoilt, "more", "settled-0", strings.Repeat("0", 20)+".txnindex")
	if !isThere(name) {
		name = filepath.Join(spoilt, "data", "settled-0", strings.Repeat("0", 20)+".txnindex")
	}
	ok(t, os.Truncate(name, 0))
	found := strings.Join(w.goOn(t, spoilt, false, func(string) {}), "\n")
	if !regexp.MustCompile(`only at Kafka: settled-0 at \d+ is given to a read_committed consumer`).MatchString(found) {
		t.Errorf("that a transaction index is empty is not found out:\n%s", found)
	}
}

// alikeFiles is what the tool shows of files whose every byte the requests decide: all but the active segments' indexes.
func alikeFiles(s shown) map[string][]string {
	out := map[string][]string{}
	newest := map[string]string{}
	for file := range s.files {
		if strings.HasSuffix(file, ".log") {
			newest[filepath.Dir(file)] = max(newest[filepath.Dir(file)], strings.TrimSuffix(file, ".log"))
		}
	}
	for file, lines := range s.files {
		base, suffix, _ := strings.Cut(file, ".")
		topic, _, _ := strings.Cut(filepath.Dir(file), "-")
		if alikeTopics[topic] == "" || base == newest[filepath.Dir(file)] && (suffix == "index" || suffix == "timeindex") {
			continue
		}
		out[file] = alikeLines(file, lines)
	}
	return out
}

var epochOfBatch = regexp.MustCompile(`(partitionLeaderEpoch): \d+`)

// alikeLines is what the tool shows of a file without leader epochs, which are the brokers' own.
func alikeLines(file string, lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, epochOfBatch.ReplaceAllString(line, "$1"))
	}
	if strings.HasSuffix(file, ".snapshot") {
		slices.Sort(out)
	}
	return out
}

// ofMoves is what a Kafka that starts with a move under way says of itself: it begins before it is registered, and before it
// leads.
var ofMoves = regexp.MustCompile(`ASSIGN_REPLICAS_TO_DIRS|AssignmentsManager .* STALE_BROKER_EPOCH|ReplicaAlterLogDirsThread-\d+\]: Partition moved-0 marked as failed`)

// TestKafkaGoesOnWithOurMove kills Millrace while a log is on its way to another data directory. Kafka goes on with what
// lies there, ends the move, and serves the same bytes; and it goes on where an exchange was cut short as FORMAT.md says ours
// may be. With a partition under its plain name in two directories neither starts.
func TestKafkaGoesOnWithOurMove(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	mine := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	b, err := launch.Start(launch.Options{Dir: strings.Join(mine, ","), Env: []string{"CLUSTER_ID=" + clusterID}})
	ok(t, err)
	t.Cleanup(b.Kill)
	adm := kadm.NewClient(client(t, b.Bootstrap))
	r, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"segment.bytes": str("1048576")}, "moved")
	ok(t, cmp.Or(err, r.Err))
	c := conn(t, b.Bootstrap)
	for i := range 2500 {
		value := bytes.Repeat([]byte{byte(i), byte(i / 256)}, 1000)
		if a := produce(t, c, "moved", 0, rawBatch{first: time.Now().UnixMilli(), records: []record{{value: value}}}.bytes()); a.ErrorCode != 0 {
			t.Fatalf("error %d", a.ErrorCode)
		}
	}
	w := note(t, b.Bootstrap, "moved")
	from, to := mine[0], mine[1]
	if !isThere(filepath.Join(from, "moved-0")) {
		from, to = to, from
	}
	slow, err := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "replica.alter.log.dirs.io.max.bytes.per.second", Value: str("300000")}}, 1)
	ok(t, cmp.Or(err, slow[0].Err))
	future := func() string {
		all, _ := filepath.Glob(filepath.Join(to, "moved-0.*-future"))
		return strings.Join(all, " ")
	}
	var move kadm.AlterReplicaLogDirsReq
	move.Add(to, kadm.TopicsSet{"moved": {0: {}}})
	moved, err := adm.AlterAllReplicaLogDirs(ctx, move)
	ok(t, err)
	moved.Each(func(x kadm.AlterReplicaLogDirsResponse) { ok(t, x.Err) })
	segments := func() int {
		all, _ := filepath.Glob(filepath.Join(future(), "*.log"))
		return len(all)
	}
	for deadline := time.Now().Add(30 * time.Second); segments() < 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the move does not get on: %q", future())
		}
	}
	b.Kill()
	if !isThere(filepath.Join(from, "moved-0")) || isThere(filepath.Join(to, "moved-0")) {
		t.Fatal("the move was over before the broker was killed")
	}
	for _, d := range mine {
		if len(segmentFiles(t, d, ".log")) > 0 {
			asKilled(t, showKilled(t, d))
		}
	}
	arrived := func(addr string) {
		t.Helper()
		adm := kadm.NewClient(client(t, addr))
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			all, err := adm.DescribeAllLogDirs(ctx, kadm.TopicsSet{"moved": {0: {}}})
			ok(t, err)
			var at []string
			all.Each(func(d kadm.DescribedLogDir) {
				d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
					at = append(at, fmt.Sprintf("%s future %v", filepath.Base(d.Dir), p.IsFuture))
				})
			})
			if want := fmt.Sprintf("%s future false", map[string]string{mine[0]: "data", mine[1]: "more"}[to]); slices.Equal(at, []string{want}) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the move is not over: %q", at)
			}
		}
		compare(t, w.lines, seen(t, addr, w.topics...))
		for name, was := range w.raw {
			if again := allBytes(t, addr, w.spans)[name]; !bytes.Equal(was, again) {
				t.Errorf("behind the move %s differs at %s", name, firstUnlike(was, again))
			}
		}
	}
	back := filepath.Join(dir, "back")
	w.handOver(t, back, mine...)
	for _, complaint := range w.goOn(t, back, false, arrived) {
		if !ofMoves.MatchString(complaint) {
			t.Error(complaint)
		}
	}

	// The old log is renamed for deletion, the new one has not got its name yet.
	whole := filepath.Join(dir, "whole")
	ok(t, os.Mkdir(whole, 0o755))
	next := []string{filepath.Join(whole, "one"), filepath.Join(whole, "two")}
	for i := range mine {
		copyAll(t, mine[i], next[i])
	}
	at := func(d string) string { return strings.Replace(d, dir, whole, 1) }
	hex := regexp.MustCompile(`\.[0-9a-f]{32}-`).FindString(future())
	ok(t, os.RemoveAll(at(future())))
	copyAll(t, filepath.Join(from, "moved-0"), at(future()))
	ok(t, os.Rename(at(filepath.Join(from, "moved-0")), at(filepath.Join(from, "moved-0"+hex+"delete"))))
	v, cut := w, filepath.Join(dir, "cut")
	v.in = map[string]string{"moved-0": map[string]string{mine[0]: "data", mine[1]: "more"}[to]} // they are told before the exchange
	v.handOver(t, cut, next...)
	for _, complaint := range v.goOn(t, cut, false, arrived) {
		if !ofMoves.MatchString(complaint) {
			t.Error(complaint)
		}
	}

	// Both under the plain name.
	twice := filepath.Join(dir, "twice")
	ok(t, os.Rename(at(filepath.Join(from, "moved-0"+hex+"delete")), at(filepath.Join(from, "moved-0"))))
	ok(t, os.Rename(at(future()), at(filepath.Join(to, "moved-0"))))
	w.handOver(t, twice, next...)
	log := &kafkaLog{}
	k, err := kafka.Start(ctx, kafka.Options{Dir: twice, Properties: logDirs(twice), Output: log, Logged: true})
	if err == nil {
		k.Stop()
	}
	if !errors.Is(err, kafka.ErrEnded) || !strings.Contains(log.b.String(), "Duplicate log directories for moved-0 are found in both") {
		t.Errorf("Kafka starts with a partition twice: %v, %s", err, tail(log.b.Bytes()))
	}
	if b, err := launch.Start(launch.Options{Dir: strings.Join(next, ",")}); err == nil {
		b.Kill()
		t.Error("Millrace starts with a partition twice")
	} else if !strings.Contains(err.Error(), "both hold moved-0") {
		t.Errorf("Millrace does not say why: %v", err)
	}
}
