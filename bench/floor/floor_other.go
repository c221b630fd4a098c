//go:build !linux

package floor

import (
	"io"
	"net"
	"os"
)

func sendfile(nc *net.TCPConn, head []byte, f *os.File, at int64, size int) error {
	if _, err := nc.Write(head); err != nil {
		return err
	}
	_, err := io.Copy(nc, io.NewSectionReader(f, at, int64(size)))
	return err
}

func datasync(f *os.File) error { return f.Sync() }
