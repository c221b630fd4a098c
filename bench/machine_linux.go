package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says in words what the figures were taken on, without its name.
func machine(work string) string {
	words := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			words = append(words, fmt.Sprintf("%.0f GB of memory", float64(kib)/1e6))
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release := string(bytes.TrimRight(u.Release[:], "\x00"))
		if parts := strings.SplitN(release, ".", 3); len(parts) > 1 {
			words = append(words, "Linux "+parts[0]+"."+parts[1])
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(work, &fs); err == nil {
		if name, ok := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs",
			unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs"}[int64(fs.Type)]; ok {
			words = append(words, "data on "+name)
		}
	}
	if tcp := network(); tcp != "" {
		words = append(words, tcp)
	}
	return strings.Join(append(words, runtime.GOARCH, runtime.Version()), ", ")
}
