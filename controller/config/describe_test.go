package config

import (
	"fmt"
	"sort"
	"strings"
	"testing"
)

// show writes an entry in one line: name=value source flags [synonyms].
func show(e Entry) string {
	text := func(v *string) string {
		if v == nil {
			return "null"
		}
		return *v
	}
	s := fmt.Sprintf("%s=%s %d", e.Name, text(e.Value), e.Source)
	if e.Sensitive {
		s += " sensitive"
	}
	if e.ReadOnly {
		s += " read-only"
	}
	for _, x := range e.Synonyms {
		s += fmt.Sprintf(" [%s=%s %d]", x.Name, text(x.Value), x.Source)
	}
	return s
}

func expect(t *testing.T, entries []Entry, want ...string) {
	t.Helper()
	if !sort.SliceIsSorted(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name }) {
		t.Error("not sorted by name")
	}
	for _, w := range want {
		name, _, _ := strings.Cut(w, "=")
		got := "absent"
		for _, e := range entries {
			if e.Name == name {
				got = show(e)
			}
		}
		if got != w {
			t.Errorf("\n got %s\nwant %s", got, w)
		}
	}
}

func TestDescribeTopic(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"log.retention.hours": "2", "log.segment.bytes": "2000000", "log.roll.ms": "9", "log.roll.hours": "5"})
	entries := st.DescribeTopic(nil, nil, nil)
	if len(entries) != 37 {
		t.Errorf("%d configs", len(entries))
	}
	expect(t, entries,
		"retention.ms=7200000 5",
		"segment.bytes=2000000 4 [log.segment.bytes=2000000 4] [log.segment.bytes=1073741824 5]",
		"segment.ms=9 4 [log.roll.ms=9 4] [log.roll.hours=5 4] [log.roll.hours=168 5]",
		"segment.jitter.ms=0 5",
		"flush.ms=9223372036854775807 5",
		"cleanup.policy=delete 5 [log.cleanup.policy=delete 5]",
		"min.cleanable.dirty.ratio=0.5 5 [log.cleaner.min.cleanable.ratio=0.5 5]",
		"leader.replication.throttled.replicas= 5",
		"remote.storage.enable=false 5",
	)
	defaults := own(map[string]string{"log.retention.ms": "77", "min.insync.replicas": "1"})
	broker := own(map[string]string{"log.segment.bytes": "3000000"})
	topic := own(map[string]string{"retention.ms": " 5 ", "internal.segment.bytes": " +1 "})
	expect(t, st.DescribeTopic(defaults, broker, topic),
		"retention.ms=5 1 [retention.ms=5 1] [log.retention.ms=77 3] [log.retention.hours=2 4] [log.retention.hours=168 5]",
		"segment.bytes=3000000 2 [log.segment.bytes=3000000 2] [log.segment.bytes=2000000 4] [log.segment.bytes=1073741824 5]",
		"min.insync.replicas=1 3 [min.insync.replicas=1 3] [min.insync.replicas=1 5]",
		"internal.segment.bytes= +1  1 [internal.segment.bytes= +1  1]", // as it was set
	)
}

// TestGiven: what a broker config was set to is also told as it was given.
func TestGiven(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"log.cleaner.min.cleanable.ratio": "1", "log.retention.hours": "2"})
	for _, e := range st.DescribeTopic(own(map[string]string{"log.preallocate": "TRUE"}), nil, own(map[string]string{"segment.ms": "+5"})) {
		want, ok := map[string][2]string{"min.cleanable.dirty.ratio": {"1.0", "1"}, "retention.ms": {"7200000", "7200000"}, "preallocate": {"true", "TRUE"}, "segment.ms": {"5", "+5"}, "flush.messages": {"9223372036854775807", "9223372036854775807"}}[e.Name]
		if ok && (*e.Value != want[0] || *e.Given != want[1]) {
			t.Errorf("%s is %s, given as %s; want %v", e.Name, *e.Value, *e.Given, want)
		}
	}
}

func TestDescribeBroker(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"node.id": "3", "log.retention.hours": "2", "my.secret": "x", "delegation.token.secret.key": "s", "log.dirs": "/a, /b", "unstable.api.versions.enable": "true"})
	entries := st.DescribeBroker(nil, nil)
	if want := 350 + 2; len(entries) != want {
		t.Errorf("%d configs, want %d", len(entries), want)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	expect(t, entries,
		"node.id=3 4 read-only [node.id=3 4] [node.id=1 5]",
		"broker.id=3 4 read-only [broker.id=3 4] [broker.id=-1 5]",
		"log.retention.hours=2 4 read-only [log.retention.hours=2 4] [log.retention.hours=168 5]",
		"log.retention.ms=null 5",
		"log.retention.minutes=null 5 read-only",
		"my.secret=null 4 sensitive read-only [my.secret=null 4]",
		"delegation.token.secret.key=null 4 sensitive read-only [delegation.token.secret.key=null 4]",
		"ssl.key.password=null 5 sensitive",
		"log.dirs=/a,/b 4 read-only [log.dirs=/a, /b 4] [log.dirs=./millrace-data 5]",
		"unstable.api.versions.enable=true 4 read-only [unstable.api.versions.enable=true 4] [unstable.api.versions.enable=false 5]",
		"advertised.listeners=null 5 read-only",
		"log.cleaner.io.max.bytes.per.second=1.7976931348623157E308 5 [log.cleaner.io.max.bytes.per.second=1.7976931348623157E308 5]",
	)
	for _, e := range entries {
		if e.Name == "group.consumer.regex.refresh.interval.ms" || e.Name == "leader.replication.throttled.rate" {
			t.Errorf("%s is shown without being set", e.Name)
		}
	}
	broker := own(map[string]string{"leader.replication.throttled.rate": "5", "other": "y"})
	entries = st.DescribeBroker(own(map[string]string{"log.retention.ms": "9"}), broker, "leader.replication.throttled.rate", "other")
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	expect(t, entries,
		"leader.replication.throttled.rate=5 2 [leader.replication.throttled.rate=5 2]",
		"other=null 2 sensitive read-only [other=null 2]",
		"log.retention.ms=9 3 [log.retention.ms=9 3] [log.retention.hours=2 4] [log.retention.hours=168 5]",
	)
}

func TestDescribeBrokerDefaults(t *testing.T) {
	st, _ := mustParse(t, nil)
	if got := st.DescribeBrokerDefaults(nil); len(got) != 0 {
		t.Errorf("%d configs of nothing", len(got))
	}
	entries := st.DescribeBrokerDefaults(own(map[string]string{"log.retention.ms": "9", "other": "y"}), "log.retention.ms", "other")
	if len(entries) != 2 {
		t.Errorf("%d configs", len(entries))
	}
	expect(t, entries, "log.retention.ms=9 3 [log.retention.ms=9 3]", "other=null 3 sensitive read-only [other=null 3]")
}

func TestDescribeGroup(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"group.consumer.session.timeout.ms": "50000"})
	entries := st.DescribeGroup(nil, nil, own(map[string]string{"share.isolation.level": "read_committed", "consumer.heartbeat.interval.ms": "6000"}))
	if len(entries) != 21 {
		t.Errorf("%d configs", len(entries))
	}
	expect(t, entries,
		"consumer.session.timeout.ms=50000 4 [group.consumer.session.timeout.ms=50000 4] [group.consumer.session.timeout.ms=45000 5]",
		"consumer.heartbeat.interval.ms=6000 8 [consumer.heartbeat.interval.ms=6000 8] [group.consumer.heartbeat.interval.ms=5000 5]",
		"share.auto.offset.reset=latest 5 [share.auto.offset.reset=latest 5]",
		"share.isolation.level=read_committed 8 [share.isolation.level=read_committed 8] [share.isolation.level=read_uncommitted 5]",
		"streams.assignor.name=sticky 5 [group.streams.assignors=sticky 5]",
	)
}

func TestDescribeClientMetrics(t *testing.T) {
	st, _ := mustParse(t, nil)
	entries := st.DescribeClientMetrics(own(map[string]string{"interval.ms": "1000"}))
	if len(entries) != 3 {
		t.Errorf("%d configs", len(entries))
	}
	expect(t, entries,
		"interval.ms=1000 7 [interval.ms=1000 7]",
		"metrics= 5",
	)
}

func TestEveryConfigIsDocumented(t *testing.T) {
	for _, s := range []Scope{BrokerScope, TopicScope, GroupScope, ClientMetricsScope} {
		for _, k := range Keys(s) {
			if !strings.HasSuffix(k.Doc, ".") {
				t.Errorf("%s: %q is no sentence", k.Name, k.Doc)
			}
		}
	}
}
