//go:build !linux

package peer

import (
	"errors"
	"time"
)

var errLinux = errors.New("figures of a process are read on Linux only")

// CPU is the processor time that a process has used.
func CPU(int) (time.Duration, error) { return 0, errLinux }

// Resident is a process's resident memory.
func Resident(int) (int64, error) { return 0, errLinux }
