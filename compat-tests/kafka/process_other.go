//go:build !linux

package kafka

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
