// Package metrics is what a broker counts, and under which names it is shown.
//
// The names are those that the JMX exporter gives Apache Kafka's MBeans with its
// usual rules, so that dashboards and alerts made for Kafka work unchanged. This
// table is the one place where they stand: what is shown and docs/metrics.md are
// both made from it.
//
// The room is pure. Its counters are atomics and may be used from anywhere; it
// gathers nothing by itself and knows no HTTP. It promises that counting never
// allocates, blocks, or calls the system.
package metrics

// Kind is a metric's type.
type Kind int8

// The kinds there are.
const (
	Counter Kind = iota
	Gauge
)

func (k Kind) String() string {
	if k == Counter {
		return "counter"
	}
	return "gauge"
}

// Metric is one name that is shown.
type Metric struct {
	Name string
	Kind Kind
	// Sets are the label names of its series: one list for each form in which it
	// is shown, no two of the same length.
	Sets [][]string
	// Bean is the MBean and the attribute that the value stands for; "" for what
	// Kafka does not tell.
	Bean string
	Help string
}

// Labels are the label names of a series with so many values.
func (m *Metric) Labels(values int) ([]string, bool) {
	for _, set := range m.Sets {
		if len(set) == values {
			return set, true
		}
	}
	return nil, false
}

// Emit takes one value: of a metric, with the values of its labels.
type Emit func(m *Metric, value float64, labels ...string)

var all []*Metric

// All lists every metric, in the order of the documentation.
func All() []*Metric { return all }

// define enters a metric into the table.
func define(kind Kind, name, bean, help string, sets ...[]string) *Metric {
	if len(sets) == 0 {
		sets = [][]string{nil}
	}
	m := &Metric{Name: name, Kind: kind, Sets: sets, Bean: bean, Help: help}
	all = append(all, m)
	return m
}

// labels is a list of label names.
func labels(names ...string) []string { return names }
