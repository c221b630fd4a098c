package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The part of the page that is made of the ledger lies between these.
const (
	begin = "<!-- ledger: begin (written by the runs) -->\n"
	end   = "<!-- ledger: end -->\n"
)

// Marks are what a new page has for the ledger.
func Marks() []byte { return []byte(begin + end) }

// Into puts what the ledger shows between its marks in a page.
func (l *Ledger) Into(page []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, errors.New("no marks of the ledger")
	}
	return bytes.Join([][]byte{head, []byte(begin), l.markdown(), []byte(end), tail}, nil), nil
}

func (l *Ledger) markdown() []byte {
	l.tidy()
	var b bytes.Buffer
	b.WriteString("### Answers compared\n\n")
	b.WriteString("Cases of raw frames (`make frames`) and requests of seeded sequences (`make oracle`), summed over an API's versions; each version by itself\n")
	b.WriteString("is in [compatibility.json](compatibility.json). Explained: different on purpose, for the reasons below.\n\n")
	b.WriteString("| key | API | versions | frames: compared | equal | explained | unexplained | sequences: compared | equal | explained | unexplained |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	var reasons []string
	var frames, oracle Compared
	row := func(key, name, versions string, f, o Compared) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", key, name, versions, f.cells(), o.cells())
	}
	for i := 0; i < len(l.APIs); {
		first := l.APIs[i]
		var f, o Compared
		last := first.Version
		for ; i < len(l.APIs) && l.APIs[i].Key == first.Key; i++ {
			a := l.APIs[i]
			last = a.Version
			for _, sum := range []*Compared{&f, &frames} {
				sum.add(a.Frames)
			}
			for _, sum := range []*Compared{&o, &oracle} {
				sum.add(a.Oracle)
			}
		}
		versions := fmt.Sprint(first.Version)
		if last != first.Version {
			versions = fmt.Sprintf("%d-%d", first.Version, last)
		}
		row(fmt.Sprint(first.Key), first.Name, versions, f, o)
		for _, why := range append(f.Why, o.Why...) {
			reasons = append(reasons, fmt.Sprintf("- %s: %s\n", first.Name, why))
		}
	}
	row("", "all", "", frames, oracle)
	if len(reasons) > 0 {
		b.WriteString("\nDifferent on purpose:\n\n")
		seen := map[string]bool{}
		for _, r := range reasons {
			if !seen[r] {
				b.WriteString(r)
				seen[r] = true
			}
		}
	}
	if l.Oracle != nil {
		fmt.Fprintf(&b, "\nSequences: %s, at %s.\n", l.Oracle.text(), l.Oracle.Commit)
	}
	if l.Old != nil {
		fmt.Fprintf(&b, "\nSequences in versions that it has dropped, beside Apache Kafka %s: %s, at %s.\n", l.Old.Peer, l.Old.text(), l.Old.Commit)
	}
	if l.Depth != nil {
		l.Depth.markdown(&b, l.name)
	}
	b.WriteString("\n### Clients and other projects' tests\n\n")
	b.WriteString("Tests run, passed, failed and skipped here, and the same on " + Peer + " in the same run (`make suites`). Waiting: not run, for want of what\n")
	b.WriteString("is not built yet.\n\n")
	b.WriteString("| suite | version | run | passed | failed | skipped | waiting | Kafka: run | passed | failed | skipped | commit |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range l.Suites {
		name := s.Name
		if s.Settings != "" {
			name += ", " + s.Settings
		}
		m, k := s.Millrace, s.Kafka
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %s |\n", name, s.Version, m.Run, m.Passed, m.Failed, m.Skipped, m.Waiting,
			k.Run, k.Passed, k.Failed, k.Skipped, s.Commit)
	}
	for _, part := range []struct {
		title string
		is    func(Test) bool
	}{
		{"Fails here and passes on Kafka", func(t Test) bool { return t.behind() }},
		{"Fails on both", func(t Test) bool { return t.Millrace == Failed && t.Kafka == Failed }},
		{"Passes here and fails on Kafka", func(t Test) bool { return t.Millrace == Passed && t.Kafka == Failed }},
		{"Waiting", func(t Test) bool { return t.Millrace == Waits }},
		{"Skipped", func(t Test) bool { return t.Millrace == Skipped && !t.behind() }},
	} {
		var lines []string
		for _, s := range l.Suites {
			byWhy := map[string][]string{}
			var whys []string
			for _, t := range s.Tests {
				if !part.is(t) {
					continue
				}
				if byWhy[t.Why] == nil {
					whys = append(whys, t.Why)
				}
				byWhy[t.Why] = append(byWhy[t.Why], t.Name)
			}
			for _, why := range whys {
				line := fmt.Sprintf("- %s: %s", s.Title(), strings.Join(byWhy[why], ", "))
				if why != "" {
					line += ": " + why
				}
				lines = append(lines, line+"\n")
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n\n%s", part.title, strings.Join(lines, ""))
		}
	}
	return b.Bytes()
}

// name is an API's name; its key where it is not served.
func (l *Ledger) name(key int16) string {
	for _, a := range l.APIs {
		if a.Key == key {
			return a.Name
		}
	}
	return fmt.Sprint(key)
}

func (c *Compared) add(one *Compared) {
	if one == nil {
		return
	}
	c.Compared += one.Compared
	c.Equal += one.Equal
	c.Explained += one.Explained
	c.Unexplained += one.Unexplained
	c.Why = append(c.Why, one.Why...)
}

func (c *Compared) cells() string {
	if c.Compared == 0 {
		return "| | | "
	}
	return fmt.Sprintf("%d | %d | %d | %d", c.Compared, c.Equal, c.Explained, c.Unexplained)
}

// text says how many sequences there were, and what became of them.
func (o *Oracle) text() string {
	s := fmt.Sprintf("%d, seeds %s; %d differ unexplained", o.Sequences, strings.Trim(fmt.Sprint(o.Seeds), "[]"), o.Again)
	if o.Once > 0 {
		s += fmt.Sprintf(", %d did while many were played at once, in ways that were not seen again when they were played alone (three times each)", o.Once)
	}
	return s
}
