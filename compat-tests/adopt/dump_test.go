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

// runDumpLogSegments runs Kafka's tool over files, all at once.
func runDumpLogSegments(t *testing.T, files []string, flags ...string) ([]byte, error) {
	t.Helper()
	cp, err := kafka.Install(t.Context(), kafka.Newest)
	ok(t, err)
	args := append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", cp, "org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(files, ",")}, flags...)
	return exec.CommandContext(t.Context(), "java", args...).CombinedOutput()
}

// dumpLogSegments runs the tool and gives the lines of each file, by name.
func dumpLogSegments(t *testing.T, files []string, flags ...string) map[string][]string {
	t.Helper()
	out, err := runDumpLogSegments(t, files, flags...)
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
	root  string
	files map[string][]string // by their place in the directory
	// findings are what it says at its end, one text each: what looks wrong to it. It knows neither of cleaning nor that a
	// segment may begin above 0.
	findings []string
	// last is what it says of the time indexes of the active segments of a directory that was not closed in order, by their
	// place: they are as long as they may become, so that their last entry is none.
	last map[string]string
}

var finding = regexp.MustCompile(`^(Mismatches|Found |Non-consecutive|Out of order|The following indexed offsets)`)

// show has the tool read every file of a directory's partitions, and pass every index.
func show(t *testing.T, dir string) shown { return showDir(t, dir, false) }

// showKilled is show for a directory that was not closed in order.
func showKilled(t *testing.T, dir string) shown { return showDir(t, dir, true) }

func showDir(t *testing.T, dir string, killed bool) shown {
	t.Helper()
	files := segmentFiles(t, dir, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
	// A segment without records whose indexes were not cut is one at which the tool ends with an exception.
	isEmpty := func(name string) bool {
		base, suffix, _ := strings.Cut(filepath.Base(name), ".")
		info, err := os.Stat(filepath.Join(filepath.Dir(name), base+".log"))
		return strings.HasSuffix(suffix, "index") && killed && err == nil && info.Size() == 0
	}
	if files = slices.DeleteFunc(files, isEmpty); len(files) == 0 {
		t.Fatalf("%s holds no segments", dir)
	}
	out := shown{root: dir, files: map[string][]string{}, last: map[string]string{}}
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
	indexes := slices.DeleteFunc(segmentFiles(t, dir, ".index", ".timeindex"), isEmpty)
	if killed {
		indexes = slices.DeleteFunc(indexes, func(name string) bool {
			if !strings.HasSuffix(name, ".timeindex") || !isActive(name) {
				return false
			}
			if strings.HasPrefix(within(name), "__") {
				return true // one more JVM for each
			}
			said, err := runDumpLogSegments(t, []string{name}, "--index-sanity-check")
			if err == nil && strings.Contains(string(said), " passed sanity check.") {
				out.last[within(name)] = "passed"
			} else {
				out.last[within(name)] = kindOfFinding(string(corrupt.Find(said)))
			}
			return true
		})
	}
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

// corrupt is what a sanity check ends with.
var corrupt = regexp.MustCompile(`CorruptIndexException: .*`)

// isActive says whether a file is one of the newest segment of its partition.
func isActive(name string) bool {
	logs, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "*.log"))
	base, _, _ := strings.Cut(filepath.Base(name), ".")
	return len(logs) > 0 && filepath.Base(logs[len(logs)-1]) == base+".log"
}

var inFinding = regexp.MustCompile(`\S*/\d{20}|-?\d+`)

// kindOfFinding is a finding without names and numbers, each of its lines once.
func kindOfFinding(text string) string {
	lines := strings.Split(inFinding.ReplaceAllString(text, "#"), "\n")
	return strings.Join(slices.Compact(lines), "\n")
}

// saidOfKafkas are the kinds of findings that the tool has in directories that Kafka itself has written, killed ones too:
// TestKilledAlike sees each of them there.
var saidOfKafkas = []string{
	// It knows neither of cleaning nor that a segment may begin above 0.
	"Non-consecutive offsets in #.log\n  # is followed by #",
	// An active index without an entry: zeros, which it takes for one.
	"Mismatches in #.index\n  Index offset: #, log offset: #",
	"The following indexed offsets are not found in #.timeindex\nIndexed offset: #, found log offset: #",
	"Found timestamp mismatch in #.timeindex\n  Index timestamp: #, log timestamp: #",
	// An active time index with entries, and zeros behind them.
	"CorruptIndexException: Corrupt time index found, time index file #.timeindex) has non-zero size but the last timestamp is # which is less than the first timestamp #",
}

// ofAnIndex is the file that a finding is of, if that is an index, and what the first entry says.
var ofAnIndex = regexp.MustCompile(`(\S*/0*(\d+)\.(?:time)?index)\n *Index(?:ed)? (?:offset|timestamp): (\d+), `)

// isKafkasToo says whether a finding is one that the tool has of Kafka's own directories. Of an index it may be only that
// the first entry of an active one is none.
func (s shown) isKafkasToo(f string) bool {
	if m := ofAnIndex.FindStringSubmatch(f); m != nil {
		name := filepath.Join(s.root, strings.TrimPrefix(m[1], ":"))
		if !isActive(name) || strings.Count(f, "\n") != 1 || m[3] != m[2] && m[3] != "0" {
			return false
		}
	}
	return slices.Contains(saidOfKafkas, kindOfFinding(f))
}

// asKilled wants the tool to say nothing of a directory that it does not say of Kafka's own.
func asKilled(t *testing.T, s shown) {
	t.Helper()
	for _, f := range s.findings {
		if !s.isKafkasToo(f) {
			t.Errorf("the tool says %.2000s\nof the kind %q", f, kindOfFinding(f))
		}
	}
	for name, said := range s.last {
		if said != "passed" && !slices.Contains(saidOfKafkas, said) {
			t.Errorf("the tool says %q of %s", said, name)
		}
	}
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
