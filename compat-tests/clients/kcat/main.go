// Command kcat is the compatibility suite's agent for the kcat program. It starts one kcat for each thing the driver asks
// for over the agent protocol (PROTOCOL.md), and answers that there is no call for what kcat cannot do.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

const stepTimeout = 60 * time.Second

type kcat struct {
	bootstrap, dir string
	members        members
}

func main() {
	bootstrap, dir := agent.Flags()
	version, err := version()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	k := &kcat{bootstrap: bootstrap, dir: dir, members: members{open: make(map[string]*member)}}
	no := func(why string) agent.Func {
		return func(agent.Request) (any, error) { return nil, agent.Unsupported(why) }
	}
	err = agent.Serve(os.Stdin, os.Stdout, agent.Hello{
		Client: "kcat", Version: version,
		Cannot: []string{"partition", "timestamp", "headers", "empty-value", "null-key", "binary", "null-header-value", "repeated-header"},
		Note:   "it commits by itself what it has printed, at a rebalance and when it ends",
	}, map[string]agent.Func{
		"create-topic":     no("kcat has no admin calls"),
		"produce":          k.produce,
		"consumer-open":    k.open,
		"consume":          k.consume,
		"commit":           no("kcat commits by itself: when it ends and when a partition is taken away"),
		"consumer-close":   k.close,
		"seek-time":        k.seekTime,
		"describe-topic":   k.describeTopic,
		"describe-configs": no("kcat has no admin calls"),
		"describe-group":   no("kcat has no admin calls"),
		"lag":              no("kcat has no call for committed offsets"),
		"delete-topic":     no("kcat has no admin calls"),
		"delete-group":     no("kcat has no admin calls"),
	})
	k.members.end()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// version names kcat's version and that of the librdkafka it is built on.
func version() (string, error) {
	out, err := exec.Command("kcat", "-V").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kcat -V (is kcat installed?): %w", err)
	}
	m := regexp.MustCompile(`Version (\S+) .*librdkafka (\S+)`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("kcat -V named no version: %q", out)
	}
	return fmt.Sprintf("%s (librdkafka %s)", m[1], m[2]), nil
}

// run runs kcat to its end and returns what it printed.
func (k *kcat) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", k.bootstrap}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kcat %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// limit is the request's own time limit, or the general one.
func limit(r agent.Request) time.Duration {
	if r.TimeoutMS > 0 {
		return time.Duration(r.TimeoutMS) * time.Millisecond
	}
	return stepTimeout
}

// produce writes the records as lines "key TAB value" into kcat, which sends an empty value as null (-Z).
func (k *kcat) produce(r agent.Request) (any, error) {
	in, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	acks := r.Acks
	if acks == "" {
		acks = "all"
	}
	args := []string{"-P", "-t", r.Topic, "-K", "\t", "-Z", "-z", r.Codec, "-X", "acks=" + acks, "-X", "linger.ms=5",
		"-X", "message.max.bytes=4000000", "-X", "queue.buffering.max.messages=100000"}
	if r.Idempotent {
		args = append(args, "-X", "enable.idempotence=true")
	} else {
		args = append(args, "-X", "max.in.flight=1")
	}
	lines, w := io.Pipe()
	count := 0
	feed := make(chan error, 1)
	go func() {
		n, err := writeLines(w, in)
		count = n
		w.CloseWithError(err)
		feed <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit(r))
	defer cancel()
	_, err = k.run(ctx, lines, args...)
	lines.Close() // so that writeLines ends also when kcat ended early
	feedErr := <-feed
	if err != nil {
		return nil, err
	}
	if feedErr != nil {
		return nil, feedErr
	}
	return map[string]any{"count": count}, nil // kcat's exit code 0 says that all were delivered
}

func writeLines(w io.Writer, in io.Reader) (count int, err error) {
	out := bufio.NewWriterSize(w, 1<<16)
	records := recfile.NewReader(in, false)
	for {
		rec, err := records.Read()
		if err == io.EOF {
			return count, out.Flush()
		}
		if err != nil {
			return count, err
		}
		if rec.Partition >= 0 || rec.Timestamp >= 0 || rec.Key == nil || len(rec.Headers) > 0 || bytes.ContainsAny(rec.Key, "\t\n") || bytes.ContainsRune(rec.Value, '\n') {
			return count, fmt.Errorf("record %d cannot be given to kcat as a line", count)
		}
		out.Write(rec.Key)
		out.WriteByte('\t')
		out.Write(rec.Value)
		if err := out.WriteByte('\n'); err != nil {
			return count, err
		}
		count++
	}
}

var offsetLine = regexp.MustCompile(`\[(\d+)\] offset (-?\d+)`)

func (k *kcat) partitions(ctx context.Context, topic string) ([]partition, error) {
	out, err := k.run(ctx, nil, "-L", "-J", "-t", topic)
	if err != nil {
		return nil, err
	}
	var meta struct {
		Topics []struct {
			Topic      string `json:"topic"`
			Error      string `json:"error"`
			Partitions []struct {
				Partition int32             `json:"partition"`
				Leader    int32             `json:"leader"`
				Error     string            `json:"error"`
				Replicas  []map[string]any  `json:"replicas"`
				ISRs      []map[string]any  `json:"isrs"`
				Rest      map[string]string `json:"-"`
			} `json:"partitions"`
		} `json:"topics"`
	}
	if err := json.Unmarshal(out, &meta); err != nil {
		return nil, fmt.Errorf("kcat -L -J: %w", err)
	}
	if len(meta.Topics) != 1 || meta.Topics[0].Topic != topic {
		return nil, fmt.Errorf("kcat -L told of %d topics, asked for %s", len(meta.Topics), topic)
	}
	if e := meta.Topics[0].Error; e != "" {
		return nil, errors.New(e)
	}
	ids := func(list []map[string]any) []int32 {
		all := []int32{}
		for _, m := range list {
			if id, ok := m["id"].(float64); ok {
				all = append(all, int32(id))
			}
		}
		return all
	}
	parts := []partition{}
	for _, p := range meta.Topics[0].Partitions {
		if p.Error != "" {
			return nil, fmt.Errorf("partition %d: %s", p.Partition, p.Error)
		}
		parts = append(parts, partition{p.Partition, p.Leader, ids(p.Replicas), ids(p.ISRs)})
	}
	slices.SortFunc(parts, func(a, b partition) int { return int(a.ID - b.ID) })
	return parts, nil
}

type partition struct {
	ID       int32   `json:"id"`
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
}

func (k *kcat) describeTopic(r agent.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	parts, err := k.partitions(ctx, r.Topic)
	return map[string]any{"partitions": parts}, err
}

// seekTime asks with -Q and reads with -C, one partition after the other.
func (k *kcat) seekTime(r agent.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit(r))
	defer cancel()
	parts, err := k.partitions(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(r.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	w := recfile.NewWriter(out, true)
	offsets := make(map[string]int64)
	left := r.Count
	for _, p := range parts {
		text, err := k.run(ctx, nil, "-Q", "-t", fmt.Sprintf("%s:%d:%d", r.Topic, p.ID, r.Timestamp))
		if err != nil {
			return nil, err
		}
		m := offsetLine.FindSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("kcat -Q answered %q", text)
		}
		offset, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			return nil, err
		}
		offsets[fmt.Sprint(p.ID)] = offset
		if offset < 0 || left <= 0 {
			continue
		}
		text, err = k.run(ctx, nil, "-C", "-t", r.Topic, "-p", fmt.Sprint(p.ID), "-o", fmt.Sprint(offset), "-c", fmt.Sprint(left), "-e", "-q", "-f", format)
		if err != nil {
			return nil, err
		}
		records := bufio.NewReader(bytes.NewReader(text))
		for {
			rec, err := readPrinted(records)
			if err == io.EOF {
				break
			}
			if err == nil {
				err = w.Write(rec)
			}
			if err != nil {
				return nil, err
			}
			left--
		}
	}
	return map[string]any{"offsets": offsets}, w.Flush()
}

// groupConfig is the file by which a member gets the properties that kcat has no flag for.
func (k *kcat) groupConfig(r agent.Request) (string, error) {
	strategies := map[string]string{"": "range", "range": "range", "roundrobin": "roundrobin", "cooperative-sticky": "cooperative-sticky"}
	strategy, ok := strategies[r.Strategy]
	if !ok {
		return "", agent.Unsupported("librdkafka has no strategy " + r.Strategy)
	}
	if r.Protocol == "consumer" {
		return "", agent.Unsupported("this librdkafka is older than the consumer protocol")
	}
	text := "auto.offset.reset=earliest\nheartbeat.interval.ms=300\npartition.assignment.strategy=" + strategy + "\n"
	if r.Instance != "" {
		text += "group.instance.id=" + r.Instance + "\n"
	}
	path := filepath.Join(k.dir, r.Consumer[strings.LastIndexByte(r.Consumer, '/')+1:]+".conf")
	return path, os.WriteFile(path, []byte(text), 0o644)
}
