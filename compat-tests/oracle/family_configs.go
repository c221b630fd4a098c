package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicKeys are keys of topics' configs.
var topicKeys = []string{
	"cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level", "delete.retention.ms",
	"errors.deadletterqueue.group.enable", "file.delete.delay.ms", "flush.messages", "flush.ms", "follower.replication.throttled.replicas",
	"index.interval.bytes", "internal.segment.bytes", "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
	"max.compaction.lag.ms", "max.decompressed.message.bytes", "max.message.bytes", "message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas",
	"preallocate", "remote.copy.lag.bytes", "remote.copy.lag.ms", "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
	"retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
}

// groupKeys and metricsKeys are keys of groups' and of client metrics' configs.
var (
	groupKeys = []string{
		"consumer.assignment.interval.ms", "consumer.assignor.offload.enable", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms",
		"errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.topic.name", "share.assignment.interval.ms", "share.assignor.offload.enable",
		"share.auto.offset.reset", "share.delivery.count.limit", "share.heartbeat.interval.ms", "share.isolation.level",
		"share.partition.max.record.locks", "share.record.lock.duration.ms", "share.renew.acknowledge.enable", "share.session.timeout.ms",
		"streams.acceptable.recovery.lag", "streams.assignment.interval.ms", "streams.assignor.name", "streams.assignor.offload.enable",
		"streams.heartbeat.interval.ms", "streams.initial.rebalance.delay.ms", "streams.num.standby.replicas", "streams.num.warmup.replicas",
		"streams.rack.aware.assignment.tags", "streams.session.timeout.ms", "streams.task.offset.interval.ms",
	}
	metricsKeys = []string{"interval.ms", "match", "metrics"}
	// brokerKeys are those that can be changed while a broker runs, and some others.
	// What asks for protection is not among them.
	brokerKeys = []string{
		"background.threads", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level", "cordoned.log.dirs",
		"errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix", "follower.fetch.last.tiered.offset.enable",
		"follower.replication.throttled.rate", "group.consumer.assignment.interval.ms", "group.consumer.assignor.offload.enable",
		"group.coordinator.cached.buffer.max.bytes", "group.share.assignment.interval.ms", "group.share.assignor.offload.enable",
		"group.streams.assignment.interval.ms", "group.streams.assignor.offload.enable", "leader.replication.throttled.rate",
		"listener.security.protocol.map", "listeners", "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.delete.retention.ms",
		"log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.max.compaction.lag.ms",
		"log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads", "log.cleanup.policy", "log.flush.interval.messages",
		"log.flush.interval.ms", "log.index.interval.bytes", "log.index.size.max.bytes", "log.local.retention.bytes", "log.local.retention.ms",
		"log.message.timestamp.after.max.ms", "log.message.timestamp.before.max.ms", "log.message.timestamp.type", "log.preallocate",
		"log.remote.copy.lag.bytes", "log.remote.copy.lag.ms", "log.retention.bytes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms",
		"log.segment.bytes", "log.segment.delete.delay.ms", "max.connection.creation.rate", "max.connections", "max.connections.per.ip",
		"max.connections.per.ip.overrides", "max.decompressed.message.bytes", "message.max.bytes", "metric.reporters", "min.insync.replicas",
		"num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers", "principal.builder.class",
		"producer.id.expiration.ms", "remote.fetch.max.wait.ms", "remote.list.offsets.request.timeout.ms", "remote.log.index.file.cache.total.size.bytes",
		"remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second", "remote.log.manager.expiration.thread.pool.size",
		"remote.log.manager.fetch.max.bytes.per.second", "remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
		"replica.alter.log.dirs.io.max.bytes.per.second", "share.coordinator.cached.buffer.max.bytes", "transaction.partition.verification.enable",
		"unclean.leader.election.enable", "log.retention.hours", "broker.id", "no.such.key", "log.dirs", "group.consumer.max.assignment.interval.ms",
		"listener.name.plaintext.max.connections", "listener.name.none.num.network.threads",
	}
	// values fit some keys of every type, and not others. None is from 4 to 11: with such a
	// segment.index.bytes, which it takes, Kafka cannot make a log, nor any other of the same
	// change to its metadata; here an index just has few entries.
	values = []string{"", "0", "1", "-1", "-2", "100", "5000", "45000", "1048576", "1073741824", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "0.5", "1.5", "NaN",
		"true", "false", "TRUE", "yes", "compact", "delete", "compact,delete", "compact, delete", "delete,delete", "producer", "gzip", "zstd", "none", "CreateTime", "LogAppendTime", "*", "0:1", "0:1,1:1",
		" 100 ", "1e3", "0x10", "+50", "latest", "earliest", "read_committed", "client_id=x", "nonsense=x", "client_id=[", "org.apache.kafka.,x", "é"}
)

func init() {
	register(&family{
		name: "configs", weight: 12, length: 30,
		open: func(g *gen) []Step { return g.createTopics(logProfiles...) },
		steps: []maker{
			{30, (*gen).alterIncrementally},
			{12, (*gen).alterWhole},
			{18, (*gen).describeConfigs},
			{3, (*gen).describeTopicConfigs},
			{4, (*gen).listConfigResources},
			{4, (*gen).produce},
			{2, (*gen).truncatedTopic},
		},
	})
}

// resource is what a config is of.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
	keys []string
	// shared: others see what is changed, so that changes are only tried.
	shared bool
}

func (g *gen) resource() resource {
	switch n := g.IntN(100); {
	case n < 60:
		return resource{kind: 2, name: g.topic(), keys: topicKeys}
	case n < 72:
		return resource{kind: 32, name: oneOf(g.Rand, "g0", "g1", "="), keys: groupKeys}
	case n < 84:
		return resource{kind: 16, name: oneOf(g.Rand, "sub0", "sub1", "="), keys: metricsKeys}
	case n < 95:
		return resource{kind: 4, name: oneOf(g.Rand, "=1", "=1", "=", "=2", "=x"), keys: brokerKeys, shared: true}
	case n < 97:
		return resource{kind: kmsg.ConfigResourceType(oneOf[int8](g.Rand, 0, 1, 3, 64, -1)), name: "a", keys: topicKeys}
	}
	return resource{kind: 8, name: oneOf(g.Rand, "=1", "=", "=7"), keys: []string{"no.such.logger"}, shared: true}
}

// value is a value for a key: often one that fits it.
func (g *gen) value(key string) *string {
	if g.chance(4) {
		return nil
	}
	if g.chance(55) {
		var fit []string
		switch {
		case strings.HasSuffix(key, "policy"):
			fit = []string{"compact", "delete", "compact,delete", ""}
		case key == "compression.type":
			fit = []string{"gzip", "zstd", "producer", "uncompressed", "lz4", "snappy"}
		case key == "message.timestamp.type":
			fit = []string{"CreateTime", "LogAppendTime"}
		case strings.HasSuffix(key, "enable"), strings.HasSuffix(key, "disable"), key == "preallocate":
			fit = []string{"true", "false"}
		case strings.HasSuffix(key, "replicas") && strings.Contains(key, "throttled"):
			fit = []string{"*", "0:1", "0:1,1:1", "none"}
		case key == "match":
			fit = []string{"client_id=x", "client_software_name=a.*,client_id=b", ""}
		case key == "metrics":
			fit = []string{"*", "org.apache.kafka.,x", ""}
		default:
			fit = []string{"1", "5000", "45000", "100000", "1048576", "2147483647"}
		}
		return kmsg.StringPtr(oneOf(g.Rand, fit...))
	}
	return kmsg.StringPtr(oneOf(g.Rand, values...))
}

type change struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func (c change) String() string {
	if c.value == nil {
		return fmt.Sprintf("%s op %d null", c.key, c.op)
	}
	return fmt.Sprintf("%s op %d %q", c.key, c.op, *c.value)
}

func (g *gen) changes(r resource) []change {
	var list []change
	for range oneOf(g.Rand, 0, 1, 1, 1, 1, 2, 3) {
		key := oneOf(g.Rand, r.keys...)
		if g.chance(4) {
			key = oneOf(g.Rand, "no.such.key", "", "Retention.ms", "internal.segment.bytes")
		}
		c := change{key, oneOf[kmsg.IncrementalAlterConfigOp](g.Rand, 0, 0, 0, 0, 0, 1, 2, 3), g.value(key)}
		// An operation that is none stays with package frames: Kafka's controller fails at
		// it (a null AlterConfigOp.OpType), renounces its leadership and is elected anew
		// two epochs later, under the eyes of all sequences that are played beside.
		list = append(list, c)
		if g.chance(1) {
			return list[len(list)-1:]
		}
	}
	return list
}

func (g *gen) alterIncrementally() Step {
	var rs []resource
	var cs [][]change
	validate := g.chance(20)
	for range oneOf(g.Rand, 1, 1, 1, 2) {
		r := g.resource()
		rs, cs = append(rs, r), append(cs, g.changes(r))
		validate = validate || r.shared
	}
	v := g.pick()
	what := fmt.Sprintf("alter configs, validate only %v: %s %v", validate, shownResources(rs), cs)
	return Step{Text: what, Do: func(p *Play) {
		defer p.subscribing(rs)()
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly = validate
			for i, r := range rs {
				rr := kmsg.NewIncrementalAlterConfigsRequestResource()
				rr.ResourceType, rr.ResourceName = r.kind, s.name(r.name)
				for _, c := range cs[i] {
					rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
					rc.Name, rc.Op, rc.Value = c.key, c.op, c.value
					rr.Configs = append(rr.Configs, rc)
				}
				req.Resources = append(req.Resources, rr)
			}
			return req
		})
		p.configured(rs)
	}}
}

func (g *gen) alterWhole() Step {
	r := g.resource()
	cs, validate, v := g.changes(r), g.chance(20) || r.shared, g.pick()
	what := fmt.Sprintf("replace configs, validate only %v: %s %v", validate, shownResources([]resource{r}), cs)
	return Step{Text: what, Do: func(p *Play) {
		defer p.subscribing([]resource{r})()
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			rr := kmsg.NewAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = r.kind, s.name(r.name)
			for _, c := range cs {
				rc := kmsg.NewAlterConfigsRequestResourceConfig()
				rc.Name, rc.Value = c.key, c.value
				rr.Configs = append(rr.Configs, rc)
			}
			req.Resources = append(req.Resources, rr)
			return req
		})
		p.configured([]resource{r})
	}}
}

// subscribing keeps the telemetry of other sequences away while a subscription
// changes: both servers match all their clients anew then.
func (p *Play) subscribing(rs []resource) (done func()) {
	if !slices.ContainsFunc(rs, func(r resource) bool { return r.kind == 16 }) {
		return func() {}
	}
	p.subscribed = true
	return p.subscriptions.enter(changers)
}

// configured waits until a change of configs has gone through, and looks at
// what is there now.
func (p *Play) configured(rs []resource) {
	p.applied()
	pause(10)
	p.ask("admin", pick{from: 4}, "what is set now", func(s *side) kmsg.Request { return describing(s, rs, nil) })
}

func describing(s *side, rs []resource, keys []string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	for _, r := range rs {
		if r.shared {
			continue
		}
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = r.kind, s.name(r.name), keys
		req.Resources = append(req.Resources, rr)
	}
	return req
}

func shownResources(rs []resource) string {
	var list []string
	for _, r := range rs {
		list = append(list, fmt.Sprintf("type %d %q", r.kind, r.name))
	}
	return strings.Join(list, ", ")
}

func (g *gen) describeConfigs() Step {
	var rs []resource
	for range oneOf(g.Rand, 1, 1, 2) {
		r := g.resource()
		r.shared = false
		rs = append(rs, r)
	}
	var keys []string
	switch g.IntN(4) {
	case 0:
		keys = []string{}
	case 1:
		keys = []string{oneOf(g.Rand, rs[0].keys...), "no.such.key"}
	case 2:
		keys = []string{oneOf(g.Rand, rs[0].keys...), oneOf(g.Rand, rs[0].keys...)}
	}
	synonyms, documentation := g.chance(60), g.chance(40)
	return g.asking("admin", fmt.Sprintf("describe configs %s %v, synonyms %v, documentation %v", shownResources(rs), keys, synonyms, documentation), func(s *side) kmsg.Request {
		req := describing(s, rs, keys)
		req.IncludeSynonyms, req.IncludeDocumentation = synonyms, documentation
		return req
	})
}

func (g *gen) describeTopicConfigs() Step {
	topic := oneOf(g.Rand, g.topics...)
	return g.asking("admin", "describe configs of "+topic, func(s *side) kmsg.Request {
		return describing(s, []resource{{kind: 2, name: topic}}, nil)
	})
}

func (g *gen) listConfigResources() Step {
	types := oneOf(g.Rand, nil, []int8{}, []int8{2}, []int8{4}, []int8{8}, []int8{16}, []int8{32}, []int8{16, 32, 16}, []int8{0}, []int8{99}, []int8{2, 4, 8, 16, 32})
	return g.asking("admin", fmt.Sprintf("list config resources %v", types), func(s *side) kmsg.Request {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		return req
	})
}
