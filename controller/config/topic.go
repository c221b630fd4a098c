package config

import (
	"fmt"
	"math"
)

// TimestampType is message.timestamp.type.
type TimestampType int8

const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// TopicConfig is a topic's effective configuration, one field for each of
// Kafka's topic configs.
type TopicConfig struct {
	CleanupDelete, CleanupCompact   bool // both false: kept for ever
	CompressionType                 string
	CompressionGzipLevel            int32
	CompressionLz4Level             int32
	CompressionZstdLevel            int32
	DeleteRetentionMs               int64
	DeadLetterQueueGroupEnable      bool
	FileDeleteDelayMs               int64
	FlushMessages, FlushMs          int64
	FollowerThrottledReplicas       []string
	IndexIntervalBytes              int32
	LeaderThrottledReplicas         []string
	LocalRetentionBytes             int64
	LocalRetentionMs                int64
	MaxCompactionLagMs              int64
	MaxDecompressedMessageBytes     int32
	MaxMessageBytes                 int32
	MessageTimestampAfterMaxMs      int64
	MessageTimestampBeforeMaxMs     int64
	MessageTimestampType            TimestampType
	MinCleanableDirtyRatio          float64
	MinCompactionLagMs              int64
	MinInsyncReplicas               int32
	Preallocate                     bool
	RemoteCopyLagBytes              int64
	RemoteCopyLagMs                 int64
	RemoteLogCopyDisable            bool
	RemoteLogDeleteOnDisable        bool
	RemoteStorageEnable             bool
	RetentionBytes                  int64 // -1: no limit
	RetentionMs                     int64 // -1: no limit
	SegmentBytes, SegmentIndexBytes int32 // SegmentBytes is internal.segment.bytes where that is set
	SegmentJitterMs, SegmentMs      int64
	UncleanLeaderElection           bool
}

// Topic gives a topic's configuration: each key's value is the topic's
// own, else that of the broker synonyms in order of level (this broker's dynamic
// configs, the cluster's dynamic default, static), else the default. Any getter
// may be nil. A value that a check would refuse is an error.
func Topic(st *Static, defaultDyn, brokerDyn, topic Lookup) (*TopicConfig, error) {
	r := topicReader{levels{st, defaultDyn, brokerDyn}, topic, nil}
	policies := r.list("cleanup.policy")
	c := &TopicConfig{
		CleanupDelete:               contains(policies, "delete"),
		CleanupCompact:              contains(policies, "compact"),
		CompressionType:             r.get("compression.type").text,
		CompressionGzipLevel:        r.int("compression.gzip.level"),
		CompressionLz4Level:         r.int("compression.lz4.level"),
		CompressionZstdLevel:        r.int("compression.zstd.level"),
		DeleteRetentionMs:           r.long("delete.retention.ms"),
		DeadLetterQueueGroupEnable:  r.bool("errors.deadletterqueue.group.enable"),
		FileDeleteDelayMs:           r.long("file.delete.delay.ms"),
		FlushMessages:               r.long("flush.messages"),
		FlushMs:                     r.long("flush.ms"),
		FollowerThrottledReplicas:   r.list("follower.replication.throttled.replicas"),
		IndexIntervalBytes:          r.int("index.interval.bytes"),
		LeaderThrottledReplicas:     r.list("leader.replication.throttled.replicas"),
		LocalRetentionBytes:         r.long("local.retention.bytes"),
		LocalRetentionMs:            r.long("local.retention.ms"),
		MaxCompactionLagMs:          r.long("max.compaction.lag.ms"),
		MaxDecompressedMessageBytes: r.int("max.decompressed.message.bytes"),
		MaxMessageBytes:             r.int("max.message.bytes"),
		MessageTimestampAfterMaxMs:  r.long("message.timestamp.after.max.ms"),
		MessageTimestampBeforeMaxMs: r.long("message.timestamp.before.max.ms"),
		MinCleanableDirtyRatio:      r.get("min.cleanable.dirty.ratio").real,
		MinCompactionLagMs:          r.long("min.compaction.lag.ms"),
		MinInsyncReplicas:           r.int("min.insync.replicas"),
		Preallocate:                 r.bool("preallocate"),
		RemoteCopyLagBytes:          r.long("remote.copy.lag.bytes"),
		RemoteCopyLagMs:             r.long("remote.copy.lag.ms"),
		RemoteLogCopyDisable:        r.bool("remote.log.copy.disable"),
		RemoteLogDeleteOnDisable:    r.bool("remote.log.delete.on.disable"),
		RemoteStorageEnable:         r.bool("remote.storage.enable"),
		RetentionBytes:              r.long("retention.bytes"),
		RetentionMs:                 r.long("retention.ms"),
		SegmentBytes:                r.int("segment.bytes"),
		SegmentIndexBytes:           r.int("segment.index.bytes"),
		SegmentJitterMs:             r.long("segment.jitter.ms"),
		SegmentMs:                   r.long("segment.ms"),
		UncleanLeaderElection:       r.bool("unclean.leader.election.enable"),
	}
	if r.get("message.timestamp.type").text == "LogAppendTime" {
		c.MessageTimestampType = LogAppendTime
	}
	if _, set := topic.get("internal.segment.bytes"); set {
		c.SegmentBytes = r.int("internal.segment.bytes")
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading a topic's configs: %w", r.err)
	}
	return c, nil
}

// topicReader reads one topic key after the other; its first error sticks.
type topicReader struct {
	levels
	topic Lookup
	err   error
}

func (r *topicReader) get(name string) value {
	k, ok := Find(TopicScope, name)
	if !ok {
		panic("config: no topic config is named " + name)
	}
	text, set := r.topic.get(name)
	if !set {
		if text, set = r.inherited(k); !set {
			return value{typ: k.Type}
		}
	}
	v, err := k.parse(text)
	if err == nil {
		err = k.obey(v)
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

func (r *topicReader) int(name string) int32     { return int32(r.get(name).num) }
func (r *topicReader) long(name string) int64    { return r.get(name).num }
func (r *topicReader) bool(name string) bool     { return r.get(name).num != 0 }
func (r *topicReader) list(name string) []string { return r.get(name).list }

// levels are the broker configs that topics and groups inherit from.
type levels struct {
	static     *Static
	defaultDyn Lookup
	brokerDyn  Lookup
}

// broker gives the effective value of one broker config; false if it is null.
func (l levels) broker(name string) (string, bool) {
	if v, ok := l.brokerDyn.get(name); ok {
		return v, true
	}
	if v, ok := l.defaultDyn.get(name); ok {
		return v, true
	}
	if v, ok := l.static.Set(name); ok {
		return v, true
	}
	k, ok := Find(BrokerScope, name)
	if !ok || k.Null || k.Required {
		return "", false
	}
	return k.Default, true
}

// inherited gives the value that a topic or group key has when the topic or
// group does not set it: that of its first synonym which is not null, else its
// own default.
func (l levels) inherited(k *Key) (string, bool) {
	for _, name := range k.SynonymNames() {
		if v, ok := l.broker(name); ok {
			return convert(name, v), true
		}
	}
	return k.Default, !k.Null
}

// convert turns the value of a broker config that counts in hours or minutes
// into milliseconds.
func convert(name, v string) string {
	var unit int64
	switch name {
	case "log.retention.hours", "log.roll.hours", "log.roll.jitter.hours":
		unit = 60 * 60 * 1000
	case "log.retention.minutes":
		unit = 60 * 1000
	case "log.retention.ms":
		// A limit below nothing is none.
		unit = 1
	default:
		return v
	}
	k, _ := Find(BrokerScope, name)
	parsed, err := k.parse(v)
	if err != nil {
		return v
	}
	n := parsed.num
	if n < 0 {
		n, unit = -1, 1
	}
	if n > math.MaxInt64/unit {
		n, unit = math.MaxInt64, 1
	}
	return value{typ: Long, num: n * unit}.String()
}

// checkHeirs says whether the topic configs that inherit a broker config can have
// its value. Kafka's rules for the broker config alone are wider in places; a value
// that no topic can have is refused as the topic's.
func checkHeirs(name, v string) error {
	for i := range topicKeys {
		k := &topicKeys[i]
		if contains(k.SynonymNames(), name) {
			if err := k.Check(convert(name, v)); err != nil {
				return err
			}
		}
	}
	return nil
}
