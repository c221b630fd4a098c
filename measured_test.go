package millrace_test

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A test that measures less, or nothing, with the race detector is run without it,
// too, by the target that runs all others with it.
func TestMeasurementsAreMade(t *testing.T) {
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^MEASURED\s*:=\s*(\S+)$`).FindStringSubmatch(string(b))
	_, unit, _ := strings.Cut(string(b), "\nunit:")
	unit, _, _ = strings.Cut(unit, "\n.PHONY")
	line := regexp.MustCompile(`(?m)^\t\$\(SEEDED\) \$\(GO\) test -run '\$\(MEASURED\)' (.*)$`).FindStringSubmatch(unit)
	if named == nil || line == nil {
		t.Fatal("the target unit runs no tests without the race detector")
	}
	rooms := map[string]bool{}
	for room := range strings.FieldsSeq(line[1]) {
		rooms[strings.TrimPrefix(room, "./")] = true
	}
	unused := map[string]bool{}
	for name := range strings.SplitSeq(named[1], "|") {
		unused[name] = true
	}
	found := 0
	for room, names := range measuring(t) {
		for _, name := range names {
			run := false
			for part := range strings.SplitSeq(named[1], "|") {
				if strings.Contains(name, part) {
					delete(unused, part)
					run = true
				}
			}
			if !run || !rooms[room] {
				t.Errorf("%s: %s is not run without the race detector", room, name)
			}
			found++
		}
	}
	if found < 5 || len(unused) > 0 {
		t.Errorf("%d such tests are found, and none that is called %v", found, unused)
	}
}

// measuring finds the tests that ask whether the race detector is at work, by room: they name a constant of a file that is
// built with it.
func measuring(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for room, files := range sources(t, ".") {
		asked := map[string]bool{}
		for _, s := range files {
			if !s.test || !builtWithRace(s.file) {
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						asked[name.Name] = true
					}
				}
				return true
			})
		}
		for _, s := range files {
			if !s.test {
				continue
			}
			for _, decl := range s.file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
					continue
				}
				asks := false
				ast.Inspect(f, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && asked[id.Name] {
						asks = true
					}
					return !asks
				})
				if asks {
					out[room] = append(out[room], f.Name.Name)
				}
			}
		}
	}
	return out
}

func builtWithRace(f *ast.File) bool {
	for _, c := range f.Comments {
		for _, line := range c.List {
			if line.Text == "//go:build race" {
				return true
			}
		}
	}
	return false
}
