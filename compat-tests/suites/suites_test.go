//go:build compat

package suites

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
	"millrace/compat-tests/ledger"
)

// TestSuites runs other projects' tests against Millrace and Apache Kafka, and settles with the ledger; see the package's
// comment for what can be chosen.
func TestSuites(t *testing.T) {
	ctx := context.Background()
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	choice := os.Getenv("MILLRACE_SUITES")
	chosen := func(name string) bool { return choice == "all" || slices.Contains(strings.Split(choice, ","), name) }
	var only []string
	if texts := os.Getenv("MILLRACE_SUITES_TESTS"); texts != "" {
		only = strings.Split(texts, ",")
	}
	short := choice == ""
	dir := os.Getenv("MILLRACE_SUITES_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	log, err := os.Create(filepath.Join(dir, "millrace.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := Raise(ctx, dir, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stopping Millrace: %v", err)
		}
	}()
	for _, one := range []struct {
		name  string
		build func() ([]suite, error)
	}{
		{"kgo", func() ([]suite, error) {
			records := 20_000
			if short {
				records = 500
			}
			k, err := newKgo(ctx, root, false, records, 15*time.Minute)
			return []suite{k}, err
		}},
		{"kgo-chaos", func() ([]suite, error) {
			k, err := newKgo(ctx, root, true, 5_000, 15*time.Minute)
			return []suite{k}, err
		}},
		{"librdkafka", func() ([]suite, error) {
			l, err := newLibrdkafka(ctx, root, false)
			return []suite{l}, err
		}},
		{"librdkafka-idempotent", func() ([]suite, error) {
			l, err := newLibrdkafka(ctx, root, true)
			return []suite{l}, err
		}},
		{"kafka-clients", func() ([]suite, error) {
			newest, err := newPrograms(ctx, kafka.Newest, 5_000)
			if err != nil {
				return nil, err
			}
			oldest, err := newPrograms(ctx, kafka.Oldest, 5_000)
			return []suite{newest, oldest}, err
		}},
	} {
		if !chosen(one.name) && !(short && one.name == "kgo") {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			all, err := one.build()
			if err != nil {
				t.Fatal(err)
			}
			lines := &ledger.Ledger{}
			for _, s := range all {
				line, err := hold(ctx, s, p, only, t.Logf)
				if err != nil {
					t.Fatal(err)
				}
				line.Commit = ledger.Commit()
				lines.Suites = append(lines.Suites, line)
				for _, test := range line.Tests {
					if test.Millrace != test.Kafka && test.Millrace != ledger.Waits {
						t.Logf("%s: %s: %s here, %s on Kafka: %s", line.Title(), test.Name, test.Millrace, test.Kafka, test.Why)
					}
				}
			}
			ledger.Settle(t, one.name, lines, short || len(only) > 0)
		})
	}
}
