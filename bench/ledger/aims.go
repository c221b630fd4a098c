package ledger

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// aim is what a ratio, or Millrace's own value where there is no subject, is to
// be at most, or, where more is better, at least.
type aim struct {
	what    string
	figure  *regexp.Regexp
	measure string
	subject string
	bound   float64
	more    bool
}

var aims = []aim{
	{"produce: server CPU beside Kafka's", regexp.MustCompile(`^produce/`), "CPU s/GB", "Kafka", 0.3, false},
	{"produce, 256 KiB to one partition: server CPU beside the limit", regexp.MustCompile(`^produce/[^/]*/p1/`), "CPU s/GB", "floor", 1.3, false},
	{"produce, 256 KiB to twelve partitions: server CPU beside the limit", regexp.MustCompile(`^produce/[^/]*/p12/`), "CPU s/GB", "floor", 1.3, false},
	{"fetch: server CPU beside Kafka's", regexp.MustCompile(`^fetch/`), "CPU s/GB", "Kafka", 1, false},
	{"catch-up fetch, 256 KiB of one partition: server CPU beside the limit", regexp.MustCompile(`^fetch/catch-up/[^/]*/p1/`), "CPU s/GB", "floor", 1.1, false},
	{"catch-up fetch, 256 KiB of twelve partitions: server CPU beside the limit", regexp.MustCompile(`^fetch/catch-up/[^/]*/p12/`), "CPU s/GB", "floor", 1.1, false},
	{"append path, batches of 16 KiB to 1 MiB: throughput beside the limit's", regexp.MustCompile(`^append/`), "MB/s", "floor", 0.8, true},
	{"read path, batches of 16 KiB to 1 MiB: throughput beside plain sendfile's", regexp.MustCompile(`^read/`), "MB/s", "floor", 0.9, true},
	{"end to end, 1,000 records a second: p50 beside kfake's", regexp.MustCompile(`^latency/franz-go/1000$`), "p50 ms", "kfake", 0.7, false},
	{"end to end, 1,000 records a second: p99 beside Kafka's", regexp.MustCompile(`^latency/franz-go/1000$`), "p99 ms", "Kafka", 1. / 3, false},
	{"exec to the first acknowledged record, ms", regexp.MustCompile(`^start$`), "ms to the first record", "", 25, false},
	{"resident when idle, MiB", regexp.MustCompile(`^memory$`), "MiB idle", "", 15, false},
	{"resident for each idle connection, KiB", regexp.MustCompile(`^memory$`), "KiB for each connection", "", 8, false},
}

// of is what a row says about the aim; ok is false where it says nothing.
func (a aim) of(r Row) (s Spread, ok bool) {
	if !a.figure.MatchString(r.Figure) || r.Measure != a.measure {
		return s, false
	}
	s = r.Subjects[Own]
	if a.subject != "" {
		s = r.Ratios[a.subject]
	}
	return s, s.N > 0
}

// missed says whether a value is on the wrong side of the bound.
func (a aim) missed(v float64) bool { return a.worse(v, a.bound) }

func (a aim) worse(v, than float64) bool { return v != than && (v < than) == a.more }

func (a aim) side() string {
	if a.more {
		return "at least " + number(a.bound)
	}
	return "at most " + number(a.bound)
}

// worst is the row that stands worst among those that the aim is about.
func (a aim) worst(rows []Row) (worst Row, value float64, ok bool) {
	for _, r := range rows {
		if s, has := a.of(r); has && (!ok || a.worse(s.Median, value)) {
			worst, value, ok = r, s.Median, true
		}
	}
	return worst, value, ok
}

// met says whether rows say something about the aim, and none misses it.
func (a aim) met(rows []Row) bool {
	_, value, ok := a.worst(rows)
	return ok && !a.missed(value)
}

// Lost finds the rows that miss an aim which the committed ones meet.
func Lost(committed, now []Row) []Behind {
	var out []Behind
	for _, a := range aims {
		if !a.met(committed) {
			continue
		}
		for _, r := range now {
			if s, ok := a.of(r); ok && a.missed(s.Median) {
				out = append(out, Behind{Row: r, Subject: a.subject, Now: s, Aim: a.what + ", " + a.side()})
			}
		}
	}
	return out
}

// limit is the floor's value over a peer's, by their medians; 0 where there is none.
func (r Row) limit(peer string) float64 {
	floor, theirs := r.Subjects["floor"], r.Subjects[peer]
	if peer == "floor" || floor.N == 0 || theirs.N == 0 || theirs.Median <= 0 {
		return 0
	}
	return floor.Median / theirs.Median
}

// aims tells the worst of the rows that each aim is about, and, where it is beside a peer,
// what the limit program comes to in that row: no server does better than that here.
func (b Book) aims(out *bytes.Buffer) {
	var lines []string
	for _, a := range aims {
		worst, value, ok := a.worst(b.Rows)
		if !ok {
			continue
		}
		met, beside := "met", ""
		limit := worst.limit(a.subject)
		if a.missed(value) {
			met = "**missed**"
			if limit > 0 && a.missed(limit) {
				met += ", by the limit too"
			}
		}
		if limit > 0 {
			beside = number(limit)
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s (%s) | %s | %s |\n", a.what, a.side(), number(value), worst.Figure, beside, met))
	}
	if len(lines) > 0 {
		out.WriteString("## Aims\n\n| what | is to be | the worst figure | the limit program's there | |\n|---|---|---|---|---|\n" + strings.Join(lines, "") + "\n")
	}
}
