//go:build compat && !linux

package applications

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
