// Package ledger turns the samples of a benchmark run into rows: medians and
// quartiles of each subject, and of Millrace's ratio to each other. It compares
// rows with committed ones and writes them for people and for programs.
//
// A ratio is made within a round, between figures that were taken one after the
// other, and only then are medians taken: what slows the machine for a while
// slows both.
package ledger

import (
	"fmt"
	"math"
	"slices"
)

// Own is the subject whose ratios are kept.
const Own = "Millrace"

// The order in which subjects are shown.
var Subjects = []string{Own, "Kafka", "kfake", "floor"}

// Sample is one figure of one subject in one round.
type Sample struct {
	Figure  string
	Measure string // its unit included, as "CPU s/GB"
	More    bool   // more is better
	Subject string
	Round   int
	Value   float64
}

// Spread is the middle half of some samples.
type Spread struct {
	Q1     float64 `json:"q1"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
	N      int     `json:"n"`
}

// Row is one measure of one figure.
type Row struct {
	Figure   string            `json:"figure"`
	Measure  string            `json:"measure"`
	More     bool              `json:"moreIsBetter,omitempty"`
	Commit   string            `json:"commit"`
	Subjects map[string]Spread `json:"subjects"`
	// Ratios are Millrace's value over that of the subject named.
	Ratios map[string]Spread `json:"ratios,omitempty"`
}

// Key names a row.
func (r Row) Key() string { return r.Figure + " " + r.Measure }

// Rounds is how many rounds stand behind all that the row says.
func (r Row) Rounds() int {
	least := math.MaxInt
	for _, of := range []map[string]Spread{r.Subjects, r.Ratios} {
		for _, s := range of { // any order: it is a minimum
			least = min(least, s.N)
		}
	}
	if least == math.MaxInt {
		return 0
	}
	return least
}

// Lacks says whether another row stands beside somebody beside whom this one
// does not.
func (r Row) Lacks(other Row) bool {
	for subject := range other.Ratios { // any order: one is enough
		if _, ok := r.Ratios[subject]; !ok {
			return true
		}
	}
	_, had := other.Subjects[Own]
	_, has := r.Subjects[Own]
	return had && !has
}

// Of is the middle half of some values: quartiles by linear interpolation.
func Of(values []float64) Spread {
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		if len(v) == 0 {
			return math.NaN()
		}
		x := q * float64(len(v)-1)
		i := int(x)
		if i+1 >= len(v) {
			return v[len(v)-1]
		}
		return v[i] + (x-float64(i))*(v[i+1]-v[i])
	}
	return Spread{Q1: at(0.25), Median: at(0.5), Q3: at(0.75), N: len(v)}
}

// Percentile is the value that so large a part of the sorted values does not
// exceed.
func Percentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(max(int(math.Ceil(q*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

// Rows makes rows of samples, in the order in which they first appear.
func Rows(samples []Sample, commit string) []Row {
	var rows []Row
	places := map[string]int{}
	values := map[string]map[int]float64{} // row and subject -> round -> value
	for _, s := range samples {
		r := Row{Figure: s.Figure, Measure: s.Measure, More: s.More, Commit: commit, Subjects: map[string]Spread{}}
		if _, ok := places[r.Key()]; !ok {
			places[r.Key()] = len(rows)
			rows = append(rows, r)
		}
		k := r.Key() + "\x00" + s.Subject
		if values[k] == nil {
			values[k] = map[int]float64{}
		}
		values[k][s.Round] = s.Value
	}
	for i := range rows {
		r := &rows[i]
		own := values[r.Key()+"\x00"+Own]
		for _, subject := range Subjects {
			theirs := values[r.Key()+"\x00"+subject]
			if len(theirs) == 0 {
				continue
			}
			var all, ratios []float64
			for round, v := range theirs { // any order: the values are sorted
				all = append(all, v)
				if o, ok := own[round]; ok && v > 0 {
					ratios = append(ratios, o/v)
				}
			}
			r.Subjects[subject] = Of(all)
			if subject != Own && len(ratios) > 0 {
				if r.Ratios == nil {
					r.Ratios = map[string]Spread{}
				}
				r.Ratios[subject] = Of(ratios)
			}
		}
	}
	return rows
}

// Behind is a ratio that has fallen behind the committed one, or a value that
// misses an aim which the committed ones meet.
type Behind struct {
	Row       Row
	Subject   string // none: Millrace's own value misses an aim
	Committed Spread // where no aim is missed
	Now       Spread
	Aim       string // in words
}

func (b Behind) String() string {
	what := b.Row.Key()
	if b.Subject != "" {
		what += ", beside " + b.Subject
	}
	what += fmt.Sprintf(": %.3g (%.3g to %.3g)", b.Now.Median, b.Now.Q1, b.Now.Q3)
	if b.Aim != "" {
		return what + ", which misses an aim that the committed figures meet: " + b.Aim
	}
	return what + fmt.Sprintf(", committed %.3g (%.3g to %.3g)", b.Committed.Median, b.Committed.Q1, b.Committed.Q3)
}

// same says whether two are about one ratio, and one aim if any.
func (b Behind) same(o Behind) bool {
	return b.Row.Key() == o.Row.Key() && b.Subject == o.Subject && b.Aim == o.Aim
}

// Fallen finds all in which rows stand worse than the committed ones: the ratios
// that have fallen behind, and the aims that are missed now.
func Fallen(committed, now []Row) []Behind {
	return append(Worse(committed, now), Lost(committed, now)...)
}

// Twice are those that fell behind in a second measurement too, as they were
// then. What has no row in the second one was not measured again, and stays.
func Twice(first, second []Behind, measured []Row) []Behind {
	var out []Behind
	for _, b := range first {
		if i := slices.IndexFunc(second, b.same); i >= 0 {
			out = append(out, second[i])
		} else if !slices.ContainsFunc(measured, func(r Row) bool { return r.Key() == b.Row.Key() }) {
			out = append(out, b)
		}
	}
	return out
}

// least is the smallest half width that a spread is given, as a part of its
// median: figures such as memory hardly spread, and a per cent is no news.
const least = 0.03

func (s Spread) widened() Spread {
	d := math.Abs(s.Median) * least
	return Spread{Q1: min(s.Q1, s.Median-d), Median: s.Median, Q3: max(s.Q3, s.Median+d), N: s.N}
}

// Worse finds the ratios that have fallen behind beyond the quartiles: the new
// median lies on the wrong side of the committed worse quartile, and the
// committed median on the right side of the new better one. The second half
// keeps a run that spreads widely from being called worse.
func Worse(committed, now []Row) []Behind {
	old := map[string]Row{}
	for _, r := range committed {
		old[r.Key()] = r
	}
	var out []Behind
	for _, r := range now {
		for _, subject := range Subjects {
			was, ok := old[r.Key()].Ratios[subject]
			is, ok2 := r.Ratios[subject]
			if !ok || !ok2 {
				continue
			}
			w, i := was.widened(), is.widened()
			fell := i.Median > w.Q3 && w.Median < i.Q1
			if r.More {
				fell = i.Median < w.Q1 && w.Median > i.Q3
			}
			if fell {
				out = append(out, Behind{Row: r, Subject: subject, Committed: was, Now: is})
			}
		}
	}
	return out
}

// Slowest is the row in which Millrace stands worst beside a subject; ok is
// false where there is no ratio to it.
func Slowest(rows []Row, subject string) (worst Row, ok bool) {
	value := math.Inf(-1)
	for _, r := range rows {
		s, has := r.Ratios[subject]
		if !has || s.Median <= 0 {
			continue
		}
		v := math.Log(s.Median)
		if r.More {
			v = -v
		}
		if v > value {
			worst, value, ok = r, v, true
		}
	}
	return worst, ok
}

// Merge puts new rows in the places of old ones of the same name, and appends
// the others.
func Merge(old, now []Row) []Row {
	out := slices.Clone(old)
	for _, r := range now {
		if i := slices.IndexFunc(out, func(o Row) bool { return o.Key() == r.Key() }); i >= 0 {
			out[i] = r
		} else {
			out = append(out, r)
		}
	}
	return out
}
