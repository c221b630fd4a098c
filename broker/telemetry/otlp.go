package telemetry

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// The narrow part of OpenTelemetry's metrics.proto that clients push: resources
// with their attributes, scopes, and gauges, sums, histograms and summaries with
// their points. What else a message holds is skipped.

// point is one value of one metric.
type point struct {
	name    string
	counter bool // it only grows
	delta   bool // the value is what came since the last push
	value   float64
	labels  []label // of the point, then of the resource
}

type label struct{ key, value string }

// Bounds of one push, whatever it claims.
const (
	maxPoints = 5000
	maxLabels = 32
	maxText   = 256
)

var (
	errProto  = errors.New("not a protocol buffer of metrics")
	errPoints = errors.New("more than 5000 points in one push")
)

// fields walks the fields of a message.
func fields(b []byte, each func(num protowire.Number, typ protowire.Type, v []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errProto
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		if size < 0 {
			return errProto
		}
		v := b[:size]
		if typ == protowire.BytesType {
			v, _ = protowire.ConsumeBytes(v)
		}
		if err := each(num, typ, v); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// messages walks the sub-messages in one field.
func messages(b []byte, field protowire.Number, each func(v []byte) error) error {
	return fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if num != field {
			return nil
		}
		if typ != protowire.BytesType {
			return errProto
		}
		return each(v)
	})
}

func decode(b []byte) ([]point, error) {
	d := &decoder{}
	err := messages(b, 1, d.resource) // MetricsData.resource_metrics
	return d.points, err
}

type decoder struct {
	points []point
	shared []label
}

func (d *decoder) resource(b []byte) error {
	d.shared = nil
	if err := messages(b, 1, func(v []byte) (err error) { // ResourceMetrics.resource
		d.shared, err = attributes(v, 1)
		return err
	}); err != nil {
		return err
	}
	return messages(b, 2, func(scope []byte) error { // .scope_metrics
		return messages(scope, 2, d.metric) // ScopeMetrics.metrics
	})
}

// The fields of Metric that hold data.
const (
	metricName      = 1
	metricGauge     = 5
	metricSum       = 7
	metricHistogram = 9
	metricSummary   = 11
)

func (d *decoder) metric(b []byte) error {
	name := ""
	if err := fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if num == metricName && typ == protowire.BytesType {
			name = clip(v)
		}
		return nil
	}); err != nil {
		return err
	}
	return fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if typ != protowire.BytesType {
			return nil
		}
		switch num {
		case metricGauge:
			return messages(v, 1, func(p []byte) error { return d.number(point{name: name}, p) })
		case metricSum:
			p := point{name: name}
			if err := sumKind(v, &p); err != nil {
				return err
			}
			return messages(v, 1, func(b []byte) error { return d.number(p, b) })
		case metricHistogram:
			p := point{name: name, counter: true}
			if err := sumKind(v, &p); err != nil {
				return err
			}
			return messages(v, 1, func(b []byte) error { return d.counted(p, b, 9, 4, 5) })
		case metricSummary:
			return messages(v, 1, func(b []byte) error { return d.counted(point{name: name, counter: true}, b, 7, 4, 5) })
		}
		return nil
	})
}

// sumKind reads temporality (2) and whether a sum is monotonic (3).
func sumKind(b []byte, p *point) error {
	return fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if typ != protowire.VarintType {
			return nil
		}
		n, _ := protowire.ConsumeVarint(v)
		switch num {
		case 2:
			p.delta = n == 1
		case 3:
			p.counter = n != 0
		}
		return nil
	})
}

// number reads a NumberDataPoint.
func (d *decoder) number(p point, b []byte) error {
	set := false
	if err := fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if typ != protowire.Fixed64Type {
			return nil
		}
		n, _ := protowire.ConsumeFixed64(v)
		switch num {
		case 4:
			p.value, set = math.Float64frombits(n), true
		case 6:
			p.value, set = float64(int64(n)), true
		}
		return nil
	}); err != nil || !set {
		return err
	}
	return d.add(p, b, 7)
}

// counted reads the count and the sum of a histogram's or a summary's point.
func (d *decoder) counted(p point, b []byte, labels, count, sum protowire.Number) error {
	var total float64
	var n uint64
	if err := fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		if typ != protowire.Fixed64Type {
			return nil
		}
		bits, _ := protowire.ConsumeFixed64(v)
		switch num {
		case count:
			n = bits
		case sum:
			total = math.Float64frombits(bits)
		}
		return nil
	}); err != nil {
		return err
	}
	c, s := p, p
	c.name, c.value = p.name+".count", float64(n)
	s.name, s.value = p.name+".sum", total
	if err := d.add(c, b, labels); err != nil {
		return err
	}
	return d.add(s, b, labels)
}

func (d *decoder) add(p point, b []byte, field protowire.Number) error {
	if len(d.points) >= maxPoints {
		return errPoints
	}
	own, err := attributes(b, field)
	if err != nil {
		return err
	}
	p.labels = append(own, d.shared...)
	if p.name != "" {
		d.points = append(d.points, p)
	}
	return nil
}

// attributes reads KeyValues.
func attributes(b []byte, field protowire.Number) ([]label, error) {
	var out []label
	err := messages(b, field, func(kv []byte) error {
		var l label
		if err := fields(kv, func(num protowire.Number, typ protowire.Type, v []byte) error {
			switch {
			case num == 1 && typ == protowire.BytesType:
				l.key = clip(v)
			case num == 2 && typ == protowire.BytesType:
				var err error
				l.value, err = anyValue(v)
				return err
			}
			return nil
		}); err != nil {
			return err
		}
		if l.key != "" && len(out) < maxLabels {
			out = append(out, l)
		}
		return nil
	})
	return out, err
}

// anyValue reads a scalar AnyValue; lists and maps are left out.
func anyValue(b []byte) (string, error) {
	s := ""
	err := fields(b, func(num protowire.Number, typ protowire.Type, v []byte) error {
		switch {
		case num == 1 && typ == protowire.BytesType:
			s = clip(v)
		case num == 2 && typ == protowire.VarintType:
			n, _ := protowire.ConsumeVarint(v)
			s = strconv.FormatBool(n != 0)
		case num == 3 && typ == protowire.VarintType:
			n, _ := protowire.ConsumeVarint(v)
			s = strconv.FormatInt(int64(n), 10)
		case num == 4 && typ == protowire.Fixed64Type:
			n, _ := protowire.ConsumeFixed64(v)
			s = strconv.FormatFloat(math.Float64frombits(n), 'g', -1, 64)
		case num == 7 && typ == protowire.BytesType:
			s = base64.StdEncoding.EncodeToString(v[:min(len(v), maxText/2)])
		}
		return nil
	})
	return s, err
}

func clip(v []byte) string { return string(v[:min(len(v), maxText)]) }
