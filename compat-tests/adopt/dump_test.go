//go:build compat

package adopt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millrace/compat-tests/kafka"
)

// dumpLogSegments runs Kafka's tool over files, all at once, and gives the lines of each, by name.
func dumpLogSegments(t *testing.T, files []string, flags ...string) map[string][]string {
	t.Helper()
	cp, err := kafka.Install(t.Context(), kafka.Newest)
	ok(t, err)
	args := append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", cp, "org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(files, ",")}, flags...)
	cmd := exec.CommandContext(t.Context(), "java", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, tail(out))
	}
	lines, at := map[string][]string{}, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if name, is := strings.CutPrefix(line, "Dumping "); is {
			at = name
			lines[at] = []string{}
			continue
		}
		lines[at] = append(lines[at], line)
	}
	for _, f := range files {
		if _, is := lines[f]; !is && !strings.Contains(strings.Join(flags, " "), "sanity") {
			t.Errorf("%s was not dumped:\n%s", f, tail(out))
		}
	}
	return lines
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// segmentFiles are the files of a data directory's partitions with one of some suffixes.
func segmentFiles(t *testing.T, dir string, suffixes ...string) []string {
	t.Helper()
	var out []string
	dirs, err := os.ReadDir(dir)
	ok(t, err)
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == "__cluster_metadata-0" {
			continue
		}
		names, err := os.ReadDir(filepath.Join(dir, d.Name()))
		ok(t, err)
		for _, n := range names {
			for _, s := range suffixes {
				if strings.HasSuffix(n.Name(), s) {
					out = append(out, filepath.Join(dir, d.Name(), n.Name()))
				}
			}
		}
	}
	return out
}

var (
	// unhappy is what the tool says of files that do not fit together.
	unhappy = regexp.MustCompile(`(?i)mismatch|invalid|out of order|exception|could not|isvalid: false|non-consecutive|empty index`)
	// gaps is what it says of what was cleaned, too.
	gaps = regexp.MustCompile(`(?i)non-consecutive offsets`)
)

// dumpIsContent has the tool read every file of a directory and wants no complaint. What a cleaning left in the partitions
// of cleaned may have gaps.
func dumpIsContent(t *testing.T, dir string, cleaned func(file string) bool) {
	t.Helper()
	files := segmentFiles(t, dir, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
	kinds := map[string]int{}
	for _, f := range files {
		kinds[filepath.Ext(f)]++
	}
	said := dumpLogSegments(t, files, "--deep-iteration", "--print-data-log")
	for file, lines := range said {
		bad := false
		for _, line := range lines {
			if unhappy.MatchString(heading(line)) && !(gaps.MatchString(line) && cleaned(file)) {
				t.Errorf("%s: the tool says %.300s", file, line)
				bad = true
			}
		}
		if bad {
			t.Logf("%s: %.2000s", file, strings.Join(lines, "\n"))
		}
	}
	for _, kind := range []string{".log", ".index", ".timeindex", ".snapshot"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %s file", kind)
		}
	}
	indexes := segmentFiles(t, dir, ".index", ".timeindex")
	passed := 0
	for _, lines := range dumpLogSegments(t, indexes, "--index-sanity-check") {
		for _, line := range lines {
			if strings.HasSuffix(line, "passed sanity check.") {
				passed++
			} else {
				t.Errorf("the tool says %s", line)
			}
		}
	}
	if passed < len(indexes) {
		t.Errorf("%d of %d indexes passed", passed, len(indexes))
	}
}

// heading is what a line says before a record's contents.
func heading(line string) string {
	head, _, _ := strings.Cut(line, " payload: ")
	head, _, _ = strings.Cut(head, " key: ")
	return head
}

// offsetsOf is what the tool makes of the records of __consumer_offsets, without what differs from run to run.
func offsetsOf(t *testing.T, dir string) []string {
	t.Helper()
	var logs []string
	for _, f := range segmentFiles(t, dir, ".log") {
		if strings.HasPrefix(filepath.Base(filepath.Dir(f)), "__consumer_offsets-") {
			logs = append(logs, f)
		}
	}
	if len(logs) == 0 {
		t.Fatalf("%s holds no committed offsets", dir)
	}
	var out []string
	for file, lines := range dumpLogSegments(t, logs, "--offsets-decoder") {
		for _, line := range lines {
			if i := strings.Index(line, " key: "); i >= 0 {
				out = append(out, fmt.Sprintf("%s %s", filepath.Base(filepath.Dir(file)), ofThisRun.ReplaceAllString(line[i:], "$1")))
			} else if unhappy.MatchString(line) {
				t.Errorf("%s: the tool says %s", file, line)
			}
		}
	}
	return out
}

// ofThisRun are times and ids that two brokers cannot have in common.
var ofThisRun = regexp.MustCompile(`("(?:commitTimestamp|expireTimestamp|currentStateTimestamp|topicId|memberId|leader|clientHost|clientId|assignmentTimestamp)":)(?:"[^"]*"|-?\d+)`)
