package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/broker"
	"millrace/controller/config"
)

func TestConfigTellsWhereEachKeyComesFrom(t *testing.T) {
	path := writeFile(t, "# mine\nnode.id=5\nlog.dirs=/a\nssl.keystore.password=\nlog.retention.hour=3\n")
	environ := []string{"KAFKA_LOG_DIRS=/b", "KAFKA_NUM_PARTITIONS=2"}
	code, _, stderr := try(t, neverRun(t), environ, "config", path, "--override", "num.partitions=7")
	if code != exitUsage || !strings.Contains(stderr, "asks for TLS") {
		t.Errorf("protection: code %d, %s", code, stderr)
	}
	path = writeFile(t, "# mine\nnode.id=5\nlog.dirs=/a\n\nlog.retention.hour=3\n")
	code, stdout, stderr := try(t, neverRun(t), environ, "config", path, "--override", "num.partitions=7")
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"log.dirs=/b # KAFKA_LOG_DIRS", "node.id=5 # " + path + ":2", "num.partitions=7 # --override", "log.retention.hour=[hidden] # " + path + ":5"}
	if code != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("code %d, %q, want %q", code, got, want)
	}
	if want := "config log.retention.hour (" + path + ":5) is not a broker config; ignored (did you mean log.retention.hours?)\n"; stderr != want {
		t.Errorf("warned %q, want %q", stderr, want)
	}
	code, stdout, _ = try(t, neverRun(t), environ, "config", path, "--all", "--json")
	var list []shown
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	found := map[string]shown{}
	for _, one := range list {
		found[one.Name] = one
	}
	if len(list) < 250 || *found["num.partitions"].Value != "2" || found["num.partitions"].Source != "KAFKA_NUM_PARTITIONS" ||
		found["num.io.threads"].Source != fromDefault || *found["broker.id"].Value != "5" || found["broker.id"].Source != path+":2" {
		t.Errorf("%d configs; %+v", len(list), found["num.partitions"])
	}
}

func TestConfigsOfOneListenerAreShown(t *testing.T) {
	_, stdout, _ := try(t, neverRun(t), nil, "config", "--override", "listener.name.plaintext.max.connections=7", "--override", "listener.name.x.y=9")
	if !strings.Contains(stdout, "listener.name.plaintext.max.connections=7 ") || !strings.Contains(stdout, "listener.name.x.y=[hidden]") {
		t.Error(stdout)
	}
}

func TestWarningsNameTheVariable(t *testing.T) {
	_, _, stderr := try(t, func(context.Context, broker.Options) error { return nil },
		[]string{"KAFKA_LOG_RETENTION_HOUR=1", "KAFKA_CFG_NODE_ID=3", "KAFKA_PORT=tcp://10.0.0.1:9092", "KAFKA_CLUSTER_ID=x", "KAFKA_KRAFT_CLUSTER_ID=x"},
		"serve", "--override", "log.retention.minute=1")
	for _, want := range []string{
		"log.retention.hour (KAFKA_LOG_RETENTION_HOUR)", "log.retention.minute (--override)", "the variable for node.id is KAFKA_NODE_ID",
		"config cluster.id (KAFKA_CLUSTER_ID) is not a broker config; ignored; the variable for the id of a new cluster is CLUSTER_ID",
		"config kraft.cluster.id (KAFKA_KRAFT_CLUSTER_ID) is not a broker config; ignored; the variable for the id of a new cluster is CLUSTER_ID",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in %s", want, stderr)
		}
	}
	if n := strings.Count(stderr, "\n"); n != 5 {
		t.Errorf("%d warnings: %s", n, stderr)
	}
}

// Nobody but a shell takes ~ for a home directory.
func TestHomeDirectoriesAreNotKnown(t *testing.T) {
	run := func(context.Context, broker.Options) error { return nil }
	for _, c := range []struct {
		key, value string
		warnings   int
	}{
		{"log.dirs", "~/x", 1}, {"log.dirs", "/a, ~/x,~", 2}, {"log.dir", "~ann/x", 1}, {"metadata.log.dir", "~/m", 1}, {"log.dirs", "/a/~/b,x~", 0},
	} {
		_, _, stderr := try(t, run, nil, "serve", "--override", c.key+"="+c.value)
		if n := strings.Count(stderr, c.key+" (--override) says ~"); n != c.warnings || strings.Count(stderr, "\n") != n {
			t.Errorf("%s=%s: %s", c.key, c.value, stderr)
		}
	}
}

func TestOneVariableKeepsTheDefaults(t *testing.T) {
	var got broker.Options
	try(t, func(_ context.Context, o broker.Options) error { got = o; return nil }, []string{"KAFKA_NUM_PARTITIONS=9", "CLUSTER_ID=mine"}, "serve")
	c := got.Config
	if c.Int("num.partitions") != 9 || c.NodeID() != 1 || len(c.Listeners()) == 0 || got.ClusterID != "mine" {
		t.Errorf("node %d, listeners %v, cluster %q", c.NodeID(), c.Listeners(), got.ClusterID)
	}
}

// The blanks that scripts leave around an id are none of it; others would break
// the line that tells of it.
func TestClusterIDHasNoBlanks(t *testing.T) {
	var got broker.Options
	run := func(_ context.Context, o broker.Options) error { got = o; return nil }
	if code, _, _ := try(t, run, []string{"CLUSTER_ID= mine\r\n"}, "serve"); code != 0 || got.ClusterID != "mine" {
		t.Errorf("code %d, cluster %q", code, got.ClusterID)
	}
	for _, id := range []string{"a b", "a\tb", "a\nb", "a\x00b"} {
		code, _, stderr := try(t, neverRun(t), []string{"CLUSTER_ID=" + id}, "serve")
		if code != exitUsage || !strings.Contains(stderr, "CLUSTER_ID=") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: code %d, %s", id, code, stderr)
		}
	}
}

// The mistake that is made most, and the place to correct it.
func TestUnparsableListenersAreToldWithTheirPlace(t *testing.T) {
	for _, c := range []struct{ environ, want string }{
		{"KAFKA_ADVERTISED_LISTENERS=localhost:9092", "(advertised.listeners is set in KAFKA_ADVERTISED_LISTENERS)"},
		{"KAFKA_LISTENERS=PLAINTEXT://:99999", "(listeners is set in KAFKA_LISTENERS)"},
	} {
		code, _, stderr := try(t, neverRun(t), []string{c.environ}, "serve", "--override", "log.dirs=/x")
		if code != exitUsage || !strings.Contains(stderr, "expected NAME://HOST:PORT "+c.want) {
			t.Errorf("%s: code %d, %s", c.environ, code, stderr)
		}
	}
	_, stdout, _ := try(t, neverRun(t), []string{"KAFKA_LOG_DIRS=a\nb"}, "config")
	if strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q", stdout)
	}
}

func TestDevTellsOfDirectoriesItDoesNotUse(t *testing.T) {
	path := writeFile(t, "metadata.log.dir=/c\n")
	var got broker.Options
	code, _, stderr := try(t, func(_ context.Context, o broker.Options) error { got = o; return nil }, []string{"KAFKA_LOG_DIRS=/a"}, "dev", path)
	if code != 0 || !strings.Contains(stderr, "config log.dirs (KAFKA_LOG_DIRS) is not used") || !strings.Contains(stderr, "config metadata.log.dir ("+path+":1) is not used") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if dir := got.Config.LogDirs()[0]; !strings.Contains(dir, "millrace-dev-") || got.Config.MetadataLogDir() != dir {
		t.Errorf("data in %s, metadata in %s", dir, got.Config.MetadataLogDir())
	}
}

// What a node of one role is refused for is its role, whatever else such a
// node's file has that does not suit this one.
func TestOneRoleIsRefusedForThat(t *testing.T) {
	for _, text := range []string{
		"process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://localhost:9092\ncontroller.quorum.bootstrap.servers=localhost:9093\ncontroller.listener.names=CONTROLLER\n",
		"process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\ncontroller.quorum.voters=1@localhost:9093\ncontroller.listener.names=CONTROLLER\n",
	} {
		code, _, stderr := try(t, neverRun(t), nil, "serve", writeFile(t, text))
		if code != exitUsage || !strings.Contains(stderr, "a node is broker and controller at once here") {
			t.Errorf("code %d, %s", code, stderr)
		}
	}
}

func TestDeclaredTopics(t *testing.T) {
	topic := func(name string, partitions int32, configs ...string) broker.Topic {
		d := broker.Topic{Name: name, Partitions: partitions}
		for _, c := range configs {
			k, v, _ := strings.Cut(c, "=")
			d.Configs = append(d.Configs, broker.TopicConfig{Name: k, Value: v})
		}
		return d
	}
	var got broker.Options
	code, _, stderr := try(t, func(_ context.Context, o broker.Options) error { got = o; return nil },
		[]string{"MILLRACE_TOPICS=a:1, b:2:retention.ms=60000:cleanup.policy=[compact,delete],"}, "serve", "--topics", "c:3", "--topics", "a:4,d:1")
	want := []broker.Topic{topic("a", 4), topic("b", 2, "retention.ms=60000", "cleanup.policy=compact,delete"), topic("c", 3), topic("d", 1)}
	if code != 0 || !reflect.DeepEqual(got.Topics, want) {
		t.Errorf("code %d, %v, %s", code, got.Topics, stderr)
	}
	for text, want := range map[string]string{
		"a":                                 "expected name:partitions",
		":3":                                "expected name:partitions",
		"a:x":                               `"x" is not a number of partitions`,
		"a b:1":                             "Topic name is invalid: 'a b' contains",
		"a:0":                               `"0" is not a number of partitions`,
		"a:1:3":                             "the replication factor is the broker's to choose",
		"a:1:nonsense=1":                    "nonsense is not a topic config",
		"a:1:retention.ms=x":                "Invalid value x for configuration retention.ms",
		"a:1:cleanup.policy=compact,delete": `"delete": expected name:partitions (if it is of cleanup.policy's value: a value with commas goes into brackets, cleanup.policy=[compact,delete])`,
		"a:1:cleanup.policy=[a":             "brackets do not match",
		"a:1:cleanup.policy=a]":             "brackets do not match",
		"a:1:cleanup.policy=[[a]]":          "brackets do not match",
	} {
		code, _, stderr := try(t, neverRun(t), nil, "serve", "--topics", text)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", text, code, stderr)
		}
	}
}

// Both commands tell of what has no effect; 'config' also that there is nothing to print.
func TestWhatIsMisspeltOrMissingIsSaid(t *testing.T) {
	environ := []string{"MILLRACE_HTTP_ADDRES=1", "MILLRACE_TOPICS=", "MILLRACE_PORT=tcp://10.0.0.1:9092", "KAFKA_CFG_NUM_PARTITIONS=2"}
	for _, command := range []string{"serve", "config"} {
		_, _, stderr := try(t, func(context.Context, broker.Options) error { return nil }, environ, command)
		for _, want := range []string{
			"variable MILLRACE_HTTP_ADDRES means nothing; ignored (did you mean MILLRACE_HTTP_ADDRESS?)", "the variable for num.partitions is KAFKA_NUM_PARTITIONS",
		} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %q is not in %s", command, want, stderr)
			}
		}
		if strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: %s", command, stderr)
		}
	}
	if _, _, stderr := try(t, func(context.Context, broker.Options) error { return nil }, nil, "dev", "--log-requests", "all", "--log-level", "warn"); !strings.Contains(stderr, "of level info") {
		t.Error(stderr)
	}
	if code, stdout, stderr := try(t, neverRun(t), nil, "config"); code != 0 || stdout != "" || !strings.Contains(stderr, "nothing is set") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestNamesInMessages(t *testing.T) {
	for _, c := range []struct {
		message, key string
		want         bool
	}{
		{"Invalid value x for configuration log.roll.ms: no", "log.roll.ms", true},
		{"log.roll.ms", "log.roll", false}, {"log.roll.ms", "roll.ms", false}, {"see log.dirs.", "log.dirs", true}, {"xlog.dirs", "log.dirs", false}, {"", "a", false},
	} {
		if got := names(c.message, c.key); got != c.want {
			t.Errorf("%s in %q: %v", c.key, c.message, got)
		}
	}
}

// A file of defaults lies below everything else, also below the listeners that
// are derived from advertised ones.
func TestDefaultsFile(t *testing.T) {
	defaults := writeFile(t, "listeners=PLAINTEXT://:9092\nlog.dirs=/d\nnum.partitions=4\n")
	path := writeFile(t, "num.partitions=5\n")
	environ := []string{"MILLRACE_DEFAULTS=" + defaults, "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://here:9192"}
	code, stdout, stderr := try(t, neverRun(t), environ, "config", path, "--properties")
	want := "advertised.listeners=PLAINTEXT://here:9192\nlisteners=PLAINTEXT://0.0.0.0:9192\nlog.dirs=/d\nnum.partitions=5\n"
	if code != 0 || stdout != want {
		t.Errorf("code %d, %q, %s; want %q", code, stdout, stderr, want)
	}
	if _, stdout, _ = try(t, neverRun(t), environ[:1], "config"); !strings.Contains(stdout, "# "+defaults+":3\n") {
		t.Errorf("the source of a default is not told:\n%s", stdout)
	}
	if code, _, stderr = try(t, neverRun(t), []string{"MILLRACE_DEFAULTS=/nowhere"}, "config"); code != exitUsage || !strings.Contains(stderr, "MILLRACE_DEFAULTS") {
		t.Errorf("a file that is not there: code %d, %s", code, stderr)
	}
}

// What --properties prints is read back as it was.
func TestPropertiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{}
		for key, value := range rapid.MapOfN(rapid.StringMatching(`[a-z .:=#!\\]{1,6}`), rapid.StringMatching(`[a-z =:#!\\\t\n\f]{0,8}`), 1, 4).Draw(t, "properties") {
			want[key] = value
		}
		var file strings.Builder
		for _, key := range sorted(want) {
			fmt.Fprintf(&file, "%s=%s\n", propertyKey.Replace(key), propertyValue(want[key]))
		}
		list, err := config.ParseProperties(strings.NewReader(file.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, file.String())
		}
		got := map[string]string{}
		for _, p := range list {
			got[p.Key] = p.Value
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q through\n%s", want, got, file.String())
		}
	})
}
