// Package shell stands in for Kafka's shell tools: it takes their flags, prints
// what they print and ends with their exit codes. All but one are clients of any
// broker that speaks PLAINTEXT, and know nothing of this one; kafka-storage works
// on data directories. Where a configuration comes from, and under which names
// the tools are called, is the program's to say.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"millrace/controller/config"
)

// Shell is what a tool runs with. It is good for one command line.
type Shell struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string // of this program, told to brokers
	// Configuration reads a server.properties, with all that is laid over it.
	Configuration func(file string) (*config.Static, error)

	ctx context.Context // of the command that runs
}

// ErrTold ends a tool with exit code 1; what there was to say has been said.
var ErrTold = errors.New("the tool failed")

// Tool names one of the tools.
type Tool struct {
	Name  string // topics; Kafka's is called kafka-topics.sh
	Short string // what it does
}

// Tools are those of Kafka's shell tools that can be run.
func Tools() []Tool {
	var list []Tool
	for _, t := range tools() {
		list = append(list, Tool{t.name, t.short})
	}
	return list
}

// tools are those of Kafka's shell tools that this program stands in for.
func tools() []*tool {
	return []*tool{
		topicsTool(), configsTool(), groupsTool(), consumerGroupsTool(), offsetsTool(), consoleProducerTool(), consoleConsumerTool(),
		clusterTool(), apiVersionsTool(), quorumTool(), featuresTool(), storageTool(),
	}
}

// Run runs one command line of a tool. What went wrong has been told when it
// returns ErrTold; the exit code is then 1, as of Kafka's tools.
func (sh *Shell) Run(ctx context.Context, name string, args []string) error {
	i := slices.IndexFunc(tools(), func(t *tool) bool { return t.name == name })
	if i < 0 {
		return fmt.Errorf("%s is none of the tools", name)
	}
	t := tools()[i]
	sh.ctx = ctx
	c, err := t.parse(args)
	if err == nil {
		run := t.run
		for _, a := range t.actions {
			if a.name == c.action {
				run = a.run
			}
		}
		err = run(sh, c)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHelp):
		fmt.Fprint(sh.Stdout, t.usage(c.action))
		return nil
	case errors.As(err, new(toolUsage)):
		fmt.Fprintf(sh.Stderr, "%s\n%s", oneLine(err), t.usage(c.action))
	case errors.Is(err, ErrTold), errors.Is(err, context.Canceled):
	default:
		fmt.Fprintf(sh.Stderr, "%s\n", oneLine(err))
	}
	return ErrTold
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// running is the context of the command that runs.
func (sh *Shell) running() context.Context {
	if sh.ctx == nil {
		return context.Background()
	}
	return sh.ctx
}
