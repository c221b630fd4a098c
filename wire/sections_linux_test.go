package wire

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// countSendfile counts sendfile calls for the rest of a test.
func countSendfile(t testing.TB) func() int {
	var calls atomic.Int64
	real := sysSendfile
	sysSendfile = func(out, in int, off *int64, n int) (int, error) {
		calls.Add(1)
		return real(out, in, off, n)
	}
	t.Cleanup(func() { sysSendfile = real })
	return func() int { return int(calls.Load()) }
}

// failSendfile makes sendfile answer as it does for a file it cannot read.
func failSendfile(t testing.TB) {
	real := sysSendfile
	sysSendfile = func(int, int, *int64, int) (int, error) { return -1, unix.EINVAL }
	t.Cleanup(func() { sysSendfile = real })
}
