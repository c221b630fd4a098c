package run

import (
	"fmt"
	"os"
	"syscall"
)

// mapped is a file's bytes in memory without a copy of it: the big inputs are several hundred megabytes.
type mapped []byte

func mapFile(path string) (mapped, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, nil
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}

func (m mapped) close() {
	if m != nil {
		syscall.Munmap(m)
	}
}
