package log

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
)

// TestTruncationUponDamage: a truncation that was begun and comes upon a batch that cannot be read takes its log out of use, and
// no data directory.
func TestTruncationUponDamage(t *testing.T) {
	x := newLived(t)
	x.add(200)
	x.ok(x.log.Close())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	x.damage(170 + 16) // where the second batch has its format
	x.open(true)
	err := x.log.Truncate(150)
	var lost *UnusableError
	if !errors.As(err, &lost) || !isCorrupt(err) {
		t.Fatal(err)
	}
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(1, nil, nil)
	h, _ := batch.ParseHeader(b.Bytes())
	_, appended := x.log.Append(b.Bytes(), h, 1000)
	for what, err := range map[string]error{"append": appended, "flush": x.log.Flush(), "roll": x.log.Roll(), "truncation": x.log.Truncate(1), "close": x.log.Close()} {
		if !errors.As(err, &lost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := x.log.directory.Offline(); err != nil {
		t.Error(err)
	}
	if got := x.fs.Bytes(x.o.Dir + "/" + fileName(0, suffixLog)); len(got) != 150*170 {
		t.Errorf("the segment has %d bytes", len(got))
	}
}

// TestIndexThatCannotBeWritten: a batch is written when it turns out that a directory stands where its index belongs. That is no
// refusal after which the log goes on, with the batch that was answered with an error: it is out of use, and no data directory is.
func TestIndexThatCannotBeWritten(t *testing.T) {
	x := newSpoilt(t, 1)
	err := x.log.Roll()
	if err == nil {
		err = x.fs.MkdirAll(x.log.last().txns.path)
	}
	for range 100 { // until a transaction is aborted
		if err != nil {
			break
		}
		err = x.append()
	}
	var lost *UnusableError
	if !errors.As(err, &lost) {
		t.Fatalf("the abort marker: %v", err)
	}
	end := x.log.View().LogEnd()
	if err := x.append(); !errors.As(err, &lost) || x.log.View().LogEnd() != end {
		t.Errorf("what is appended then: %v, and the log ends at %d behind %d", err, x.log.View().LogEnd(), end)
	}
	if err := x.directory.Offline(); err != nil {
		t.Error(err)
	}
}

// TestTransactionsThatAreNotThere: a .txnindex that cannot be found, as where a link to nothing has its name, is its log's trouble
// and not its data directory's.
func TestTransactionsThatAreNotThere(t *testing.T) {
	x := newSpoilt(t, 3)
	for seg := x.log.last(); !seg.txns.exists() || x.log.end-seg.base < 5; seg = x.log.last() {
		if err := x.append(); err != nil {
			t.Fatal(err)
		}
	}
	end, path := x.log.end, x.log.last().txns.path
	if err := errors.Join(x.end(true), x.open(true), x.fs.Remove(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.log.View().Aborted(0, end); !isCorrupt(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("who asks for aborted transactions is told %v", err)
	}
	var lost *UnusableError
	if err := x.log.Truncate(end - 1); !errors.As(err, &lost) || x.directory.Offline() != nil {
		t.Errorf("a truncation: %v", err)
	}
}

// TestRetentionOfWhatCannotBeRead: a segment of which no time can be read, in its index neither, is as old as its file, and keeps no
// other segment from going.
func TestRetentionOfWhatCannotBeRead(t *testing.T) {
	x := newLived(t)
	x.o.HighWatermark = 1 << 40
	for range 3 {
		x.add(20)
		x.ok(x.log.Roll())
	}
	x.add(1)
	x.stops()
	for _, suffix := range []string{suffixLog, suffixTimeIndex} {
		name := x.o.Dir + "/" + fileName(20, suffix)
		b := bytes.Clone(x.fs.Bytes(name))
		for i := range b {
			b[i] = 0xff
		}
		x.fs.Put(name, b)
	}
	info, err := x.fs.Stat(x.o.Dir + "/" + fileName(20, suffixLog))
	x.ok(err)
	for _, c := range []struct {
		now  time.Time
		gone int
	}{{time.UnixMilli(4000), 1}, {info.Modified.Add(time.Hour), 3}} {
		x.open(true)
		config := x.o.Config
		config.RetentionMs = 1000
		x.log.SetConfig(config)
		gone, err := x.log.Retain(c.now)
		if err != nil || len(gone) != c.gone {
			t.Errorf("at %v went %q: %v", c.now, gone, err)
		}
		x.fs.Kill()
	}
}
