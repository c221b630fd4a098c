package telemetry

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of what is kept to be shown.
const (
	maxSeries         = 20000
	maxInstanceSeries = 1000
	// The names and labels of all series, and of one instance's, as they weigh in
	// memory: what a push says once of its resource is a label of each series.
	maxHeld         = 64 << 20
	maxInstanceHeld = 4 << 20
)

// Series is one value as it is shown.
type Series struct {
	Name    string // ready for Prometheus
	Counter bool
	Value   float64
	Labels  []string // names and values in turn, the names sorted
}

// store holds what was pushed, by instance.
type store struct {
	by     map[ID]*shelf
	total  int
	held   int             // what the series weigh
	lost   int             // points that found no room
	counts map[string]int  // series by name
	kinds  map[string]bool // whether a name is a counter
}

// shelf is the series of one instance. They outlive the instance itself: a client
// pushes once more when it ends, and that is to be seen.
type shelf struct {
	expires time.Time
	series  map[string]*Series // by name and labels
	held    int                // what they weigh
}

// weight is what a series of this key takes: the key, its parts, the rest.
func weight(key string) int { return 2*len(key) + 256 }

func (s *store) init() {
	s.by, s.counts, s.kinds = map[ID]*shelf{}, map[string]int{}, map[string]bool{}
}

// take keeps the points of one push. Deltas are added up, so that what is shown
// only grows. Series of the instance that are not in the push stay as they are.
func (s *store) take(x *instance, points []point, expires time.Time) {
	h := s.by[x.id]
	if h == nil && (len(points) == 0 || len(s.by) >= MaxInstances) {
		s.lost += len(points)
		return
	}
	if h == nil {
		h = &shelf{series: map[string]*Series{}}
		s.by[x.id] = h
	}
	h.expires = expires
	for i := range points {
		p := &points[i]
		name := shownName(p.name, p.counter)
		labels := labelsOf(x, p.labels)
		key := name + "\x00" + strings.Join(labels, "\x00")
		old := h.series[key]
		if kind, known := s.kinds[name]; known && kind != p.counter {
			s.lost++ // the same name for two kinds: the first one counts
			continue
		}
		if old == nil {
			w := weight(key)
			if s.total >= maxSeries || len(h.series) >= maxInstanceSeries || s.held+w > maxHeld || h.held+w > maxInstanceHeld {
				s.lost++
				continue
			}
			old = &Series{Name: name, Counter: p.counter, Labels: labels}
			h.series[key] = old
			s.kinds[name] = p.counter
			s.counts[name]++
			s.total++
			s.held += w
			h.held += w
		}
		switch {
		case p.counter && math.IsNaN(p.value):
		case p.delta && p.counter:
			old.Value += max(p.value, 0)
		default:
			old.Value = p.value
		}
	}
}

func (s *store) expire(now time.Time) {
	// any order: each goes for itself.
	for id, h := range s.by {
		if h.expires.After(now) {
			continue
		}
		// any order: they are only counted.
		for _, one := range h.series {
			s.total--
			if s.counts[one.Name]--; s.counts[one.Name] == 0 {
				delete(s.counts, one.Name)
				delete(s.kinds, one.Name)
			}
		}
		s.held -= h.held
		delete(s.by, id)
	}
}

// Series lists what clients have pushed, sorted, and how many points found no
// room.
func (m *Machine) Series() (list []Series, lost int) {
	// any order: sorted below.
	for _, h := range m.series.by {
		// any order: sorted below.
		for _, one := range h.series {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.Labels, b.Labels))
	})
	return list, m.series.lost
}

// shownName makes a Prometheus name: kafka_client_ in front, without Kafka's
// own prefix, and _total behind a counter.
func shownName(name string, counter bool) string {
	name = "kafka_client_" + word(strings.TrimPrefix(name, "org.apache.kafka."))
	if counter && !strings.HasSuffix(name, "_total") {
		name += "_total"
	}
	return name
}

// word keeps what a Prometheus name may hold.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// labelsOf gives the labels of a series: who the client is, then what the client
// says, where it does not take one of those names. The names are sorted and
// unique.
func labelsOf(x *instance, given []label) []string {
	list := []label{
		{"client_id", x.client.ClientID}, {"client_instance_id", text(x.id)},
		{"client_software_name", x.client.SoftwareName}, {"client_software_version", x.client.SoftwareVersion},
	}
	for _, l := range given {
		key := word(l.key)
		if key[0] >= '0' && key[0] <= '9' || strings.HasPrefix(key, "__") {
			key = "x" + key
		}
		if !slices.ContainsFunc(list, func(o label) bool { return o.key == key }) {
			list = append(list, label{key, l.value})
		}
	}
	slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.key, b.key) })
	out := make([]string, 0, 2*len(list))
	for _, l := range list {
		out = append(out, l.key, strings.ToValidUTF8(l.value, "\uFFFD"))
	}
	return out
}
