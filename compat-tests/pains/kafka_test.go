//go:build compat

package pains

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// storageTool runs Apache Kafka's own.
func storageTool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	classpath, err := kafka.Install(context.Background(), kafka.Newest)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("java", append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, "kafka.tools.StorageTool"}, args...)...).CombinedOutput()
	return string(out), err
}

func TestFormattedByKafka(t *testing.T) {
	const id = "MkU3OEVBNTcwNTJENDM2Qg"
	for name, c := range map[string]struct{ quorum, flag string }{
		"voters":  {"controller.quorum.voters=6@127.0.0.1:29093", ""},
		"dynamic": {"controller.quorum.bootstrap.servers=127.0.0.1:29093", "--standalone"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			file := filepath.Join(t.TempDir(), "server.properties")
			text := "process.roles=broker,controller\nnode.id=6\n" + c.quorum + "\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:29092,CONTROLLER://127.0.0.1:29093\nlog.dirs=" + dir + "\n"
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{"format", "-t", id, "-c", file}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			if out, err := storageTool(t, args...); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			meta := filepath.Join(dir, "meta.properties")
			before, err := os.ReadFile(meta)
			if err != nil {
				t.Fatal(err)
			}
			// No node.id on the command line: the directory says it.
			for range 2 {
				b := start(t, launch.Options{Dir: dir})
				if b.ClusterID != id {
					t.Errorf("formatted as %s, started as %s", id, b.ClusterID)
				}
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
			}
			if after, err := os.ReadFile(meta); err != nil || string(after) != string(before) {
				t.Errorf("meta.properties was\n%s\nand is\n%s\n%v", before, after, err)
			}
			if out, err := storageTool(t, "info", "-c", file); err != nil || !strings.Contains(out, "cluster.id="+id) {
				t.Errorf("Kafka's tool, of a directory that Millrace has run on: %v\n%s", err, out)
			}
		})
	}
}

// What Millrace has formatted, Kafka's tool takes for formatted.
func TestFormattedForKafka(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "process.roles=broker,controller\nnode.id=6\ncontroller.quorum.voters=6@127.0.0.1:29093\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:29092,CONTROLLER://127.0.0.1:29093\nlog.dirs=" + dir + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "", nil, "storage", "format", "-t", "abc", "-c", file); code != 0 {
		t.Fatal(stderr)
	}
	want, err := storageTool(t, "info", "-c", file)
	if err != nil {
		t.Errorf("info: %v", err)
	}
	if code, got, _ := run(t, "", nil, "storage", "info", "-c", file); code != 0 || got != want {
		t.Errorf("info: code %d, %q; Kafka's tool says %q", code, got, want)
	}
	out, err := storageTool(t, "format", "-t", "abc", "-c", file)
	code, _, stderr := run(t, "", nil, "storage", "format", "-t", "abc", "-c", file)
	if err == nil || code != 1 || stderr != out {
		t.Errorf("format again: code %d, %q; Kafka's tool: %v, %q", code, stderr, err, out)
	}
}

// A directory on which Apache Kafka has run is left as it is.
func TestUsedByKafka(t *testing.T) {
	root := t.TempDir()
	s, err := kafka.Start(context.Background(), kafka.Options{Dir: root})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	dir := filepath.Join(root, "data")
	before := names(t, dir)
	code, stdout, stderr := run(t, "", nil, "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+dir)
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "the metadata of an Apache Kafka that has run on "+dir) {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	if after := names(t, dir); after != before {
		t.Errorf("the directory held\n%s\nand holds\n%s", before, after)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, "\n")
}
