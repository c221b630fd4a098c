//go:build !linux

package main

import (
	"fmt"
	"runtime"
)

func machine(string) string {
	return fmt.Sprintf("%d cores, %s, %s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
