package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/config"
)

// The internal topics, by Kafka's names.
const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
	shareStateTopic   = "__share_group_state"
)

func isInternal(topic string) bool {
	return topic == offsetsTopic || topic == transactionsTopic || topic == shareStateTopic
}

// validTopicName is Kafka's rule for topic names (org.apache.kafka.common
// Topic.validate).
func validTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for i := range len(name) {
		ch := name[i]
		if !(ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch == '.' || ch == '_' || ch == '-') {
			return false
		}
	}
	return true
}

// autoCreate creates topics with the broker's defaults on behalf of a client
// that asked for their metadata, and returns an error code for each. Requests
// that miss the same topic at the same time create it once: the later ones are
// told that it exists, and see it in the image they then wait for.
func (b *Broker) autoCreate(c *call, names []string) []int16 {
	codes := make([]int16, len(names))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = int32(autoCreateTimeout.Milliseconds())
	at := map[string]int{}
	for i, name := range names {
		codes[i] = kerr.UnknownTopicOrPartition.Code
		if !validTopicName(name) {
			codes[i] = kerr.InvalidTopicException.Code
			continue
		}
		at[name] = i
		req.Topics = append(req.Topics, b.newTopic(name))
	}
	if len(req.Topics) == 0 {
		return codes
	}
	resp, err := c.change(req, autoCreateTimeout)
	if err != nil {
		return codes
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		i, ok := at[t.Topic]
		if !ok {
			continue
		}
		switch t.ErrorCode {
		case kerr.InvalidTopicException.Code:
			codes[i] = t.ErrorCode
		case kerr.InvalidReplicationFactor.Code:
			codes[i] = t.ErrorCode
		}
	}
	return codes
}

// newTopic is the request for a topic as the broker itself creates it: -1/-1
// for user topics, the settings of their own for the internal ones.
func (b *Broker) newTopic(name string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if name == offsetsTopic {
		t.NumPartitions = b.config.Int("offsets.topic.num.partitions")
		t.ReplicationFactor = b.internalFactor("offsets.topic.replication.factor")
		t.Configs = []kmsg.CreateTopicsRequestTopicConfig{
			{Name: "cleanup.policy", Value: kmsg.StringPtr("compact")},
			{Name: "compression.type", Value: kmsg.StringPtr("producer")},
			{Name: "segment.bytes", Value: kmsg.StringPtr(b.config.String("offsets.topic.segment.bytes"))},
		}
	}
	return t
}

// internalFactor is the replication factor of an internal topic. Where there is
// one broker it is 1, whatever the config says: in Kafka groups never find
// their coordinator then.
func (b *Broker) internalFactor(key string) int16 {
	if b.alone() {
		return 1
	}
	return b.config.ReplicationFactor(key, b.liveBrokers())
}

// alone says whether the cluster has one broker.
func (b *Broker) alone() bool {
	registered := 0
	for range b.applied().Brokers() {
		registered++
	}
	return registered == 1
}

// factors are the configs that ask for replicas.
var factors = []string{
	"default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor", "share.coordinator.state.topic.replication.factor",
}

// warnOfFactors says once that a cluster of one broker holds one replica of
// everything. Factors of what is not built are warned of as without effect.
func (b *Broker) warnOfFactors() {
	var set []string
	for _, key := range factors {
		if _, own := b.config.Set(key); own && b.config.Int(key) > 1 && config.WithoutEffect(config.BrokerScope, key) == "" {
			set = append(set, key+"="+b.config.String(key))
		}
	}
	if len(set) > 0 && b.alone() {
		b.log.Warn("the cluster has one broker: these replication factors count as 1", zap.Strings("configs", set))
	}
}

func (b *Broker) liveBrokers() int {
	live := 0
	for br := range b.applied().Brokers() {
		if !br.Fenced {
			live++
		}
	}
	return live
}
