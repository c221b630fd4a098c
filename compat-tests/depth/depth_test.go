package depth

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/compat-tests/ledger"
)

// report is JaCoCo's of two classes: a method with a lambda and a local method,
// one that is overloaded, one in a class nested in the other.
const report = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?><!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd"><report name="x"><package name="a">
<class name="a/One" sourcefilename="One.scala">
<method name="$anonfun$handle$1" desc="()V" line="12"><counter type="BRANCH" missed="1" covered="3"/></method>
<method name="reply$1" desc="()V" line="14"><counter type="INSTRUCTION" missed="9" covered="9"/><counter type="BRANCH" missed="2" covered="0"/></method>
<method name="handle" desc="()V" line="10"><counter type="INSTRUCTION" missed="9" covered="9"/><counter type="BRANCH" missed="1" covered="1"/></method>
<method name="other" desc="()V" line="20"><counter type="BRANCH" missed="0" covered="2"/></method>
<method name="other" desc="(I)V" line="30"><counter type="BRANCH" missed="0" covered="4"/></method>
<counter type="BRANCH" missed="4" covered="10"/></class>
<class name="a/One$Nested" sourcefilename="One.scala"><method name="get" desc="()V" line="40"><counter type="BRANCH" missed="2" covered="2"/></method></class>
<class name="a/OneElse" sourcefilename="OneElse.scala"><method name="get" desc="()V" line="4"><counter type="BRANCH" missed="50" covered="50"/></method></class>
</package></report>`

func TestParse(t *testing.T) {
	r, err := parse(strings.NewReader(report), []part{
		{name: "all", classes: []string{"a/One"}, floor: 70},
		{name: "a handler", classes: []string{"a/One"}, methods: []string{"handle"}, floor: 70},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Parts), "[{all {12 18} 70 [{One handle 10 {4 8}} {One other 20 {6 6}} {One get 40 {2 4}}]} {a handler {4 8} 70 [{One handle 10 {4 8}}]}]"; got != want {
		t.Errorf("read\n%s, want\n%s", got, want)
	}
	for name, bad := range map[string]part{
		"a class that is gone":  {name: "x", classes: []string{"a/Two"}},
		"a method that is gone": {name: "x", classes: []string{"a/One"}, methods: []string{"handle", "gone"}},
	} {
		if _, err := parse(strings.NewReader(report), []part{bad}); err == nil {
			t.Errorf("%s is passed over", name)
		}
	}
	if _, err := parse(strings.NewReader(report[:300]), nil); err == nil {
		t.Error("half a report is read")
	}
}

// TestUnreached holds parts under their floor against tables that explain all,
// too little, and nothing.
func TestUnreached(t *testing.T) {
	p := Part{Name: "p", Floor: 70, Figures: Figures{10, 20}, Methods: []Method{{"C", "whole", 1, Figures{6, 6}}, {"C", "half", 5, Figures{4, 14}}}}
	for _, c := range []struct {
		table []out
		left  int
	}{
		{nil, 10},
		{[]out{{"C", "half", 4, "x", "y"}, {"C", "half", 5, "z", "y"}, {"D", "half", 9, "z", "y"}}, 1},
		{[]out{{"C", "half", 4, "x", "y"}, {"C", "half", 6, "z", "y"}}, 0},
	} {
		list := unreachedIn(p, c.table)
		if len(list) != 1 || list[0].Missed-list[0].Explained != c.left {
			t.Errorf("with %v: %+v, want %d left", c.table, list, c.left)
		}
	}
	r := Report{Parts: []Part{p, {Name: "q", Floor: 50, Figures: Figures{10, 20}}, {Name: "any", Figures: Figures{0, 20}}}}
	if low := r.Low(); len(low) != 1 || low[0].Name != "p" {
		t.Errorf("under their floors: %v", low)
	}
}

func TestReasonsAreOfMethodsThatAreCounted(t *testing.T) {
	for _, o := range unreached {
		if !slices.ContainsFunc(parts, func(p part) bool {
			return slices.ContainsFunc(p.classes, func(c string) bool { return strings.HasSuffix(c, "/"+o.class) })
		}) {
			t.Errorf("%s.%s is in no part", o.class, o.method)
		}
		if o.branches <= 0 || o.what == "" || o.why == "" {
			t.Errorf("%s.%s explains nothing: %+v", o.class, o.method, o)
		}
	}
}

// TestTablesHaveWhatIsServed holds the tables against the ledger's list of what
// is served.
func TestTablesHaveWhatIsServed(t *testing.T) {
	root, err := ledger.Root()
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Load(filepath.Join(root, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	served := map[int16]bool{}
	for _, a := range l.APIs {
		served[a.Key] = true
		if _, ok := handlers[a.Key]; !ok {
			t.Errorf("nobody says who handles %s", a.Name)
		}
		if _, ok := named[a.Key]; !ok {
			t.Errorf("nobody says with which error codes %s answers", a.Name)
		}
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(handlers)), slices.Collect(maps.Keys(named))) {
		if !served[key] {
			t.Errorf("API %d is not served", key)
		}
	}
}

func TestUnseenCodes(t *testing.T) {
	seen := map[int16][]int16{}
	for key, codes := range named {
		for code, why := range codes {
			if why == "" {
				seen[key] = append(seen[key], code)
			}
		}
	}
	left := func() (list []Unseen) {
		for _, u := range UnseenCodes(seen) {
			if u.Why == "" {
				list = append(list, u)
			}
		}
		return list
	}
	if list := left(); len(list) != 0 {
		t.Errorf("everything was seen, but %v", list)
	}
	seen[8] = slices.DeleteFunc(seen[8], func(c int16) bool { return c == 12 })
	if list := left(); len(list) != 1 || list[0] != (Unseen{8, 12, ""}) {
		t.Errorf("12 of OffsetCommit was not seen, and this is found: %v", list)
	}
}
