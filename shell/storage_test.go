package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var directoryID = regexp.MustCompile(`directory\.id=[0-9A-Za-z_-]{22}`)

// The lines and codes here are those of Kafka's own tool.
func TestStorageTool(t *testing.T) {
	root := t.TempDir()
	one, two := filepath.Join(root, "one"), filepath.Join(root, "two")
	file := writeFile(t, "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\ncontroller.listener.names=C\nlisteners=PLAINTEXT://:9092,C://:9093\nlog.dirs="+one+","+two+"\n")
	dynamic := writeFile(t, "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\ncontroller.listener.names=C\nlisteners=PLAINTEXT://:9092,C://:9093\nlog.dirs="+filepath.Join(root, "dynamic")+"\n")
	wipe := func() { os.RemoveAll(one); os.RemoveAll(two) }
	write := func(text string) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(one, "meta.properties"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	formatted := fmt.Sprintf("Formatting metadata directory %s with metadata.version 4.4-IV2.\nFormatting data directory %s with metadata.version 4.4-IV2.\n", one, two)
	for _, c := range []struct {
		before         func()
		args           string
		code           int
		stdout, stderr string // of stderr only its first line
	}{
		{args: "info -c FILE", code: 1, stdout: fmt.Sprintf("Found problems:\n  %s does not exist\n  %s does not exist\n\n", one, two)},
		{before: func() { os.Mkdir(one, 0o755) }, args: "info -c FILE", code: 1,
			stdout: fmt.Sprintf("Found log directory:\n  %s\n\nFound problems:\n  %s is not formatted.\n  %s does not exist\n\n", one, one, two)},
		{args: "format -t abc -c FILE", stdout: formatted},
		{args: "info --config FILE", stdout: fmt.Sprintf("Found log directories:\n  %s\n  %s\n\nFound metadata: {cluster.id=abc, DIRECTORY, node.id=1, version=1}\n\n", one, two)},
		{args: "format -t abc -c FILE", code: 1, stderr: "Log directory " + one + " is already formatted. Use --ignore-formatted to ignore this directory and format the others."},
		{args: "format -t abc -c FILE -g", stdout: "All of the log directories are already formatted.\n"},
		{args: "format -t other -c FILE -g", code: 1, stderr: "Invalid cluster.id in: " + one + "/meta.properties. Expected other, but read abc"},
		{before: func() { os.RemoveAll(two) }, args: "format --cluster-id abc --config FILE --ignore-formatted", stdout: fmt.Sprintf("Formatting data directory %s with metadata.version 4.4-IV2.\n", two)},
		{before: write("version=1\nnode.id=2\ncluster.id=abc\n"), args: "format -t abc -c FILE -g", code: 1,
			stderr: "Stored node id 2 doesn't match previous node id 1 in " + one + "/meta.properties. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories."},
		{args: "info -c FILE", code: 1, stdout: fmt.Sprintf("Found log directories:\n  %s\n  %s\n\nFound metadata: {cluster.id=abc, node.id=2, version=1}\n\nFound problem:\n  Mismatched node IDs between storage directories.\n\n", one, two)},
		{before: write("version=1\nnode.id=1\ncluster.id=xyz\n"), args: "info -c FILE", code: 1,
			stdout: fmt.Sprintf("Found log directories:\n  %s\n  %s\n\nFound metadata: {cluster.id=xyz, node.id=1, version=1}\n\nFound problem:\n  Mismatched cluster IDs between storage directories.\n\n", one, two)},
		{before: write("version=1\n\nnode.id=x\ncluster.id=xyz\n"), args: "format -t xyz -c FILE", code: 1,
			stderr: "data directory cannot be identified: " + one + `/meta.properties: line 3: node.id is "x": expected a number that is not negative`},
		{before: wipe, args: "format -t abc -c FILE -r 4.0", stdout: strings.ReplaceAll(formatted, "4.4-IV2", "4.0-IV3"),
			stderr: "A cluster is founded with metadata.version 4.4-IV2 here, whatever --release-version and --feature say."},
		{before: wipe, args: "format -t abc -c FILE -r 4.4 -f group.version=1", stdout: formatted},
		{args: "format -t abc -c FILE -f group.version=9", code: 1, stderr: "No feature:group.version with feature level 9"},
		{args: "format -t abc -c FILE -f group.version", code: 1, stderr: "Can't parse feature=level string group.version: equals sign not found."},
		{args: "format -t abc -c FILE -f metadata.version=20 -r 4.0", code: 1, stderr: "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."},
		{args: "format -t abc -c FILE -f x=1", code: 1,
			stderr: "Unsupported feature: x. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, share.version, streams.version, transaction.version"},
		{args: "format -t abc -c FILE -S SCRAM-SHA-256=[name=a,password=b]", code: 1,
			stderr: "--add-scram is not supported: SASL is not available, and a user who is left out silently would not be able to log in"},
		{args: "format -t abc -c FILE -s", code: 1,
			stderr: "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."},
		{args: "format -t abc -c DYNAMIC", code: 1,
			stderr: "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."},
		{args: "format -t abc -c DYNAMIC -I 1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg", stdout: "Formatting dynamic metadata voter directory " + root + "/dynamic with metadata.version 4.4-IV2.\n"},
		{args: "info -c DYNAMIC", stdout: "Found log directory:\n  " + root + "/dynamic\n\nFound metadata: {cluster.id=abc, directory.id=JEXY6aqzQY-32P5TStzaFg, node.id=1, version=1}\n\n"},
		{args: "format -t abc -c DYNAMIC -g -I 1@h:1:JEXY6aqzQY-32P5TStzaFg,2@h:1:JEXY6aqzQY-32P5TStzaFg", code: 1,
			stderr: "--initial-controllers names 2 controllers: a quorum of several nodes is not available"},
		{args: "format -t abc -c DYNAMIC -g -I 2@h:1:JEXY6aqzQY-32P5TStzaFg", code: 1, stderr: "--initial-controllers names node 2, and this is node 1: a quorum of other nodes is not available"},
		{args: "format -t abc -c DYNAMIC -g -I bogus", code: 1, stderr: "--initial-controllers bogus: No @ found in dynamic voter string."},
		{args: "format -t abc -c DYNAMIC -s -N", code: 1, stderr: "--standalone/-s, --no-initial-controllers/-N and --initial-controllers/-I exclude one another"},
		{args: "format -c FILE", code: 1, stderr: "argument --cluster-id/-t is required"},
		{args: "format -t abc", code: 1, stderr: "argument --config/-c is required"},
		{args: "", code: 1, stderr: "too few arguments"},
		{args: "bogus", code: 1, stderr: "invalid choice: 'bogus' (choose from 'info', 'format', 'version-mapping', 'feature-dependencies', 'random-uuid')"},
		{args: "random-uuid x", code: 1, stderr: "unrecognized arguments: 'x'"},
		{args: "version-mapping", stdout: "metadata.version=33 (4.4-IV2)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\neligible.leader.replicas.version=1\nshare.version=2\nstreams.version=1\n"},
		{args: "version-mapping -r 4.0", stdout: "metadata.version=25 (4.0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\neligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"},
		{args: "version-mapping -r 3.9", stdout: "metadata.version=21 (3.9)\nkraft.version=1\ntransaction.version=0\ngroup.version=0\neligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n"},
		{args: "feature-dependencies -f share.version=2 -f eligible.leader.replicas.version=1", stdout: "share.version=2 has no dependencies.\neligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"},
		{args: "feature-dependencies -f metadata.version=33", stdout: "metadata.version=33 (4.4-IV2) has no dependencies.\n"},
		{args: "feature-dependencies -f metadata.version=99", code: 1, stderr: "Unknown metadata.version 99"},
		{args: "feature-dependencies -f share.version=9", code: 1, stderr: "Feature level 9 is not supported for feature share.version"},
		{args: "feature-dependencies -f group.version=x", code: 1, stderr: "Invalid version format: x for feature group.version"},
		{args: "feature-dependencies -f share", code: 1, stderr: "Invalid feature format: share. Expected format: 'feature=version' (e.g. 'group.version=1')"},
		{args: "feature-dependencies -f x.version=1", code: 1, stderr: "Unknown feature: x.version"},
	} {
		if c.before != nil {
			c.before()
		}
		args := strings.Fields(strings.NewReplacer("FILE", file, "DYNAMIC", dynamic).Replace(c.args))
		code, stdout, stderr := try(t, "", append([]string{"storage"}, args...)...)
		stderr, _, _ = strings.Cut(stderr, "\n")
		if strings.Contains(c.stdout, "DIRECTORY") {
			stdout = directoryID.ReplaceAllString(stdout, "DIRECTORY")
		}
		if code != c.code || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("storage %s:\ncode %d, want %d\n%q\n%q\n%q\n%q", c.args, code, c.code, stdout, c.stdout, stderr, c.stderr)
		}
	}
	code, stdout, _ := try(t, "", "storage", "random-uuid")
	if code != 0 || !regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_-]{21}\n$`).MatchString(stdout) {
		t.Errorf("random-uuid: code %d, %q", code, stdout)
	}
}
