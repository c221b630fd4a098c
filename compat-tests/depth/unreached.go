package depth

import (
	"fmt"
	"slices"
)

// out is a condition of a method that sequences on one node cannot meet: so many
// of its branches, and why.
type out struct {
	class, method string
	branches      int
	what          string // the condition
	why           string
}

// Unreached is what of a part under its floor was not reached.
type Unreached struct {
	Part, Method string
	Missed       int
	Explained    int
	Why          []string
}

// unreachedIn holds a part against the table: its methods with branches that
// were not reached, and what explains them.
func unreachedIn(p Part, table []out) []Unreached {
	var list []Unreached
	for _, m := range p.Methods {
		missed := m.All - m.Reached
		if missed == 0 {
			continue
		}
		u := Unreached{Part: p.Name, Method: m.Class + "." + m.Name, Missed: missed}
		for _, o := range table {
			if o.class == m.Class && o.method == m.Name {
				u.Explained += o.branches
				u.Why = append(u.Why, fmt.Sprintf("%s (%d): %s", o.what, o.branches, o.why))
			}
		}
		list = append(list, u)
	}
	return list
}

// Low are the parts that are under their floors.
func (r *Report) Low() []Part {
	return slices.DeleteFunc(slices.Clone(r.Parts), func(p Part) bool { return p.Percent() >= float64(p.Floor) })
}

// Unreached are the branches of the parts under their floors that were not
// reached, method by method.
func (r *Report) Unreached() []Unreached {
	var list []Unreached
	for _, p := range r.Low() {
		list = append(list, unreachedIn(p, unreached)...)
	}
	return list
}
