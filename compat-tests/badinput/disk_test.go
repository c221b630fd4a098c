//go:build compat && linux

package badinput

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

const storageError = 56

// small gives a directory on a file system of its own of size bytes.
func small(t *testing.T, size string) (dir string, grow func(size string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a disk that is full needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir, func(size string) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatalf("making %s larger: %v", dir, err)
		}
	}
}

// produceUntil produces records of a size one by one until one fails, at most n,
// and returns how many were stored and the error of the one that was not.
func (v *victim) produceUntil(t *testing.T, to string, size, n int) (stored int, failed int16) {
	t.Helper()
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for ; stored < n; stored++ {
		value := fmt.Sprintf("%08d", stored) + strings.Repeat("v", size-8)
		req := produce(9, to, plainBatch(value))
		req.Acks = -1
		got, err := code(c.Ask(req))
		if err != nil {
			t.Fatalf("record %d: %v", stored, err)
		}
		if got != 0 {
			return stored, got
		}
	}
	return stored, 0
}

// holds wants exactly the records that produceUntil stored, and perhaps the one
// that failed.
func (v *victim) holds(t *testing.T, in string, stored int) {
	t.Helper()
	cl := v.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{in: {0: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*prompt)
	defer cancel()
	for next := 0; next < stored; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("reading %s, %d of %d records were there: %v", in, next, stored, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(next) || !bytes.HasPrefix(r.Value, fmt.Appendf(nil, "%08d", next)) {
				t.Errorf("at offset %d the record %.8s, want %d", r.Offset, r.Value, next)
			}
			next++
		})
	}
}

// room asks how large the file system of the log directory is, and how much of it is free.
func (v *victim) room(t *testing.T) (total, usable int64) {
	t.Helper()
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version = 4
	resp, ok := c.Ask(req).Response.(*kmsg.DescribeLogDirsResponse)
	if !ok || len(resp.Dirs) != 1 {
		t.Fatalf("no DescribeLogDirs of one directory: %v", resp)
	}
	return resp.Dirs[0].TotalBytes, resp.Dirs[0].UsableBytes
}

// wantRoom compares that with what the file system was made with, and with what the system says is free of it, as soon as
// nothing is written any more.
func (v *victim) wantRoom(t *testing.T, dir string, size int64) {
	t.Helper()
	var total, usable, free int64
	for range 100 {
		total, usable = v.room(t)
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if free = int64(st.Bavail) * st.Frsize; total == size && usable == free && free < size {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("of a disk of %d bytes, %d of them free, told are %d and %d", size, free, total, usable)
}

// TestFullDisk: the directory of the logs runs full, that of the metadata does
// not. Producers are told, nothing that was acknowledged is lost, readers go on,
// and with room again all is as before.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	logs, grow := small(t, "6m")
	meta := filepath.Join(t.TempDir(), "meta")
	overrides := []string{"metadata.log.dir=" + meta, "offsets.topic.num.partitions=1", "log.segment.bytes=1048576"}
	v := start(t, filepath.Join(logs, "data"), "", overrides...)
	v.create(t, topic)
	v.wantRoom(t, logs, 6<<20)
	stored, failed := v.produceUntil(t, topic, 50_000, 1000)
	if failed != storageError {
		t.Fatalf("after %d records of 50 kB on a disk of 6 MiB: error %d, want %d", stored, failed, storageError)
	}
	t.Logf("%d records fit", stored)
	// The last directory is given up, and the broker with it.
	v.givesUp(t, "no space left on device")

	grow("64m")
	v = start(t, filepath.Join(logs, "data"), "", overrides...)
	v.holds(t, topic, stored)
	if n, failed := v.produceUntil(t, topic, 50_000, 20); failed != 0 {
		t.Errorf("with room again: error %d after %d records", failed, n)
	}
	v.wantRoom(t, logs, 64<<20)
	v.check(t, 2*budget+allowance)
	v.ends(t)
}

func (v *victim) askMetadata(t *testing.T) frame.Outcome {
	t.Helper()
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	return c.Ask(req)
}

// givesUp wants the broker to end by itself with exit code 1 and one line for
// people that says why.
func (v *victim) givesUp(t *testing.T, why string) {
	t.Helper()
	select {
	case <-v.Exited():
	case <-time.After(2 * prompt):
		t.Fatal("the broker goes on")
	}
	err := v.Stop()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the broker ended with %v, want exit code 1", err)
	}
	var last []string
	for line := range strings.Lines(v.Log()) {
		if !strings.HasPrefix(line, "{") {
			last = append(last, line)
		}
	}
	if len(last) != 1 || !strings.HasPrefix(last[0], "millrace: ") || !strings.Contains(last[0], why) {
		t.Errorf("the broker gave up with %q, want one line with %q", last, why)
	}
	v.log.mu.Lock()
	v.log.bad = slices.DeleteFunc(v.log.bad, func(s string) bool { return strings.Contains(s, "not JSON: millrace: ") })
	v.log.mu.Unlock()
	v.log.check(t)
}

// TestFullMetadata: the directory of the metadata runs full. A change that cannot
// be written down is not acknowledged, and the broker stops with one line and
// exit code 1; with room again what was acknowledged is there.
func TestFullMetadata(t *testing.T) {
	t.Parallel()
	meta, grow := small(t, "3m")
	dir := filepath.Join(t.TempDir(), "data")
	overrides := []string{"metadata.log.dir=" + filepath.Join(meta, "meta"), "offsets.topic.num.partitions=1"}
	v := start(t, dir, "", overrides...)
	var made []string
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for len(made) < 3000 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 5, 10_000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = fmt.Sprintf("t-%d", len(made)), 50, 1
		req.Topics = append(req.Topics, rt)
		resp, ok := c.Ask(req).Response.(*kmsg.CreateTopicsResponse)
		if !ok || resp.Topics[0].ErrorCode != 0 {
			break
		}
		made = append(made, rt.Topic)
	}
	if len(made) == 3000 || len(made) == 0 {
		t.Fatalf("%d topics of 50 partitions were made with 3 MiB for their metadata", len(made))
	}
	t.Logf("%d topics of 50 partitions fit", len(made))
	v.givesUp(t, "no space left on device")

	grow("64m")
	v = start(t, dir, "", overrides...)
	resp, ok := v.askMetadata(t).Response.(*kmsg.MetadataResponse)
	if !ok {
		t.Fatal("no Metadata")
	}
	there := map[string]bool{}
	for _, rt := range resp.Topics {
		if len(rt.Partitions) == 50 {
			there[*rt.Topic] = true
		}
	}
	for _, name := range made {
		if !there[name] {
			t.Errorf("topic %s was acknowledged and is gone", name)
		}
	}
	v.check(t, 2*budget+allowance)
	v.ends(t)
}

// TestFileSizeLimit: what a limit on the size of files does: every segment stops
// growing at once.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	meta := filepath.Join(t.TempDir(), "meta")
	overrides := []string{"metadata.log.dir=" + meta, "offsets.topic.num.partitions=1"}
	// 512-byte blocks: 20 MiB.
	v := start(t, dir, "ulimit -f 40960", overrides...)
	v.create(t, topic)
	stored, failed := v.produceUntil(t, topic, 500_000, 100)
	if failed != storageError {
		t.Fatalf("after %d records of 500 kB into files of 20 MiB: error %d, want %d", stored, failed, storageError)
	}
	v.Kill()
	v = start(t, dir, "", overrides...)
	v.holds(t, topic, stored)
	if _, failed := v.produceUntil(t, topic, 500_000, 5); failed != 0 {
		t.Errorf("without the limit: error %d", failed)
	}
	v.check(t, 2*budget+allowance)
	v.ends(t)
}
