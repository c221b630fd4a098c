// Package faulttest runs random tests that have to fail because a fault is
// planted: a model is worth something only if it notices a broken machine. It
// is not a place for the faults, which each room has of its own.
package faulttest

import (
	"flag"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// Noticed runs a random test in at most so many worlds and says whether it
// failed. seed 0 takes another one each time. What fails is not made smaller, and
// leaves no files behind.
func Noticed(t *testing.T, worlds, seed string, test func(rapid.TB)) bool {
	t.Helper()
	for name, value := range map[string]string{"rapid.shrinktime": "1ms", "rapid.nofailfile": "true", "rapid.checks": worlds, "rapid.seed": seed} {
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		defer flag.Set(name, was)
	}
	q := &quiet{T: t}
	over := make(chan struct{})
	go func() {
		defer close(over)
		test(q)
	}()
	<-over
	return q.failed
}

// quiet is a test that notes its failure and tells nobody. What ends a test ends
// its goroutine.
type quiet struct {
	*testing.T
	failed bool
}

func (q *quiet) Log(...any)            {}
func (q *quiet) Logf(string, ...any)   {}
func (q *quiet) Error(...any)          { q.failed = true }
func (q *quiet) Errorf(string, ...any) { q.failed = true }
func (q *quiet) Fail()                 { q.failed = true }
func (q *quiet) Failed() bool          { return q.failed }

func (q *quiet) FailNow() {
	q.failed = true
	runtime.Goexit()
}
func (q *quiet) Fatal(...any)          { q.FailNow() }
func (q *quiet) Fatalf(string, ...any) { q.FailNow() }
func (q *quiet) Skip(...any)           { runtime.Goexit() }
func (q *quiet) Skipf(string, ...any)  { runtime.Goexit() }
func (q *quiet) SkipNow()              { runtime.Goexit() }
