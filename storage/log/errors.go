package log

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"millrace/storage/batch"
)

// ErrClosed says that the log was closed or its partition deleted.
var ErrClosed = errors.New("log is closed")

// ErrOffsetOutOfRange says that an offset lies below the log start or above the log end.
var ErrOffsetOutOfRange = errors.New("offset is out of range")

// BatchTooLargeError says that a batch would not fit an empty segment.
type BatchTooLargeError struct{ Size, Limit int }

func (e *BatchTooLargeError) Error() string {
	return fmt.Sprintf("batch of %d bytes exceeds the segment size of %d", e.Size, e.Limit)
}

// UnexpectedOffsetError says that a batch copied from the leader begins below this log's end.
type UnexpectedOffsetError struct{ First, LogEnd batch.Offset }

func (e *UnexpectedOffsetError) Error() string {
	return fmt.Sprintf("batch begins at offset %d, below the log end %d", e.First, e.LogEnd)
}

// CopiedError says that a batch that was to be copied from another log is corrupt. Nothing of it was appended.
type CopiedError struct {
	Offset batch.Offset
	Err    error
}

func (e *CopiedError) Error() string { return fmt.Sprintf("batch at offset %d: %v", e.Offset, e.Err) }

func (e *CopiedError) Unwrap() error { return e.Err }

// TopicIDError says that the files on disk are those of another topic of the same name.
type TopicIDError struct{ Stored, Asked [16]byte }

func (e *TopicIDError) Error() string {
	return fmt.Sprintf("partition.metadata holds topic id %x, asked for %x", e.Stored, e.Asked)
}

// DamagedError says that a log cannot be opened: below its recovery point, where every byte was flushed, it does not
// read as a sequence of batches. Nothing was changed.
type DamagedError struct{ Damage }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged at position %d (offset %d), below the recovery point: %v", e.Segment, e.Position, e.Offset, e.Reason)
}

func (e *DamagedError) Unwrap() error { return e.Reason }

// UnusableError says that a log is out of use until the broker starts again: a change of it was begun, and what its files
// hold did not let it be brought to its end. Its data directory is not to blame.
type UnusableError struct {
	Op  string
	Err error
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("log is out of use since %s failed: %v", e.Op, e.Err)
}

func (e *UnusableError) Unwrap() error { return e.Err }

// NotFileError says that something stands under the name of one of a log's files that is none.
type NotFileError struct{ Path string }

func (e *NotFileError) Error() string {
	return fmt.Sprintf("%s is a directory, where a file of the log belongs", e.Path)
}

// isContent says whether an error comes from what a log's files hold, or from what somebody has put in their place, and not
// from a disk that fails.
func isContent(err error) bool {
	return !faults.blameDisk && (isCorrupt(err) || errors.As(err, new(*NotFileError)) || errors.Is(err, syscall.EISDIR))
}

// OfflineError says that a data directory was given up after an operation on it failed. It stays so until the broker
// starts again: what a failed write or sync left behind is unknown, and asking again would only seem to work.
type OfflineError struct {
	Op  string
	Err error
}

func (e *OfflineError) Error() string {
	return fmt.Sprintf("data directory is offline since %s failed: %v", e.Op, e.Err)
}

func (e *OfflineError) Unwrap() error { return e.Err }

// Directory is the health of one data directory, shared by its logs. The zero value is healthy.
type Directory struct {
	// Told is called once, when the directory is given up, by whoever met the failure and under whatever locks: it must
	// not block. Nil: nobody is told.
	Told func()

	failed atomic.Pointer[OfflineError]
}

// Offline is nil, or why the directory was given up.
func (d *Directory) Offline() error {
	if e := d.failed.Load(); e != nil {
		return e
	}
	return nil
}

// Fail gives the directory up, unless it was already, and returns why. For lack of a descriptor it is not given up, nor for
// what a log's files hold, which is that log's trouble and no other's: then nothing was done to it, and whoever asks sees to
// it that what he knows of his files stays true.
func (d *Directory) Fail(op string, err error) error {
	if errors.Is(err, ErrNoDescriptor) || lacksDescriptor(err) || isContent(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return d.GiveUp(op, err)
}

// GiveUp gives the directory up, unless it was already, and returns why: whatever the error is, what it has left is
// unknown.
func (d *Directory) GiveUp(op string, err error) error {
	var before *OfflineError
	if errors.As(err, &before) {
		return err
	}
	e := &OfflineError{Op: op, Err: err}
	if !d.failed.CompareAndSwap(nil, e) {
		return d.failed.Load()
	}
	if d.Told != nil {
		d.Told()
	}
	return e
}
