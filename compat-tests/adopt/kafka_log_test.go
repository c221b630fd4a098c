//go:build compat

package adopt

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"sync"
	"testing"
)

// kafkaLog keeps the lines of a server's log.
type kafkaLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *kafkaLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// save keeps the log for whoever has to find out.
func (l *kafkaLog) save(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.CreateTemp("", "kafka-*.log")
	ok(t, err)
	defer f.Close()
	_, err = f.Write(l.b.Bytes())
	ok(t, err)
	t.Logf("Kafka's log is in %s", f.Name())
}

// kinds are the sentences about logs, without the numbers and names in them, each with one that was said.
func (l *kafkaLog) kinds() map[string]string {
	out := map[string]string{}
	for _, line := range l.lines(ofLogs) {
		out[numbers.ReplaceAllString(ofLogs.FindStringSubmatch(line)[2], "#")] = line
	}
	return out
}

// lines are those that match.
func (l *kafkaLog) lines(r *regexp.Regexp) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	s := bufio.NewScanner(bytes.NewReader(l.b.Bytes()))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if r.MatchString(s.Text()) {
			out = append(out, s.Text())
		}
	}
	return out
}

var (
	complaints = regexp.MustCompile(`^\[[^]]*\] (WARN|ERROR|FATAL) `)
	// What a server says of itself whatever lies in its directory.
	harmless = regexp.MustCompile(`Performing controller activation|NetworkClient that has already been closed|` +
		`Stopped loading records from \S* because the partition is not online or is no longer the leader|` + // leaderships that a start replays
		`append operation on partition \S*sequences-0`) // the batch behind a gap
	// Who speaks of what lies in the directory.
	ofLogs  = regexp.MustCompile(`^\[[^]]*\] [A-Z]+ \S*(storage\.internals\.log|storage\.internals\.epoch|LogManager|LogLoader|UnifiedLog|LogDirFailure)\S* - (.*)`)
	numbers = regexp.MustCompile(`(partition=|dir=|partition )\S+|\d+|/\S+`)
)
