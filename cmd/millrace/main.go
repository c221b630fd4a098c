// Command millrace is the broker's program: flags, a configuration file and the
// environment become a configuration, and the broker runs until it is told to
// stop. Nothing else happens here.
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
	stdout, stderr io.Writer
	environ        []string
	run            func(context.Context, broker.Options) error
}

func main() {
	p := &program{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), run: broker.Run}
	os.Exit(p.main(signals(), os.Args[1:]))
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
	// One line, however many errors came together.
	fmt.Fprintf(p.stderr, "millrace: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}
