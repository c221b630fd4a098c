//go:build !linux

package floor

import (
	"io"
	"net"
	"os"
)

func sendfile(nc *net.TCPConn, pieces []piece, at int64) error {
	for _, p := range pieces {
		if _, err := nc.Write(p.head); err != nil {
			return err
		}
		if _, err := io.Copy(nc, io.NewSectionReader(p.f, at, int64(len(p.body)))); err != nil {
			return err
		}
	}
	return nil
}

func datasync(f *os.File) error { return f.Sync() }
