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
		want error
	}{
		"the only one":         {"/data", storage.ErrNoDirectory},
		"that of the metadata": {"/data,/b", broker.ErrMetadataDirectory},
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
				failing(n, dir)
				err := n.StartError()
				text := err.Error()
				if !errors.Is(err, c.want) || !strings.Contains(text, dir+"/00000000000000000000") || !strings.Contains(text, errDisk.Error()) || strings.Contains(text, "\n") ||
					strings.Contains(text, "INVALID_REGISTRATION") || strings.Count(text, c.want.Error()) != 1 {
					t.Errorf("the start ends with %q", text)
				}
			})
		})
	}
}
