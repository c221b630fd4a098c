//go:build race

package wire

import (
	"runtime"
	"unsafe"
)

// What the system reads and writes in a direct call is told to the race
// detector, as package syscall does of its own.

func sees(b []byte) {
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&b[0]), len(b))
	}
}

func fills(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&b[0]), len(b))
	}
}
