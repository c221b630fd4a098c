//go:build compat

package image

import (
	"fmt"
	"strings"
	"testing"
)

// starter is how a library that starts containers for tests makes Kafka's image its own: the container waits for a script; once
// the engine has chosen the published port, the library puts the script there and waits for a line in the log.
type starter struct {
	name    string
	env     []string
	command []string // entrypoint and command
	path    string
	script  string // PORT, NAME and IP stand for the published port, and the container's host name and address
	line    string
	port    int  // the container's port that is published
	within  bool // the script is written by a command inside the container, not copied by the engine
}

// what the modules for apache/kafka's image set beside the listeners.
var common = []string{
	"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1", "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS=1", "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1",
	"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1", "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES=9223372036854775807", "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0",
	"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "KAFKA_INTER_BROKER_LISTENER_NAME=BROKER",
	"KAFKA_PROCESS_ROLES=broker,controller", "KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER",
}

func with(more ...string) []string { return append(append([]string{}, common...), more...) }

func waits(path, how string) []string {
	return []string{"sh", "-c", "while [ ! -f " + path + " ]; do sleep 0.1; done; " + how}
}

var starters = []starter{
	{
		name:    "Java, apache/kafka",
		env:     with("CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"),
		command: waits("/tmp/testcontainers_start.sh", "/tmp/testcontainers_start.sh"), path: "/tmp/testcontainers_start.sh",
		script: "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:PORT,BROKER://NAME:9093\n/etc/kafka/docker/run \n",
		line:   ready, port: 9092,
	},
	{
		name: "Java, apache/kafka, with one more listener",
		env: append(with("CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094",
			"KAFKA_LISTENERS=TC-0://broker:19092,PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"),
			"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=TC-0:PLAINTEXT,BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
		command: waits("/tmp/testcontainers_start.sh", "/tmp/testcontainers_start.sh"), path: "/tmp/testcontainers_start.sh",
		script: "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:PORT,BROKER://NAME:9093,TC-0://broker:19092\n/etc/kafka/docker/run \n",
		line:   ready, port: 9092,
	},
	{
		name:    "Rust, apache/kafka",
		env:     with("CLUSTER_ID=5L6g3nShT-eMCtK--X86sw", "KAFKA_BROKER_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,BROKER://localhost:9092"),
		command: []string{"bash", "-c", "while [ ! -f /opt/kafka/testcontainers_start.sh  ]; do sleep 0.1; done; chmod 755 /opt/kafka/testcontainers_start.sh && /opt/kafka/testcontainers_start.sh"}, path: "/opt/kafka/testcontainers_start.sh",
		script: "#!/usr/bin/env bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:PORT,BROKER://localhost:9093\n/etc/kafka/docker/run \n",
		line:   "Kafka Server started", port: 9092, within: true,
	},
	{
		name:    ".NET, apache/kafka: a script whose first line is not the first, a list that ends in a comma",
		env:     with("CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"),
		command: waits("/testcontainers.sh", "/testcontainers.sh"), path: "/testcontainers.sh",
		script: " #!/bin/bash\n\n export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:PORT,BROKER://IP:9093,\n exec /etc/kafka/docker/run\n",
		line:   ready, port: 9092,
	},
	{
		name:    "Java, cp-kafka with KRaft",
		env:     with("CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"),
		command: waits("/tmp/testcontainers_start.sh", "/tmp/testcontainers_start.sh"), path: "/tmp/testcontainers_start.sh",
		script: "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:PORT,BROKER://NAME:9093\n/etc/confluent/docker/run \n",
		line:   ready, port: 9092,
	},
	{
		name:    "Go, confluent-local",
		env:     with("KAFKA_REST_BOOTSTRAP_SERVERS=PLAINTEXT://0.0.0.0:9093", "KAFKA_BROKER_ID=1", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"),
		command: waits("/usr/sbin/testcontainers_start.sh", "bash /usr/sbin/testcontainers_start.sh"), path: "/usr/sbin/testcontainers_start.sh",
		script: "#!/bin/bash\nsource /etc/confluent/docker/bash-config\nexport KAFKA_ADVERTISED_LISTENERS=\"PLAINTEXT://localhost:PORT,BROKER://NAME:9092${EXTRA_ADVERTISED_LISTENERS:+,${EXTRA_ADVERTISED_LISTENERS}}\"\n" +
			"echo Starting Kafka KRaft mode\nsed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n" +
			"echo 'kafka-storage format --ignore-formatted -t \"$(kafka-storage random-uuid)\" -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n" +
			"echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
		line: ready, port: 9093,
	},
	{
		name:    "Python, cp-kafka with KRaft",
		env:     with("CLUSTER_ID=Zk9uWWxEUkRSYUtrUWtqeA==", "KAFKA_BROKER_ID=1", "KAFKA_NODE_ID=1", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"),
		command: []string{"sh", "-c", "while [ ! -f /tc-start.sh ]; do sleep 0.1; done; sh /tc-start.sh"}, path: "/tc-start.sh",
		script: "#!/bin/bash\n\n                    sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n" +
			"                    echo 'kafka-storage format --ignore-formatted -t Zk9uWWxEUkRSYUtrUWtqeA== -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n" +
			"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:PORT,BROKER://$(hostname -i):9092\n. /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
		line: "Kafka Server started", port: 9093,
	},
	{
		name:    "Node, cp-kafka 7.3 with KRaft",
		env:     with("CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_BROKER_ID=1", "KAFKA_NODE_ID=1", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE=false", "KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9094", "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094", "KAFKA_ADVERTISED_LISTENERS=BROKER://localhost:9092"),
		command: waits("/testcontainers_start.sh", "/testcontainers_start.sh"), path: "/testcontainers_start.sh",
		script: "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://NAME:9092,PLAINTEXT://localhost:PORT\necho '' > /etc/confluent/docker/ensure \nsed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n" +
			"echo 'kafka-storage format --ignore-formatted -t \"4L6g3nShT-eMCtK--X86sw\" -c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n/etc/confluent/docker/run \n",
		line: ready, port: 9093,
	},
}

// TestStarters goes the way of the libraries that start containers for tests: the client on the machine reaches the published
// port, the client in the containers' network the second listener, each by what the script advertises.
func TestStarters(t *testing.T) {
	kafka, _ := images(t)
	for i, s := range starters {
		t.Run(s.name, func(t *testing.T) {
			h := newHost(t)
			c, other := h.create(kafka, s.env...), h.create(kafka)
			port := 32768 + i
			h.publish(port, s.port, c)
			c.start(s.command...)
			script := strings.NewReplacer("PORT", fmt.Sprint(port), "NAME", c.name, "IP", c.ip).Replace(strings.ReplaceAll(s.script, "KAFKA_ADVERTISED_LISTENERS", "\x00"))
			script = strings.ReplaceAll(script, "\x00", "KAFKA_ADVERTISED_LISTENERS")
			if !s.within {
				c.put(s.path, script, 0o777)
			} else if out, code := c.exec("sh", "-c", "echo '"+script+"' > "+s.path); code != 0 {
				t.Fatalf("writing the script: %s", out)
			}
			c.waitFor(s.line)
			bootstrap := fmt.Sprintf("localhost:%d", port)
			told := bootstrap
			if strings.Contains(s.script, "127.0.0.1:PORT") {
				told = fmt.Sprintf("127.0.0.1:%d", port)
			}
			cluster := works(t, h.ns, bootstrap, told).Cluster
			for _, e := range s.env {
				if id, ok := strings.CutPrefix(e, "CLUSTER_ID="); ok && cluster != id {
					t.Errorf("the cluster's id is %q, want %q", cluster, id)
				}
			}
			if strings.Contains(s.script, "TC-0") {
				if s, err := asker(other.ns, c.ip+":19092"); err != nil || len(s.Brokers) != 1 || s.Brokers[0] != "broker:19092" {
					t.Errorf("a client of the other listener was told %v, %v", s.Brokers, err)
				}
			}
		})
	}
}
