//go:build !linux

package wire

import "os"

// fileSender is for systems whose sendfile this package uses. Elsewhere sections
// are read into a buffer and written.
type fileSender struct{}

func (o *output) canSendfile() bool { return false }

func (o *output) sendfile([][]byte, *os.File, int64, int) (int, error) {
	return 0, errNoSendfile
}
