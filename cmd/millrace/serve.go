package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode"

	"go.uber.org/zap"

	"millrace/broker"
)

// oneStop is how long more signals count as the first one: where a terminal or
// a timeout signals the whole process group, a program that started this one
// passes on what has already come.
const oneStop = time.Second

// signals gives a context that ends at the first SIGINT or SIGTERM; a second
// one, later than oneStop, ends the process at once.
func signals() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		first := time.Now()
		cancel()
		for range c {
			if time.Since(first) >= oneStop {
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx
}

func (p *program) serve(ctx context.Context, f flags) error {
	asked := p.setting("--log-level", f.logLevel, logLevelVariable)
	if asked.value == "" {
		asked.value = "info"
	}
	logger, level, err := p.logger(asked)
	if err != nil {
		return err
	}
	defer logger.Sync() // a terminal cannot be synced, and says so
	conf, err := p.configuration(f)
	if err != nil {
		return err
	}
	topics, err := p.declaredTopics(f)
	if err != nil {
		return err
	}
	cluster, err := p.clusterID()
	if err != nil {
		return err
	}
	conf.warn(logger)
	conf.warnHome(logger)
	for _, line := range conf.passedOver {
		logger.Warn(line)
	}
	for _, line := range p.misspelt() {
		logger.Warn(line)
	}
	for _, dir := range f.cleared {
		logger.Info("removed what a dev that was killed has left", zap.String("directory", dir))
	}
	var told error
	options := broker.Options{
		Config:    conf.static,
		Logger:    logger,
		Level:     &level,
		ClusterID: cluster,
		Topics:    topics,
		Ready: func(i broker.Info) {
			_, told = fmt.Fprintf(p.stdout, "millrace ready bootstrap.servers=%s node.id=%d cluster.id=%s\n",
				strings.Join(i.Bootstrap, ","), i.NodeID, i.ClusterID)
			time.AfterFunc(settled, giveBackProgram)
		},
	}
	if options.Outside, err = p.outside(conf.static, logger); err != nil {
		return err
	}
	if err := f.operations.apply(p, logger, &options); err != nil {
		return err
	}
	if options.LogRequests != nil && !level.Enabled(zap.InfoLevel) {
		logger.Warn(f.filter(p).from() + ": the lines are of level info, which " + asked.String() + " leaves out")
	}
	resting, rested := context.WithCancel(ctx)
	go newCalm().run(resting)
	err = p.run(ctx, options)
	rested()
	if ctx.Err() != nil && onlyCanceled(err) {
		err = nil // told to stop before it was ready
	}
	if errors.Is(err, broker.ErrAddressInUse) {
		if from, set := conf.origin["listeners"]; set {
			err = fmt.Errorf("%w (listeners is set in %s)", err, from)
		} else {
			err = fmt.Errorf("%w; another port is --override listeners=PLAINTEXT://localhost:PORT", err)
		}
	}
	if errors.Is(err, broker.ErrNestedDirectories) {
		for _, key := range []string{"log.dirs", "log.dir"} {
			if from, set := conf.origin[key]; set {
				err = fmt.Errorf("%w (%s is set in %s)", err, key, from)
				break
			}
		}
		err = usageError{err}
	}
	if err != nil {
		err = withOwner(err)
	}
	if told != nil {
		told = fmt.Errorf("telling that the broker is ready: %w", told)
	}
	return errors.Join(err, told)
}

// clusterVariable names the id of the cluster that an empty directory becomes.
const clusterVariable = "CLUSTER_ID"

// clusterID is CLUSTER_ID without the blanks around it, which scripts leave. An id
// with others in it would be shown and written in places that blanks separate.
func (p *program) clusterID() (string, error) {
	id := strings.TrimSpace(p.variable(clusterVariable))
	if i := strings.IndexFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }); i >= 0 {
		return "", usageError{fmt.Errorf("CLUSTER_ID=%q: an id has no blanks in it ('millrace storage random-uuid' makes one)", id)}
	}
	return id, nil
}

// onlyCanceled says whether err is about a canceled context and about nothing
// else that went wrong beside it.
func onlyCanceled(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !onlyCanceled(one) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return onlyCanceled(e.Unwrap())
	}
	return err == context.Canceled
}

// settled is how long after it was ready a broker's start is over: who waited for
// it has been served.
const settled = 500 * time.Millisecond
