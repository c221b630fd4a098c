package config

import (
	"reflect"
	"testing"
)

func TestEnvironment(t *testing.T) {
	props := map[string]string{"log.dirs": "/a", "num.partitions": "2"}
	taken := MergeEnvironment(props, []string{
		"KAFKA_PORT=tcp://10.0.0.1:9092", "KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", "KAFKA_SERVICE_HOST=10.0.0.1", "KAFKA_SERVICE_PORT_CLIENT=9092",
		"PATH=/bin", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_LOG_DIRS=/b", "KAFKA_SOME___KEY__NAME=v=w", "KAFKA_OPTS=", "nonsense",
		"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://host:9092,BACK://x:1",
	})
	want := map[string]string{
		"log.dirs": "/b", "num.partitions": "2", "some-key_name": "v=w",
		"advertised.listeners": "PLAINTEXT://host:9092,BACK://x:1", "listeners": "PLAINTEXT://0.0.0.0:9092,BACK://0.0.0.0:1",
	}
	if !reflect.DeepEqual(props, want) {
		t.Errorf("got %v", props)
	}
	props = map[string]string{}
	if MergeEnvironment(props, []string{"KAFKA_PORT=9999", "KAFKA_NAME=x"}); props["port"] != "9999" || props["name"] != "x" {
		t.Errorf("what people set is taken for variables of a service: %v", props)
	}
	props = map[string]string{}
	MergeEnvironment(props, []string{"KAFKA_NAME=/app/kafka", "KAFKA_ENV_LANG=C", "KAFKA_PORT_9092_TCP=tcp://10.0.0.1:9092", "KAFKA_PORT_9092_TCP_PROTO=tcp",
		"KAFKA_BROKER_SERVICE_HOST=10.0.0.1", "KAFKA_BROKER_SERVICE_PORT=9092", "KAFKA_BROKER_SERVICE_PORT_CLIENT=9092",
		"KAFKA_BROKER_PORT=tcp://10.0.0.1:9092", "KAFKA_BROKER_PORT_9092_TCP_PORT=9092", "KAFKA_PORT=udp://10.0.0.1:1"})
	if len(props) > 0 {
		t.Errorf("variables of services are taken for configs: %v", props)
	}
	props = map[string]string{}
	MergeEnvironment(props, []string{"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://host:9092", "KAFKA_LISTENERS=PLAINTEXT://:1"})
	if props["listeners"] != "PLAINTEXT://:1" {
		t.Errorf("got %v", props)
	}
	from := []Variable{
		{"KAFKA_LOG_DIRS", "log.dirs"}, {"KAFKA_SOME___KEY__NAME", "some-key_name"},
		{"KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"}, {"KAFKA_ADVERTISED_LISTENERS", "listeners"},
	}
	if !reflect.DeepEqual(taken, from) {
		t.Errorf("taken: %v", taken)
	}
}

// Whatever can be named can be set from the environment.
func TestVariableNames(t *testing.T) {
	for _, key := range []string{"log.dirs", "some-key_name", "listener.name.sasl_plaintext.plain.sasl.jaas.config"} {
		if got := propertyName(VariableName(key)); got != key {
			t.Errorf("%s: %s stands for %s", key, VariableName(key), got)
		}
	}
	for _, k := range Keys(BrokerScope) {
		if got := propertyName(VariableName(k.Name)); got != k.Name {
			t.Errorf("%s: %s stands for %s", k.Name, VariableName(k.Name), got)
		}
		if serviceLink(VariableName(k.Name), k.Default) {
			t.Errorf("%s is taken for a variable of a service", VariableName(k.Name))
		}
	}
}

// A start script that appends a list of further listeners, which is empty,
// leaves a comma.
func TestAdvertisedListenersThatEndInAComma(t *testing.T) {
	props := map[string]string{}
	MergeEnvironment(props, []string{"KAFKA_ADVERTISED_LISTENERS=A://h:1,B://h:2,"})
	if props["advertised.listeners"] != "A://h:1,B://h:2" || props["listeners"] != "A://0.0.0.0:1,B://0.0.0.0:2" {
		t.Errorf("%v", props)
	}
}
