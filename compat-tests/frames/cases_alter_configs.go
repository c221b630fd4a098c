package frames

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func alterConfigsCases() []Case {
	return []Case{
		{API: kmsg.AlterConfigs, Name: "topics", Run: replaceTopics},
		{API: kmsg.AlterConfigs, Name: "broker", Alone: true, Run: replaceBroker},
		{API: kmsg.AlterConfigs, Name: "groups and metrics", Run: replaceGroups},
		{API: kmsg.AlterConfigs, Name: "refused", Run: replaceRefused},
		{API: kmsg.ListConfigResources, Name: "by type", Alone: true, Run: listResources},
	}
}

// replacing wants a resource to have these configs, KEY=VALUE or KEY for null,
// and no others.
func replacing(kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = append(req.Resources, replacement(kind, name, configs...))
	return req
}

func replacement(kind kmsg.ConfigResourceType, name string, configs ...string) kmsg.AlterConfigsRequestResource {
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, c := range configs {
		a := kmsg.NewAlterConfigsRequestResourceConfig()
		key, value, set := strings.Cut(c, "=")
		if a.Name = key; set {
			a.Value = &value
		}
		r.Configs = append(r.Configs, a)
	}
	return r
}

func replaceTopics(s *Side) {
	s.createTopic("a", 1, "segment.ms", "9")
	n := 0
	ask := func(configs ...string) {
		n++
		s.Ask(fmt.Sprintf("%d %.70q", n, configs), replacing(ofTopic, s.Topic("a"), configs...))
	}
	show := func(expected ...string) {
		s.settle(ofTopic, s.Topic("a"), expected...)
		s.AskIn(4, "shown", describing(ofTopic, s.Topic("a"), "retention.ms", "cleanup.policy", "compression.type", "segment.ms"))
	}
	ask("retention.ms=5000", "cleanup.policy=compact")
	show("retention.ms=5000", "cleanup.policy=compact", "segment.ms")
	ask("retention.ms= 6000 ", "compression.type=gzip")
	show("retention.ms=6000", "compression.type=gzip", "cleanup.policy")
	for _, bad := range [][]string{
		{"no.such.key=1"}, {"retention.ms=x"}, {"retention.ms=-5"}, {"retention.ms=1", "retention.ms=2"}, {"retention.ms"}, {"no.such.key"},
		{"retention.ms", "segment.ms"}, {"segment.bytes=5"}, {"min.compaction.lag.ms=100", "max.compaction.lag.ms=50"}, {"remote.storage.enable=true"},
		{"compression.type=LZ4"}, {"cleanup.policy=compact,compact"}, {"=1"}, {"message.format.version=2.0"}, {"retention.ms=7", "no.such.key=5"},
	} {
		ask(bad...)
	}
	show("retention.ms=6000", "compression.type=gzip")
	only := replacing(ofTopic, s.Topic("a"), "retention.ms=9")
	only.ValidateOnly = true
	s.Ask("only validated", only)
	only.Resources[0].Configs[0].Value = kmsg.StringPtr("x")
	s.Ask("only validated, bad", only)
	ask("retention.ms=6000", "compression.type=gzip")
	show("retention.ms=6000", "compression.type=gzip")
	ask()
	show("retention.ms", "compression.type")
}

func replaceBroker(s *Side) {
	n := 0
	ask := func(name string, configs ...string) {
		n++
		s.Ask(fmt.Sprintf("%d broker %q %.70q", n, name, configs), replacing(ofBroker, name, configs...))
	}
	show := func(expected ...string) {
		s.settle(ofBroker, "1", expected...)
		s.AskIn(4, "shown", describing(ofBroker, "1", "log.retention.ms", "num.io.threads", "max.connections", "log.cleanup.policy", "no.such"))
		s.AskIn(4, "defaults shown", describing(ofBroker, ""))
	}
	ask("1", "log.retention.ms=600000", "no.such=1")
	ask("", "log.retention.ms=500000", "max.connections=1000")
	show("log.retention.ms=600000", "max.connections=1000", "no.such=1")
	ask("1", "num.io.threads=16")
	show("log.retention.ms=500000", "num.io.threads=16", "no.such")
	ask("", "log.retention.ms=500000", "num.io.threads=20") // hidden by the broker's own
	ask("", "log.retention.ms=500000", "max.connections=1000")
	for _, bad := range [][]string{
		{"node.id=2"}, {"log.dirs=/x"}, {"log.retention.ms=x"}, {"log.retention.hours=5"},
		{"log.retention.ms"}, {"no.such"}, {"log.retention.ms=1", "log.retention.ms=2"}, {"log.retention.ms=1", "node.id=7"},
	} {
		ask("1", bad...)
		ask("", bad...)
	}
	ask("1", "num.io.threads=1000")
	ask("", "listeners=PLAINTEXT://:1")
	ask("2", "log.retention.ms=1")
	ask("x", "log.retention.ms=1")
	ask("-1", "log.retention.ms=1")
	ask(" 1", "log.retention.ms=1")
	only := replacing(ofBroker, "1", "log.retention.ms=9", "num.io.threads=12")
	only.ValidateOnly = true
	s.Ask("only validated", only)
	show("num.io.threads=16")
	ask("1")
	ask("")
	show("log.retention.ms", "num.io.threads", "max.connections")
}

func replaceGroups(s *Side) {
	n := 0
	ask := func(kind kmsg.ConfigResourceType, name string, configs ...string) {
		n++
		s.Ask(fmt.Sprintf("%d type %d %q", n, kind, configs), replacing(kind, name, configs...))
	}
	g, m := s.Topic("g"), s.Topic("m")
	ask(ofGroup, g, "consumer.session.timeout.ms=50000", "share.auto.offset.reset=earliest")
	s.settle(ofGroup, g, "consumer.session.timeout.ms=50000")
	ask(ofGroup, g, "consumer.session.timeout.ms=51000")
	s.settle(ofGroup, g, "consumer.session.timeout.ms=51000", "share.auto.offset.reset")
	s.AskIn(4, "group", describing(ofGroup, g))
	for _, bad := range []string{"consumer.session.timeout.ms=1", "consumer.session.timeout.ms=x", "no.such=1", "no.such", "consumer.session.timeout.ms", "share.auto.offset.reset=never"} {
		ask(ofGroup, g, bad)
	}
	ask(ofGroup, "", "consumer.session.timeout.ms=50000")
	ask(ofGroup, g)
	s.settle(ofGroup, g, "consumer.session.timeout.ms")
	s.AskIn(4, "group, empty", describing(ofGroup, g))
	ask(ofMetrics, m, "metrics=a.,b.", "interval.ms=1000", "match=client_id=x.*")
	s.settle(ofMetrics, m, "metrics=a.,b.", "interval.ms=1000")
	ask(ofMetrics, m, "interval.ms=2000")
	s.settle(ofMetrics, m, "interval.ms=2000", "metrics", "match")
	s.AskIn(4, "metrics", describing(ofMetrics, m))
	for _, bad := range []string{"interval.ms=10", "interval.ms=x", "match=client_id=[", "no.such=1", "no.such", "interval.ms"} {
		ask(ofMetrics, m, bad)
	}
	ask(ofMetrics, "", "interval.ms=1000")
	ask(ofMetrics, m)
	s.settle(ofMetrics, m, "interval.ms")
	s.AskIn(4, "metrics, empty", describing(ofMetrics, m))
}

func replaceRefused(s *Side) {
	s.createTopic("a", 1)
	n := 0
	ask := func(resources ...kmsg.AlterConfigsRequestResource) {
		n++
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Resources = resources
		s.Ask(fmt.Sprint(n), req)
	}
	a := s.Topic("a")
	ask()
	ask(replacement(ofTopic, s.Topic("no"), "retention.ms=1"))
	ask(replacement(ofTopic, s.Topic("no"), "retention.ms=x"))
	ask(replacement(ofTopic, s.Topic("no")))
	ask(replacement(ofTopic, "a b", "retention.ms=1"))
	ask(replacement(ofTopic, "", "retention.ms=1"))
	ask(replacement(ofTopic, a, "retention.ms=1"), replacement(ofTopic, s.Topic("no"), "retention.ms=2"), replacement(ofGroup, s.Topic("g"), "consumer.session.timeout.ms=x"))
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 64, -1, 127} {
		ask(replacement(kind, a, "retention.ms=1"))
	}
	ask(replacement(ofLogger, "1", "root=INFO"))
	ask(replacement(ofLogger, "2", "root=INFO"))
	ask(replacement(ofLogger, "", "root=INFO"))
	s.Patience = 2 * time.Second
	twice := replacing(ofTopic, a, "retention.ms=1")
	twice.Resources = append(twice.Resources, replacement(ofTopic, a, "retention.ms=2"))
	s.Ask("a resource twice", twice)
}

func listResources(s *Side) {
	s.createTopic("a", 1)
	s.alter(ofGroup, s.Topic("g"), "consumer.session.timeout.ms=50000")
	s.alter(ofMetrics, s.Topic("m"), "interval.ms=1000")
	s.alter(ofMetrics, s.Topic("gone"), "interval.ms=1000")
	s.Do(1, altering(ofMetrics, s.Topic("gone"), "interval.ms"))
	s.settle(ofMetrics, s.Topic("gone"), "interval.ms")
	ask := func(what string, types ...int8) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		s.AskFor(what, req, func(r kmsg.Response) {
			l := r.(*kmsg.ListConfigResourcesResponse)
			// What else there is, is that of other cases; internal topics are each server's own.
			l.ConfigResources = slices.DeleteFunc(l.ConfigResources, func(c kmsg.ListConfigResourcesResponseConfigResource) bool {
				return !strings.HasPrefix(c.Name, s.Prefix) && c.Name != "1" && c.Name != "2" && c.Name != ""
			})
			if len(l.ConfigResources) == 0 {
				l.ConfigResources = nil
			}
		})
	}
	ask("none named")
	for _, t := range []int8{2, 4, 8, 16, 32, 0, 1, 3, 64, -1, 127} {
		ask(fmt.Sprintf("type %d", t), t)
	}
	ask("several", 32, 2, 16)
	ask("twice", 2, 2)
	ask("one of them bad", 2, 3)
	s.Do(1, altering(ofGroup, s.Topic("g"), "consumer.session.timeout.ms"))
	s.settle(ofGroup, s.Topic("g"), "consumer.session.timeout.ms")
	s.Do(1, altering(ofMetrics, s.Topic("m"), "interval.ms"))
	s.settle(ofMetrics, s.Topic("m"), "interval.ms")
	ask("none left", 16, 32)
}
