// Command cmd runs Apache Kafka on loopback until it is interrupted, with data
// in a temporary directory, so that something can be tried against the
// original.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"millrace/compat-tests/kafka"
)

func main() {
	version := flag.String("version", kafka.Newest, "Apache Kafka's version: "+kafka.Newest+", or "+kafka.Oldest+" for what 4.0 dropped")
	port := flag.Int("port", 0, "the broker's port; 0 takes a free one")
	properties := map[string]string{}
	flag.Func("set", "a server property as KEY=VALUE; may be repeated", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not KEY=VALUE", s)
		}
		properties[k] = v
		return nil
	})
	var features []string
	flag.Func("feature", "a feature level at formatting as NAME=LEVEL; may be repeated", func(s string) error {
		features = append(features, s)
		return nil
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := kafka.Start(ctx, kafka.Options{Version: *version, Port: *port, Properties: properties, Features: features, Output: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer s.Stop()
	fmt.Printf("Apache Kafka %s ready bootstrap.servers=%s controller=%s\n", *version, s.Bootstrap, s.Controller)
	<-ctx.Done()
}
