//go:build compat

package adopt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// shown is what the tool shows of a data directory.
type shown struct {
	files map[string][]string // by their place in the directory
	// findings are what it says at its end, one text each: what looks wrong to it. It knows neither of cleaning nor that a
	// segment may begin above 0.
	findings []string
}

var finding = regexp.MustCompile(`^(Mismatches|Found |Non-consecutive|Out of order)`)

// show has the tool read every file of a directory's partitions, and pass every index.
func show(t *testing.T, dir string) shown {
	t.Helper()
	files := segmentFiles(t, dir, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
	out := shown{files: map[string][]string{}}
	within := func(s string) string { return strings.ReplaceAll(s, dir+"/", "") }
	for file, lines := range dumpLogSegments(t, files, "--deep-iteration", "--print-data-log") {
		for i, line := range lines {
			if finding.MatchString(line) {
				// They follow whichever file is the last.
				for _, line := range lines[i:] {
					line = within(line)
					if finding.MatchString(line) {
						out.findings = append(out.findings, line)
					} else {
						out.findings[len(out.findings)-1] += "\n" + line
					}
				}
				lines = lines[:i]
				break
			}
			lines[i] = within(line)
		}
		out.files[within(file)] = lines
	}
	slices.Sort(out.findings)
	indexes := segmentFiles(t, dir, ".index", ".timeindex")
	passed := 0
	for _, lines := range dumpLogSegments(t, indexes, "--index-sanity-check") {
		for _, line := range lines {
			if strings.HasSuffix(line, " passed sanity check.") || strings.HasSuffix(line, ".index is empty.") {
				passed++
			} else {
				t.Errorf("the tool says %s", line)
			}
		}
	}
	if passed < len(indexes) {
		t.Errorf("%d of %d indexes passed", passed, len(indexes))
	}
	return out
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
			} else if finding.MatchString(line) {
				t.Errorf("%s: the tool says %s", file, line)
			}
		}
	}
	return out
}

// ofThisRun are times and ids that two brokers cannot have in common.
var ofThisRun = regexp.MustCompile(`("(?:commitTimestamp|expireTimestamp|currentStateTimestamp|topicId|memberId|leader|clientHost|clientId|assignmentTimestamp)":)(?:"[^"]*"|-?\d+)`)
