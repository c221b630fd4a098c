package wire

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// replaceSendfile puts a way of sending parts of files in the place of both there
// are, for the rest of a test.
func replaceSendfile(t testing.TB, with func(real sendfileFunc) sendfileFunc) {
	slow, direct := sysSendfile, sysSendCached
	sysSendfile, sysSendCached = with(slow), with(direct)
	t.Cleanup(func() { sysSendfile, sysSendCached = slow, direct })
}

type sendfileFunc = func(out, in int, off *int64, n int) (int, error)

// countSendfile counts sendfile calls for the rest of a test.
func countSendfile(t testing.TB) func() int {
	var calls atomic.Int64
	replaceSendfile(t, func(real sendfileFunc) sendfileFunc {
		return func(out, in int, off *int64, n int) (int, error) {
			calls.Add(1)
			return real(out, in, off, n)
		}
	})
	return func() int { return int(calls.Load()) }
}

// failSendfile makes sendfile answer as it does for a file it cannot read.
func failSendfile(t testing.TB) {
	replaceSendfile(t, func(sendfileFunc) sendfileFunc {
		return func(int, int, *int64, int) (int, error) { return -1, unix.EINVAL }
	})
}
