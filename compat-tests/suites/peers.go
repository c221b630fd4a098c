package suites

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// properties are set on both servers: what suits one node; several partitions for topics that tests have created on demand, as
// librdkafka's want; and a moment in which the members of a new group can meet, as Kafka's default gives them.
var properties = map[string]string{
	"group.initial.rebalance.delay.ms": "300", "num.partitions": "4",
	"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
	"transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.num.partitions": "4", "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
	"node.id": "1",
}

// Server is one of the two.
type Server struct {
	Name      string // millrace or kafka
	Bootstrap string
	Serves    map[string]bool // names of the APIs that it advertises
	Dir       string          // where a suite may leave files
}

// Peers are both servers of a run.
type Peers struct {
	Millrace, Kafka *Server
	stop            []func() error
}

// Raise starts both.
func Raise(ctx context.Context, dir string, log io.Writer) (*Peers, error) {
	p := &Peers{}
	m := &Server{Name: "millrace", Dir: filepath.Join(dir, "millrace")}
	k := &Server{Name: "kafka", Dir: filepath.Join(dir, "kafka")}
	var overrides []string
	for key, v := range properties {
		overrides = append(overrides, key+"="+v)
	}
	b, err := launch.Start(launch.Options{Dir: filepath.Join(m.Dir, "data"), Overrides: overrides, Log: log})
	if err != nil {
		return nil, err
	}
	p.stop = append(p.stop, b.Stop)
	m.Bootstrap = b.Bootstrap
	s, err := kafka.Start(ctx, kafka.Options{Properties: properties, JVM: []string{"-Xmx768m"}})
	if err != nil {
		return nil, p.failed(err)
	}
	p.stop = append(p.stop, func() error { s.Stop(); return nil })
	k.Bootstrap = s.Bootstrap
	for _, one := range []*Server{m, k} {
		if err := os.MkdirAll(one.Dir, 0o755); err != nil {
			return nil, p.failed(err)
		}
		if one.Serves, err = serves(one.Bootstrap); err != nil {
			return nil, p.failed(err)
		}
	}
	p.Millrace, p.Kafka = m, k
	return p, nil
}

func (p *Peers) failed(err error) error {
	p.Stop()
	return err
}

// Stop ends both; an error says that Millrace did not end well.
func (p *Peers) Stop() error {
	var first error
	for _, stop := range p.stop {
		if err := stop(); err != nil && first == nil {
			first = err
		}
	}
	p.stop = nil
	return first
}

func serves(addr string) (map[string]bool, error) {
	c, err := frame.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	resp, ok := c.Ask(kmsg.NewPtrApiVersionsRequest()).Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, fmt.Errorf("%s does not tell its versions", addr)
	}
	out := map[string]bool{}
	for _, k := range resp.ApiKeys {
		out[kmsg.NameForKey(k.ApiKey)] = true
	}
	return out, nil
}
