//go:build compat

package adopt

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/batch"
	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// Apache Kafka gives them that still served such clients: records of all, and of the
// markers nothing but that something is there, which they get past once a record
// follows.
func TestOldClientsReadWhatTransactionsLeft(t *testing.T) {
	dir := t.TempDir()
	k, err := kafka.Start(t.Context(), kafka.Options{Version: kafka.Oldest, Dir: dir})
	ok(t, err)
	t.Cleanup(func() { k.Kill() })
	topics := []string{"ends-in-a-marker", "goes-on"}
	plain := client(t, k.Bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite())
	adm := kadm.NewClient(plain)
	for _, topic := range topics {
		r, err := adm.CreateTopic(t.Context(), 1, 1, nil, topic)
		ok(t, cmp.Or(err, r.Err))
	}
	awaitLeaders(t, k.Bootstrap, topics...)
	write := func(c *kgo.Client, topic, value string) {
		t.Helper()
		ok(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}).FirstErr())
	}
	p := client(t, k.Bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.TransactionalID("t"))
	for _, topic := range topics {
		write(plain, topic, "before")
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
			ok(t, p.BeginTransaction())
			write(p, topic, fmt.Sprint("first of ", i))
			write(p, topic, fmt.Sprint("second of ", i))
			ok(t, p.EndTransaction(t.Context(), end))
		}
		awaitStable(t, adm, topic, markerAt+1)
	}
	write(plain, topics[1], "behind")
	write(plain, topics[1], "behind that")
	theirs := givenToOldClients(t, k.Bootstrap, topics)
	k.Stop()
	binary, err := launch.Binary()
	ok(t, err)
	to := filepath.Join(dir, "ours")
	if out, err := exec.Command(binary, "import", filepath.Join(dir, "data"), "--log-dir", to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := launch.Start(launch.Options{Dir: to})
	ok(t, err)
	t.Cleanup(b.Kill)
	ours := givenToOldClients(t, b.Bootstrap, topics)
	if len(ours) != len(theirs) || len(ours) == 0 {
		t.Fatalf("%d answers, at Kafka %d", len(ours), len(theirs))
	}
	twice := 0
	for i := range ours {
		// Behind batches that become no messages 3.9.2 sends the first that does twice.
		set := theirs[i].set
		theirs[i].set = slices.CompactFunc(slices.Clone(set), func(a, b any) bool { return reflect.DeepEqual(a, b) })
		twice += len(set) - len(theirs[i].set)
		if !reflect.DeepEqual(ours[i], theirs[i]) {
			t.Errorf("%+v\nat Kafka %+v", ours[i], theirs[i])
		}
	}
	t.Logf("%d answers were compared, of which 3.9.2 sends %d messages twice", len(ours), twice)
	// Who has come to the marker at the end gets past it.
	write(client(t, b.Bootstrap, kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression())), topics[0], "past it")
	past := false
	for _, got := range givenToOldClients(t, b.Bootstrap, topics[:1]) {
		if got.version == 3 && got.from == markerAt {
			first, _ := got.set[0].(map[string]any)
			past = first["value"] == fmt.Sprintf("%x", "past it")
		}
	}
	if !past {
		t.Error("a client that waits at a marker is not given what follows it")
	}
}

// markerAt is where the first topic's last marker lies: behind one record, and three times two
// and a marker.
const markerAt = 9

// awaitStable waits until all that is written to a topic is decided: a transaction has ended
// before its marker is written.
func awaitStable(t *testing.T, adm *kadm.Client, topic string, end int64) {
	t.Helper()
	at := int64(-1)
	for range 300 {
		l, err := adm.ListCommittedOffsets(t.Context(), topic)
		ok(t, err)
		o, _ := l.Lookup(topic, 0)
		if at = o.Offset; at == end {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s is decided up to %d, not %d", topic, at, end)
}

// oldAnswer is what a broker answered to an old client.
type oldAnswer struct {
	topic         string
	version, code int16
	from          int64
	bytes         int
	set           []any
}

// givenToOldClients is what a broker answers to each version of Fetch that has message
// sets, from each offset.
func givenToOldClients(t *testing.T, addr string, topics []string) (all []oldAnswer) {
	t.Helper()
	c, err := frame.Dial(addr)
	ok(t, err)
	defer c.Close()
	ends, err := kadm.NewClient(client(t, addr)).ListEndOffsets(t.Context(), topics...)
	ok(t, err)
	for _, topic := range topics {
		end, found := ends.Lookup(topic, 0)
		if !found || end.Offset < 10 {
			t.Fatalf("%s ends at %d", topic, end.Offset)
		}
		for version := range int16(4) {
			for from := range end.Offset + 1 {
				req := kmsg.NewPtrFetchRequest()
				req.Version, req.ReplicaID, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = version, -1, 1<<20, 0, 100
				rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
				rt.Topic, rp.FetchOffset, rp.PartitionMaxBytes = topic, from, 1<<20
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
				o := c.Ask(req)
				r, good := o.Response.(*kmsg.FetchResponse)
				if !good || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
					t.Fatalf("version %d at %d: %v", version, from, o)
				}
				got := r.Topics[0].Partitions[0]
				all = append(all, oldAnswer{topic, version, got.ErrorCode, from, len(got.RecordBatches), batch.Sets(got.RecordBatches)})
			}
		}
	}
	return all
}
