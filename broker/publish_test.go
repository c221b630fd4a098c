package broker

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/controller"
	"millrace/controller/image"
	"millrace/wire/records"
)

func configOf(kind int8, resource, name, value string) records.Metadata {
	r := records.NewConfigRecord()
	r.ResourceType, r.ResourceName, r.Name, r.Value = kind, resource, name, &value
	return r
}

// A config that is accepted and changes nothing is said to, once.
func TestConfigsWithoutEffectAreNamed(t *testing.T) {
	b, _ := standing(t)
	core, seen := observer.New(zap.WarnLevel)
	b.log = zap.New(core)
	old := b.applied()
	next, delta := old.Apply(1, []records.Metadata{
		configOf(int8(image.BrokerResource), "", "log.retention.ms", "1000"),
		configOf(int8(image.BrokerResource), "1", "num.io.threads", "9"),
		configOf(int8(image.BrokerResource), "", "plugin.key", "x"),
		configOf(int8(image.TopicResource), "t", "remote.copy.lag.ms", "5"),
		configOf(int8(image.GroupResource), "g", "share.isolation.level", "read_committed"),
		configOf(int8(image.TopicResource), "u", "remote.copy.lag.ms", "5"),
	})
	for range 2 {
		b.applyConfigs(old, controller.Update{Image: next, Delta: delta})
	}
	got := map[string]int{}
	for _, line := range seen.All() {
		name, _ := line.ContextMap()["config"].(string)
		got[name]++
	}
	for name, want := range map[string]int{"log.retention.ms": 0, "num.io.threads": 1, "plugin.key": 1, "share.isolation.level": 1, "remote.copy.lag.ms": 1} {
		if got[name] != want {
			t.Errorf("%s is named %d times: %v", name, got[name], seen.All())
		}
	}
}
