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
	"slices"
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

// The types of what has configs.
const (
	ofBroker        = 4
	ofClientMetrics = 16
	ofGroup         = 32
)

// setting is a config that is set, or taken back.
type setting struct {
	of            int8
	name          string
	key, value    string
	andBackToBare bool
}

// configure sets configs of everything but topics, and takes some of them back.
func configure(t *testing.T, addr string) {
	t.Helper()
	for _, s := range []setting{
		{of: ofBroker, name: "1", key: "log.cleaner.io.max.bytes.per.second", value: "12345678"},
		{of: ofBroker, name: "1", key: "message.max.bytes", value: "2097152"},
		{of: ofBroker, name: "1", key: "background.threads", value: "9", andBackToBare: true},
		{of: ofBroker, key: "message.max.bytes", value: "3145728"},
		{of: ofBroker, key: "log.retention.ms", value: "777600000"},
		{of: ofBroker, key: "compression.type", value: "zstd", andBackToBare: true},
		{of: ofGroup, name: "next", key: "consumer.session.timeout.ms", value: "50000"},
		{of: ofGroup, name: "next", key: "consumer.heartbeat.interval.ms", value: "6000"},
		{of: ofGroup, name: "sharers", key: "share.auto.offset.reset", value: "earliest"},
		{of: ofGroup, name: "of-nobody", key: "consumer.session.timeout.ms", value: "51000"},
		{of: ofClientMetrics, name: "phones", key: "metrics", value: "org.apache.kafka.producer.,org.apache.kafka.consumer."},
		{of: ofClientMetrics, name: "phones", key: "interval.ms", value: "15000"},
		{of: ofClientMetrics, name: "phones", key: "match", value: "client_software_name=apache-kafka-java"},
		{of: ofClientMetrics, name: "gone", key: "interval.ms", value: "16000", andBackToBare: true},
	} {
		set(t, addr, s)
	}
}

func set(t *testing.T, addr string, s setting) {
	t.Helper()
	for _, op := range []kmsg.IncrementalAlterConfigOp{kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete} {
		if op == kmsg.IncrementalAlterConfigOpDelete && !s.andBackToBare {
			continue
		}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		r, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(s.of), s.name
		if c.Name, c.Op = s.key, op; op == kmsg.IncrementalAlterConfigOpSet {
			c.Value = &s.value
		}
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, conn(t, addr), req).Resources[0]; got.ErrorCode != 0 {
			t.Fatalf("%+v: error %d %s", s, got.ErrorCode, zero(got.ErrorMessage))
		}
	}
}

// configured is what a broker says is set of everything but topics, by whom it was set, and of which groups and client metrics it
// has configs; a line each.
func configured(t *testing.T, addr string) (out []string) {
	t.Helper()
	c := conn(t, addr)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	for _, of := range []setting{{of: ofBroker, name: "1"}, {of: ofBroker}, {of: ofGroup, name: "next"}, {of: ofGroup, name: "sharers"}, {of: ofGroup, name: "of-nobody"}, {of: ofClientMetrics, name: "phones"}, {of: ofClientMetrics, name: "gone"}} {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(of.of), of.name
		req.Resources = append(req.Resources, r)
	}
	for _, r := range ask[*kmsg.DescribeConfigsResponse](t, c, req).Resources {
		if r.ErrorCode != 0 {
			t.Fatalf("configs of %d %q: error %d", r.ResourceType, r.ResourceName, r.ErrorCode)
		}
		for _, x := range r.Configs {
			if x.Source != kmsg.ConfigSourceDefaultConfig && x.Source != kmsg.ConfigSourceStaticBrokerConfig {
				out = append(out, fmt.Sprintf("config of %v %q: %s=%s, source %v", r.ResourceType, r.ResourceName, x.Name, zero(x.Value), x.Source))
			}
		}
	}
	names := kmsg.NewPtrListConfigResourcesRequest()
	names.Version, names.ResourceTypes = 1, []int8{ofGroup, ofClientMetrics}
	for _, r := range ask[*kmsg.ListConfigResourcesResponse](t, c, names).ConfigResources {
		out = append(out, fmt.Sprintf("configs of %d %q", r.Type, r.Name))
	}
	slices.Sort(out)
	return out
}

// leaveHalfDone makes of a data directory that nobody closed one in which cleanings, removals and moves were under way. It counts
// the partitions of each topic that it changes.
func leaveHalfDone(t *testing.T, data string, count map[string]int) {
	t.Helper()
	first := strings.Repeat("0", 20)
	for _, dir := range dirsWithPartitions(t, data) {
		at := func(name string) string { return filepath.Join(data, dir, name) }
		b, err := os.ReadFile(at(first + ".log"))
		if err != nil {
			continue // it begins later
		}
		topic, _, _ := strings.Cut(dir, "-")
		count[topic]++
		switch topic {
		case "plain": // the cleaner's segment is being renamed; the old one has its other name
			for _, suffix := range []string{".log", ".index", ".timeindex"} {
				ok(t, os.Rename(at(first+suffix), at(first+suffix+".swap")))
			}
			ok(t, os.WriteFile(at(first+".log.deleted"), b[:len(b)/2], 0o644))
		case "packed": // it is ready, and nothing was renamed yet
			ok(t, os.WriteFile(at(first+".log.swap"), b, 0o644))
			ok(t, os.WriteFile(at(first+".index.swap"), nil, 0o644))
			ok(t, os.WriteFile(at(first+".timeindex.swap"), nil, 0o644))
		case "compacted": // it is being written
			ok(t, os.WriteFile(at(first+".log.cleaned"), b[:len(b)/2], 0o644))
			ok(t, os.WriteFile(at(first+".index.cleaned"), make([]byte, 1<<20), 0o644))
			future := filepath.Join(data, dir+"."+strings.Repeat("0123456789abcdef", 2)+"-future")
			copyAll(t, filepath.Join(data, dir), future)
			ok(t, os.Truncate(filepath.Join(future, first+".log"), int64(len(b)/3)))
		case "trimmed":
			copyAll(t, filepath.Join(data, dir), filepath.Join(data, dir+"."+strings.Repeat("0123456789abcdef", 2)+"-delete"))
		}
	}
}

// TestEverythingElseOfKafkas has a Kafka write what the simple case has not: several data directories and one of its own for
// the metadata, which have been snapshotted and whose log has been cut below; eligible leader replicas (KIP-966); groups of
// the newer kinds; configs of everything that has some; what is to be told of because nothing here takes it over. It is killed,
// in the midst of cleanings and moves as far as its directories tell, and the import may not write where it reads.
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
	configure(t, k.Bootstrap)
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
	theirs, settings := seen(t, k.Bootstrap, all...), configured(t, k.Bootstrap)
	if len(settings) < 12 {
		t.Fatalf("few configs are compared: %q", settings)
	}
	next, err := adm.FetchOffsets(ctx, "next")
	ok(t, err)
	time.Sleep(2 * time.Second) // what DeleteRecords has moved is stored by then
	k.Kill()
	half := map[string]int{}
	for _, data := range []string{one, two} {
		leaveHalfDone(t, data, half)
	}
	if half["plain"] == 0 || half["packed"] == 0 || half["compacted"] == 0 || half["trimmed"] == 0 {
		t.Fatalf("half done is %v", half)
	}

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
		"not taken over: metadata: 1 ClientQuotaRecord", "-future is a part of compacted-", "-delete is of a partition that was deleted", "feature eligible.leader.replicas.version at level 1", "which had stopped not in order",
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
	compare(t, configured(t, b.Bootstrap), settings)
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
