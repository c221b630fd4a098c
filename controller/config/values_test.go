package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		scope        Scope
		name, value  string
		want         string // part of the error, empty for none
		canonicalIsA string
	}{
		{TopicScope, "retention.ms", " 5 ", "", "5"},
		{TopicScope, "retention.ms", "+5", "", "5"},
		{TopicScope, "retention.ms", "-2", "Value must be at least -1", ""},
		{TopicScope, "retention.ms", "1.5", "Not a number of type LONG", ""},
		{TopicScope, "retention.ms", "9223372036854775808", "Not a number of type LONG", ""},
		{TopicScope, "cleanup.policy", " compact , delete ", "", "compact,delete"},
		{TopicScope, "cleanup.policy", "", "", ""},
		{TopicScope, "cleanup.policy", "compact,delete,compact", "", "compact,delete"},
		{ClientMetricsScope, "metrics", "b, a,b", "", "b,a"},
		{ClientMetricsScope, "match", "client_id=a,client_id=b, client_id=a", "", "client_id=a,client_id=b"},
		{BrokerScope, "log.cleanup.policy", "compact,compact", "must not be duplicated", ""},
		{TopicScope, "cleanup.policy", "delete,", "values must not be empty", ""},
		{TopicScope, "min.cleanable.dirty.ratio", "0.25", "", "0.25"},
		{TopicScope, "min.cleanable.dirty.ratio", "1", "", "1.0"},
		{TopicScope, "min.cleanable.dirty.ratio", "1.01", "Value must be no more than 1", ""},
		{TopicScope, "min.cleanable.dirty.ratio", "NaN", "", "NaN"},
		{TopicScope, "min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE", ""},
		{TopicScope, "compression.gzip.level", "-1", "", "-1"},
		{TopicScope, "compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1", ""},
		{TopicScope, "compression.lz4.level", "18", "Value must be no more than 17", ""},
		{TopicScope, "segment.bytes", "1048575", "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576", ""},
		{TopicScope, "preallocate", "TRUE", "", "true"},
		{TopicScope, "follower.replication.throttled.replicas", "*", "", "*"},
		{TopicScope, "follower.replication.throttled.replicas", "0:1, 12:3", "", "0:1,12:3"},
		{TopicScope, "follower.replication.throttled.replicas", "", "", ""},
		{TopicScope, "follower.replication.throttled.replicas", ",0:1", "", ",0:1"},
		{TopicScope, "follower.replication.throttled.replicas", "*,", "", "*,"},
		{TopicScope, "leader.replication.throttled.replicas", ",", "", ","},
		{TopicScope, "follower.replication.throttled.replicas", "0:", "must be the literal '*' or a list of replicas", ""},
		{TopicScope, "follower.replication.throttled.replicas", "*,0:1", "must be the literal '*'", ""},
		{GroupScope, "share.auto.offset.reset", "by_duration:PT1H30M", "", "by_duration:PT1H30M"},
		{GroupScope, "share.auto.offset.reset", "by_duration:P2DT0.5S", "", "by_duration:P2DT0.5S"},
		{GroupScope, "share.auto.offset.reset", "by_duration:P", "The value must be either 'earliest', 'latest'", ""},
		{GroupScope, "share.auto.offset.reset", "by_duration:PT", "must be either", ""},
		{GroupScope, "share.auto.offset.reset", "by_duration:PT1M1H", "must be either", ""},
		{GroupScope, "share.auto.offset.reset", "by_duration:-PT1H", "must be either", ""},
		{GroupScope, "share.auto.offset.reset", "by_duration:P1Y", "must be either", ""},
		{GroupScope, "share.auto.offset.reset", "none", "must be either", ""},
		{BrokerScope, "group.consumer.migration.policy", "UPGRADE", "", "UPGRADE"},
		{BrokerScope, "group.consumer.migration.policy", "never", "String must be one of (case insensitive)", ""},
		{BrokerScope, "sasl.oauthbearer.assertion.algorithm", "es256", "", "es256"},
		{BrokerScope, "remote.log.metadata.manager.impl.prefix", "", "String must be non-empty", ""},
		{BrokerScope, "remote.log.manager.task.retry.jitter", "0.6", "Value must be no more than 0.5", ""},
		{BrokerScope, "transaction.state.log.replication.factor", "40000", "Not a number of type SHORT", ""},
		{BrokerScope, "log.cleaner.io.max.bytes.per.second", "1e20", "", "1.0E20"},
	} {
		k, ok := Find(c.scope, c.name)
		if !ok {
			t.Fatalf("%s is not in the catalogue", c.name)
		}
		err := k.Check(c.value)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s=%s: %v", c.name, c.value, err)
			} else if got := k.Canonical(c.value); got != c.canonicalIsA {
				t.Errorf("%s=%s is shown as %q, want %q", c.name, c.value, got, c.canonicalIsA)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Request || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
}

func TestJavaDouble(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.5: "0.5", 0.001: "0.001", 0.0001: "1.0E-4", 1234567: "1234567.0", 12345678: "1.2345678E7",
		1.7976931348623157e308: "1.7976931348623157E308", -2.5e-7: "-2.5E-7",
	} {
		if got := javaDouble(f); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
}

func TestListOp(t *testing.T) {
	policy, _ := Find(TopicScope, "cleanup.policy")
	for _, c := range []struct {
		op             Op
		current, items string
		want           string
	}{
		{OpAppend, "delete", "compact", "delete,compact"},
		{OpAppend, "delete", "delete", "delete"},
		{OpAppend, "delete", "compact,delete,compact", "delete,compact"},
		{OpAppend, "delete", "compact, delete,compact", "delete,compact, delete"},
		{OpAppend, "", "compact", "compact"},
		{OpAppend, "delete", "", "delete,"},
		{OpAppend, "delete", "a,,b", "delete,a,,b"},
		{OpAppend, "delete", ",,", "delete"},
		{OpAppend, "delete,,compact,", "x", "delete,compact,x"},
		{OpAppend, "", "", ""},
		{OpSubtract, "delete,compact,delete", "delete", "compact,delete"},
		{OpSubtract, "delete,compact", " delete", "delete,compact"},
		{OpSubtract, "delete", "", "delete"},
		{OpSubtract, "delete,compact", "delete", "compact"},
		{OpSubtract, "delete", "compact", "delete"},
		{OpSubtract, "delete", "delete", ""},
		{OpSubtract, "", "delete", ""},
	} {
		got, err := ListOp(policy, policy.Name, c.op, c.current, c.items)
		if err != nil || got != c.want {
			t.Errorf("%s %q to %q: %q, %v", opName(c.op), c.items, c.current, got, err)
		}
	}
	retention, _ := Find(TopicScope, "retention.ms")
	if _, err := ListOp(retention, retention.Name, OpAppend, "1", "2"); err == nil || err.Error() != "Can't APPEND to key retention.ms because its type is not LIST." {
		t.Errorf("not a list: %v", err)
	}
	if _, err := ListOp(nil, "foo", OpSubtract, "1", "2"); err == nil {
		t.Error("an unknown key was taken")
	}
}

func TestCheckLength(t *testing.T) {
	for value, want := range map[string]bool{"": true, strings.Repeat("x", 32767): true, strings.Repeat("x", 32768): false,
		strings.Repeat("é", 32767): true, strings.Repeat("é", 32768): false, strings.Repeat("😀", 16384): false} { // any order: each by itself
		if err := CheckLength(value); (err == nil) != want {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
}

// A list never gains duplicates by APPEND, and APPEND then SUBTRACT of what was
// absent gives back the list.
func TestListOpsUndoEachOther(t *testing.T) {
	k, _ := Find(BrokerScope, "metric.reporters")
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c]{1,2}`)
		list := rapid.SliceOfDistinct(word, func(s string) string { return s }).Draw(t, "list")
		item := word.Draw(t, "item")
		before := strings.Join(list, ",")
		after, err := ListOp(k, k.Name, OpAppend, before, item)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(","+after+",", ","+item+",") != 1 {
			t.Fatalf("%q is not once in %q", item, after)
		}
		back, err := ListOp(k, k.Name, OpSubtract, after, item)
		if err != nil {
			t.Fatal(err)
		}
		if !contains(list, item) && back != before {
			t.Fatalf("%q became %q", before, back)
		}
	})
}

func own(values map[string]string) Lookup {
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

func TestTopicInherits(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"log.retention.hours": "2", "log.segment.bytes": "2000000", "min.insync.replicas": "2", "log.flush.scheduler.interval.ms": "77"})
	c, err := Topic(st, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.RetentionMs != 2*3600*1000 || c.SegmentBytes != 2000000 || c.MinInsyncReplicas != 2 || c.SegmentMs != 168*3600*1000 || c.SegmentJitterMs != 0 || c.FlushMs != 77 || !c.CleanupDelete || c.CleanupCompact {
		t.Errorf("%+v", c)
	}
	c, err = Topic(st,
		own(map[string]string{"log.retention.ms": "10", "log.segment.bytes": "3000000", "log.roll.ms": "50"}),
		own(map[string]string{"log.segment.bytes": "4000000"}),
		own(map[string]string{"retention.ms": "-1", "cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "internal.segment.bytes": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	if c.RetentionMs != -1 || c.SegmentBytes != 100 || c.SegmentMs != 50 || c.CleanupDelete || !c.CleanupCompact || c.MessageTimestampType != LogAppendTime {
		t.Errorf("%+v", c)
	}
	st, _ = mustParse(t, map[string]string{"log.retention.hours": "-1", "log.retention.minutes": "3", "log.roll.jitter.hours": "1"})
	if c, _ = Topic(st, nil, nil, nil); c.RetentionMs != 180000 || c.SegmentJitterMs != 3600000 {
		t.Errorf("%+v", c)
	}
	st, _ = mustParse(t, map[string]string{"log.retention.hours": "-5"})
	if c, _ = Topic(st, nil, nil, nil); c.RetentionMs != -1 {
		t.Errorf("%+v", c)
	}
	if _, err := Topic(st, nil, nil, own(map[string]string{"retention.ms": "soon"})); err == nil {
		t.Error("an invalid value was taken")
	}
}

func TestCheckTopic(t *testing.T) {
	st, _ := mustParse(t, nil)
	check := func(kv ...string) error {
		values := map[string]string{}
		var names []string
		for i := 0; i < len(kv); i += 2 {
			values[kv[i]] = kv[i+1]
			names = append(names, kv[i])
		}
		return CheckTopic(st, nil, nil, own(values), names)
	}
	if err := check("retention.ms", "5", "cleanup.policy", "compact"); err != nil {
		t.Error(err)
	}
	for want, kv := range map[string][]string{
		"Unknown topic config name: foo":                                                                              {"foo", "bar"},
		"Invalid value x for configuration retention.ms: Not a number of type LONG":                                   {"retention.ms", "x"},
		"conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)":                        {"min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5"},
		"Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.": {"remote.storage.enable", "true"},
	} {
		if err := check(kv...); err == nil || err.Error() != want {
			t.Errorf("%v: %v", kv, err)
		}
	}
}

func TestCheckBroker(t *testing.T) {
	plain, _, err := ParseStatic(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		name    string
		value   *string
		cluster bool
		want    string
	}{
		{"log.retention.ms", text("5"), true, ""},
		{"log.retention.ms", text("x"), true, "Not a number"},
		{"log.retention.ms", nil, true, ""},
		{"log.retention.hours", text("5"), false, "Cannot update these configs dynamically: [log.retention.hours]"},
		{"log.retention.hours", nil, true, ""},
		{"listeners", nil, true, ""},
		{"listeners", text("PLAINTEXT://:1"), true, "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"},
		{"listeners", text("PLAINTEXT://:1"), false, ""},
		{"my.own", text("x"), false, ""},
		{"leader.replication.throttled.rate", text("-1"), false, "Value must be at least 0"},
		// KafkaConfig's own requirements are not a listener's, and of one that is not there types are looked at.
		{"listener.name.plaintext.max.connections", text("5"), true, ""},
		{"listener.name.plaintext.max.connections", text("0"), true, "Invalid max.connections 0"},
		{"listener.name.none.max.connections", text("0"), false, ""},
		{"listener.name.PLAINTEXT.max.connections", text("0"), true, ""},
		{"listener.name.none.max.connections", text("x"), true, "Not a number"},
		{"listener.name.none.num.network.threads", text("2147483647"), true, ""},
		{"listener.name.none.num.network.threads", text("0"), true, "at least 1"},
		{"listener.name.none.no.such", text("5"), true, "at default cluster level"},
		{"listener.name.none.no.such", text("5"), false, ""},
		{"listener.name.a.b.max.connections", text("5"), true, "at default cluster level"},
		{"listener.name.a.b.max.connections", text("x"), false, ""},
		{"listener.name.none.message.max.bytes", text("5"), true, "at default cluster level"},
		{"listener.name.none.message.max.bytes", text("x"), false, "Not a number"},
		{"listener.name.none.log.retention.ms", text("0"), false, ""},
		{"listener.name.plaintext.num.partitions", text("5"), false, ""},
		{"listener.name.plaintext.num.partitions", text("0"), false, "at least 1"},
		{"listener.name.none.num.partitions", text("0"), false, ""},
		{"listener.name.none.principal.builder.class", text("x"), false, "could not be found"},
		{"listener.name.plaintext.ssl.keystore.location", text("/k"), false, "asks for TLS"},
		// What only tunes protection asks for none.
		{"sasl.kerberos.min.time.before.relogin", text("58000"), false, ""},
		{"sasl.kerberos.min.time.before.relogin", text("soon"), false, "Not a number"},
		{"sasl.kerberos.min.time.before.relogin", text("58000"), true, "at default cluster level"},
		{"listener.name.plaintext.sasl.login.refresh.window.factor", text("0.5"), false, ""},
		{"sasl.enabled.mechanisms", text("PLAIN"), false, "asks for SASL"},
		{"ssl.client.auth", text("none"), false, ""},
		{"ssl.client.auth", text("required"), false, "asks for TLS"},
		// Nobody could connect any more.
		{"max.connections", text("0"), true, "Invalid max.connections 0"},
		{"max.connection.creation.rate", text("0"), false, "Invalid max.connection.creation.rate 0"},
		{"listener.name.plaintext.max.connections", text("0"), false, "Invalid max.connections 0"},
		{"max.connections", text("1"), true, ""},
		{"max.connections.per.ip.overrides", text(",127.0.0.1:5,"), true, ""},
		{"max.connections.per.ip.overrides", text(":5"), true, "is not of the form"},
		{"principal.builder.class", text(""), false, "could not be found"},
		{"principal.builder.class", text("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"), false, ""},
		{"log.cleaner.dedupe.buffer.size", text("1048576"), true, "at least 1MB per cleaner thread"},
		{"log.cleaner.dedupe.buffer.size", text("1048577"), true, ""},
	} {
		err := plain.CheckBroker(c.name, c.value, c.cluster)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !e.Request || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCheckGroup(t *testing.T) {
	st, _ := mustParse(t, map[string]string{"group.consumer.max.session.timeout.ms": "50000"})
	for _, c := range []struct{ name, value, want string }{
		{"consumer.session.timeout.ms", "46000", ""},
		{"consumer.session.timeout.ms", "44999", "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{"consumer.session.timeout.ms", "50001", "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"},
		{"consumer.session.timeout.ms", "0", "Value must be at least 1"},
		{"streams.num.standby.replicas", "3", "must be less than or equal to group.streams.max.standby.replicas"},
		{"streams.assignor.name", "sticky", ""},
		{"streams.assignor.name", "other", "is not a registered task assignor. Registered assignors are: [sticky]."},
		{"foo", "1", "Unknown group config name: foo"},
	} {
		err := CheckGroup(st, nil, nil, own(map[string]string{c.name: c.value}), []string{c.name})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	dynamic := own(map[string]string{"group.consumer.max.session.timeout.ms": "90000"})
	if err := CheckGroup(st, dynamic, nil, own(map[string]string{"consumer.session.timeout.ms": "50001"}), []string{"consumer.session.timeout.ms"}); err != nil {
		t.Errorf("within the dynamic limit: %v", err)
	}
}

func TestCheckClientMetrics(t *testing.T) {
	for _, c := range []struct {
		set     map[string]string
		request bool
		want    string
	}{
		{map[string]string{}, false, ""},
		{map[string]string{"interval.ms": "100"}, false, ""},
		{map[string]string{"interval.ms": "99"}, true, "interval must be between 100 and 3600000 (1 hour)"},
		{map[string]string{"interval.ms": "x"}, false, "Not a number"},
		{map[string]string{"metrics": "a,b", "match": ""}, false, ""},
		{map[string]string{"metrics": "a,,b"}, false, "values must not be empty"},
		{map[string]string{"match": "client_id=a.*, client_software_name=x"}, false, ""},
		{map[string]string{"match": "client_id=a,client_id=a", "metrics": "a,a"}, false, ""},
		{map[string]string{"match": "client_id=("}, false, "Illegal client matching pattern"},
		{map[string]string{"match": "client_id=a=b"}, false, "Illegal client matching pattern"},
		{map[string]string{"match": "client_id="}, false, "Illegal client matching pattern"},
		{map[string]string{"match": "client_id=a=="}, false, ""},
		{map[string]string{"match": "who=x"}, false, "Illegal client matching pattern"},
		{map[string]string{"foo": "x"}, true, "Unknown client metrics configuration: foo"},
		// What is looked at first does not depend on the names.
		{map[string]string{"foo": "x", "interval.ms": "x", "match": "who=x", "metrics": "a,,b"}, true, "Unknown client metrics configuration: foo"},
		{map[string]string{"interval.ms": "99", "metrics": "a,,b"}, false, "values must not be empty"},
		{map[string]string{"interval.ms": "99", "match": "a,,b"}, false, "values must not be empty"},
		{map[string]string{"interval.ms": "99", "match": "who=x"}, true, "interval must be between"},
	} {
		err := CheckClientMetrics(own(c.set), slices.Sorted(maps.Keys(c.set)))
		var e *Error
		if c.want == "" {
			if err != nil {
				t.Errorf("%v: %v", c.set, err)
			}
		} else if !errors.As(err, &e) || e.Request != c.request || !strings.Contains(e.Message, c.want) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}

// Whatever a value is, checking it neither panics nor accepts what its own
// canonical form would be refused for.
func FuzzCheck(f *testing.F) {
	for _, v := range []string{"", "1", "-1", "a,b", "by_duration:PT1S", "*", "1:2", "client_id=x", "1@h:1", "h:1", "NaN", "1e5"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, s := range []Scope{BrokerScope, TopicScope, GroupScope, ClientMetricsScope} {
			for _, k := range Keys(s) {
				if k.Check(v) != nil {
					continue
				}
				again := k.Canonical(v)
				if err := k.Check(again); err != nil {
					t.Fatalf("%s takes %q, but not %q: %v", k.Name, v, again, err)
				}
				if k.Canonical(again) != again {
					t.Fatalf("%s: %q is not canonical", k.Name, again)
				}
			}
		}
	})
}
