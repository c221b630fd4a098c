package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"millrace/broker/partition"
	"millrace/storage/log"
)

// TestUnreadableFor: what is told of is what no client can help, in words that are the same for each read of one place.
func TestUnreadableFor(t *testing.T) {
	damage := &log.CorruptError{Position: 7, Why: "header"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("read t-0 at 3: segment 0: %w", damage), damage.Error()},
		{fmt.Errorf("read t-0 at 4: segment 0: %w", damage), damage.Error()},
		{fmt.Errorf("read: %w", &fs.PathError{Op: "read", Path: "/a", Err: fs.ErrInvalid}), "read /a: invalid argument"},
		{fmt.Errorf("list offsets of t-0: %w", errors.New("record does not unpack")), "record does not unpack"},
		{fmt.Errorf("read: %w", &log.OfflineError{Op: "append", Err: damage}), ""},
		{fmt.Errorf("read: %w", partition.ErrOffsetOutOfRange), ""},
		{fmt.Errorf("read: %w", partition.ErrNotLeader), ""},
		{fmt.Errorf("read: %w", log.ErrNoDescriptor), ""},
		{partition.ErrNegativeCount, ""},
	} {
		if why, is := unreadableFor(c.err); why != c.want || is != (c.want != "") {
			t.Errorf("%v: %q, %t", c.err, why, is)
		}
	}
}
