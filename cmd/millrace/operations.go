package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"millrace/broker"
)

// operations are the flags for those who watch a broker.
type operations struct {
	httpAddress string
	httpPprof   bool
	logRequests string
}

// Environment variables that stand for flags, where the flag is not given.
const (
	httpVariable        = "MILLRACE_HTTP_ADDRESS"
	logRequestsVariable = "MILLRACE_LOG_REQUESTS"
	logLevelVariable    = "MILLRACE_LOG_LEVEL"
)

func (o *operations) add(c *cobra.Command) {
	c.Flags().StringVar(&o.httpAddress, "http-address", "", "serve /metrics, /healthz and /readyz here, as host:port, or port on loopback (or "+httpVariable+")")
	c.Flags().BoolVar(&o.httpPprof, "http-pprof", false, "serve /debug/pprof there too")
	c.Flags().StringVar(&o.logRequests, "log-requests", "", "log requests and answers: all, or conditions such as client=ID,api=Fetch,topic=NAME (or "+logRequestsVariable+")")
}

// apply puts what the flags and the environment say into a broker's options.
func (o *operations) apply(p *program, logger *zap.Logger, to *broker.Options) error {
	address := cmp.Or(o.httpAddress, p.variable(httpVariable))
	if address == "" && o.httpPprof {
		return usageError{fmt.Errorf("--http-pprof: there is no --http-address")}
	}
	if address != "" {
		if err := broker.CheckHTTPAddress(address); err != nil {
			return usageError{fmt.Errorf("--http-address: %w", err)}
		}
	}
	if filter := cmp.Or(o.logRequests, p.variable(logRequestsVariable)); filter != "" {
		f, err := broker.ParseRequestFilter(filter)
		if err != nil {
			return usageError{fmt.Errorf("--log-requests: %w", err)}
		}
		to.LogRequests = f
	}
	to.Version = version
	to.Monitoring = broker.Monitoring{Address: address, Profiles: o.httpPprof, Listening: func(at string) {
		logger.Info("serving HTTP", zap.String("address", at))
	}}
	return nil
}
