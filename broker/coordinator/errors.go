package coordinator

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/storage/batch"
)

// Error is why a request was not answered by the machine. Code is the Kafka
// error code that the client is told.
type Error struct {
	Code  int16
	Cause error // nil for the plain ones below
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("coordinator answers error %d: %v", e.Code, e.Cause)
	}
	return fmt.Sprintf("coordinator answers error %d (%s)", e.Code, plain[e.Code])
}

// Unwrap gives Kafka's own error for the code, and the cause.
func (e *Error) Unwrap() []error {
	errs := []error{kerr.ErrorForCode(e.Code)}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	return errs
}

// Is makes errors with one code equal, whatever caused them.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// LoadError is why a shard's log does not load, and the offset up to which it
// did.
type LoadError struct {
	Offset batch.Offset
	Err    error
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("the coordinator's log does not load from offset %d on: %v", e.Offset, e.Err)
}

func (e *LoadError) Unwrap() error { return e.Err }

// The errors that the driver itself gives.
var (
	ErrLoading        = &Error{Code: 14}
	ErrUnavailable    = &Error{Code: 15}
	ErrNotCoordinator = &Error{Code: 16}
)

var plain = map[int16]string{
	-1: "the write was refused",
	14: "the log is being loaded",
	15: "the write is not committed in time",
	16: "another broker is the coordinator",
}

// Refused is what a Log's Append returns when nothing was written and nothing
// will be: Code is the Kafka error code of the reason. Any other error of Append
// leaves the outcome unknown.
type Refused struct {
	Code int16
	Err  error
}

func (r *Refused) Error() string {
	return fmt.Sprintf("append refused with error %d: %v", r.Code, r.Err)
}

func (r *Refused) Unwrap() error { return r.Err }

// Kafka's codes for why an append fails.
const (
	unknownServerError      = -1
	unknownTopicOrPartition = 3
	invalidFetchSize        = 4
	notLeaderOrFollower     = 6
	requestTimedOut         = 7
	messageTooLarge         = 10
	networkException        = 13
	recordListTooLarge      = 18
	notEnoughReplicas       = 19
	kafkaStorageError       = 56
)

// translate says what a client of the coordinator is told when an append to the
// internal topic fails: it knows nothing of that topic (Kafka's
// CoordinatorOperationExceptionHelper).
func translate(err error) *Error {
	var r *Refused
	if !errors.As(err, &r) {
		return &Error{Code: ErrNotCoordinator.Code, Cause: err}
	}
	code := r.Code
	switch code {
	case unknownTopicOrPartition, notEnoughReplicas, requestTimedOut:
		code = ErrUnavailable.Code
	case notLeaderOrFollower, kafkaStorageError:
		code = ErrNotCoordinator.Code
	case messageTooLarge, recordListTooLarge, invalidFetchSize:
		code = unknownServerError
	case networkException:
		code = ErrLoading.Code
	}
	return &Error{Code: code, Cause: err}
}
