//go:build !linux

package wire

import "os"

// socketWriter and iovecs are for systems whose sendfile this package uses. Elsewhere
// sections are read into a buffer, and all is written by package net.
type (
	socketWriter struct{}
	iovecs       struct{}
)

func (o *output) canSend() bool { return false }

func (o *output) cut() bool { return false }

func (o *output) corked() bool { return false }

func (o *output) send(*sender, *os.File, int64, int) (int, error) {
	return 0, errNoSendfile
}
