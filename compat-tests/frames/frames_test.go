//go:build compat

package frames

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// peers are the servers of a run.
type peers struct {
	ours             string
	newest, oldest   string
	newestHas        map[int16][2]int16
	oldestHas, weHas map[int16][2]int16
}

// TestAnswersAreKafkas runs every case in every version that Millrace serves:
// against the newest Kafka where that serves the version, else against the
// oldest. MILLRACE_FRAMES narrows it to cases whose "API/name" contains a text.
func TestAnswersAreKafkas(t *testing.T) {
	p := start(t)
	only := os.Getenv("MILLRACE_FRAMES")
	for _, c := range Cases() {
		full := kmsg.NameForKey(int16(c.API)) + "/" + c.Name
		if !strings.Contains(full, only) {
			continue
		}
		t.Run(full, func(t *testing.T) {
			has := p.weHas[int16(c.API)]
			from, to := max(has[0], c.From), has[1]
			if c.To != 0 {
				to = min(to, c.To)
			}
			if from > to {
				t.Fatalf("no version from %d to %d", from, to)
			}
			for v := from; v <= to; v++ {
				t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { p.compare(t, &c, v) })
			}
		})
	}
}

func (p *peers) compare(t *testing.T, c *Case, v int16) {
	peer := p.newest
	if !within(p.newestHas[int16(c.API)], v) || c.API == kmsg.Produce && v < 3 {
		peer = p.oldest
		if !within(p.oldestHas[int16(c.API)], v) {
			t.Fatalf("neither Kafka serves version %d", v)
		}
	}
	prefix := fmt.Sprintf("%s.%d.%s.", kmsg.NameForKey(int16(c.API)), v, strings.ReplaceAll(c.Name, " ", "-"))
	type play struct {
		answers []Answer
		err     error
	}
	theirs := make(chan play, 1)
	go func() {
		a, err := c.Play(peer, v, prefix)
		theirs <- play{a, err}
	}()
	ours, err := c.Play(p.ours, v, prefix)
	other := <-theirs
	if err != nil || other.err != nil {
		t.Fatalf("ours: %v, Kafka: %v", err, other.err)
	}
	for _, d := range Compare(ours, other.answers) {
		t.Error(d)
	}
}

func within(r [2]int16, v int16) bool { return r != [2]int16{} && v >= r[0] && v <= r[1] }

func start(t *testing.T) *peers {
	props := map[string]string{"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4", "num.partitions": "1"}
	var overrides []string
	for k, v := range props {
		overrides = append(overrides, k+"="+v)
	}
	p := &peers{}
	servers := make(chan error, 2)
	for version, into := range map[string]*string{kafka.Newest: &p.newest, kafka.Oldest: &p.oldest} {
		go func() {
			// With eligible leader replicas on, Kafka shows min.insync.replicas
			// of every topic as set by the cluster.
			var features []string
			if version == kafka.Newest {
				features = []string{"eligible.leader.replicas.version=0"}
			}
			s, err := kafka.Start(context.Background(), kafka.Options{Version: version, Properties: props, Features: features})
			if err == nil {
				t.Cleanup(s.Stop)
				*into = s.Bootstrap
			}
			servers <- err
		}()
	}
	b, err := launch.Start(launch.Options{Dir: filepath.Join(t.TempDir(), "data"), Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop() })
	p.ours = b.Bootstrap
	for range 2 {
		if err := <-servers; err != nil {
			t.Fatal(err)
		}
	}
	p.weHas, p.newestHas, p.oldestHas = versions(t, p.ours), versions(t, p.newest), versions(t, p.oldest)
	for _, addr := range []string{p.ours, p.newest, p.oldest} {
		if err := WarmUp(addr); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func versions(t *testing.T, addr string) map[int16][2]int16 {
	c, err := frame.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	resp, ok := c.Ask(req).Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		t.Fatalf("%s does not tell its versions", addr)
	}
	out := map[int16][2]int16{}
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	if addr != "" && out[int16(kmsg.Produce)][0] == 0 {
		out[int16(kmsg.Produce)] = [2]int16{3, out[int16(kmsg.Produce)][1]}
	}
	return out
}
