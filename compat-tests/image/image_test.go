//go:build compat

package image

import (
	"path/filepath"
	"strings"
	"testing"
)

// ready is the line that starters of containers wait for.
const ready = "Transitioning from RECOVERY to RUNNING"

func images(t *testing.T) (kafka, bare image) {
	t.Helper()
	need(t, "ip", "nft", "unshare", "chroot", "mount", "busybox")
	dir := t.TempDir()
	return kafkaImage(t, filepath.Join(dir, "kafka")), bareImage(t, filepath.Join(dir, "bare"))
}

// TestNothingElse is `docker run -p 9092:9092 IMAGE`: a client on the machine that runs the container, by its loopback and by
// its own address, and one in the container's network, each reach the broker by what they are told; and the container's own
// health check, user and stop.
func TestNothingElse(t *testing.T) {
	kafka, bare := images(t)
	for name, img := range map[string]image{"kafka": kafka, "bare": bare} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			c, other := h.create(img), h.create(img)
			h.publish(9092, 9092, c)
			c.start()
			c.waitFor(ready)
			works(t, h.ns, "localhost:9092", "localhost:9092")
			works(t, h.ns, c.ip+":9092", "localhost:9092")
			works(t, other.ns, c.ip+":9092", c.ip+":9092")
			health := []string{img.cmd[0], "health"}
			if name == "kafka" {
				health = []string{"/opt/millrace/millrace", "health"}
			}
			if out, code := c.exec(health...); code != 0 {
				t.Errorf("the health check ended with %d: %s", code, out)
			}
			if !strings.Contains(c.logged(), "MILLRACE_PUBLISHED_PORT") {
				t.Error("the log does not say which variable names another published port")
			}
			if err := c.stop(); err != nil {
				t.Error(err)
			}
			if out, code := c.exec(health...); code == 0 {
				t.Errorf("the health check of a stopped broker succeeded: %s", out)
			}
		})
	}
}

// TestPublishedPort publishes another port than the broker's: without the variable the machine's client is told one where there
// is nothing, with it the client works.
func TestPublishedPort(t *testing.T) {
	kafka, _ := images(t)
	h := newHost(t)
	plain, told := h.create(kafka), h.create(kafka, "MILLRACE_PUBLISHED_PORT=19092")
	h.publish(18092, 9092, plain)
	h.publish(19092, 9092, told)
	plain.start()
	told.start()
	plain.waitFor(ready)
	told.waitFor(ready)
	if s, err := asker(h.ns, "localhost:18092"); err != nil || len(s.Brokers) != 1 || s.Brokers[0] != "localhost:9092" {
		t.Errorf("without the variable a client is told %v, %v", s.Brokers, err)
	}
	works(t, h.ns, "localhost:19092", "localhost:19092")
	works(t, plain.ns, told.ip+":9092", told.ip+":9092")
}

// TestEnvironment sets what people set of apache/kafka's image, one thing at a time.
func TestEnvironment(t *testing.T) {
	kafka, _ := images(t)
	h := newHost(t)
	const cluster = "4L6g3nShT-eMCtK--X86sw"
	c := h.create(kafka, "CLUSTER_ID="+cluster, "KAFKA_NUM_PARTITIONS=7", "KAFKA_LOG_DIRS=/var/lib/kafka/data", "KAFKA_HEAP_OPTS=-Xmx1G")
	h.publish(9092, 9092, c)
	c.put("/mnt/shared/config/server.properties", "num.partitions=5\nlog.retention.hours=9\n", 0o644)
	c.start()
	c.waitFor(ready)
	if s := works(t, h.ns, "localhost:9092", "localhost:9092"); s.Cluster != cluster {
		t.Errorf("the cluster's id is %q, want %q", s.Cluster, cluster)
	}
	out, code := c.exec("/opt/kafka/bin/kafka-configs.sh", "--bootstrap-server", "localhost:9092", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
	for _, want := range []string{"num.partitions=7 ", "log.retention.hours=9 ", "log.dirs=/var/lib/kafka/data "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("kafka-configs.sh ended with %d and does not say %s:\n%s", code, want, out)
		}
	}
	if out, code := c.exec("sh", "-c", "id -u; ls /var/lib/kafka/data"); code != 0 || !strings.HasPrefix(out, "1000\n") || !strings.Contains(out, "meta.properties") {
		t.Errorf("user and data: %d, %s", code, out)
	}
}

// TestTools runs Kafka's tools under the names that apache/kafka's image and cp-kafka's have, as health checks and init
// containers do.
func TestTools(t *testing.T) {
	kafka, _ := images(t)
	h := newHost(t)
	c := h.create(kafka)
	c.start()
	c.waitFor(ready)
	for _, step := range []struct {
		line, want string
		code       int
	}{
		{"/opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --create --if-not-exists --topic orders --partitions 3 --replication-factor 1", "Created topic orders.", 0},
		{"kafka-topics --bootstrap-server broker:9092 --create --if-not-exists --topic orders --partitions 3 --replication-factor 1", "", 0},
		{"kafka-topics.sh --bootstrap-server localhost:9092 --create --topic orders", "already exists", 1},
		{"kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders", 0},
		{"kafka-topics.sh --bootstrap-server localhost:9092 --describe --topic orders", "PartitionCount: 3", 0},
		{"kafka-broker-api-versions.sh --bootstrap-server localhost:9092", "Produce(0): 0 to 13", 0},
		{"kafka-cluster.sh cluster-id --bootstrap-server localhost:9092", "Cluster ID: ", 0},
		{"kafka-storage.sh random-uuid", "", 0},
		{"sh -c 'echo hello | kafka-console-producer.sh --bootstrap-server localhost:9092 --topic orders'", "", 0},
		{"kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic orders --from-beginning --max-messages 1", "hello", 0},
		{"kafka-consumer-groups.sh --bootstrap-server localhost:9092 --list", "", 0},
		{"bash -c 'until kafka-topics.sh --bootstrap-server localhost:9092 --list >/dev/null; do sleep 1; done; echo up'", "up", 0},
	} {
		if out, code := c.exec("sh", "-c", step.line); code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("%s\nended with %d, want %d and %q:\n%s", step.line, code, step.code, step.want, out)
		}
	}
}

// TestOwnScripts starts the broker as scripts for Kafka's own distribution do: format, then the server with a file.
func TestOwnScripts(t *testing.T) {
	kafka, _ := images(t)
	h := newHost(t)
	c := h.create(kafka)
	h.publish(9092, 9092, c)
	c.put("/tmp/mine.properties", strings.Join([]string{"process.roles=broker,controller", "node.id=5", "controller.quorum.voters=5@localhost:9093",
		"listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names=CONTROLLER", "log.dirs=/tmp/mine", ""}, "\n"), 0o644)
	c.start("sh", "-c", `id=$(/opt/kafka/bin/kafka-storage.sh random-uuid)
/opt/kafka/bin/kafka-storage.sh format -t $id -c /tmp/mine.properties
/opt/kafka/bin/kafka-storage.sh format -t $id -c /tmp/mine.properties --ignore-formatted
echo "formatted as $id"
exec /opt/kafka/bin/kafka-server-start.sh /tmp/mine.properties --override num.partitions=2`)
	c.waitFor(ready)
	s := works(t, h.ns, "localhost:9092", "localhost:9092")
	if s.Cluster == "" || !strings.Contains(c.logged(), "formatted as "+s.Cluster+"\n") {
		t.Errorf("the cluster's id is %q:\n%s", s.Cluster, c.logged())
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

// TestRefusals starts containers that may not come up: each ends with exit code 2 and a line that names the variable.
func TestRefusals(t *testing.T) {
	kafka, _ := images(t)
	h := newHost(t)
	for _, c := range []struct{ env, want string }{
		{"KAFKA_AUTHORIZER_CLASS_NAME=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "authorizer.class.name"},
		{"MILLRACE_PUBLISHED_PORT=many", "MILLRACE_PUBLISHED_PORT"},
		{"KAFKA_NUM_PARTITIONS=many", "KAFKA_NUM_PARTITIONS"},
	} {
		x := h.create(kafka, c.env)
		x.start()
		<-x.exited
		if code := x.cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(x.logged(), c.want) {
			t.Errorf("%s: ended with %d:\n%s", c.env, code, x.logged())
		}
	}
}
