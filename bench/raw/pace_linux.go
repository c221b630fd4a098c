package raw

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper returns a sleep until a moment, for the calling goroutine alone, until
// done. It sleeps in a thread of its own: Go's timers come up to a millisecond
// late, which is more than what is measured.
func sleeper() (sleep func(time.Time) error, done func(), err error) {
	runtime.LockOSThread()
	const slack = 1 // nanosecond that the kernel may add
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err != nil {
		runtime.UnlockOSThread()
		return nil, nil, fmt.Errorf("ask for precise sleep: %w", err)
	}
	return func(at time.Time) error {
		for left := time.Until(at); left > 0; left = time.Until(at) {
			ts := unix.NsecToTimespec(int64(left))
			if err := unix.Nanosleep(&ts, nil); err != nil && err != unix.EINTR {
				return err
			}
		}
		return nil
	}, runtime.UnlockOSThread, nil
}
