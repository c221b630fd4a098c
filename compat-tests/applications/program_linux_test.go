//go:build compat

package applications

import "syscall"

// dieWithParent ends a program when the test that started it dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
