package brokertest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker"
	"millrace/storage"
)

// TestLastDirectoryFailsAsItOpens: when the only data directory, or that of the metadata, fails while logs are opened, the
// start ends with one sentence that names the file and the system's reason.
func TestLastDirectoryFailsAsItOpens(t *testing.T) {
	for name, c := range map[string]struct {
		dirs string
		fail func(n *Node, dir string)
		want error
		says string
	}{
		"a directory in a file's place": {"/data", func(n *Node, dir string) {
			if err := errors.Join(n.Disk.Remove(dir+"/00000000000000000000.index"), n.Disk.MkdirAll(dir+"/00000000000000000000.index")); err != nil {
				t.Error(err)
			}
		}, storage.ErrNoDirectory, "is a directory"},
		"a full disk": {"/data", func(n *Node, dir string) {
			n.Disk.Refuse(func(op, name string) error {
				if op == "write" && strings.HasPrefix(name, dir) {
					return errDisk
				}
				return nil
			})
		}, storage.ErrNoDirectory, "input/output error"},
		"that of the metadata": {"/data,/b", func(n *Node, dir string) {
			n.Disk.Refuse(func(op, name string) error {
				if op == "write" && strings.HasPrefix(name, dir) {
					return errDisk
				}
				return nil
			})
		}, broker.ErrMetadataDirectory, "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := New(t, map[string]string{"log.dirs": c.dirs})
				defer n.End()
				n.Start()
				cl := n.Client()
				makeTopic(t, n, cl, "t", 2)
				writeEach(t, n, "t", 2)
				n.Kill()
				time.Sleep(time.Second)
				dir := "/data/t-0"
				if n.Disk.Bytes(dir+"/00000000000000000000.log") == nil {
					dir = "/data/t-1"
				}
				c.fail(n, dir)
				err := n.StartError()
				text := err.Error()
				if !errors.Is(err, c.want) || !strings.Contains(text, dir+"/00000000000000000000") || !strings.Contains(text, c.says) || strings.Contains(text, "\n") ||
					strings.Contains(text, "INVALID_REGISTRATION") || strings.Count(text, c.want.Error()) != 1 {
					t.Errorf("the start ends with %q", text)
				}
			})
		})
	}
}
