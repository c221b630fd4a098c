package monitor

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/broker/metrics"
)

// style is how names are spelled. Exporters since 1.0 end every counter in
// _total, the counts of histograms included; those before left _count alone, and
// dashboards that were made with them ask for that.
type style string

const (
	styleNow style = "jmx1"
	styleOld style = "jmx0"
)

func (s style) name(m *metrics.Metric) string {
	if s == styleOld {
		if short, ok := strings.CutSuffix(m.Name, "_count_total"); ok {
			return short + "_count"
		}
	}
	return m.Name
}

// collector gathers when it is asked. It describes nothing beforehand: some names
// are shown with and without labels, as Kafka's are.
type collector struct {
	ctx    context.Context // ends with the server
	source Source
	style  style
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.ctx, gatherTimeout)
	defer cancel()
	type form struct {
		of     *metrics.Metric
		labels int
	}
	descs := map[form]*prometheus.Desc{}
	c.source.Gather(ctx, func(m *metrics.Metric, value float64, values ...string) {
		d := descs[form{m, len(values)}]
		if d == nil {
			names, ok := m.Labels(len(values))
			if !ok {
				panic("monitor: " + m.Name + " has no such labels")
			}
			d = prometheus.NewDesc(c.style.name(m), m.Help, names, nil)
			descs[form{m, len(values)}] = d
		}
		ch <- constant(d, m.Kind, value, values)
	})
	c.source.GatherClients(func(name, help string, kind metrics.Kind, value float64, labels []string) {
		names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- constant(prometheus.NewDesc(name, help, names, nil), kind, value, values)
	})
}

// constant is one value. Text that is no UTF-8, as a client may send, is mended.
func constant(d *prometheus.Desc, kind metrics.Kind, value float64, values []string) prometheus.Metric {
	t := prometheus.GaugeValue
	if kind == metrics.Counter {
		t = prometheus.CounterValue
	}
	for i, v := range values {
		values[i] = strings.ToValidUTF8(v, "�")
	}
	m, err := prometheus.NewConstMetric(d, t, value, values...)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}
