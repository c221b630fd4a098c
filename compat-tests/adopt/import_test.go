//go:build compat

package adopt

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// joinConsumers has a member join a consumer group (KIP-848) and commit an offset.
func joinConsumers(t *testing.T, addr, group, topic string, at int64) {
	t.Helper()
	c := conn(t, addr)
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Version, join.Group, join.MemberID, join.MemberEpoch, join.RebalanceTimeoutMillis = 1, group, "a-member", 0, 60000
	join.SubscribedTopicNames, join.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	var joined *kmsg.ConsumerGroupHeartbeatResponse
	for n := 0; ; n++ {
		joined = ask[*kmsg.ConsumerGroupHeartbeatResponse](t, c, join)
		if joined.ErrorCode == 0 || n == 200 {
			break
		}
		time.Sleep(50 * time.Millisecond) // the coordinator loads
	}
	if joined.ErrorCode != 0 {
		t.Fatalf("ConsumerGroupHeartbeat: error %d %s", joined.ErrorCode, zero(joined.ErrorMessage))
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.MemberID, commit.Generation = 9, group, "a-member", joined.MemberEpoch
	rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = at
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	commit.Topics = append(commit.Topics, rt)
	if r := ask[*kmsg.OffsetCommitResponse](t, c, commit); r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("OffsetCommit: error %d", r.Topics[0].Partitions[0].ErrorCode)
	}
}

// joinShare has a member join a share group (KIP-932).
func joinShare(t *testing.T, addr, group, topic string) {
	t.Helper()
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.Version, join.GroupID, join.MemberID, join.MemberEpoch, join.SubscribedTopicNames = 1, group, "AAAAAAAAAAAAAAAAAAAAAg", 0, []string{topic}
	c := conn(t, addr)
	for n := 0; ; n++ {
		r := ask[*kmsg.ShareGroupHeartbeatResponse](t, c, join)
		if r.ErrorCode == 0 {
			return
		}
		if n == 200 {
			t.Fatalf("ShareGroupHeartbeat: error %d %s", r.ErrorCode, zero(r.ErrorMessage))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func zero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// snapshots are the metadata checkpoints above offset 0.
func snapshots(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "__cluster_metadata-0", "*.checkpoint"))
	ok(t, err)
	var out []string
	for _, name := range all {
		if !strings.HasPrefix(filepath.Base(name), strings.Repeat("0", 20)) {
			out = append(out, filepath.Base(name))
		}
	}
	return out
}

// TestEverythingElseOfKafkas has a Kafka write what the simple case has not: several data directories and one of its own for
// the metadata, which have been snapshotted and whose log has been cut below; eligible leader replicas (KIP-966); groups of
// the newer kinds; what is to be told of because nothing here takes it over. It is killed, and the import may not write where
// it reads.
func TestEverythingElseOfKafkas(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	// Others have to get at what is theirs to read.
	ok(t, os.Chmod(dir, 0o755))
	ok(t, os.Chmod(filepath.Dir(dir), 0o755))
	one, two, meta := filepath.Join(dir, "data"), filepath.Join(dir, "more"), filepath.Join(dir, "meta")
	k, err := kafka.Start(ctx, kafka.Options{Dir: dir, Properties: map[string]string{
		"log.dirs": one + "," + two, "metadata.log.dir": meta,
		"metadata.log.max.record.bytes.between.snapshots": "2000", "metadata.log.max.snapshot.interval.ms": "500",
		"metadata.max.retention.bytes": "3000", "metadata.max.retention.ms": "1000", "metadata.log.segment.bytes": "8388608",
		"group.share.enable": "true", "log.flush.start.offset.checkpoint.interval.ms": "500", "log.initial.task.delay.ms": "500",
	}})
	ok(t, err)
	t.Cleanup(k.Kill)
	adm := kadm.NewClient(client(t, k.Bootstrap))
	for i := range 30 {
		r, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": str(fmt.Sprint(100_000_000 + i))}, fmt.Sprint("many-", i))
		ok(t, cmp.Or(err, r.Err))
	}
	fill(t, k.Bootstrap)
	joinConsumers(t, k.Bootstrap, "next", "plain", 5)
	joinShare(t, k.Bootstrap, "sharers", "plain")
	var quota []kadm.AlterClientQuotaEntry
	quota = append(quota, kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: str("someone")}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e6}}})
	_, err = adm.AlterClientQuotas(ctx, quota)
	ok(t, err)
	ok(t, client(t, k.Bootstrap).ProduceSync(ctx, &kgo.Record{Topic: "many-3", Value: []byte("v")}).FirstErr())
	for deadline := time.Now().Add(time.Minute); len(snapshots(t, meta)) == 0; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Kafka has made no snapshot of its metadata")
		}
	}
	r, err := adm.CreateTopic(ctx, 1, 1, nil, "behind-the-snapshot")
	ok(t, cmp.Or(err, r.Err))
	all := append([]string{"behind-the-snapshot", "many-0", "many-3", "many-29"}, topics[:4]...)
	awaitLeaders(t, k.Bootstrap, all...)
	theirs := seen(t, k.Bootstrap, all...)
	next, err := adm.FetchOffsets(ctx, "next")
	ok(t, err)
	time.Sleep(2 * time.Second) // what DeleteRecords has moved is stored by then
	k.Kill()

	to, more := filepath.Join(dir, "writable", "one"), filepath.Join(dir, "writable", "two")
	ok(t, os.Mkdir(filepath.Dir(to), 0o777))
	ok(t, os.Chmod(filepath.Dir(to), 0o777))
	for _, name := range snapshots(t, meta) { // Kafka's are its owner's to read
		ok(t, os.Chmod(filepath.Join(meta, "__cluster_metadata-0", name), 0o444))
	}
	before := tree(t, one, two, meta)
	out := importAsNobody(t, "import", one+","+two, "--metadata-dir", meta, "--log-dir", to+","+more)
	t.Logf("%s", out)
	for _, want := range []string{
		`not taken over: consumer group (KIP-848) "next": `, `not taken over: share group (KIP-932) "sharers": `, "offsets it has committed are taken over",
		"not taken over: metadata: 1 ClientQuotaRecord", "feature eligible.leader.replicas.version at level 1", "which had stopped not in order",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if after := tree(t, one, two, meta); after != before {
		t.Errorf("what was read was changed:\n%s\n%s", before, after)
	}
	b, err := launch.Start(launch.Options{Dir: to + "," + more})
	ok(t, err)
	t.Cleanup(b.Kill)
	compare(t, seen(t, b.Bootstrap, all...), theirs)
	got, err := kadm.NewClient(client(t, b.Bootstrap)).FetchOffsets(ctx, "next")
	ok(t, err)
	if x, _ := got.Lookup("plain", 0); x.At != 5 || len(got) != len(next) {
		t.Errorf("committed by the consumer group: %+v, at Kafka %+v", got, next)
	}
	if n := len(dirsWithPartitions(t, more)); n == 0 {
		t.Error("nothing lies in the second directory")
	}
	ok(t, b.Stop())
	for _, d := range []string{to, more} {
		verified(t, d)
	}
}

// verified has `millrace log verify` look at a directory that was closed in order.
func verified(t *testing.T, dir string) {
	t.Helper()
	binary, err := launch.Binary()
	ok(t, err)
	out, err := exec.Command(binary, "log", "verify", dir).CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), ": sound; ") {
		t.Errorf("log verify: %v: %s", err, out)
	}
}

func str(s string) *string { return &s }

var partitionName = regexp.MustCompile(`-\d+$`)

func dirsWithPartitions(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	ok(t, err)
	var out []string
	for _, e := range entries {
		if e.IsDir() && partitionName.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// tree is which files directories hold, with their sizes and times.
func tree(t *testing.T, dirs ...string) string {
	t.Helper()
	var out strings.Builder
	for _, dir := range dirs {
		ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano(), info.Mode())
			return nil
		}))
	}
	return out.String()
}

// importAsNobody runs the binary as a user who may read what it reads and not write there.
func importAsNobody(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := launch.Binary()
	ok(t, err)
	cmd := exec.Command(binary, args...)
	if os.Geteuid() == 0 {
		// For root, every directory is one to write to. The binary is put where everybody may run it.
		b, err := os.ReadFile(binary)
		ok(t, err)
		open := filepath.Join(filepath.Dir(filepath.Dir(strings.Split(args[len(args)-1], ",")[0])), "millrace")
		ok(t, os.WriteFile(open, b, 0o755))
		cmd = exec.Command(open, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else {
		for _, dir := range append(strings.Split(args[1], ","), args[3]) {
			ok(t, os.Chmod(dir, 0o555))
			t.Cleanup(func() { os.Chmod(dir, 0o755) })
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
