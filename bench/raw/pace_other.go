//go:build !linux

package raw

import "time"

func sleeper() (sleep func(time.Time) error, done func(), err error) {
	return func(at time.Time) error { time.Sleep(time.Until(at)); return nil }, func() {}, nil
}
