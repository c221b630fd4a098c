package config

import (
	"reflect"
	"strings"
	"testing"
)

func mustParse(t *testing.T, props map[string]string) (*Static, []Warning) {
	t.Helper()
	s, w, err := ParseStatic(props)
	if err != nil {
		t.Fatalf("%v: %v", props, err)
	}
	return s, w
}

// The two server.properties that Kafka ships, in what they set.
var (
	shipped = map[string]string{
		"process.roles": "broker,controller", "node.id": "1",
		"controller.quorum.bootstrap.servers": "localhost:9093",
		"listeners":                           "PLAINTEXT://:9092,CONTROLLER://:9093",
		"inter.broker.listener.name":          "PLAINTEXT",
		"advertised.listeners":                "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
		"controller.listener.names":           "CONTROLLER",
		"listener.security.protocol.map":      "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
		"num.network.threads":                 "3", "num.io.threads": "8",
		"socket.send.buffer.bytes": "102400", "socket.receive.buffer.bytes": "102400", "socket.request.max.bytes": "104857600",
		"log.dirs": "/tmp/kraft-combined-logs", "num.partitions": "1", "num.recovery.threads.per.data.dir": "2",
		"offsets.topic.replication.factor": "1", "share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
		"log.retention.hours": "168", "log.segment.bytes": "1073741824", "log.retention.check.interval.ms": "300000",
	}
	image = map[string]string{
		"process.roles": "broker,controller", "node.id": "1",
		"controller.quorum.voters":  "1@localhost:9093",
		"listeners":                 "PLAINTEXT://:9092,CONTROLLER://:9093",
		"advertised.listeners":      "PLAINTEXT://localhost:9092",
		"controller.listener.names": "CONTROLLER",
		"log.dirs":                  "/tmp/kraft-combined-logs", "num.partitions": "1",
		"offsets.topic.replication.factor": "1", "log.retention.hours": "168",
	}
)

func TestShippedFormsAreTaken(t *testing.T) {
	for _, props := range []map[string]string{shipped, image} {
		s, _ := mustParse(t, props)
		want := []Listener{
			{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Port: 9092},
			{Name: "CONTROLLER", Protocol: "PLAINTEXT", Port: 9093, Controller: true},
		}
		if got := s.Listeners(); !reflect.DeepEqual(got, want) {
			t.Errorf("listeners %+v", got)
		}
		if a := s.Advertised(); len(a) == 0 || a[0] != (Listener{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "localhost", Port: 9092}) {
			t.Errorf("advertised %+v", a)
		}
		if s.InterBrokerListener() != "PLAINTEXT" || !reflect.DeepEqual(s.ControllerListeners(), []string{"CONTROLLER"}) {
			t.Errorf("inter-broker %s, controllers %v", s.InterBrokerListener(), s.ControllerListeners())
		}
		if !reflect.DeepEqual(s.LogDirs(), []string{"/tmp/kraft-combined-logs"}) || s.MetadataLogDir() != "/tmp/kraft-combined-logs" {
			t.Errorf("directories %v, %s", s.LogDirs(), s.MetadataLogDir())
		}
		if s.ReplicationFactor("offsets.topic.replication.factor", 5) != 1 || s.ReplicationFactor("default.replication.factor", 5) != 3 {
			t.Error("replication factors")
		}
	}
	s, _ := mustParse(t, image)
	if !reflect.DeepEqual(s.Voters(), []Voter{{ID: 1, Host: "localhost", Port: 9093}}) {
		t.Errorf("voters %+v", s.Voters())
	}
	s, _ = mustParse(t, shipped)
	if !reflect.DeepEqual(s.BootstrapServers(), []Address{{Host: "localhost", Port: 9093}}) {
		t.Errorf("bootstrap servers %+v", s.BootstrapServers())
	}
}

func TestNothingSet(t *testing.T) {
	s, warnings := mustParse(t, nil)
	if len(warnings) != 0 {
		t.Errorf("warnings %v", warnings)
	}
	want := []Listener{
		{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: 9092},
		{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "::1", Port: 9092},
	}
	if !reflect.DeepEqual(s.Listeners(), want) || s.Advertised() != nil || s.ControllerListeners() != nil {
		t.Errorf("listeners %+v, advertised %+v", s.Listeners(), s.Advertised())
	}
	if s.NodeID() != 1 || s.Rack() != nil || s.LogDirs()[0] != "./millrace-data" || s.MetadataLogDir() != "./millrace-data" {
		t.Errorf("node %d, directories %v", s.NodeID(), s.LogDirs())
	}
	if s.Int("group.initial.rebalance.delay.ms") != 0 || !s.Bool("auto.create.topics.enable") || s.Long("log.retention.ms") != 0 || s.Double("log.cleaner.min.cleanable.ratio") != 0.5 {
		t.Error("defaults")
	}
	for live, want := range []int16{1, 1, 2, 3, 3} {
		if got := s.ReplicationFactor("offsets.topic.replication.factor", live); got != want {
			t.Errorf("with %d brokers: replication factor %d", live, got)
		}
	}
	if s.Listeners()[1].String() != "PLAINTEXT://[::1]:9092" {
		t.Errorf("%s", s.Listeners()[1])
	}
}

func TestIDsAreOne(t *testing.T) {
	s, _ := mustParse(t, map[string]string{"broker.id": "7"})
	if s.NodeID() != 7 {
		t.Errorf("node id %d", s.NodeID())
	}
	if _, _, err := ParseStatic(map[string]string{"broker.id": "7", "node.id": "8"}); err == nil {
		t.Error("two ids were taken")
	}
}

func TestRefusedConfigurations(t *testing.T) {
	quorum := func(more ...string) []string {
		return append([]string{"listeners", "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names", "CONTROLLER"}, more...)
	}
	for _, c := range []struct {
		props []string
		want  string
	}{
		{[]string{"num.partitions", "many"}, "Invalid value many for configuration num.partitions: Not a number of type INT"},
		{[]string{"num.partitions", "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"},
		{[]string{"log.segment.bytes", "5000000000"}, "Invalid value 5000000000 for configuration log.segment.bytes: Not a number of type INT"},
		{[]string{"auto.create.topics.enable", "yes"}, "Expected value to be either true or false"},
		{[]string{"compression.type", "lzma"}, "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{[]string{"log.cleanup.policy", "delete,shred"}, "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete"},
		{[]string{"log.cleanup.policy", "delete,delete"}, "Configuration 'log.cleanup.policy' values must not be duplicated."},
		{[]string{"log.dirs", ""}, "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value"},
		{[]string{"node.id", "-1"}, "Value must be at least 0"},

		{[]string{"process.roles", "broker"}, "process.roles=broker: a node is broker and controller at once here"},
		{[]string{"process.roles", "controller"}, "process.roles=controller"},
		{[]string{"process.roles", "zookeeper"}, "String must be one of: broker, controller"},
		{quorum("controller.quorum.voters", "1@a:9093,2@b:9093"), "controller.quorum.voters names 2 controllers"},
		{quorum("controller.quorum.voters", "2@a:9093"), "the node id 1 must be included in the set of voters controller.quorum.voters=2@a:9093"},
		{quorum("controller.quorum.voters", "a:9093"), "Each entry should be in the form `{id}@{host}:{port}`."},
		{quorum("controller.quorum.voters", "1@a:0"), "Each entry should be in the form"},
		{quorum("controller.quorum.voters", "one@a:9093"), "Failed to parse voter ID"},
		{quorum("controller.quorum.bootstrap.servers", "a:9093,b:9093"), "controller.quorum.bootstrap.servers names 2 controllers"},
		{quorum("controller.quorum.bootstrap.servers", "a:9094"), "names another node"},
		{quorum("controller.quorum.bootstrap.servers", "a"), "Each entry should be in the form `{host}:{port}`."},
		{[]string{"controller.quorum.voters", "1@a:9093"}, "controller.listener.names must be set"},

		{[]string{"listeners", "PLAINTEXT:9092"}, "Unable to parse PLAINTEXT:9092 to a broker endpoint"},
		{[]string{"listeners", "PLAINTEXT://h:99999"}, "Unable to parse"},
		{[]string{"listeners", "PLAINTEXT://h h:9092"}, "Unable to parse"},
		{[]string{"listeners", "FRONT://:9092"}, "No security protocol defined for listener FRONT"},
		{[]string{"listeners", "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "Each listener must have a different name, listeners: PLAINTEXT://:9092,PLAINTEXT://:9093"},
		{[]string{"listeners", "PLAINTEXT://:9092,A://:9092", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"}, "Each listener must have a different port"},
		{[]string{"listener.security.protocol.map", "A:TLS"}, "No enum constant"},
		{[]string{"listeners", "A://:9092", "listener.security.protocol.map", "A:PLAINTEXT"}, "The valid options based on currently configured listeners are A"},
		{[]string{"inter.broker.listener.name", "PLAINTEXT", "security.inter.broker.protocol", "PLAINTEXT"}, "Only one of inter.broker.listener.name and security.inter.broker.protocol"},
		{[]string{"inter.broker.listener.name", "B"}, "must be a listener name defined in advertised.listeners"},
		{quorum("inter.broker.listener.name", "CONTROLLER"), "must not be one of controller.listener.names"},
		{[]string{"advertised.listeners", "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0"},
		{[]string{"advertised.listeners", "A://h:9092", "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"}, "must be equal to or a subset of the ones defined in listeners"},
		{[]string{"controller.listener.names", "CONTROLLER"}, "must contain at least one value appearing in the 'listeners'"},
		{[]string{"listeners", "CONTROLLER://:9093", "controller.listener.names", "CONTROLLER"}, "There must be at least one broker advertised listener"},

		{[]string{"listeners", "SSL://:9093"}, "listener SSL asks for SSL"},
		{[]string{"listeners", "A://:9093", "listener.security.protocol.map", "A:SASL_PLAINTEXT"}, "listener A asks for SASL_PLAINTEXT"},
		{[]string{"security.inter.broker.protocol", "SASL_SSL"}, "SASL_SSL is asked for"},
		{[]string{"authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "authorizer.class.name asks for an authorizer, which is not available"},
		{[]string{"ssl.client.auth", "required"}, "ssl.client.auth asks for TLS"},
		{[]string{"ssl.made.up", "x"}, "ssl.made.up asks for TLS"},
		{[]string{"sasl.enabled.mechanisms", "PLAIN"}, "asks for SASL"},
		{[]string{"listener.name.plaintext.ssl.keystore.location", "/k"}, "listener.name.plaintext.ssl.keystore.location asks for TLS"},
		{[]string{"listener.name.a.b.sasl.jaas.config", "x"}, "asks for SASL"},
		{[]string{"listener.name.x.plain.connections.max.reauth.ms", "5"}, "asks for SASL"},
		{[]string{"connections.max.reauth.ms", "5"}, "asks for SASL"},
		{[]string{"create.topic.policy.class.name", "a.B"}, "asks for a policy"},
		{[]string{"log.cleaner.threads", "2", "log.cleaner.dedupe.buffer.size", "2097153"}, "must be at least 1MB per cleaner thread"},
		{[]string{"config.providers", "file"}, "asks for a config provider"},
	} {
		props := map[string]string{}
		for i := 0; i < len(c.props); i += 2 {
			props[c.props[i]] = c.props[i+1]
		}
		_, _, err := ParseStatic(props)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\n got %v\nwant %s", props, err, c.want)
		}
	}
}

func TestTakenListeners(t *testing.T) {
	for _, props := range []map[string]string{
		{"listeners": "PLAINTEXT://127.0.0.1:0"},
		{"listeners": "plaintext://[::1]:9092"},
		{"listeners": "PLAINTEXT://127.0.0.1:9092,A://[::1]:9092", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"},
		{"listeners": "FRONT://:9092,BACK://:9093", "listener.security.protocol.map": "front:PLAINTEXT,BACK:plaintext", "inter.broker.listener.name": "back", "advertised.listeners": "FRONT://a:1,BACK://b:1"},
		{"listeners": "PLAINTEXT://:9092,C://:9093", "controller.listener.names": "C"},
		{"listeners": "PLAINTEXT://:9092,C://10.0.0.5:9093", "controller.listener.names": "C", "controller.quorum.bootstrap.servers": "10.0.0.5:9093"},
		{"ssl.client.auth": "none"},
		{"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
		{"authorizer.class.name": "", "security.inter.broker.protocol": "PLAINTEXT", "connections.max.reauth.ms": "0"},
		{"advertised.listeners": "PLAINTEXT://:9092"},
	} {
		mustParse(t, props)
	}
	s, _ := mustParse(t, map[string]string{"listeners": "plaintext://[fe80::1%eth0]:9092"})
	if l := s.Listeners()[0]; l.Name != "PLAINTEXT" || l.Host != "fe80::1%eth0" {
		t.Errorf("%+v", l)
	}
}

func TestWarnings(t *testing.T) {
	_, warnings := mustParse(t, map[string]string{
		"num.partitions":                          "3",
		"log.retention.hour":                      "1",
		"zookeeper.connect":                       "z:2181",
		"num.io.threads":                          "8",
		"transaction.max.timeout.ms":              "1000",
		"leader.replication.throttled.rate":       "5",
		"something.else.entirely":                 "",
		"flush.messages":                          "1",
		"retention.ms":                            "5",
		"cleanup.policy":                          "compact",
		"compression.type":                        "gzip",
		"group.consumer.session.timeout.ms":       "50000",
		"consumer.session.timeout.ms":             "50000",
		"leader.replication.throttled.replicas":   "*",
		"listener.name.plaintext.max.connections": "5",
		"listener.name.plaintext.num.io.threads":  "5",
	})
	want := []Warning{
		{"cleanup.policy", "is a topic config and no broker config; ignored (for every topic that does not set it: log.cleanup.policy)"},
		{"consumer.session.timeout.ms", "is a group config and no broker config; ignored (for every group that does not set it: group.consumer.session.timeout.ms)"},
		{"flush.messages", "is a topic config and no broker config; ignored (for every topic that does not set it: log.flush.interval.messages)"},
		{"group.consumer.session.timeout.ms", "has no effect yet: it waits for the consumer group protocol"},
		{"leader.replication.throttled.rate", "can only be set on a running broker; ignored here"},
		{"leader.replication.throttled.replicas", "is a topic config and no broker config; ignored"},
		{"listener.name.plaintext.num.io.threads", "has no effect yet: it waits for configs of single listeners"},
		{"log.retention.hour", "is not a broker config; ignored (did you mean log.retention.hours?)"},
		{"num.io.threads", "has no effect: work is not bound to thread pools"},
		{"retention.ms", "is a topic config and no broker config; ignored (for every topic that does not set it: log.retention.ms)"},
		{"something.else.entirely", "is not a broker config; ignored"},
		{"transaction.max.timeout.ms", "has no effect yet: it waits for transactions"},
		{"zookeeper.connect", "was removed in Kafka 4.0; ignored"},
	}
	if !reflect.DeepEqual(warnings, want) {
		t.Errorf("got  %+v\nwant %+v", warnings, want)
	}
}

func TestWrongNamesPanic(t *testing.T) {
	s, _ := mustParse(t, nil)
	for _, f := range []func(){
		func() { s.Int("no.such.key") },
		func() { s.Int("log.dirs") },
		func() { s.Bool("num.partitions") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a mistake in a name or type went through")
				}
			}()
			f()
		}()
	}
}

func TestDirectories(t *testing.T) {
	for _, c := range []struct {
		props    map[string]string
		dirs     []string
		metadata string
	}{
		{nil, []string{"./millrace-data"}, "./millrace-data"},
		{map[string]string{"log.dir": "/a"}, []string{"/a"}, "/a"},
		{map[string]string{"log.dirs": "/b,/c"}, []string{"/b", "/c"}, "/b"},
		{map[string]string{"log.dir": "/a", "log.dirs": "/b,/c"}, []string{"/b", "/c"}, "/b"},
		{map[string]string{"log.dirs": "/b,/c", "metadata.log.dir": "/m"}, []string{"/b", "/c"}, "/m"},
	} {
		s, _ := mustParse(t, c.props)
		if !reflect.DeepEqual(s.LogDirs(), c.dirs) || s.MetadataLogDir() != c.metadata {
			t.Errorf("%v: data in %q, metadata in %s", c.props, s.LogDirs(), s.MetadataLogDir())
		}
	}
}
