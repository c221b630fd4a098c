//go:build compat

package applications

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/compat-tests/launch"
)

// properties writes a file of Java properties.
func properties(t *testing.T, path string, keys map[string]string) string {
	t.Helper()
	var lines []string
	for k, v := range keys {
		lines = append(lines, k+"="+v+"\n")
	}
	slices.Sort(lines)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// plugins returns a folder for plugin.path: each connector wants one of its own, apart from the worker's class path.
func plugins(t *testing.T, libs string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	jars, err := filepath.Glob(filepath.Join(libs, "connect-file-*.jar"))
	if err != nil || len(jars) != 1 {
		t.Fatalf("connect-file among %s: %v, %v", libs, jars, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(jars[0], filepath.Join(dir, "file", filepath.Base(jars[0]))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ask gets JSON from the worker's REST interface.
func ask(url string, into any) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

// TestConnectStandalone lets one worker carry the lines of a file into a topic and the topic's records into another file,
// stops it, and lets it go on with more lines.
func TestConnectStandalone(t *testing.T) {
	t.Parallel()
	libs, _ := install(t, "connect")
	bootstrap, _ := launch.ForTest(t)
	c := connect(t, bootstrap)
	dir := t.TempDir()
	topic := fmt.Sprintf("lines-%d", time.Now().UnixNano())
	c.create(topic, 1, nil)
	rest, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out.txt")
	args := []string{
		properties(t, filepath.Join(dir, "worker.properties"), map[string]string{
			"bootstrap.servers": bootstrap, "key.converter": "org.apache.kafka.connect.storage.StringConverter",
			"value.converter": "org.apache.kafka.connect.storage.StringConverter", "offset.storage.file.filename": filepath.Join(dir, "offsets"),
			"offset.flush.interval.ms": "500", "plugin.path": plugins(t, libs), "plugin.discovery": "only_scan", "listeners": "http://" + rest,
		}),
		properties(t, filepath.Join(dir, "source.properties"), map[string]string{
			"name": "source", "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "file": in, "topic": topic,
		}),
		properties(t, filepath.Join(dir, "sink.properties"), map[string]string{
			"name": "sink", "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1", "file": out, "topics": topic,
			"consumer.override.auto.offset.reset": "earliest",
		}),
	}
	// The worker must not find the connector beside its own classes.
	jars, err := filepath.Glob(filepath.Join(libs, "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasPrefix(filepath.Base(jar), "connect-file-") })

	var lines []string
	write := func(n int) {
		f, err := os.OpenFile(in, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range n {
			// ASCII only: the source notes its place in characters and goes on there in bytes.
			line := fmt.Sprintf("line %d, with \"quotes\" and a tab\t", len(lines)+1)
			lines = append(lines, line)
			if _, err := f.WriteString(line + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 2 {
		write(2000)
		p := java(t, strings.Join(jars, ":"), "org.apache.kafka.connect.cli.ConnectStandalone", args...)
		eventually(t, limit, p, func() error {
			got, err := readLines(out)
			if err == nil && len(got) < len(lines) {
				err = fmt.Errorf("%d of %d lines came", len(got), len(lines))
			}
			return err
		})
		var names []string
		if err := ask("http://"+rest+"/connectors", &names); err != nil {
			t.Error(err)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"sink", "source"}) {
			t.Errorf("the worker names the connectors %v", names)
		}
		for _, name := range names {
			var status struct {
				Connector struct{ State string }
				Tasks     []struct{ State string }
			}
			if err := ask("http://"+rest+"/connectors/"+name+"/status", &status); err != nil {
				t.Error(err)
			} else if status.Connector.State != "RUNNING" || len(status.Tasks) != 1 || status.Tasks[0].State != "RUNNING" {
				t.Errorf("connector %s: %+v", name, status)
			}
		}
		// The sink commits what it has written as the consumer group of its name.
		eventually(t, limit, p, func() error { return c.allCommitted("connect-sink", topic) })
		p.stop(t)
		got, err := readLines(out)
		if err == nil {
			err = sameLines(lines, got)
		}
		if err != nil {
			t.Errorf("round %d: %v", round+1, err)
		}
		mustCatch(t, got, func(line string) string { return line + "!" }, func(got []string) error { return sameLines(lines, got) })
	}
	var sent []string
	for _, r := range c.read(topic) {
		sent = append(sent, string(r.Value))
	}
	if err := sameLines(lines, sent); err != nil {
		t.Errorf("in the topic: %v", err)
	}
}
