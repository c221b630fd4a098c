//go:build !linux

package wire

import "syscall"

func directWaiting(int) int { return 0 }

func directRead(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }
