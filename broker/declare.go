package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/state"
)

// Topic is one that has to be there before the broker is ready.
type Topic struct {
	Name       string
	Partitions int32
	Configs    []TopicConfig
}

// CheckTopicName says in Kafka's words what is wrong with a topic's name.
func CheckTopicName(name string) error {
	if why := state.CheckTopicName(name); why != "" {
		return errors.New(why)
	}
	return nil
}

// TopicConfig is a config of such a topic.
type TopicConfig struct{ Name, Value string }

// declare creates the topics that were declared. One that exists is left as it
// is: where it differs, that is said, since a start is no time to change data
// that someone relies on.
func (b *Broker) declare(ctx context.Context, topics []Topic) error {
	if len(topics) == 0 {
		return nil
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = int32(startTimeout.Milliseconds())
	for _, t := range topics {
		if b.applied().TopicByName(t.Name) != nil {
			b.compare(t)
			continue
		}
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = t.Name, t.Partitions, -1
		for _, c := range t.Configs {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = c.Name, &c.Value
			one.Configs = append(one.Configs, config)
		}
		req.Topics = append(req.Topics, one)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	got, err := b.change(ctx, "", req, startTimeout)
	if err != nil {
		return fmt.Errorf("creating the declared topics: %w", err)
	}
	for _, t := range got.(*kmsg.CreateTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			why := err.Error()
			if t.ErrorMessage != nil {
				why = *t.ErrorMessage
			}
			return fmt.Errorf("creating the declared topic %s: %s", t.Topic, why)
		}
		b.log.Info("created a declared topic", zap.String("topic", t.Topic), zap.Int32("partitions", t.NumPartitions))
	}
	return nil
}

// compare warns where an existing topic is not what was declared.
func (b *Broker) compare(declared Topic) {
	img := b.applied()
	if have := len(img.TopicByName(declared.Name).Partitions); have != int(declared.Partitions) {
		b.log.Warn("a declared topic exists with another number of partitions; it is left as it is",
			zap.String("topic", declared.Name), zap.Int("partitions", have), zap.Int32("declared", declared.Partitions))
	}
	effective := map[string]string{}
	for _, e := range b.config.DescribeTopic(dynamic(img, image.BrokerResource, ""), dynamic(img, image.BrokerResource, itoa(b.nodeID)), dynamic(img, image.TopicResource, declared.Name)) {
		if e.Value != nil {
			effective[e.Name] = *e.Value
		}
	}
	for _, c := range declared.Configs {
		want := c.Value
		if k, ok := config.Find(config.TopicScope, c.Name); ok {
			want = k.Canonical(c.Value)
		}
		if have := effective[c.Name]; have != want {
			b.log.Warn("a declared topic exists with another config; it is left as it is",
				zap.String("topic", declared.Name), zap.String("config", c.Name), zap.String("value", have), zap.String("declared", want))
		}
	}
}
