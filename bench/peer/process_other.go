//go:build !linux

package peer

import (
	"errors"
	"time"
)

var errLinux = errors.New("figures of a process are read on Linux only")

// CPU is the processor time that a process has used.
func CPU(int) (time.Duration, error) { return 0, errLinux }

// Memory is what a process has resident, in bytes.
type Memory struct {
	All int64
	Own int64 // without mapped files, such as the program itself
}

// Resident is what a process has resident.
func Resident(int) (Memory, error) { return Memory{}, errLinux }
