// Command millrace is the broker's program: flags, a configuration file and the
// environment become a configuration, and the broker runs until it is told to
// stop. The commands that stand in for Kafka's shell tools, by their own name or
// called by Kafka's, are those of room shell. Nothing else happens here.
//
// When the broker is ready it writes one line to standard output:
//
//	millrace ready bootstrap.servers=HOST:PORT[,...] node.id=N cluster.id=X
//
// Everything else goes to standard error: readable lines on a terminal, JSON
// otherwise. It exits with 0 after an orderly stop, with 2 when the command line
// or the configuration is at fault, and with 1 when anything else is: a taken
// port, a data directory in use, an identity that does not fit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"millrace/broker"
	"millrace/shell"
)

// version is set by the linker.
var version = "unknown"

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// program is what a command runs with; tests replace its parts.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	run            func(context.Context, broker.Options) error
}

func main() {
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), run: broker.Run}
	args, err := calledAs(os.Args[0], os.Args[1:])
	if err != nil {
		os.Exit(p.failed(err))
	}
	os.Exit(p.main(signals(), args))
}

// usageError is a mistake on the command line or in the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// main runs one command line and gives its exit code.
func (p *program) main(ctx context.Context, args []string) int {
	c := p.command()
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	return p.failed(err)
}

// failed tells what went wrong, unless it has been told, and gives the exit code.
func (p *program) failed(err error) int {
	if errors.Is(err, shell.ErrTold) {
		return exitFailed
	}
	// One line, however many errors came together.
	fmt.Fprintf(p.stderr, "millrace: %s\n", oneLine(err))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
