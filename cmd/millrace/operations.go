package main

import (
	"fmt"
	"strings"

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

// httpVariable is the environment variable that stands for --http-address.
const httpVariable = "MILLRACE_HTTP_ADDRESS"

func (o *operations) add(c *cobra.Command) {
	c.Flags().StringVar(&o.httpAddress, "http-address", "", "serve /metrics, /healthz and /readyz here, as host:port, or port on loopback (or "+httpVariable+")")
	c.Flags().BoolVar(&o.httpPprof, "http-pprof", false, "serve /debug/pprof there too")
	c.Flags().StringVar(&o.logRequests, "log-requests", "", "log requests and answers: all, or conditions such as client=ID,api=Fetch,topic=NAME")
}

// apply puts what the flags and the environment say into a broker's options.
func (o *operations) apply(p *program, logger *zap.Logger, to *broker.Options) error {
	address := o.httpAddress
	if address == "" {
		for _, kv := range p.environ {
			if v, ok := strings.CutPrefix(kv, httpVariable+"="); ok {
				address = v
			}
		}
	}
	if address == "" && o.httpPprof {
		return usageError{fmt.Errorf("--http-pprof: there is no --http-address")}
	}
	if address != "" {
		if err := broker.CheckHTTPAddress(address); err != nil {
			return usageError{fmt.Errorf("--http-address: %w", err)}
		}
	}
	if o.logRequests != "" {
		f, err := broker.ParseRequestFilter(o.logRequests)
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
