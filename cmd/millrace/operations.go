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

// setting is what a flag says or, where that is not given, a variable.
type setting struct{ value, flag, variable string }

func (p *program) setting(flag, given, variable string) setting {
	if given != "" {
		return setting{value: given, flag: flag}
	}
	return setting{value: p.variable(variable), flag: flag, variable: variable}
}

// from is the name of what was set.
func (s setting) from() string { return cmp.Or(s.variable, s.flag) }

// String is what was set, as it was written.
func (s setting) String() string {
	if s.variable != "" {
		return s.variable + "=" + s.value
	}
	return s.flag + " " + s.value
}

// apply puts what the flags and the environment say into a broker's options.
func (o *operations) apply(p *program, logger *zap.Logger, to *broker.Options) error {
	at := p.setting("--http-address", o.httpAddress, httpVariable)
	if at.value == "" && o.httpPprof {
		return usageError{fmt.Errorf("--http-pprof: there is no --http-address")}
	}
	if at.value != "" {
		if err := broker.CheckHTTPAddress(at.value); err != nil {
			return usageError{fmt.Errorf("%s: %w", at.from(), err)}
		}
	}
	if filter := o.filter(p); filter.value != "" {
		f, err := broker.ParseRequestFilter(filter.value)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", filter.from(), err)}
		}
		to.LogRequests = f
	}
	to.Version = version
	to.Monitoring = broker.Monitoring{Address: at.value, Profiles: o.httpPprof, Listening: func(at string) {
		logger.Info("serving HTTP", zap.String("address", at))
	}}
	return nil
}

// filter says which requests are logged.
func (o *operations) filter(p *program) setting {
	return p.setting("--log-requests", o.logRequests, logRequestsVariable)
}
