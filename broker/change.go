package broker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller"
)

// startTimeout bounds how long a start waits for its own registration.
const startTimeout = 30 * time.Second

// autoCreateTimeout bounds the creation of a topic within another request.
const autoCreateTimeout = 5 * time.Second

// change asks the controller for a change and returns its answer once this
// broker has applied it, so that whoever asked sees it in its next request.
// The wait ends at timeout, or with ctx; the change itself may still come. With
// no time at all nothing is asked, as in Kafka.
func (b *Broker) change(ctx context.Context, principal string, req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	if timeout <= 0 {
		return nil, context.DeadlineExceeded
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, offset, err := b.client.Do(ctx, principal, req)
	if err != nil {
		return nil, err
	}
	if err := b.publisher.wait(ctx, offset); err != nil {
		return nil, err
	}
	return resp, nil
}

// change is the broker's change on behalf of a client. The request holds nothing
// of the budget while it waits.
func (c *call) change(req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	c.Waiting()
	return c.b.change(c.ctx, c.Conn.Principal, req, timeout)
}

// requestTimeout is request.timeout.ms, for requests that carry none.
func (b *Broker) requestTimeout() time.Duration {
	return time.Duration(b.config.Int("request.timeout.ms")) * time.Millisecond
}

// changeFailed is what a client is told of a change that no controller has
// confirmed in time; Kafka has no words for a time-out.
func changeFailed(err error) (int16, string) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, controller.ErrTimedOut) {
		return kerr.RequestTimedOut.Code, ""
	}
	return kerr.NotController.Code, errorText(kerr.NotController.Code)
}
