package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/normal"
)

// Difference is an answer of Millrace's that is not Kafka's.
type Difference struct {
	Step    int
	Text    string // API vN: what.path: ours against theirs
	Kind    string // the same without what the sequence is about
	Why     string // from the table of what is explained; "" if it is not
	Request string
	Answers [2]string
}

func how(o *frame.Outcome) string {
	switch {
	case o.Closed:
		return "closed"
	case o.Silent:
		return "no answer"
	case o.Bad != "":
		return "undecodable: " + o.Bad
	}
	return "answered"
}

// pace says whether an answer came at once or after waiting, for a request that
// lets the server wait.
func (x *exchange) pace(i int) string {
	if x.wait < 200*time.Millisecond || x.out[i].Response == nil {
		return ""
	}
	if x.out[i].Took >= x.wait-20*time.Millisecond {
		return "after waiting"
	}
	return "at once"
}

// compare compares the answers of an exchange, and each side learns from its
// own.
func (p *Play) compare(x *exchange) {
	key, version := x.req[0].Key(), x.req[0].GetVersion()
	head := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), version)
	var differences []Difference
	note := func(path, a, b string) {
		differences = append(differences, Difference{Text: fmt.Sprintf("%s: %s%s: %s against %s", head, x.what, path, a, b),
			Kind: fmt.Sprintf("%s%s: %s against %s", kmsg.NameForKey(key), withoutIndices(path), shorten(a), shorten(b))})
	}
	a, b := how(x.out[0]), how(x.out[1])
	switch {
	case a != b:
		note("", a, b)
		p.over = true
	case x.out[0].Response != nil:
		if a, b := x.pace(0), x.pace(1); a != b && !p.keepsPace(x) {
			note(" came", a, b)
		}
		if normal.Alike(p.Sides[0].versed, p.Sides[1].versed, x.out[0].Response, x.out[1].Response) {
			break
		}
		for _, d := range normal.Compare(p.Sides[0].versed, p.Sides[1].versed, x.out[0].Response, x.out[1].Response) {
			path, values, _ := strings.Cut(d, ": ")
			a, b, _ := strings.Cut(values, " against ")
			note(path, a, b)
		}
	}
	for i, s := range p.Sides {
		if r := x.out[i].Response; r != nil {
			s.learn(x.client, x.req[i], r)
		} else {
			s.hangUp(x.client)
		}
	}
	if p.old && !dropped(x.req[0]) {
		p.over = p.over || len(differences) > 0 && !readsOnly(key)
		return
	}
	explained := 0
	for i := range differences {
		d := &differences[i]
		d.Request = normal.Text(x.req[0])
		for j := range x.out {
			d.Answers[j] = x.out[j].String()
			if r := x.out[j].Response; r != nil {
				d.Answers[j] = normal.Text(r)
			}
		}
		if d.Why = p.explain(d.Text); d.Why != "" {
			explained++
		}
		p.differ(*d)
	}
	// What 3.9 answers otherwise, as a partition that is committed twice, it may keep otherwise.
	p.over = p.over || p.old && explained > 0 && !readsOnly(key)
	p.tally.count(key, version, differences, x.out[1].Response)
}

func (p *Play) differ(d Difference) {
	d.Step = p.step
	p.found = append(p.found, d)
	p.over = p.over || d.Why == ""
}

func withoutIndices(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
		case r == ']':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func shorten(s string) string {
	if len(s) > 60 {
		return s[:60]
	}
	return s
}
