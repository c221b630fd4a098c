//go:build compat

package suites

import (
	"testing"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
	"millrace/compat-tests/ledger"
	"millrace/compat-tests/proxy"
)

// TestSuitesNotice puts a proxy before Millrace that does something to one record: librdkafka's tests and Kafka's programs must
// fail behind it, and pass behind one that is honest. (kgo's records are compressed, which the proxy cannot take apart.)
func TestSuitesNotice(t *testing.T) {
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLibrdkafka(t.Context(), root, false)
	if err != nil {
		t.Fatal(err)
	}
	programs, err := newPrograms(t.Context(), kafka.Newest, 1000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := launch.Start(launch.Options{Dir: t.TempDir(), Overrides: []string{"num.partitions=4"}}) // librdkafka's tests want several
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping the broker: %v", err)
		}
	})
	for _, c := range []struct {
		suite  suite
		test   string
		faults []proxy.Fault
	}{
		{l, "0012_produce_consume", []proxy.Fault{proxy.Honest, proxy.Drop}},
		{programs, "VerifiableConsumer/range", []proxy.Fault{proxy.Honest, proxy.Drop, proxy.Repeat, proxy.Alter}},
	} {
		for _, fault := range c.faults {
			t.Run(c.test+"/"+fault.String(), func(t *testing.T) {
				p, err := proxy.Start(proxy.Options{Upstream: b.Bootstrap, Fault: fault})
				if err != nil {
					t.Fatal(err)
				}
				seen, err := c.suite.run(t.Context(), &Server{Name: "behind the proxy", Bootstrap: p.Addr(), Dir: t.TempDir()}, []string{c.test})
				if err := p.Close(); err != nil {
					t.Errorf("the proxy: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				want := ledger.Passed
				if fault != proxy.Honest {
					want = ledger.Failed
				}
				if got := seen[c.test]; got.outcome != want {
					t.Errorf("%s %q, want %s; planted: %q", got.outcome, got.why, want, p.Planted())
				}
			})
		}
	}
}
