package partition

import (
	"errors"
	"syscall"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// TestAppendTogether appends several batches at once: each is judged by itself, in order, and they are one write.
func TestAppendTogether(t *testing.T) {
	fs := disktest.New()
	if err := errors.Join(fs.MkdirAll("/data"), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	l, _, err := log.Open(log.Options{FS: fs, Dir: "/data/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	p := newPartition(t, Options{Log: l})
	if err := p.BecomeLeader(assign(self, 3, 1, []int32{self}, self)); err != nil {
		t.Fatal(err)
	}
	appendTo(t, p, 1, 1)
	sequenced := func(seq int32) Entry {
		u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: 9, BaseSequence: seq})
		u.Add(1, nil, []byte("v"))
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return Entry{Batch: u.Bytes(), Header: h, Options: AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1}}
	}
	plain := func() Entry {
		b, h := records(3)
		return Entry{Batch: b, Header: h, Options: AppendOptions{LeaderEpoch: AnyEpoch, Acks: 1}}
	}
	fenced := plain()
	fenced.Options.LeaderEpoch = 2
	entries := []Entry{sequenced(0), plain(), sequenced(5), fenced, sequenced(1), sequenced(0), plain()}
	before := fs.Counts().Changes
	p.AppendTogether(entries, new(int))
	if n := fs.Counts().Changes - before; n != 1 {
		t.Errorf("%d changes on the disk, want one write", n)
	}
	var gap *producer.SequenceError
	for i, want := range []struct {
		base, last batch.Offset
		twice      bool
	}{{1, 1, false}, {2, 4, false}, {}, {}, {5, 5, false}, {1, 1, true}, {6, 8, false}} {
		e := &entries[i]
		switch i {
		case 2:
			if !errors.As(e.Err, &gap) {
				t.Errorf("a gap: %v", e.Err)
			}
		case 3:
			if !errors.Is(e.Err, ErrFencedLeaderEpoch) {
				t.Errorf("an old epoch: %v", e.Err)
			}
		default:
			if a := e.Appended; e.Err != nil || a.Base != want.base || a.Last != want.last || a.Duplicate != want.twice || a.HighWatermark != 9 || a.LeaderEpoch != 3 {
				t.Errorf("batch %d: %+v, %v", i, a, e.Err)
			}
		}
	}

	fs.Refuse(func(op, name string) error {
		if op == "write" {
			return syscall.EIO
		}
		return nil
	})
	entries = []Entry{plain(), sequenced(1), sequenced(2)}
	p.AppendTogether(entries, new(int))
	for i := range entries {
		if entries[i].Err == nil {
			t.Errorf("batch %d of a write that has failed was appended: %+v", i, entries[i].Appended)
		}
	}
	if v := p.Log().View(); v.LogEnd() != 9 || v.HighWatermark() != 9 {
		t.Errorf("readers see %d, committed %d", v.LogEnd(), v.HighWatermark())
	}
}
