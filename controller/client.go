package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client is how anyone asks for a change of the metadata, or for a producer id
// block, a heartbeat, an ISR change: by Kafka's own request for it.
type Client interface {
	// Do answers with the request's own response, errors per item in it. The
	// metadata offset is that of the change, or of what the answer was decided
	// on: a broker that answers its client once it has applied that offset shows
	// the client what it asked for. An error means that no controller answered
	// in time, which may be the request's own time-out (ErrTimedOut).
	Do(ctx context.Context, principal string, req kmsg.Request) (resp kmsg.Response, offset int64, err error)
}

var (
	// ErrStopped is the answer of a controller that has stopped.
	ErrStopped = errors.New("the controller has stopped")
	// ErrTimedOut says that no active controller answered in the request's time.
	ErrTimedOut = errors.New("no active controller answered in time")
	// ErrUnsupported is the answer to a request the controller does not decide.
	ErrUnsupported = errors.New("not a request for the controller")

	errNotController = errors.New("not the active controller")
)

const (
	defaultTimeout = 60 * time.Second // for a request that names none
	shortestWait   = time.Second      // for one that names less: deciding takes a moment
	retryAfter     = 20 * time.Millisecond
)

// localClient asks the controller of this process.
type localClient struct{ c *Controller }

// timeoutOf is the time a request gives itself.
func timeoutOf(req kmsg.Request) time.Duration {
	if r, ok := req.(kmsg.TimeoutRequest); ok {
		return max(time.Duration(r.Timeout())*time.Millisecond, shortestWait)
	}
	return defaultTimeout
}

// Do is part of Client. It asks again while no controller is active: an entry
// proposed by one that lost its leadership may or may not have been committed,
// and deciding again on what was is what Kafka's brokers do too.
func (l localClient) Do(ctx context.Context, principal string, req kmsg.Request) (kmsg.Response, int64, error) {
	timer := time.NewTimer(timeoutOf(req))
	defer timer.Stop()
	for {
		done := make(chan answer, 1)
		select {
		case l.c.asks <- ask{body: req, principal: principal, done: done}:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-timer.C:
			return nil, 0, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), ErrTimedOut)
		case <-l.c.stopped:
			return nil, 0, ErrStopped
		}
		var a answer
		select {
		case a = <-done:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-timer.C:
			return nil, 0, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), ErrTimedOut)
		case <-l.c.stopped:
			return nil, 0, ErrStopped
		}
		if !errors.Is(a.err, errNotController) {
			return a.resp, a.offset, a.err
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-timer.C:
			return nil, 0, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), ErrTimedOut)
		case <-l.c.stopped:
			return nil, 0, ErrStopped
		}
	}
}
