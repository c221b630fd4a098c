package adopt

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// partitions makes the metadata of a topic of several partitions.
func partitions(name string, b byte, n int32) []records.Metadata {
	out := topic(name, b, node)
	for i := int32(1); i < n; i++ {
		p := *out[1].(*records.PartitionRecord)
		p.PartitionId = i
		out = append(out, &p)
	}
	return out
}

// put appends records of a producer to a log, 0 for none; within a transaction where there is one.
func put(t *testing.T, s *storage.Store, name string, b byte, p int32, from batch.ProducerID, epoch batch.ProducerEpoch, pairs ...[]byte) {
	t.Helper()
	l, err := s.Log(name, id(b), p, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	sequence := int32(0)
	for _, e := range l.Producers() {
		if e.ProducerID == from && e.Epoch == epoch {
			sequence = e.LastSequence + 1
		}
	}
	u := batch.NewBuilder(batch.BuilderOptions{Producer: from > 0, ProducerID: from, ProducerEpoch: epoch, BaseSequence: sequence, Transactional: from > 0})
	for i := 0; i < len(pairs); i += 2 {
		u.Add(time.Now().UnixMilli(), pairs[i], pairs[i+1])
	}
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AppendWith(u.Bytes(), h, time.Now().UnixMilli(), producer.Rules{Verified: true}); err != nil {
		t.Fatal(err)
	}
}

// stateRecord is a record of the transaction coordinator's, of a transaction in some partitions.
func stateRecord(name string, version int16, producer int64, epoch int16, state byte, in ...string) [2][]byte {
	key := append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(name))), name...)
	v := kmsg.TxnMetadataValue{Version: int16(min(version, 1)), ProducerID: producer, ProducerEpoch: epoch, TimeoutMillis: 60_000, State: kmsg.TransactionState(state)}
	for _, p := range in {
		topic, index, _ := strings.Cut(p, "-")
		n, _ := strconv.Atoi(index)
		v.Topics = append(v.Topics, kmsg.TxnMetadataValueTopic{Topic: topic, Partitions: []int32{int32(n)}})
	}
	value := v.AppendTo(nil)
	binary.BigEndian.PutUint16(value, uint16(version))
	return [2][]byte{key, value}
}

// markers are the control batches of a partition's only segment, a text each.
func markers(t *testing.T, dir string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, strings.Repeat("0", 20)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if h.Attributes.Control() {
			m, ok, err := batch.ParseMarker(b[:h.Size()])
			if err != nil || !ok || !h.Attributes.Transactional() || batch.CheckCRC(b[:h.Size()]) != nil {
				t.Fatalf("the control batch at %d: %v", h.BaseOffset, err)
			}
			out = append(out, fmt.Sprintf("%s of %d/%d", map[batch.ControlType]string{batch.Abort: "abort", batch.Commit: "commit"}[m.Type], h.ProducerID, h.ProducerEpoch))
		}
		b = b[h.Size():]
	}
	return out
}

// TestOpenTransactions takes over transactions of several producers in several partitions, offsets among what they hold. What a
// coordinator had decided ends that way, whatever is asked for: the producer may have been told. The others stay open, or are
// aborted.
func TestOpenTransactions(t *testing.T) {
	for _, abort := range []bool{false, true} {
		from := kafka(t, metadataLog(0, partitions("t", 5, 3), topic(offsetsTopic, 6, node), topic(transactionsTopic, 7, node))...)
		s, err := storage.Open(storage.StoreOptions{Dirs: []string{from}, NodeID: node})
		if err != nil {
			t.Fatal(err)
		}
		v := []byte("v")
		for _, x := range []struct {
			partition int32
			id        batch.ProducerID
			epoch     batch.ProducerEpoch
		}{{0, 100, 0}, {0, 103, 4}, {0, 104, 0}, {1, 100, 0}, {1, 101, 2}, {1, 100, 0}, {2, 101, 2}, {2, 102, 0}, {2, 105, 3}, {2, 106, 0}} {
			put(t, s, "t", 5, x.partition, x.id, x.epoch, nil, v)
		}
		put(t, s, offsetsTopic, 6, 0, 101, 2, []byte{0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}, []byte{0, 3})
		put(t, s, offsetsTopic, 6, 0, 100, 0, []byte{0, 1, 0, 1, 'h', 0, 1, 't', 0, 0, 0, 0}, []byte{0, 3})
		for _, r := range [][2][]byte{
			stateRecord("undecided", 1, 100, 0, 1), stateRecord("commits", 1, 101, 2, 1), stateRecord("commits", 1, 101, 2, byte(kmsg.TransactionStatePrepareCommit), "t-1", "t-2", offsetsTopic+"-0"),
			stateRecord("fenced", 0, 102, 1, byte(kmsg.TransactionStatePrepareAbort), "t-2"), // the epoch that fences is the marker's
			stateRecord("ended and begun again", 0, 103, 3, byte(kmsg.TransactionStatePrepareCommit), "t-0"), stateRecord("ended and begun again", 0, 103, 3, 4), stateRecord("ended and begun again", 0, 103, 4, 1),
			stateRecord("removed", 0, 104, 0, byte(kmsg.TransactionStatePrepareCommit), "t-0"), {stateRecord("removed", 0, 104, 0, 0)[0], nil},
			stateRecord("an older epoch", 0, 105, 2, byte(kmsg.TransactionStatePrepareCommit), "t-2"), stateRecord("elsewhere", 1, 106, 0, byte(kmsg.TransactionStatePrepareCommit), "t-1"), stateRecord("of a later Kafka", 2, 106, 0, byte(kmsg.TransactionStatePrepareCommit), "t-0"),
			{[]byte{0, 9}, v}, {[]byte{0}, v},
		} {
			put(t, s, transactionsTopic, 7, 0, 0, 0, r[0], r[1])
		}
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "ours")
		r, err := Run(Options{From: []string{from}, To: []string{to}, Abort: abort})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, x := range r.Open {
			told = append(told, fmt.Sprintf("%s-%d from %d, %d: %s", x.Topic, x.Partition, x.First, x.ProducerID, x.Outcome))
		}
		ours := map[bool]string{false: "left open", true: "aborted"}[abort]
		const decided = ", as its coordinator had decided"
		if want := []string{
			"__consumer_offsets-0 from 1, 100: " + ours, "__consumer_offsets-0 from 0, 101: committed" + decided,
			"t-0 from 0, 100: " + ours, "t-0 from 1, 103: " + ours, "t-0 from 2, 104: " + ours,
			"t-1 from 0, 100: " + ours, "t-1 from 1, 101: committed" + decided,
			"t-2 from 0, 101: committed" + decided, "t-2 from 1, 102: aborted" + decided, "t-2 from 2, 105: " + ours, "t-2 from 3, 106: " + ours,
		}; !slices.Equal(told, want) {
			t.Errorf("abort %v: it tells\n%s\nand not\n%s", abort, strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		for dir, want := range map[string][2][]string{ // if nothing is asked for, and with abort
			offsetsTopic + "-0": {{"commit of 101/2"}, {"abort of 100/0", "commit of 101/2"}},
			"t-0":               {nil, {"abort of 100/0", "abort of 103/4", "abort of 104/0"}},
			"t-1":               {{"commit of 101/2"}, {"abort of 100/0", "commit of 101/2"}},
			"t-2":               {{"commit of 101/2", "abort of 102/1"}, {"commit of 101/2", "abort of 102/1", "abort of 105/3", "abort of 106/0"}},
		} {
			i := map[bool]int{false: 0, true: 1}[abort]
			if got := markers(t, filepath.Join(to, dir)); !slices.Equal(got, want[i]) {
				t.Errorf("abort %v: the markers of %s are %v, not %v", abort, dir, got, want[i])
			}
		}
		if s, err = storage.Open(storage.StoreOptions{Dirs: []string{to}, NodeID: node}); err != nil {
			t.Fatal(err)
		}
		for p, want := range map[int32]batch.Offset{0: 0, 1: 0, 2: 2} { // the last stable offsets of what stays open
			l, err := s.Log("t", id(5), p, log.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			v := l.View()
			if abort {
				want = v.LogEnd()
			}
			if v.LastStable() != want || v.HighWatermark() != v.LogEnd() {
				t.Errorf("abort %v: t-%d is stable to %d of %d, not to %d", abort, p, v.LastStable(), v.LogEnd(), want)
			}
		}
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
	}
}
