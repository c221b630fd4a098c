package frames

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func configCases() []Case {
	return []Case{
		{API: kmsg.DescribeConfigs, Name: "topics", Run: describeTopics},
		{API: kmsg.DescribeConfigs, Name: "broker", From: 1, Alone: true, Run: describeBroker},
		{API: kmsg.DescribeConfigs, Name: "groups and metrics", From: 1, Run: describeGroups},
		{API: kmsg.DescribeConfigs, Name: "loggers", From: 1, Run: describeLoggers},
		{API: kmsg.DescribeConfigs, Name: "refused", Run: describeRefused},
		{API: kmsg.IncrementalAlterConfigs, Name: "topics", Run: alterTopics},
		{API: kmsg.IncrementalAlterConfigs, Name: "operations nobody has", Alone: true, Run: alterOddly},
		{API: kmsg.IncrementalAlterConfigs, Name: "broker", Alone: true, Run: alterBroker},
		{API: kmsg.IncrementalAlterConfigs, Name: "listeners", Alone: true, Run: alterListeners},
		{API: kmsg.IncrementalAlterConfigs, Name: "groups and metrics", Run: alterGroups},
		{API: kmsg.IncrementalAlterConfigs, Name: "loggers", Alone: true, Run: alterLoggers},
		{API: kmsg.IncrementalAlterConfigs, Name: "refused", Run: alterRefused},
	}
}

// The types of config resources.
const (
	ofTopic   kmsg.ConfigResourceType = 2
	ofBroker  kmsg.ConfigResourceType = 4
	ofLogger  kmsg.ConfigResourceType = 8
	ofMetrics kmsg.ConfigResourceType = 16
	ofGroup   kmsg.ConfigResourceType = 32
)

func describing(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

// change is one change of a config: KEY=VALUE sets, KEY deletes, KEY+=VALUE
// appends, KEY-=VALUE subtracts.
func altering(kind kmsg.ConfigResourceType, name string, changes ...string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, changing(kind, name, changes...))
	return req
}

func changing(kind kmsg.ConfigResourceType, name string, changes ...string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, c := range changes {
		a := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, set := strings.Cut(c, "=")
		a.Op = 0
		switch {
		case !set:
			a.Op = 1
		case strings.HasSuffix(key, "+"):
			a.Op = 2
		case strings.HasSuffix(key, "-"):
			a.Op = 3
		}
		a.Name = strings.TrimRight(key, "+-")
		if set {
			a.Value = &value
		}
		r.Configs = append(r.Configs, a)
	}
	return r
}

// alter changes configs as a preparation, and waits until the server shows it.
func (s *Side) alter(kind kmsg.ConfigResourceType, name string, changes ...string) {
	o := s.Do(1, altering(kind, name, changes...))
	resp, ok := o.Response.(*kmsg.IncrementalAlterConfigsResponse)
	if !ok || resp.Resources[0].ErrorCode != 0 {
		s.Fail("altering %s: %v", name, o)
	}
	s.settle(kind, name, changes...)
}

// settle waits until what was set is shown, and what was deleted is not: Kafka
// answers before its broker knows.
func (s *Side) settle(kind kmsg.ConfigResourceType, name string, changes ...string) {
	for range 250 {
		resp, ok := s.Do(4, describing(kind, name)).Response.(*kmsg.DescribeConfigsResponse)
		if !ok {
			break
		}
		shown := map[string]*string{}
		own := map[string]bool{}
		for _, c := range resp.Resources[0].Configs {
			shown[c.Name] = c.Value
			own[c.Name] = c.Source != 5 && c.Source != 4
		}
		done := true

		for _, c := range changes {
			key, value, set := strings.Cut(c, "=")
			switch {
			case !set:
				done = done && !own[key]
			case shown[key] != nil:
				done = done && strings.TrimSpace(*shown[key]) == value
			default: // a secret
				done = done && own[key]
			}
		}
		if done {
			return
		}
		pause(20)
	}
}

func describeTopics(s *Side) {
	s.createTopic("plain", 1)
	s.createTopic("own", 1, "retention.ms", "5", "cleanup.policy", "compact, delete", "compression.type", "gzip", "segment.jitter.ms", "7",
		"max.message.bytes", " 77 ", "unclean.leader.election.enable", "TRUE", "leader.replication.throttled.replicas", "0:1", "min.cleanable.dirty.ratio", "0.70")
	s.Ask("all", describing(ofTopic, s.Topic("plain")))
	s.Ask("own", describing(ofTopic, s.Topic("own")))
	s.Ask("some", describing(ofTopic, s.Topic("own"), "retention.ms", "no.such", "segment.bytes", "retention.ms"))
	empty := describing(ofTopic, s.Topic("plain"))
	empty.Resources[0].ConfigNames = []string{}
	s.Ask("no names", empty)
	s.Ask("only unknown names", describing(ofTopic, s.Topic("plain"), "no.such"))
	bare := describing(ofTopic, s.Topic("own"), "retention.ms", "retention.bytes")
	bare.IncludeSynonyms, bare.IncludeDocumentation = false, false
	s.Ask("without synonyms", bare)
	s.Ask("internal", describing(ofTopic, "__consumer_offsets"))
	s.Ask("its own broker, in other words", describing(ofBroker, "01", "num.io.threads"))
	two := describing(ofTopic, s.Topic("own"), "retention.ms")
	two.Resources = append(two.Resources, describing(ofTopic, s.Topic("no")).Resources...)
	two.Resources = append(two.Resources, describing(ofTopic, s.Topic("own"), "segment.ms").Resources...)
	s.Ask("several", two)
	s.Ask("none", func() *kmsg.DescribeConfigsRequest { r := describing(ofTopic, ""); r.Resources = nil; return r }())
}

func describeBroker(s *Side) {
	s.Ask("all", describing(ofBroker, "1"))
	s.Ask("some", describing(ofBroker, "1", "log.retention.hours", "num.io.threads", "listeners", "no.such", "ssl.keystore.password"))
	s.Ask("cluster defaults", describing(ofBroker, ""))
	s.alter(ofBroker, "", "log.retention.ms=600000", "max.connections=500", "log.cleaner.threads=2")
	s.alter(ofBroker, "1", "log.retention.ms=700000", "no.such.key=secret")
	s.createTopic("a", 1, "segment.ms", "9")
	keys := []string{"log.retention.ms", "log.retention.hours", "log.retention.minutes", "max.connections", "log.cleaner.threads", "no.such.key"}
	s.Ask("with defaults and its own", describing(ofBroker, "1", keys...))
	s.Ask("cluster defaults set", describing(ofBroker, ""))
	s.Ask("a topic of it", describing(ofTopic, s.Topic("a")))
	s.Do(1, altering(ofBroker, "1", "log.retention.ms", "no.such.key"))
	s.alter(ofBroker, "", "log.retention.ms", "max.connections", "log.cleaner.threads")
	s.settle(ofBroker, "1", "log.retention.ms", "max.connections", "log.cleaner.threads")
	s.Ask("as before", describing(ofBroker, "1", keys...))
	s.Ask("no cluster defaults", describing(ofBroker, ""))
}

func describeGroups(s *Side) {
	s.Ask("a group that is not", describing(ofGroup, s.Topic("g")))
	s.Ask("some keys", describing(ofGroup, s.Topic("g"), "consumer.session.timeout.ms", "no.such"))
	s.Ask("metrics that are not", describing(ofMetrics, s.Topic("m")))
	if s.Version >= 1 {
		s.alter(ofGroup, s.Topic("g"), "consumer.session.timeout.ms=50000")
		s.Ask("a group", describing(ofGroup, s.Topic("g")))
		s.alter(ofMetrics, s.Topic("m"), "metrics=a.,b.", "interval.ms=1000", "match=client_id=x.*")
		s.Ask("metrics", describing(ofMetrics, s.Topic("m")))
		s.Ask("one of them", describing(ofMetrics, s.Topic("m"), "match"))
	}
}

func describeLoggers(s *Side) {
	s.Ask("root", describing(ofLogger, "1", "root"))
	s.Ask("a stranger", describing(ofLogger, "1", "no.such"))
}

func describeRefused(s *Side) {
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{
		{ofTopic, s.Topic("no")}, {ofTopic, ""}, {ofTopic, "a b"}, {ofTopic, "."}, {ofTopic, strings.Repeat("x", 250)},
		{ofBroker, "2"}, {ofBroker, "x"}, {ofBroker, "-1"}, {ofBroker, " 1"}, {ofBroker, "99999999999"},
		{ofLogger, ""}, {ofLogger, "2"}, {ofLogger, "x"}, {ofMetrics, ""}, {ofGroup, ""}, {0, "x"}, {1, "x"}, {3, "1"}, {64, "x"}, {-1, "x"}, {127, ""},
	} {
		s.Ask(fmt.Sprintf("type %d, %.9q", r.kind, r.name), describing(r.kind, r.name))
	}
}

func alterTopics(s *Side) {
	s.createTopic("a", 1)
	n := 0
	ask := func(changes ...string) {
		n++
		s.Ask(fmt.Sprintf("%d %.70q", n, changes), altering(ofTopic, s.Topic("a"), changes...))
	}
	show := func(expected ...string) {
		s.settle(ofTopic, s.Topic("a"), expected...)
		s.AskIn(4, "shown", describing(ofTopic, s.Topic("a"), "retention.ms", "cleanup.policy", "leader.replication.throttled.replicas", "compression.type", "max.message.bytes"))
	}
	ask("retention.ms=5000")
	ask("retention.ms= 6000 ", "compression.type=gzip")
	show("retention.ms=6000", "compression.type=gzip")
	ask("cleanup.policy+=compact")
	ask("cleanup.policy+=compact,delete")
	show("cleanup.policy=delete,compact")
	ask("cleanup.policy-=delete")
	ask("cleanup.policy-=nothing")
	ask("cleanup.policy+=nothing")
	show("cleanup.policy=compact")
	ask("leader.replication.throttled.replicas+=0:1")
	ask("leader.replication.throttled.replicas+=0:1,1:1")
	ask("leader.replication.throttled.replicas-=0:1")
	show("leader.replication.throttled.replicas=1:1")
	ask("retention.ms")
	ask("retention.ms")
	ask("no.such.key")
	ask("no.such.key=1")
	ask("retention.ms+=5")
	ask("retention.ms-=5")
	ask("retention.ms=x")
	ask("retention.ms=-5")
	ask("retention.ms=1", "retention.ms=2")
	ask("retention.ms=1", "retention.ms")
	ask("segment.bytes=5")
	ask("max.message.bytes=7", "no.such.key=5")
	ask("min.insync.replicas=0")
	ask("compression.type=LZ4")
	ask("compression.type=")
	ask("cleanup.policy=")
	ask("cleanup.policy=compact,compact")
	ask("min.compaction.lag.ms=100", "max.compaction.lag.ms=50")
	ask("remote.storage.enable=true")
	ask("message.format.version=2.0")
	ask()
	show("cleanup.policy=compact", "retention.ms")
	null := altering(ofTopic, s.Topic("a"), "retention.ms=1")
	null.Resources[0].Configs[0].Value = nil
	s.Ask("null", null)
	null.Resources[0].Configs[0].Op = 2
	null.Resources[0].Configs[0].Name = "cleanup.policy"
	s.Ask("null appended", null)
	only := altering(ofTopic, s.Topic("a"), "retention.ms=9")
	only.ValidateOnly = true
	s.Ask("only validated", only)
	only.Resources[0].Configs[0].Value = kmsg.StringPtr("x")
	s.Ask("only validated, bad", only)
	del := altering(ofTopic, s.Topic("a"), "compression.type")
	del.Resources[0].Configs[0].Value = kmsg.StringPtr("junk")
	s.Ask("deleted with a value", del)
	show("compression.type")
	long := "leader.replication.throttled.replicas+=" + strings.TrimSuffix(strings.Repeat("10000:10000,", 2900), ",")
	ask(long)
}

// alterOddly asks for operations that there are not. Kafka's controller falls
// over them and takes seconds to come back.
func alterOddly(s *Side) {
	s.createTopic("a", 1)
	for _, op := range []kmsg.IncrementalAlterConfigOp{4, -1, 127} {
		odd := altering(ofTopic, s.Topic("a"), "retention.ms=1")
		odd.Resources[0].Configs[0].Op = op
		s.Ask(fmt.Sprintf("operation %d", op), odd)
	}
	s.createTopic("b", 1)
	s.alter(ofTopic, s.Topic("b"), "retention.ms=1")
}

func alterBroker(s *Side) {
	n := 0
	ask := func(name string, changes ...string) {
		n++
		s.Ask(fmt.Sprintf("%d broker %q %.70q", n, name, changes), altering(ofBroker, name, changes...))
	}
	show := func(expected ...string) {
		s.settle(ofBroker, "1", expected...)
		s.AskIn(4, "shown", describing(ofBroker, "1", "log.retention.ms", "num.io.threads", "max.connections", "log.cleanup.policy", "no.such", "max.connections.per.ip.overrides"))
		s.AskIn(4, "defaults shown", describing(ofBroker, ""))
	}
	ask("1", "log.retention.ms=600000")
	ask("", "log.retention.ms=500000", "max.connections=1000")
	ask("1", "no.such=1")
	show("log.retention.ms=600000", "max.connections=1000", "no.such=1")
	ask("", "no.such=1")
	ask("1", "node.id=2")
	ask("1", "log.dirs=/x")
	ask("1", "log.retention.ms=x")
	ask("1", "num.io.threads=16")
	ask("1", "num.io.threads=1")
	ask("1", "num.io.threads=1000")
	ask("1", "num.io.threads=0")
	ask("", "listeners=PLAINTEXT://:1")
	ask("1", "log.retention.hours=5")
	ask("1", "ssl.keystore.location=/x")
	ask("1", "log.cleanup.policy+=compact")
	ask("1", "max.connections.per.ip.overrides=127.0.0.1:100")
	show("num.io.threads=16", "log.cleanup.policy=delete,compact", "max.connections.per.ip.overrides=127.0.0.1:100")
	ask("2", "log.retention.ms=1")
	ask("x", "log.retention.ms=1")
	ask("-1", "log.retention.ms=1")
	ask("1", "log.retention.ms", "num.io.threads", "no.such", "log.cleanup.policy", "max.connections.per.ip.overrides")
	ask("", "log.retention.ms", "max.connections", "no.such")
	ask("", "log.retention.ms")
	show("log.retention.ms", "num.io.threads", "no.such", "max.connections", "log.cleanup.policy", "max.connections.per.ip.overrides")
}

// alterListeners only has changes validated, but for one listener that comes and
// goes: the others are those of the servers.
func alterListeners(s *Side) {
	resp, ok := s.Do(4, describing(ofBroker, "1", "listeners")).Response.(*kmsg.DescribeConfigsResponse)
	if !ok || len(resp.Resources[0].Configs) != 1 || resp.Resources[0].Configs[0].Value == nil {
		s.Fail("no listeners")
		return
	}
	own := *resp.Resources[0].Configs[0].Value
	const protocols = "listener.security.protocol.map="
	check := func(what string, changes ...string) {
		req := altering(ofBroker, "1", changes...)
		req.ValidateOnly = true
		s.Ask(what, req)
	}
	check("one more without a protocol", "listeners="+own+",EXTRA://127.0.0.1:0")
	check("one more with a protocol", "listeners="+own+",EXTRA://127.0.0.1:0", protocols+"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT")
	check("none", "listeners=")
	check("nonsense", "listeners=nonsense")
	check("without a port", "listeners="+own+",EXTRA://127.0.0.1", protocols+"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT")
	check("a name twice", "listeners="+own+",PLAINTEXT://127.0.0.1:1")
	check("without the one between brokers", "listeners=EXTRA://127.0.0.1:1", protocols+"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT")
	check("a map that lacks one", protocols+"EXTRA:PLAINTEXT,CONTROLLER:PLAINTEXT")
	check("a map with another protocol", protocols+"PLAINTEXT:NOTHING,CONTROLLER:PLAINTEXT")
	check("an empty map", protocols)
	check("the same", "listeners="+own)
	check("as it is by itself", "listeners", "listener.security.protocol.map")
	check("advertised", "advertised.listeners=PLAINTEXT://x:1")
	s.alter(ofBroker, "1", "listeners="+own+",EXTRA://127.0.0.1:0", protocols+"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT")
	check("less of the map", protocols+"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT")
	s.alter(ofBroker, "1", "listeners", "listener.security.protocol.map")
}

func alterGroups(s *Side) {
	n := 0
	ask := func(kind kmsg.ConfigResourceType, name string, changes ...string) {
		n++
		s.Ask(fmt.Sprintf("%d type %d %q", n, kind, changes), altering(kind, name, changes...))
	}
	g, m := s.Topic("g"), s.Topic("m")
	ask(ofGroup, g, "consumer.session.timeout.ms=50000")
	ask(ofGroup, g, "consumer.session.timeout.ms=1")
	ask(ofGroup, g, "consumer.session.timeout.ms=99999999")
	ask(ofGroup, g, "consumer.session.timeout.ms=x")
	ask(ofGroup, g, "consumer.heartbeat.interval.ms=60000")
	ask(ofGroup, g, "no.such=1")
	ask(ofGroup, g, "no.such")
	ask(ofGroup, g, "share.auto.offset.reset=earliest")
	ask(ofGroup, g, "share.auto.offset.reset=never")
	ask(ofGroup, g, "share.auto.offset.reset+=latest")
	ask(ofGroup, "", "consumer.session.timeout.ms=50000")
	ask(ofGroup, g, "consumer.session.timeout.ms")
	ask(ofMetrics, m, "metrics=a.,b.", "interval.ms=1000", "match=client_id=x.*,client_software_name=java")
	ask(ofMetrics, m, "interval.ms=10")
	ask(ofMetrics, m, "interval.ms=99999999")
	ask(ofMetrics, m, "interval.ms=x")
	ask(ofMetrics, m, "match=client_id")
	ask(ofMetrics, m, "match=client_id=[")
	ask(ofMetrics, m, "match=no_such=x")
	ask(ofMetrics, m, "metrics+=c.")
	ask(ofMetrics, m, "metrics-=a.")
	ask(ofMetrics, m, "metrics=")
	ask(ofMetrics, m, "no.such=1")
	ask(ofMetrics, m, "no.such")
	ask(ofMetrics, "", "interval.ms=1000")
	s.settle(ofMetrics, m, "metrics=", "interval.ms=1000")
	s.AskIn(4, "shown", describing(ofMetrics, m))
	ask(ofMetrics, m, "metrics", "interval.ms", "match")
	s.settle(ofMetrics, m, "metrics", "interval.ms", "match")
	s.AskIn(4, "gone", describing(ofMetrics, m))
	s.AskIn(4, "group", describing(ofGroup, g))
}

func alterLoggers(s *Side) {
	n := 0
	ask := func(name string, changes ...string) {
		n++
		s.Ask(fmt.Sprintf("%d %q %q", n, name, changes), altering(ofLogger, name, changes...))
	}
	root := func(what string) { s.AskIn(4, what, describing(ofLogger, "1", "root")) }
	ask("1", "root=WARN")
	root("warn")
	ask("1", "root=LOUD")
	ask("1", "root=")
	ask("1", "root=debug")
	root("in small letters")
	ask("1", "root+=INFO")
	ask("1", "root-=INFO")
	ask("1", "root")
	ask("1", "no.such=INFO")
	ask("1", "no.such")
	ask("2", "root=INFO")
	ask("", "root=INFO")
	ask("x", "root=INFO")
	ask("1", "root=ERROR", "no.such=INFO")
	root("not changed")
	ask("1", "root=ERROR", "root=INFO")
	only := altering(ofLogger, "1", "root=FATAL")
	only.ValidateOnly = true
	s.Ask("only validated", only)
	root("still not changed")
	null := altering(ofLogger, "1", "root=INFO")
	null.Resources[0].Configs[0].Value = nil
	s.Ask("null", null)
	ask("1", "root=INFO")
}

func alterRefused(s *Side) {
	s.createTopic("a", 1)
	n := 0
	ask := func(resources ...kmsg.IncrementalAlterConfigsRequestResource) {
		n++
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = resources
		s.Ask(fmt.Sprint(n), req)
	}
	a := s.Topic("a")
	ask()
	ask(changing(ofTopic, s.Topic("no"), "retention.ms=1"))
	ask(changing(ofTopic, "a b", "retention.ms=1"))
	ask(changing(ofTopic, "", "retention.ms=1"))
	ask(changing(ofTopic, a, "retention.ms=1"), changing(ofTopic, a, "retention.ms=2"))
	ask(changing(ofTopic, a, "retention.ms=1"), changing(ofTopic, s.Topic("no"), "retention.ms=2"), changing(ofGroup, s.Topic("g"), "consumer.session.timeout.ms=x"))
	ask(changing(ofTopic, s.Topic("no"), "retention.ms=x"))
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 64, -1, 127} {
		ask(changing(kind, a, "retention.ms=1"))
	}
	ask(changing(ofTopic, s.Topic("no")))
	ask(changing(ofTopic, a, "=1"))
}
