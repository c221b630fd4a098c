package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/normal"
)

// Tally counts what was compared.
type Tally struct {
	apis  map[[2]int16]*Count
	codes map[int16]map[int16]bool
}

// Count is of one API in one version: answers compared, equal ones, ones that
// differ as explained, and others.
type Count struct {
	Compared    int `json:"compared"`
	Equal       int `json:"equal"`
	Explained   int `json:"explained"`
	Unexplained int `json:"unexplained"`
	// Why are the explanations of those explained, sorted.
	Why []string `json:"why,omitempty"`
}

func newTally() *Tally { return &Tally{apis: map[[2]int16]*Count{}, codes: map[int16]map[int16]bool{}} }

// count takes note of an answer, of what differed in it, and of an answer of Kafka's.
func (t *Tally) count(key, version int16, differences []Difference, resp kmsg.Response) {
	c := t.apis[[2]int16{key, version}]
	if c == nil {
		c = &Count{}
		t.apis[[2]int16{key, version}] = c
	}
	explained := 0
	for _, d := range differences {
		if d.Why != "" {
			explained++
			c.because(d.Why)
		}
	}
	c.Compared++
	switch explained {
	case len(differences):
		if explained == 0 {
			c.Equal++
		} else {
			c.Explained++
		}
	default:
		c.Unexplained++
	}
	if resp != nil {
		if t.codes[key] == nil {
			t.codes[key] = map[int16]bool{}
		}
		normal.Codes(reflect.ValueOf(resp), func(code int16) { t.codes[key][code] = true })
	}
}

func (c *Count) because(whys ...string) {
	c.Why = append(c.Why, whys...)
	slices.Sort(c.Why)
	c.Why = slices.Compact(c.Why)
}

func (t *Tally) add(o *Tally) {
	for k, c := range o.apis {
		if t.apis[k] == nil {
			t.apis[k] = &Count{}
		}
		t.apis[k].Compared += c.Compared
		t.apis[k].Equal += c.Equal
		t.apis[k].Explained += c.Explained
		t.apis[k].Unexplained += c.Unexplained
		t.apis[k].because(c.Why...)
	}
	for k, m := range o.codes {
		if t.codes[k] == nil {
			t.codes[k] = map[int16]bool{}
		}
		maps.Copy(t.codes[k], m)
	}
}

// Summary is what a run has compared, for other programs: see the package's
// opening for its shape.
type Summary struct {
	// Peer is the older Kafka that dropped versions were compared with; "": the newest.
	Peer      string    `json:"peer,omitempty"`
	Commit    string    `json:"commit"`
	Seeds     [2]uint64 `json:"seeds"`
	Sequences int       `json:"sequences"`
	// Again is how many sequences differ in a way that was seen again when one was played alone, Once how many in a way that
	// was not.
	Again int                        `json:"again"`
	Once  int                        `json:"once"`
	APIs  map[int16]map[int16]*Count `json:"apis"`
	Codes map[int16][]int16          `json:"codes"`
}

// Summary is the tally as others read it.
func (t *Tally) Summary() Summary {
	s := Summary{APIs: map[int16]map[int16]*Count{}, Codes: map[int16][]int16{}}
	for k, c := range t.apis {
		if s.APIs[k[0]] == nil {
			s.APIs[k[0]] = map[int16]*Count{}
		}
		s.APIs[k[0]][k[1]] = c
	}
	for k, m := range t.codes {
		s.Codes[k] = slices.Sorted(maps.Keys(m))
	}
	return s
}

// JSON is the summary as a file holds it.
func (s Summary) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", " ")
	return append(b, '\n'), err
}

// table lists what was compared, for a person.
func (t *Tally) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "API\tversion\tcompared\tequal\texplained\tunexplained")
	for _, k := range slices.SortedFunc(maps.Keys(t.apis), func(a, b [2]int16) int { return slices.Compare(a[:], b[:]) }) {
		c := t.apis[k]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", kmsg.NameForKey(k[0]), k[1], c.Compared, c.Equal, c.Explained, c.Unexplained)
	}
	w.Flush()
	return b.String()
}
