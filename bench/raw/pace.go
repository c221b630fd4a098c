package raw

import "time"

// Pace calls send at each moment that due names, in order, until it names no
// more.
func Pace(due func(i int) (time.Time, bool), send func(i int) error) error {
	sleep, done, err := sleeper()
	if err != nil {
		return err
	}
	defer done()
	for i := 0; ; i++ {
		at, more := due(i)
		if !more {
			return nil
		}
		if err := sleep(at); err != nil {
			return err
		}
		if err := send(i); err != nil {
			return err
		}
	}
}
