// Package depth says how deep the sequences of the differential test go: which
// branches of Apache Kafka they reach, as JaCoCo's agent counts them, and which
// error codes each API has answered them with.
//
// What is looked at stands in three tables: the parts of Kafka whose branches
// are counted (parts), with the share that has to be reached; what of a part
// below its share is out of reach, and why (unreached); and the error codes by
// which Kafka's behaviour is known (named), each seen or explained.
//
// It runs JaCoCo beside a Kafka that others start and play on (Agent), reads
// JaCoCo's report, and judges. It sends no request itself, and knows neither
// sequences nor ledger.
package depth

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Figures count branches.
type Figures struct{ Reached, All int }

// Percent is the share that was reached.
func (f Figures) Percent() float64 {
	if f.All == 0 {
		return 100
	}
	return 100 * float64(f.Reached) / float64(f.All)
}

func (f *Figures) add(o Figures) {
	f.Reached += o.Reached
	f.All += o.All
}

// Method is a method that somebody wrote: what the compiler made of it (lambdas,
// local methods) is counted with it.
type Method struct {
	Class string // without its package, or what it is nested in
	Name  string
	Line  int
	Figures
}

// Part is a row of figures: a class or some, or the handlers of an API.
type Part struct {
	Name string
	Figures
	// Floor is how many of a hundred branches have to be reached, those that are
	// explained aside; 0: any.
	Floor   int
	Methods []Method // by class and line
}

// Report are the figures of a run.
type Report struct{ Parts []Part }

// class is a class file's figures in JaCoCo's report.
type class struct {
	Name    string `xml:"name,attr"`
	Methods []struct {
		Name     string `xml:"name,attr"`
		Line     int    `xml:"line,attr"`
		Counters []struct {
			Type    string `xml:"type,attr"`
			Missed  int    `xml:"missed,attr"`
			Covered int    `xml:"covered,attr"`
		} `xml:"counter"`
	} `xml:"method"`
}

// Parse reads JaCoCo's report as XML.
func Parse(r io.Reader) (*Report, error) { return parse(r, parts) }

func parse(r io.Reader, parts []part) (*Report, error) {
	byBase := map[string][]Method{}
	dec := xml.NewDecoder(r)
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read JaCoCo's report: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "class" {
			continue
		}
		var c class
		if err := dec.DecodeElement(&c, &start); err != nil {
			return nil, fmt.Errorf("read JaCoCo's report: %w", err)
		}
		base, _, _ := strings.Cut(c.Name, "$")
		short := base[strings.LastIndexByte(base, '/')+1:]
		for _, m := range c.Methods {
			one := Method{Class: short, Name: m.Name, Line: m.Line}
			for _, n := range m.Counters {
				if n.Type == "BRANCH" {
					one.Figures = Figures{n.Covered, n.Covered + n.Missed}
				}
			}
			byBase[base] = append(byBase[base], one)
		}
	}
	out := new(Report)
	for _, p := range parts {
		row := Part{Name: p.name, Floor: p.floor}
		for _, base := range p.classes {
			methods := byBase[base]
			if methods == nil {
				return nil, fmt.Errorf("JaCoCo's report has no class %s", base)
			}
			for _, m := range gather(methods) {
				if p.methods == nil || slices.Contains(p.methods, m.Name) {
					row.Methods = append(row.Methods, m)
					row.add(m.Figures)
				}
			}
		}
		for _, name := range p.methods {
			if !slices.ContainsFunc(row.Methods, func(m Method) bool { return m.Name == name }) {
				return nil, fmt.Errorf("JaCoCo's report has no method %s of %s", name, p.classes[0])
			}
		}
		if row.All == 0 {
			continue // a handler that only hands on
		}
		out.Parts = append(out.Parts, row)
	}
	return out, nil
}

// gather counts what the compiler has made of a method with it: a lambda bears
// its method's name or a local method's, a local method its own, so their lines
// tell; but a method begins at its first statement, and local methods may stand
// before that (opening).
func gather(methods []Method) []Method {
	methods = slices.Clone(methods)
	for i, m := range methods {
		if of, ok := opening[m.Class+"."+m.Name]; ok {
			methods[i].Name = of
		}
	}
	made := func(m Method) bool { return strings.Contains(m.Name, "$") }
	slices.SortStableFunc(methods, func(a, b Method) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(b2i(made(a)), b2i(made(b))))
	})
	var out []Method
	for _, m := range methods {
		switch n := len(out); {
		case made(m) && n > 0:
			out[n-1].add(m.Figures)
		case n > 0 && out[n-1].Name == m.Name:
			out[n-1].add(m.Figures) // overloaded
		default:
			out = append(out, m)
		}
	}
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Total is the sum over some parts; each branch stands in one part only.
func (r *Report) Total() Figures {
	var sum Figures
	for _, p := range r.Parts {
		sum.add(p.Figures)
	}
	return sum
}
