//go:build !linux

package wire

import "testing"

func countSendfile(testing.TB) func() int { return func() int { return 0 } }
func failSendfile(testing.TB)             {}
