package kafka

import "syscall"

// dieWithParent ends the server when the process that started it dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
