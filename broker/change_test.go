package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller"
	"millrace/controller/config"
)

// silent is a controller that never answers.
type silent struct{}

func (silent) Do(ctx context.Context, _ string, _ kmsg.Request) (kmsg.Response, int64, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// request.timeout.ms bounds the wait for a controller, for requests that carry no
// time of their own.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{"": 30 * time.Second, "5000": 5 * time.Second} {
			props := map[string]string{}
			if value != "" {
				props["request.timeout.ms"] = value
			}
			static, _, err := config.ParseStatic(props)
			if err != nil {
				t.Fatal(err)
			}
			b := &Broker{config: static, client: silent{}}
			begin := time.Now()
			if _, err := b.change(context.Background(), "", kmsg.NewPtrAlterConfigsRequest(), b.requestTimeout()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != want {
				t.Errorf("request.timeout.ms=%s: %v after %s, want %s", value, err, time.Since(begin), want)
			}
		}
	})
}

// A request that no controller has answered in its time has timed out, whichever
// of the clocks that run for it says so first.
func TestChangeFailed(t *testing.T) {
	for _, c := range []struct {
		err  error
		want *kerr.Error
	}{
		{context.DeadlineExceeded, kerr.RequestTimedOut},
		{fmt.Errorf("CreateTopics: %w", controller.ErrTimedOut), kerr.RequestTimedOut},
		{controller.ErrStopped, kerr.NotController},
	} {
		if code, _ := changeFailed(c.err); code != c.want.Code {
			t.Errorf("%v: %d, want %v", c.err, code, c.want)
		}
	}
}
