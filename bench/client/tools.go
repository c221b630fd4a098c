package client

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"millrace/bench/raw"
	"millrace/compat-tests/kafka"
)

// Tool is a run of one of Kafka's own performance tools. The server's processor
// time is over the whole run, the tool's start included; the rate is what the
// tool tells.
type Tool struct {
	Addr, Topic string
	Value       int
	Records     int
	CPU         func() (time.Duration, error) // of the server
}

// Produce runs ProducerPerformance with the properties it has by itself.
func (t Tool) Produce(ctx context.Context) (raw.Result, error) {
	return t.run(ctx, "ProducerPerformance", producerRate, "--topic", t.Topic, "--num-records", strconv.Itoa(t.Records),
		"--record-size", strconv.Itoa(t.Value), "--throughput", "-1", "--bootstrap-server", t.Addr)
}

// Consume runs ConsumerPerformance, with a group of its own.
func (t Tool) Consume(ctx context.Context) (raw.Result, error) {
	return t.run(ctx, "ConsumerPerformance", consumerRate, "--topic", t.Topic, "--num-records", strconv.Itoa(t.Records), "--bootstrap-server", t.Addr)
}

func (t Tool) run(ctx context.Context, class string, rate func(out string) (records int, perSecond float64, err error), args ...string) (r raw.Result, err error) {
	cp, err := kafka.Install(ctx, kafka.Newest)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	before, err := t.CPU()
	if err != nil {
		return r, err
	}
	out, err := exec.CommandContext(ctx, "java", append([]string{"-Xmx512m", "-cp", cp, "org.apache.kafka.tools." + class}, args...)...).CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", class, err, out)
	}
	after, err := t.CPU()
	if err != nil {
		return r, err
	}
	n, perSecond, err := rate(string(out))
	if err == nil && n < t.Records {
		err = fmt.Errorf("%d records of %d", n, t.Records)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", class, err, out)
	}
	return raw.Result{CPU: after - before, Bytes: int64(n) * int64(t.Value), Requests: int64(n),
		Elapsed: time.Duration(float64(n) / perSecond * float64(time.Second))}, nil
}

var sent = regexp.MustCompile(`(?m)^(\d+) records sent, ([\d.]+) records/sec .*99th`)

func producerRate(out string) (int, float64, error) {
	m := sent.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, errors.New("no summary")
	}
	n, err1 := strconv.Atoi(m[1])
	rate, err2 := strconv.ParseFloat(m[2], 64)
	return n, rate, errors.Join(err1, err2)
}

func consumerRate(out string) (int, float64, error) {
	_, table, ok := strings.Cut(out, "start.time")
	if !ok {
		return 0, 0, errors.New("no table")
	}
	rows := csv.NewReader(strings.NewReader("start.time" + table))
	rows.TrimLeadingSpace, rows.FieldsPerRecord = true, -1
	head, err1 := rows.Read()
	row, err2 := rows.Read()
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	of := func(name string) (float64, error) {
		for i, h := range head {
			if h == name && i < len(row) {
				return strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			}
		}
		return 0, fmt.Errorf("no column %s", name)
	}
	n, err1 := of("data.consumed.in.nMsg")
	// Without the time that joining a group takes.
	rate, err2 := of("fetch.nMsg.sec")
	return int(n), rate, errors.Join(err1, err2)
}
