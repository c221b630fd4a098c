// Package millrace_test holds the floor plan: which room may import which, and
// what a pure room may not contain. ARCHITECTURE.md says the same in words;
// this file fails when the code stops agreeing with it.
package millrace_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// room is one folder of the house.
type room struct {
	// may lists the rooms it may import; a name covers the rooms below it when
	// it ends in "/...".
	may []string
	// libs lists the modules and packages outside the standard library it may
	// import, by prefix.
	libs []string
	// pure rooms decide and never do: no clock, no goroutine, no channel, no
	// file, no socket, no logger, no chance.
	pure bool
	// why says in a line what the rule protects.
	why string
}

const (
	kmsgLib = "github.com/twmb/franz-go/pkg/kmsg"
	kerrLib = "github.com/twmb/franz-go/pkg/kerr"
	zapLib  = "go.uber.org/zap"
	unixLib = "golang.org/x/sys/unix"
)

// rooms is the plan. A folder with Go code that is not in it fails the test.
var rooms = map[string]room{
	"cmd/millrace": {may: []string{"adopt", "broker", "shell", "controller/config", "storage/check", "storage/disk"}, libs: []string{"github.com/spf13/cobra", zapLib, kmsgLib, kerrLib, "golang.org/x/term"},
		why: "flags, files and environment become a configuration; nothing else happens here"},

	"adopt": {may: []string{"controller", "controller/...", "storage", "storage/...", "wire/records"}, libs: []string{zapLib, kmsgLib}, why: "directories of Apache Kafka become a broker's; no broker runs"},
	"shell": {may: []string{"controller/config", "storage"}, libs: []string{"github.com/twmb/franz-go"},
		why: "Kafka's shell tools: clients of any broker; kafka-storage alone works on directories"},

	"wire":          {libs: []string{kmsgLib, zapLib, unixLib}, why: "the protocol over a byte stream; knows no topic and no disk"},
	"wire/records":  {libs: []string{kmsgLib}, pure: true, why: "codecs of Kafka's internal records"},
	"wire/wiretest": {why: "an in-memory network"},

	"storage":          {may: []string{"storage/..."}, libs: []string{zapLib}, why: "all logs of one broker; knows no network and no cluster"},
	"storage/log":      {may: []string{"storage/batch", "storage/codec", "storage/compact", "storage/producer", "storage/epoch", "storage/disk"}, libs: []string{zapLib}, why: "one partition on disk"},
	"storage/batch":    {may: []string{"storage/codec"}, pure: true, why: "record batches"},
	"storage/codec":    {libs: []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}, pure: true, why: "compression, streamed and limited"},
	"storage/producer": {may: []string{"storage/batch"}, pure: true, why: "producer state of one partition"},
	"storage/compact":  {may: []string{"storage/batch"}, pure: true, why: "what cleaning a compacted log removes"},
	"storage/epoch":    {may: []string{"storage/batch"}, pure: true, why: "leader epochs of one partition"},
	"storage/check":    {may: []string{"storage/batch", "storage/producer", "storage/epoch", "storage/disk"}, why: "whether a data directory is sound; shares no code with what wrote it but the formats"},
	"storage/disk":     {libs: []string{unixLib}, why: "the small file-system interface, and the real one"},
	"storage/disktest": {may: []string{"storage/disk"}, why: "a disk that can crash"},

	"controller":         {may: []string{"controller/...", "wire", "wire/records"}, libs: []string{kmsgLib, kerrLib, zapLib, "go.etcd.io/raft/v3", "google.golang.org/protobuf/proto"}, why: "cluster metadata agreed through raft"},
	"controller/config":  {libs: []string{"github.com/magiconair/properties"}, pure: true, why: "the catalogue of configs"},
	"controller/image":   {may: []string{"wire/records"}, libs: []string{"github.com/tidwall/btree"}, pure: true, why: "immutable view of the cluster"},
	"controller/place":   {pure: true, why: "which brokers get which replicas"},
	"controller/state":   {may: []string{"controller/config", "controller/image", "controller/place", "wire/records"}, libs: []string{kmsgLib, kerrLib}, pure: true, why: "decides a request into records"},
	"controller/raftlog": {libs: []string{"go.etcd.io/raft/v3", "go.etcd.io/bbolt", "google.golang.org/protobuf/proto"}, why: "entries, hard state and snapshots"},

	"broker":             {may: []string{"broker/...", "controller/...", "controller", "storage/...", "storage", "wire", "wire/records"}, libs: []string{kmsgLib, kerrLib, zapLib}, why: "one broker: composition and one file per API"},
	"broker/machine":     {may: []string{"controller/image"}, libs: []string{kmsgLib}, pure: true, why: "the words that drivers and machines share"},
	"broker/coordinator": {may: []string{"broker/machine", "controller/image", "storage/batch", "storage/codec", "wire/records"}, libs: []string{kmsgLib, kerrLib, zapLib}, why: "runs a machine on top of a partition"},
	"broker/group":       {may: []string{"broker/machine", "controller/image", "wire/records"}, libs: []string{kmsgLib, kerrLib}, pure: true, why: "classic consumer groups and offsets"},
	"broker/partition":   {may: []string{"broker/replica", "controller/config", "storage/log", "storage/batch", "storage/producer"}, why: "one local replica"},
	"broker/move":        {libs: []string{kerrLib}, pure: true, why: "who moves to another data directory, and how fast"},
	"broker/replica":     {may: []string{"storage/batch"}, pure: true, why: "the leader's view of its followers"},
	"broker/session":     {may: []string{"storage/batch"}, pure: true, why: "fetch sessions"},
	"broker/metrics":     {pure: true, why: "what a broker counts, and under which names it is shown"},
	"broker/telemetry":   {may: []string{"storage/codec"}, libs: []string{kerrLib, "google.golang.org/protobuf/encoding/protowire"}, pure: true, why: "clients that push their own metrics (KIP-714)"},
	"broker/monitor":     {may: []string{"broker/metrics"}, libs: []string{"github.com/prometheus/client_golang"}, why: "the HTTP side"},
	"broker/auth":        {why: "who may do what"},
	"broker/faulttest":   {libs: []string{"pgregory.net/rapid"}, why: "random tests that have to fail"},
	"broker/brokertest":  {may: []string{"broker", "broker/auth", "controller/config", "controller/raftlog", "storage/disktest", "wire/wiretest"}, libs: []string{"github.com/twmb/franz-go", zapLib}, why: "whole brokers in virtual time"},
}

// outside lists the folders that stand apart: they import nothing of ours.
var outside = []string{"compat-tests", "bench"}

// impure are the packages that a pure room may not import.
var impure = []string{"os", "net", "sync", "context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "io/fs", "syscall", "unsafe", "os/exec", "os/signal", "time/tzdata"}

func roomOf(dir string) (string, room, bool) {
	dir = filepath.ToSlash(dir)
	r, ok := rooms[dir]
	return dir, r, ok
}

func under(dir string, tops []string) bool {
	for _, t := range tops {
		if dir == t || strings.HasPrefix(dir, t+"/") {
			return true
		}
	}
	return false
}

type source struct {
	path string
	file *ast.File
	fset *token.FileSet
	test bool
}

func sources(t *testing.T, root string) map[string][]source {
	t.Helper()
	out := map[string][]source{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin" || name == "millrace-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		out[dir] = append(out[dir], source{path: rel, file: f, fset: fset, test: strings.HasSuffix(path, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// check returns every breach of the plan in the tree at root, sorted.
func check(t *testing.T, root string) []string {
	t.Helper()
	var breaches []string
	add := func(format string, args ...any) { breaches = append(breaches, fmt.Sprintf(format, args...)) }
	for dir, files := range sources(t, root) {
		if dir == "." {
			continue
		}
		apart := under(dir, outside)
		name, r, ok := roomOf(dir)
		if !ok && !apart {
			add("%s: no such room on the plan", dir)
			continue
		}
		for _, s := range files {
			for _, imp := range s.file.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				at := s.fset.Position(imp.Pos())
				own, isOwn := strings.CutPrefix(path, "millrace/")
				switch {
				case apart && isOwn && !under(own, outside):
					add("%s:%d: %s stands apart and may not import %s", s.path, at.Line, dir, path)
				case apart || s.test:
					// Tests may import whatever shows the room to work.
				case isOwn:
					if own != name && !allowed(own, r.may) {
						add("%s:%d: %s may not import %s (%s)", s.path, at.Line, name, path, r.why)
					}
				case strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
					if !prefixed(path, r.libs) {
						add("%s:%d: %s may not import %s (%s)", s.path, at.Line, name, path, r.why)
					}
				case r.pure && contains(impure, path):
					add("%s:%d: %s is pure and may not import %s", s.path, at.Line, name, path)
				}
			}
			if !s.test {
				for _, b := range blanks(s) {
					add("%s", b)
				}
			}
			if r.pure && !s.test && !apart {
				for _, b := range impurities(s) {
					add("%s", b)
				}
			}
		}
		if r.pure && !apart {
			for _, b := range mapOrder(files) {
				add("%s", b)
			}
		}
	}
	sort.Strings(breaches)
	return breaches
}

// impurities finds what a pure room may not contain: goroutines, channels and
// the clock.
func impurities(s source) []string {
	var out []string
	at := func(n ast.Node, what string) {
		out = append(out, fmt.Sprintf("%s:%d: a pure room contains %s", s.path, s.fset.Position(n.Pos()).Line, what))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at(n, "a go statement")
		case *ast.ChanType:
			at(n, "a channel")
		case *ast.SendStmt:
			at(n, "a channel send")
		case *ast.SelectStmt:
			at(n, "a select")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				at(n, "a channel receive")
			}
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" {
				switch n.Sel.Name {
				case "Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker":
					at(n, "time."+n.Sel.Name)
				}
			}
		}
		return true
	})
	return out
}

// blanks finds names of log fields that have a blank in them: who reads the lines
// with a program has to quote those.
func blanks(s source) []string {
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name, ok := call.Args[0].(*ast.BasicLit)
		if of, is := f.X.(*ast.Ident); ok && is && of.Name == "zap" && strings.Contains(name.Value, " ") {
			out = append(out, fmt.Sprintf("%s:%d: a log field's name has a blank in it: %s", s.path, s.fset.Position(n.Pos()).Line, name.Value))
		}
		return true
	})
	return out
}

// anyOrder is the comment that a loop over a map in a pure room bears: it says
// why the order does not show.
const anyOrder = "any order:"

// mapOrder finds loops over maps that do not say why their order does not show.
// It goes by names: what the room declares as a map, under whatever receiver,
// is taken for one.
func mapOrder(files []source) []string {
	maps := map[string]bool{}
	isMap := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.MapType:
			return true
		case *ast.CompositeLit:
			_, ok := e.Type.(*ast.MapType)
			return ok
		case *ast.CallExpr:
			if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "make" && len(e.Args) > 0 {
				_, ok := e.Args[0].(*ast.MapType)
				return ok
			}
		}
		return false
	}
	for _, s := range files {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if isMap(n.Type) {
					for _, id := range n.Names {
						maps[id.Name] = true
					}
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if isMap(n.Type) || i < len(n.Values) && isMap(n.Values[i]) {
						maps[id.Name] = true
					}
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if id, ok := l.(*ast.Ident); ok && i < len(n.Rhs) && isMap(n.Rhs[i]) {
						maps[id.Name] = true
					}
				}
			}
			return true
		})
	}
	var out []string
	for _, s := range files {
		if s.test {
			continue
		}
		said := map[int]bool{}
		for _, g := range s.file.Comments {
			if strings.Contains(g.Text(), anyOrder) {
				said[s.fset.Position(g.End()).Line] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			r, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			name := ""
			switch x := r.X.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			line := s.fset.Position(r.Pos()).Line
			if (maps[name] || isMap(r.X)) && !said[line] && !said[line-1] {
				out = append(out, fmt.Sprintf("%s:%d: a pure room walks the map %s without saying why its order does not show (// %s ...)", s.path, line, name, anyOrder))
			}
			return true
		})
	}
	return out
}

func allowed(own string, may []string) bool {
	for _, m := range may {
		if base, ok := strings.CutSuffix(m, "/..."); ok {
			if strings.HasPrefix(own, base+"/") {
				return true
			}
		} else if own == m {
			return true
		}
	}
	return false
}

func prefixed(path string, libs []string) bool {
	for _, l := range libs {
		if path == l || strings.HasPrefix(path, l+"/") {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func TestFloorPlan(t *testing.T) {
	for _, b := range check(t, ".") {
		t.Error(b)
	}
}

// TestEveryRoomStands fails when the plan names a room that is not built, or a
// room that does not say what it is.
func TestEveryRoomStands(t *testing.T) {
	srcs := sources(t, ".")
	for name := range rooms {
		files, ok := srcs[name]
		if !ok {
			t.Errorf("%s: on the plan, but there is no such folder", name)
			continue
		}
		said := false
		for _, s := range files {
			if !s.test && s.file.Doc != nil && len(s.file.Doc.Text()) > 80 {
				said = true
			}
		}
		if !said {
			t.Errorf("%s: no package comment says what the room is", name)
		}
	}
}

// TestTestRoomsStayInTests keeps disktest, wiretest, faulttest and brokertest out of the
// binary.
func TestTestRoomsStayInTests(t *testing.T) {
	for dir, files := range sources(t, ".") {
		if strings.HasSuffix(dir, "test") || under(dir, outside) {
			continue
		}
		for _, s := range files {
			if s.test {
				continue
			}
			for _, imp := range s.file.Imports {
				path, _ := strconv.Unquote(imp.Path.Value)
				if strings.HasPrefix(path, "millrace/") && strings.HasSuffix(path, "test") {
					t.Errorf("%s imports %s", s.path, path)
				}
			}
		}
	}
}

// TestPlanCatchesFaults shows the instrument to work: each planted breach is
// found, and nothing else is.
func TestPlanCatchesFaults(t *testing.T) {
	faults := map[string]struct{ path, src, want string }{
		"wrong import":     {"storage/log/x.go", "package log\nimport _ \"millrace/wire\"\n", "may not import millrace/wire"},
		"library":          {"storage/batch/x.go", "package batch\nimport _ \"go.uber.org/zap\"\n", "may not import go.uber.org/zap"},
		"clock":            {"broker/group/x.go", "package group\nimport \"time\"\nvar T = time.Now()\n", "time.Now"},
		"goroutine":        {"broker/session/x.go", "package session\nfunc f() { go f() }\n", "a go statement"},
		"channel":          {"broker/replica/x.go", "package replica\nvar c chan int\n", "a channel"},
		"chance":           {"controller/place/x.go", "package place\nimport _ \"math/rand/v2\"\n", "may not import math/rand/v2"},
		"map order":        {"broker/group/x.go", "package group\nfunc f(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}\n", "walks the map m"},
		"field's name":     {"wire/x.go", "package wire\nimport \"go.uber.org/zap\"\nvar f = zap.Int(\"bytes read\", 1)\n", "a log field's name"},
		"unknown room":     {"util/x.go", "package util\n", "no such room"},
		"apart but inside": {"compat-tests/x.go", "package x\nimport _ \"millrace/broker\"\n", "stands apart"},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			full := filepath.Join(root, filepath.FromSlash(f.path))
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(f.src), 0o644); err != nil {
				t.Fatal(err)
			}
			got := check(t, root)
			if len(got) != 1 || !strings.Contains(got[0], f.want) {
				t.Fatalf("breaches %q, want one that says %q", got, f.want)
			}
		})
	}
}
