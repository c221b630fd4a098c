package oracle

import (
	"encoding/json"
	"maps"
	"millrace/compat-tests/normal"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
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
}

func newTally() *Tally { return &Tally{apis: map[[2]int16]*Count{}, codes: map[int16]map[int16]bool{}} }

func (t *Tally) count(key, version int16, differences, explained int, resp kmsg.Response) {
	c := t.apis[[2]int16{key, version}]
	if c == nil {
		c = &Count{}
		t.apis[[2]int16{key, version}] = c
	}
	c.Compared++
	switch {
	case differences == 0:
		c.Equal++
	case explained == differences:
		c.Explained++
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

func (t *Tally) add(o *Tally) {
	for k, c := range o.apis {
		if t.apis[k] == nil {
			t.apis[k] = &Count{}
		}
		t.apis[k].Compared += c.Compared
		t.apis[k].Equal += c.Equal
		t.apis[k].Explained += c.Explained
		t.apis[k].Unexplained += c.Unexplained
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
	Peer      string                     `json:"peer,omitempty"`
	Commit    string                     `json:"commit"`
	Seeds     [2]uint64                  `json:"seeds"`
	Sequences int                        `json:"sequences"`
	APIs      map[int16]map[int16]*Count `json:"apis"`
	Codes     map[int16][]int16          `json:"codes"`
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
