//go:build compat

package adopt

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// move asks for a partition to lie in another data directory.
func move(t *testing.T, addr, topic string, p int32, to string) {
	t.Helper()
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = 2
	dir, rt := kmsg.NewAlterReplicaLogDirsRequestDir(), kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	rt.Topic, rt.Partitions = topic, []int32{p}
	dir.Dir, dir.Topics = to, append(dir.Topics, rt)
	req.Dirs = append(req.Dirs, dir)
	if r := ask[*kmsg.AlterReplicaLogDirsResponse](t, conn(t, addr), req).Topics[0].Partitions[0]; r.ErrorCode != 0 {
		t.Fatalf("AlterReplicaLogDirs: error %d", r.ErrorCode)
	}
}

// endOf asks where a partition ends, and what there is to fetch of it.
func endOf(t *testing.T, addr, topic string, p int32) (end int64, code int16, fetched int) {
	t.Helper()
	c := conn(t, addr)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = p, -1
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	list.Topics = append(list.Topics, rt)
	x := ask[*kmsg.ListOffsetsResponse](t, c, list).Topics[0].Partitions[0]
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MaxBytes, fetch.SessionEpoch = 12, 0, 1<<20, -1
	ft, fp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.PartitionMaxBytes = p, 1<<20
	ft.Topic, ft.Partitions = topic, append(ft.Partitions, fp)
	fetch.Topics = append(fetch.Topics, ft)
	y := ask[*kmsg.FetchResponse](t, c, fetch).Topics[0].Partitions[0]
	return x.Offset, cmp.Or(x.ErrorCode, y.ErrorCode), len(y.RecordBatches)
}

// TestDirectoriesOfKafkas has a Kafka with two data directories killed while it moves a partition from one to the other. All is
// taken over where both are named. Where one is not, that is told, and no partition in it is served as an empty one.
func TestDirectoriesOfKafkas(t *testing.T) {
	const partitions = 8
	ctx, dir := t.Context(), t.TempDir()
	one, two := filepath.Join(dir, "data"), filepath.Join(dir, "more")
	k, err := kafka.Start(ctx, kafka.Options{Dir: dir, Properties: map[string]string{"log.dirs": one + "," + two}})
	ok(t, err)
	t.Cleanup(k.Kill)
	adm := kadm.NewClient(client(t, k.Bootstrap))
	for topic, n := range map[string]int32{"spread": partitions, "moving": 1} {
		r, err := adm.CreateTopic(ctx, n, 1, map[string]*string{"segment.bytes": str("1048576")}, topic)
		ok(t, cmp.Or(err, r.Err))
	}
	awaitLeaders(t, k.Bootstrap, "spread", "moving")
	c := client(t, k.Bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 30 {
		ok(t, c.ProduceSync(ctx, &kgo.Record{Topic: "spread", Partition: int32(i % partitions), Value: fmt.Append(nil, i)}).FirstErr())
		ok(t, c.ProduceSync(ctx, &kgo.Record{Topic: "moving", Key: fmt.Append(nil, i), Value: make([]byte, 100_000)}).FirstErr())
	}
	for n := 0; ; n++ { // the first to ask has the topic of the offsets made
		err := adm.CommitAllOffsets(ctx, "readers", kadm.Offsets{"moving": {0: {Topic: "moving", At: 3, LeaderEpoch: -1}}})
		if err == nil {
			break
		}
		if n == 100 {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	set(t, k.Bootstrap, setting{of: ofBroker, name: "1", key: "replica.alter.log.dirs.io.max.bytes.per.second", value: "10000"})
	to := one
	if _, err := os.Stat(filepath.Join(one, "moving-0")); err == nil {
		to = two
	}
	move(t, k.Bootstrap, "moving", 0, to)
	theirs := seen(t, k.Bootstrap, "spread", "moving")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		logs, _ := filepath.Glob(filepath.Join(to, "moving-0.*-future", "*.log"))
		size := int64(0)
		for _, name := range logs {
			if info, err := os.Stat(name); err == nil {
				size += info.Size()
			}
		}
		if size > 0 && size < 3_000_000 {
			break
		}
		if time.Now().After(deadline) || size > 0 {
			t.Fatalf("the move is not half done: %v, %d bytes", logs, size)
		}
	}
	k.Kill()
	in := map[string][]string{one: dirsWithPartitions(t, one), two: dirsWithPartitions(t, two)}
	lost := slices.DeleteFunc(slices.Clone(in[two]), func(name string) bool { return strings.HasPrefix(name, "__") })
	if len(lost) == 0 || len(in[one]) < 2 {
		t.Fatalf("they are not spread: %q", in)
	}

	binary, err := launch.Binary()
	ok(t, err)
	run := func(args ...string) (string, error) {
		out, err := exec.Command(binary, append([]string{"import"}, args...)...).CombinedOutput()
		t.Logf("%s", out)
		return string(out), err
	}
	ours := []string{filepath.Join(dir, "ours", "one"), filepath.Join(dir, "ours", "two")}
	out, err := run(one+","+two, "--log-dir", strings.Join(ours, ","))
	if err != nil || !strings.Contains(out, "-future is a part of moving-0, which was on its way there") {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := launch.Start(launch.Options{Dir: strings.Join(ours, ",")})
	ok(t, err)
	compare(t, seen(t, b.Bootstrap, "spread", "moving"), theirs)
	ok(t, b.Stop())
	for _, d := range ours {
		verified(t, d)
	}

	half, id := filepath.Join(dir, "half"), directoryID(t, two)
	out, err = run(one, "--log-dir", half)
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(out, "a data directory is missing: Kafka had more than "+one) || !strings.Contains(out, "the directory.id "+base64.RawURLEncoding.EncodeToString(id[:])) || !strings.Contains(out, "--without-missing-dirs") || strings.Count(out, "\n") != 1 {
		t.Errorf("one of two: %v, %s", err, out)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("something was written")
	}
	if out, err = run(one, "--log-dir", half, "--without-missing-dirs"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range in[two] {
		if strings.Count(out, "not taken over: "+name+": it lies in the data directory with the directory.id ") != 1 {
			t.Errorf("it does not tell of %s", name)
		}
	}
	if strings.Contains(out, "begins anew") {
		t.Error("something begins anew")
	}
	for range 2 {
		b, err = launch.Start(launch.Options{Dir: half})
		ok(t, err)
		t.Cleanup(b.Kill)
		for p := range int32(partitions) {
			end, code, fetched := endOf(t, b.Bootstrap, "spread", p)
			if slices.Contains(lost, "spread-"+strconv.Itoa(int(p))) {
				if end >= 0 || code == 0 || fetched > 0 {
					t.Errorf("spread-%d, which is lost, ends at %d: error %d", p, end, code)
				}
				batch := rawBatch{first: time.Now().UnixMilli(), records: []record{{value: []byte("v")}}}
				if r := produce(t, conn(t, b.Bootstrap), "spread", p, batch.bytes()); r.ErrorCode == 0 {
					t.Errorf("spread-%d, which is lost, takes a record at %d", p, r.BaseOffset)
				}
			} else if want := int64((30 + partitions - 1 - int(p)) / partitions); end < want || code != 0 || fetched == 0 {
				t.Errorf("spread-%d, which is there, ends at %d and not %d: error %d", p, end, want, code)
			}
		}
		ok(t, b.Stop())
	}
}
