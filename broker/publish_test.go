package broker

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/controller"
	"millrace/controller/config"
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

// A replication factor of something that is not built is told of once: that it has no effect, and not also that it counts
// as 1 in a cluster of one.
func TestFactorsAreToldOfOnce(t *testing.T) {
	b, _ := standing(t)
	see(b, registered(1, 1, [16]byte{1}))
	props, want := map[string]string{}, []any{"default.replication.factor=3", "offsets.topic.replication.factor=3"}
	for _, key := range factors {
		props[key] = "3"
	}
	static, warnings, err := config.ParseStatic(props)
	if err != nil {
		t.Fatal(err)
	}
	core, seen := observer.New(zap.WarnLevel)
	b.config, b.log = static, zap.New(core)
	b.warnOfFactors()
	if all := seen.All(); len(all) != 1 || fmt.Sprint(all[0].ContextMap()["configs"]) != fmt.Sprint(want) {
		t.Errorf("told of %v, not of %v", all, want)
	}
	if len(warnings)+len(want) != len(factors) {
		t.Errorf("%d factors, of which %d count as 1, and %v are warned of", len(factors), len(want), warnings)
	}
}
