package storage

import (
	"errors"
	"strings"
	"testing"
)

// TestAStopThatFailsSaysWhyOnce: once the directory is given up, everything else fails for that too.
func TestAStopThatFailsSaysWhyOnce(t *testing.T) {
	h := newHouse(t)
	for p := range int32(5) {
		h.add(h.log("t", 1, p), 3)
	}
	h.fs.Refuse(func(op, name string) error {
		if op == "write" && strings.Contains(name, "/t-") {
			return errors.New("input/output error")
		}
		return nil
	})
	err := h.s.Close(true)
	if err == nil || strings.Count(err.Error(), "input/output error") != 1 || strings.Contains(err.Error(), "\n") {
		t.Errorf("the stop fails with %v", err)
	}
	if h.exists("/data/" + cleanFile) {
		t.Error("and is marked as one in order")
	}
}
