package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestSpareHeap: the next look for garbage is not before there are megabytes of it.
func TestSpareHeap(t *testing.T) {
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if n := goal[0].Value.Uint64(); n < 2*spareBytes {
		t.Errorf("the collector's goal is %d bytes", n)
	}
	if n := newCalm().held; n > 1<<40 {
		t.Errorf("%d bytes are held", n)
	}
}
