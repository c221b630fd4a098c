package adopt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/log"
	"millrace/storage/producer"
	"millrace/wire/records"
)

const node = 5

func id(b byte) [16]byte { return [16]byte{0: 0x4a, 6: 0x40, 8: 0x80, 15: b} }

// metadataBatch is a batch of metadata records as Kafka writes them.
func metadataBatch(base batch.Offset, list ...records.Metadata) []byte {
	u := batch.NewBuilder(batch.BuilderOptions{Base: base, LeaderEpoch: 1})
	for _, r := range list {
		u.Add(1_700_000_000_000, nil, records.AppendMetadata(nil, r))
	}
	return u.Bytes()
}

// metadataLog is batches one behind another, as a metadata log has them.
func metadataLog(from batch.Offset, lists ...[]records.Metadata) (out [][]byte) {
	for _, list := range lists {
		out = append(out, metadataBatch(from, list...))
		from += batch.Offset(len(list))
	}
	return out
}

func list(l ...records.Metadata) []records.Metadata { return l }

func topic(name string, b byte, replicas ...int32) []records.Metadata {
	p := records.NewPartitionRecord()
	p.PartitionId, p.TopicId, p.Replicas, p.Isr, p.Leader, p.LeaderEpoch = 0, id(b), replicas, replicas, replicas[0], 3
	return []records.Metadata{&records.TopicRecord{Name: name, TopicId: id(b)}, p}
}

func setting(kind image.ResourceType, name, key, value string) *records.ConfigRecord {
	return &records.ConfigRecord{ResourceType: int8(kind), ResourceName: name, Name: key, Value: &value}
}

// kafka writes a directory as a single node of Kafka leaves it, and gives it.
func kafka(t *testing.T, metadata ...[]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kafka")
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir}, NodeID: node})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta("MkU3OEVBNTcwNTJENDM2Qg", node); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]byte{"a": 1, "other": 9, "stray": 8} {
		l, err := s.Log(name, id(b), 0, log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		for sequence := range int32(3) {
			u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: 70, BaseSequence: sequence, Transactional: true})
			u.Add(time.Now().UnixMilli(), nil, []byte("v"))
			h, err := batch.ParseHeader(u.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.AppendWith(u.Bytes(), h, time.Now().UnixMilli(), producer.Rules{Verified: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, metadataDir)
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, b := range metadata {
		all = append(all, b...)
	}
	if err := os.WriteFile(filepath.Join(at, "00000000000000000000.log"), all, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unclean makes a directory one that was not closed in order.
func unclean(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// seeded reads the image that a start finds.
func seeded(t *testing.T, dir string) *image.Image {
	t.Helper()
	rl, err := raftlog.Open(filepath.Join(dir, metadataDir))
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	s, err := rl.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	e, err := image.DecodeEntry(s.GetData())
	if err != nil {
		t.Fatal(err)
	}
	return image.FromSnapshot(int64(s.GetMetadata().GetIndex()), e)
}

// TestSeveralDirectories takes over a node with two directories, of which one was closed in order and the other holds the
// metadata. Each log goes where its directory goes.
func TestSeveralDirectories(t *testing.T) {
	from := [2]string{kafka(t), kafka(t, metadataLog(0, topic("a", 1, node), topic("b", 2, node))...)}
	for i, gone := range [][]string{{"other-0", "stray-0", metadataDir, ".kafka_cleanshutdown"}, {"a-0", "other-0", "stray-0"}} {
		for _, name := range gone {
			if err := os.RemoveAll(filepath.Join(from[i], name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := storage.Open(storage.StoreOptions{Dirs: from[1:], NodeID: node})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log("b", id(2), 0, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(time.Now().UnixMilli(), nil, []byte("v"))
	h, _ := batch.ParseHeader(u.Bytes())
	if _, err := l.Append(u.Bytes(), h, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	to := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	if _, err := Run(Options{From: from[:], To: to[:1]}); err == nil || !strings.Contains(err.Error(), "name one for each") {
		t.Errorf("into one: %v", err)
	}
	r, err := Run(Options{From: from[:], To: to})
	if err != nil {
		t.Fatal(err)
	}
	if r.Clean || r.Topics != 2 || r.Logs != 2 || r.Records != 4 {
		t.Errorf("%+v", r)
	}
	for i, name := range []string{"a-0", "b-0"} {
		if _, err := os.Stat(filepath.Join(to[i], name)); err != nil {
			t.Error(err)
		}
		if x, y := storage.Inspect(nil, from[i]).Identity, storage.Inspect(nil, to[i]).Identity; x != y {
			t.Errorf("directory %d was %+v and is %+v", i, x, y)
		}
	}
	if seeded(t, to[0]).NumTopics() != 2 {
		t.Error("the metadata are not where a start looks for them")
	}
	// A log that lies in both is nobody's to choose.
	if err := os.Mkdir(filepath.Join(from[1], "a-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(Options{From: from[:], To: []string{filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y")}}); err == nil || !strings.Contains(err.Error(), "a-0 is in ") {
		t.Errorf("a log in both: %v", err)
	}
}

// What is written lies beside Kafka's directories and not in them, each by itself.
func TestWritesNothingIntoWhatItReads(t *testing.T) {
	from, other, to := kafka(t), kafka(t), filepath.Join(t.TempDir(), "ours")
	for name, o := range map[string]Options{
		"within":          {From: []string{from}, To: []string{filepath.Join(from, "new")}},
		"within another":  {From: []string{from, other}, To: []string{to, filepath.Join(other, "new")}},
		"one twice":       {From: []string{from, other}, To: []string{to, to + "/."}},
		"one in another":  {From: []string{from, other}, To: []string{to, filepath.Join(to, "more")}},
		"in the metadata": {From: []string{from}, Metadata: other, To: []string{filepath.Join(other, "new")}},
	} {
		if _, err := Run(o); !errors.Is(err, ErrOverlap) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(from, "new")); err == nil {
		t.Error("something was written")
	}
}

func TestTakesOver(t *testing.T) {
	for _, abort := range []bool{false, true} {
		clean := !abort
		written := metadataLog(0,
			list(&records.BeginTransactionRecord{}, &records.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 33}, &records.FeatureLevelRecord{Name: "share.version", FeatureLevel: 1}, &records.EndTransactionRecord{}),
			topic("a", 1, node),
			topic("gone", 2, node),
			list(&records.RemoveTopicRecord{TopicId: id(2)}),
			topic("other", 3, node), // whose files are of another id
			append(list(&records.BeginTransactionRecord{}), topic("undone", 4, node)...),
			list(&records.AbortTransactionRecord{}),
			list(setting(image.TopicResource, "a", "retention.ms", "7"), setting(image.TopicResource, "a", "segment.bytes", "nonsense"), &records.RemoveAccessControlEntryRecord{}),
			topic("torn", 20, node))
		torn := len(written) - 1
		if written[torn] = written[torn][:len(written[torn])-1]; clean {
			written = written[:torn]
		}
		from := kafka(t, written...)
		if !clean {
			unclean(t, from)
		}
		to := filepath.Join(t.TempDir(), "ours")
		r, err := Run(Options{From: []string{from}, To: []string{to}, Abort: abort})
		if err != nil {
			t.Fatal(err)
		}
		if r.Topics != 2 || r.Logs != 1 || r.Records != 3 || r.Clean != clean || r.NodeID != node || r.ClusterID != "MkU3OEVBNTcwNTJENDM2Qg" {
			t.Errorf("%+v", r)
		}
		if len(r.Open) != 1 || r.Open[0] != (Transaction{Topic: "a", ProducerID: 70, Outcome: map[bool]Outcome{false: LeftOpen, true: Aborted}[abort]}) {
			t.Errorf("open are %+v", r.Open)
		}
		left := strings.Join(r.Left, "\n")
		for _, want := range []string{"other-0 is of another topic", "stray-0 belongs to no partition", "share.version at level 1", "segment.bytes=nonsense", "1 RemoveAccessControlEntryRecord", "from offset 18 on, which are no whole batch"} {
			if !strings.Contains(left, want) && !(clean && strings.HasSuffix(want, "no whole batch")) {
				t.Errorf("it does not tell of %q:\n%s", want, left)
			}
		}
		img := seeded(t, to)
		if img.ClusterID() != r.ClusterID || img.NumTopics() != 2 || img.TopicByName("a").ID != id(1) || img.Offset() < 17 || img.Feature("metadata.version") != 33 {
			t.Errorf("%d topics at offset %d", img.NumTopics(), img.Offset())
		}
		if p := img.TopicByName("a").Partitions[0]; p.LeaderEpoch < 3 || len(p.ISR) != 1 {
			t.Errorf("%+v", p)
		}
		if c := img.Configs(image.TopicResource, "a"); c.Len() != 1 {
			t.Errorf("configs %v", c.All())
		}
		s, err := storage.Open(storage.StoreOptions{Dirs: []string{to}, NodeID: node})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Log("a", id(1), 0, log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]batch.Offset{false: 0, true: 4}[abort]
		if v := l.View(); v.LastStable() != want || v.HighWatermark() != v.LogEnd() || s.State() != storage.LeftClean {
			t.Errorf("abort %v: stable to %d of %d", abort, v.LastStable(), v.LogEnd())
		}
		if err := s.Close(true); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(Options{From: []string{from}, To: []string{to}}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("over what is there: %v", err)
		}
		// What it came from is as it was.
		if _, err := Run(Options{From: []string{from}, To: []string{filepath.Join(t.TempDir(), "again")}}); err != nil {
			t.Errorf("once more: %v", err)
		}
	}
}

func TestRefuses(t *testing.T) {
	good := metadataBatch(0, topic("a", 1, node)...)
	bad := append([]byte{}, good...)
	bad[len(bad)-1] ^= 1
	for name, c := range map[string]struct {
		from func(t *testing.T) string
		want string
	}{
		"another replica":  {func(t *testing.T) string { return kafka(t, metadataBatch(0, topic("a", 1, node, 6)...)) }, "only a node that is a whole cluster"},
		"no metadata":      {func(t *testing.T) string { return kafka(t) }, "holds no metadata"},
		"damaged metadata": {func(t *testing.T) string { return kafka(t, bad) }, "00000000000000000000.log at 0, offset 0: "},
		"torn metadata":    {func(t *testing.T) string { return unclean(t, kafka(t, bad)) }, "holds no metadata"},
		"contradictions":   {func(t *testing.T) string { return kafka(t, good, metadataBatch(2, topic("a", 2, node)...)) }, "does not hold together"},
		"a hole":           {func(t *testing.T) string { return kafka(t, good, metadataBatch(20, topic("b", 2, node)...)) }, "what comes from offset 2 on is nowhere"},
		"no beginning":     {func(t *testing.T) string { return kafka(t, metadataBatch(5, topic("b", 2, node)...)) }, "what comes from offset 0 on is nowhere"},
		"no broker's":      {func(t *testing.T) string { return t.TempDir() }, "no meta.properties"},
		"a file": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "README.md")
			write(t, path, nil)
			return path
		}, "README.md is no directory"},
		"below a file": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "README.md")
			write(t, path, nil)
			return filepath.Join(path, "below")
		}, "not a directory"},
		"what was taken over before": {func(t *testing.T) string {
			ours := filepath.Join(t.TempDir(), "before")
			if _, err := Run(Options{From: []string{kafka(t, good)}, To: []string{ours}}); err != nil {
				t.Fatal(err)
			}
			return ours
		}, "before is Millrace's already, and needs no import: millrace serve --override log.dirs="},
		"nothing": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "no meta.properties"},
		"a broker runs on it": {func(t *testing.T) string {
			dir := kafka(t, good)
			s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir}, NodeID: node})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close(false) })
			return dir
		}, "stop the broker first"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "ours")
			if _, err := Run(Options{From: []string{c.from(t)}, To: []string{to}}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if storage.Inspect(nil, to).Formatted {
				t.Error("the directory is marked as the node's")
			}
		})
	}
	if _, err := Run(Options{From: []string{"a", "b"}, To: []string{"c"}}); err == nil {
		t.Error("two directories become one")
	}
}

// TestSnapshot takes over metadata whose log goes on where its newest snapshot ends, or begins below that; what lies below is
// in the snapshot, and older snapshots are not read.
func TestSnapshot(t *testing.T) {
	snapshot := func(lists ...[]records.Metadata) []byte {
		control := func(base batch.Offset, kind byte) []byte {
			b := batch.NewBuilder(batch.BuilderOptions{Control: true, Base: base})
			b.Add(1, []byte{0, 0, 0, kind}, []byte{0, 0}) // nobody reads its contents
			return bytes.Clone(b.Bytes())
		}
		end := batch.Offset(1)
		for _, l := range lists {
			end += batch.Offset(len(l))
		}
		return slices.Concat(control(0, 3), bytesOf(metadataLog(1, lists...)), control(end, 4))
	}
	for name, c := range map[string]struct {
		log  [][]byte // its first batch begins the first segment
		at   batch.Offset
		want string // topics
		cut  bool   // the snapshot lacks its last batches
		err  string
	}{
		"the snapshot is cut":      {log: metadataLog(40, topic("new", 3, node)), at: 40, cut: true, err: "part of it is missing"},
		"a batch below it is lost": {log: slices.Delete(metadataLog(34, topic("x", 3, node), topic("y", 4, node), topic("z", 5, node)), 1, 2), at: 34, err: "begins at offset 38, and the batch before it ends at offset 36"},
		"an offset below it":       {log: [][]byte{metadataBatch(40, topic("new", 3, node)...), metadataBatch(10, topic("newer", 4, node)...)}, at: 40, err: "begins at offset 10, and the batch before it ends at offset 42"},
		"the log goes on":          {log: metadataLog(40, topic("new", 3, node)), at: 40, want: "a b new"},
		"the log begins below":     {log: metadataLog(38, topic("hidden", 4, node), topic("new", 3, node)), at: 38, want: "a b new"},
		"a batch across its end":   {log: metadataLog(39, list(&records.RemoveTopicRecord{TopicId: id(1)}, &records.RemoveTopicRecord{TopicId: id(2)})), at: 39, want: "a"},
		"there is no log":          {log: [][]byte{{}}, at: 40, want: "a b"},
		"the log begins above":     {log: metadataLog(41, topic("new", 3, node)), at: 41, err: "what comes from offset 40 on is nowhere"},
		"segments with a hole":     {log: [][]byte{metadataBatch(40, topic("new", 3, node)...), metadataBatch(43, topic("newer", 4, node)...)}, at: 40, err: "what comes from offset 42 on is nowhere"},
		"the log's end is torn":    {log: [][]byte{metadataBatch(40, topic("new", 3, node)...), metadataBatch(42, topic("newer", 4, node)...)[:70]}, at: 40, want: "a b new"},
		"the log's end was zeroed": {log: [][]byte{metadataBatch(40, topic("new", 3, node)...), make([]byte, 500)}, at: 40, want: "a b new"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put := func(name string, b []byte) {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			put("00000000000000000000-0000000000.checkpoint", snapshot(topic("formatted", 9, node)))
			put("00000000000000000020-0000000001.checkpoint", snapshot(topic("old", 8, node)))
			newest := snapshot(topic("a", 1, node), topic("b", 2, node))
			if c.cut {
				newest = newest[:len(snapshot(topic("a", 1, node)))-len(snapshot())/2]
			}
			put("00000000000000000040-0000000002.checkpoint", newest)
			put("00000000000000000050-0000000002.checkpoint.part", []byte("half"))
			put("00000000000000000060-0000000002.checkpoint.deleted", []byte("gone"))
			put(fmt.Sprintf("%020d.log", c.at), bytesOf(c.log))
			put(fmt.Sprintf("%020d.index", c.at), make([]byte, 80))
			m, err := readMetadata(disk.OS{}, dir, false, "MkU3OEVBNTcwNTJENDM2Qg", image.Node{ID: node})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for x := range m.img.Topics() {
				got = append(got, x.Name)
			}
			sort.Strings(got)
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("topics %s, not %s", s, c.want)
			}
		})
	}
}

func bytesOf(list [][]byte) (out []byte) {
	for _, b := range list {
		out = append(out, b...)
	}
	return out
}

// TestEligibleLeaders: what a node that is alone says of who may lead (KIP-966) ends with its taking over.
func TestEligibleLeaders(t *testing.T) {
	recs := topic("a", 1, node)
	gone := records.NewPartitionChangeRecord()
	gone.PartitionId, gone.TopicId, gone.Isr, gone.EligibleLeaderReplicas, gone.LastKnownElr, gone.Leader = 0, id(1), []int32{}, []int32{node}, []int32{node}, image.NoLeader
	from := kafka(t, metadataLog(0, list(&records.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 33}, &records.FeatureLevelRecord{Name: "eligible.leader.replicas.version", FeatureLevel: 1}), recs, list(gone))...)
	to := filepath.Join(t.TempDir(), "ours")
	if _, err := Run(Options{From: []string{from}, To: []string{to}}); err != nil {
		t.Fatal(err)
	}
	if p := seeded(t, to).TopicByName("a").Partitions[0]; len(p.ISR) != 1 || p.ISR[0] != node || len(p.ELR)+len(p.LastKnownELR) > 0 {
		t.Errorf("%+v", p)
	}
}

// TestGroups tells of the groups that are not taken over, by the last records of their keys.
func TestGroups(t *testing.T) {
	g := groups{keys: map[string]string{}}
	key := func(id int16, names ...string) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(id))
		for _, n := range names {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(n))), n...)
		}
		return b
	}
	value := []byte{0, 0}
	for _, r := range []batch.Record{
		{Key: key(1, "classic", "topic"), Value: value}, {Key: key(2, "classic"), Value: value},
		{Key: key(3, "c"), Value: value}, {Key: key(5, "c", "member"), Value: value}, {Key: key(5, "c", "member")},
		{Key: key(11, "s"), Value: value}, {Key: key(11, "s"), Value: value}, {Key: key(17, "ended"), Value: value}, {Key: key(17, "ended")},
		{Key: key(99, "x"), Value: value}, {Key: key(99, "x"), Value: value}, {Key: key(98, "y"), Value: value}, {Key: key(98, "y")}, {Key: []byte{0}}, {Key: key(3)[:2], Value: value}, {Key: []byte{0, 3, 0, 9, 'x'}, Value: value},
	} {
		g.note(r)
	}
	a := &adoption{report: &Report{}}
	g.tell(a)
	want := []string{
		`consumer group (KIP-848) "c": 1 records of its members and assignments; offsets it has committed are taken over`,
		`share group (KIP-932) "s": 1 records of its members and assignments and of where it stands`,
		"3 records of groups that are not understood",
	}
	if !slices.Equal(a.report.Left, want) {
		t.Errorf("%q", a.report.Left)
	}
}
