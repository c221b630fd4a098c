package faulttest

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNoticed(t *testing.T) {
	runs := 0
	for n, want := range map[int]bool{60: true, 1000: false} {
		if got := Noticed(t, "50", "3", func(tb rapid.TB) {
			rapid.Check(tb, func(t *rapid.T) {
				runs++
				if rapid.IntRange(0, 100).Draw(t, "n") >= n {
					t.Fatal("too much")
				}
			})
		}); got != want {
			t.Errorf("a fault from %d on is noticed: %v", n, got)
		}
	}
	if runs < 51 {
		t.Errorf("it ran %d times", runs)
	}
}
