//go:build !linux

package wire

import "syscall"

func directRead(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }
