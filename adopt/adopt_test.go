package adopt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/storage"
	"millrace/storage/batch"
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
		torn := metadataBatch(60, topic("torn", 20, node)...)
		from := kafka(t,
			metadataBatch(0, &records.BeginTransactionRecord{}, &records.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 33}, &records.FeatureLevelRecord{Name: "share.version", FeatureLevel: 1}, &records.EndTransactionRecord{}),
			metadataBatch(10, topic("a", 1, node)...),
			metadataBatch(20, topic("gone", 2, node)...),
			metadataBatch(22, &records.RemoveTopicRecord{TopicId: id(2)}),
			metadataBatch(30, topic("other", 3, node)...), // whose files are of another id
			metadataBatch(40, append([]records.Metadata{&records.BeginTransactionRecord{}}, topic("undone", 4, node)...)...),
			metadataBatch(43, &records.AbortTransactionRecord{}),
			metadataBatch(50, setting(image.TopicResource, "a", "retention.ms", "7"), setting(image.TopicResource, "a", "segment.bytes", "nonsense"), &records.RemoveAccessControlEntryRecord{}),
			torn[:len(torn)-1])
		to := filepath.Join(t.TempDir(), "ours")
		r, err := Run(Options{From: []string{from}, To: []string{to}, Abort: abort})
		if err != nil {
			t.Fatal(err)
		}
		if r.Topics != 2 || r.Logs != 1 || r.Records != 3 || !r.Clean || r.NodeID != node || r.ClusterID != "MkU3OEVBNTcwNTJENDM2Qg" {
			t.Errorf("%+v", r)
		}
		if len(r.Open) != 1 || r.Open[0] != (Transaction{Topic: "a", ProducerID: 70, Aborted: abort}) {
			t.Errorf("open are %+v", r.Open)
		}
		left := strings.Join(r.Left, "\n")
		for _, want := range []string{"other-0 is of another topic", "stray-0 belongs to no partition", "share.version at level 1", "segment.bytes=nonsense", "1 RemoveAccessControlEntryRecord", "no whole batch"} {
			if !strings.Contains(left, want) {
				t.Errorf("it does not tell of %q:\n%s", want, left)
			}
		}
		img := seeded(t, to)
		if img.ClusterID() != r.ClusterID || img.NumTopics() != 2 || img.TopicByName("a").ID != id(1) || img.Offset() < 51 || img.Feature("metadata.version") != 33 {
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
	good := metadataBatch(10, topic("a", 1, node)...)
	bad := append([]byte{}, good...)
	bad[len(bad)-1] ^= 1
	for name, c := range map[string]struct {
		from func(t *testing.T) string
		want string
	}{
		"another replica":  {func(t *testing.T) string { return kafka(t, metadataBatch(10, topic("a", 1, node, 6)...)) }, "only a node that is a whole cluster"},
		"no metadata":      {func(t *testing.T) string { return kafka(t) }, "holds no metadata"},
		"damaged metadata": {func(t *testing.T) string { return kafka(t, bad) }, "holds no metadata"},
		"contradictions":   {func(t *testing.T) string { return kafka(t, good, metadataBatch(20, topic("a", 2, node)...)) }, "does not hold together"},
		"not a directory":  {func(t *testing.T) string { return t.TempDir() }, "no meta.properties"},
		"nothing":          {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "no meta.properties"},
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
