//go:build compat

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Variables in which the test binary, started again inside a network, finds the broker to be a client of: one that works with
// it, or one that only asks.
const (
	clientOf = "MILLRACE_IMAGE_CLIENT"
	askerOf  = "MILLRACE_IMAGE_ASKER"
)

// seen is what a client tells of a broker it has worked with.
type seen struct {
	Brokers []string // host:port, as Metadata tells them
	Cluster string
}

// TestMain is the tests, or the client of one.
func TestMain(m *testing.M) {
	for name, f := range map[string]func(string) (seen, error){clientOf: work, askerOf: ask} {
		bootstrap := os.Getenv(name)
		if bootstrap == "" {
			continue
		}
		s, err := f(bootstrap)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		json.NewEncoder(os.Stdout).Encode(s)
		return
	}
	os.Exit(m.Run())
}

// ask asks a broker for its metadata.
func ask(bootstrap string) (seen, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return seen{}, err
	}
	defer client.Close()
	return asked(ctx, kadm.NewClient(client))
}

func asked(ctx context.Context, admin *kadm.Client) (seen, error) {
	m, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return seen{}, fmt.Errorf("metadata: %w", err)
	}
	s := seen{Cluster: m.Cluster}
	for _, b := range m.Brokers {
		s.Brokers = append(s.Brokers, fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	return s, nil
}

// work creates a topic, produces to it and reads it back as a group, through nothing but the bootstrap address and what the
// broker tells.
func work(bootstrap string) (seen, error) {
	var s seen
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	topic := fmt.Sprintf("t%d", time.Now().UnixNano())
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DialTimeout(3*time.Second))
	if err != nil {
		return s, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 3, -1, nil, topic); err != nil {
		return s, fmt.Errorf("creating a topic: %w", err)
	}
	if s, err = asked(ctx, admin); err != nil {
		return s, err
	}
	var sent, got []string
	for i := range 10 {
		v := fmt.Sprint("record ", i)
		sent = append(sent, v)
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte{byte(i)}, Value: []byte(v)}).FirstErr(); err != nil {
			return s, fmt.Errorf("producing: %w", err)
		}
	}
	for len(got) < len(sent) {
		f := client.PollFetches(ctx)
		if err := f.Err(); err != nil {
			return s, fmt.Errorf("consuming, with %d of %d: %w", len(got), len(sent), err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	slices.Sort(sent)
	if !slices.Equal(got, sent) {
		return s, fmt.Errorf("read %q, sent %q", got, sent)
	}
	return s, client.CommitUncommittedOffsets(ctx)
}

// client works with a broker from inside a network namespace.
func client(ns, bootstrap string) (seen, error) { return again(ns, clientOf, bootstrap) }

// asker only asks a broker.
func asker(ns, bootstrap string) (seen, error) { return again(ns, askerOf, bootstrap) }

func again(ns, as, bootstrap string) (seen, error) {
	var s seen
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	cmd := exec.Command("ip", "netns", "exec", ns, self)
	cmd.Env = append(os.Environ(), as+"="+bootstrap)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return s, errors.New(strings.TrimSpace(complaint.String()))
	}
	return s, json.Unmarshal([]byte(out.String()), &s)
}

// works is client for a test: it has to succeed and to be told exactly one address.
func works(t *testing.T, ns, bootstrap, told string) seen {
	t.Helper()
	s, err := client(ns, bootstrap)
	if err != nil {
		t.Errorf("a client at %s: %v", bootstrap, err)
	} else if len(s.Brokers) != 1 || s.Brokers[0] != told {
		t.Errorf("a client at %s was told %v, want %s", bootstrap, s.Brokers, told)
	}
	return s
}
