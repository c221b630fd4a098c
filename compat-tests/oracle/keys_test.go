//go:build compat

package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEveryKey tries every config that Kafka has for topics, groups, client metrics
// and brokers, a broker's own and the default of all, with values of every type: what
// the sequences draw from here comes whole. Nothing is changed.
func TestEveryKey(t *testing.T) {
	s := start(t)
	p := s.begin()
	defer p.end()
	(&gen{Rand: rand.New(rand.NewPCG(1, 1))}).createTopic("a", 1, nil).Do(p)
	asked := 0
	for _, r := range []resource{{kind: 2, name: "a"}, {kind: 32, name: "g0"}, {kind: 16, name: "sub0"}, {kind: 4, name: "=1"}, {kind: 4, name: "="}} {
		keys := p.kafka().configKeys(r)
		if r.kind == 4 {
			keys = append(keys, p.kafka().configKeys(resource{kind: 4, name: "=1"})...)
			slices.Sort(keys)
			keys = slices.Compact(keys)
		}
		if len(keys) == 0 {
			t.Fatalf("Kafka tells no keys of %v", r)
		}
		for _, key := range keys {
			for _, v := range append(slices.Clone(values), extremes...) {
				p.over = false
				p.ask("admin", pick{from: 1}, fmt.Sprintf("type %d %q: %s=%q", r.kind, r.name, key, v), func(s *side) kmsg.Request {
					req := kmsg.NewPtrIncrementalAlterConfigsRequest()
					req.ValidateOnly = true
					rr := kmsg.NewIncrementalAlterConfigsRequestResource()
					rr.ResourceType, rr.ResourceName = r.kind, s.name(r.name)
					rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
					rc.Name, rc.Value = key, kmsg.StringPtr(v)
					rr.Configs = append(rr.Configs, rc)
					req.Resources = append(req.Resources, rr)
					return req
				})
				asked++
			}
		}
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	for _, d := range p.found {
		if d.Why == "" {
			t.Error(d.Text)
		}
	}
	if t.Logf("%d values tried", asked); asked < 10_000 {
		t.Errorf("only %d values were tried", asked)
	}
}

// extremes are more values than the sequences draw from.
var extremes = []string{"-9223372036854775808", "-2147483648", "2", "3", "10", "15", "60000", "65536", "3600000", "86400000", "32767", "32768", "1e400", "-0.1", "0.2", "1.0", ",", "a,,b", "1:1,2", "PLAINTEXT:PLAINTEXT"}

// configKeys are the keys that a server tells of a resource.
func (s *side) configKeys(r resource) []string {
	c, err := s.conn("watch")
	if err != nil {
		return nil
	}
	c.Patience = patience
	req := describing(s, []resource{r}, nil)
	req.Version = 4
	resp, ok := c.Ask(req).Response.(*kmsg.DescribeConfigsResponse)
	if !ok {
		return nil
	}
	var keys []string
	for _, x := range resp.Resources {
		for _, c := range x.Configs {
			if !c.ReadOnly {
				keys = append(keys, c.Name)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
