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
	damage := &log.CorruptError{File: "/d/0.log", Position: 7, Why: "header"}
	elsewhere := &log.CorruptError{File: "/d/9.log", Position: 7, Why: "header"}
	at := func(file string, position int64, why string) unreadablePlace {
		return unreadablePlace{file: file, position: position, why: why}
	}
	no := unreadablePlace{position: -1}
	for _, c := range []struct {
		err  error
		want unreadablePlace
	}{
		{nil, no},
		{fmt.Errorf("read t-0 at 3: segment 0: %w", damage), at("/d/0.log", 7, damage.Error())},
		{fmt.Errorf("read t-0 at 4: segment 0: %w", damage), at("/d/0.log", 7, damage.Error())},
		{fmt.Errorf("read t-0 at 9: segment 9: %w", elsewhere), at("/d/9.log", 7, damage.Error())},
		{fmt.Errorf("read: %w", &log.IndexError{File: "/d/0.index", Why: "odd"}), at("/d/0.index", -1, "index /d/0.index: odd")},
		{fmt.Errorf("read: %w", &fs.PathError{Op: "read", Path: "/a", Err: fs.ErrInvalid}), at("/a", -1, "read /a: invalid argument")},
		{fmt.Errorf("list offsets of t-0: %w", errors.New("record does not unpack")), at("", -1, "record does not unpack")},
		{fmt.Errorf("read: %w", &log.OfflineError{Op: "append", Err: damage}), no},
		{fmt.Errorf("read: %w", partition.ErrOffsetOutOfRange), no},
		{fmt.Errorf("read: %w", partition.ErrNotLeader), no},
		{fmt.Errorf("read: %w", log.ErrNoDescriptor), no},
		{partition.ErrNegativeCount, no},
	} {
		if got, is := unreadableFor(c.err); got != c.want || is != (c.want != no) {
			t.Errorf("%v: %+v, %t", c.err, got, is)
		}
	}
}
