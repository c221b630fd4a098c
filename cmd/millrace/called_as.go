package main

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"millrace/controller/config"
	"millrace/shell"
)

// calledAs gives the arguments that a call by one of Kafka's names stands for:
// kafka-topics.sh and kafka-topics are 'millrace topics', and so is
// 'millrace kafka-topics.sh'.
func calledAs(argv0 string, args []string) ([]string, error) {
	name := strings.TrimSuffix(filepath.Base(argv0), ".sh")
	if !strings.HasPrefix(name, "kafka-") && len(args) > 0 && strings.HasPrefix(args[0], "kafka-") {
		return calledAs(args[0], args[1:])
	}
	rest, ok := strings.CutPrefix(name, "kafka-")
	if !ok {
		return args, nil
	}
	if rest == "server-start" {
		return startArgs(args)
	}
	for _, t := range shell.Tools() {
		if t.Name == rest {
			return append([]string{rest}, args...), nil
		}
	}
	return nil, usageError{fmt.Errorf("%s is not among Kafka's tools that this program stands in for: %s", name, strings.Join(toolNames(), ", "))}
}

// toolNames are the names that calledAs knows, sorted, without .sh.
func toolNames() []string {
	names := []string{"kafka-server-start"}
	for _, t := range shell.Tools() {
		names = append(names, "kafka-"+t.Name)
	}
	sort.Strings(names)
	return names
}

func (p *program) toolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tools",
		Short: "Print the names of Kafka's tools that this program stands in for",
		Long: "Print the names of Kafka's tools that this program stands in for, one a line.\n" +
			"Called by one of them, with or without .sh, or with it as its first argument,\nit takes that tool's flags.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, strings.Join(toolNames(), "\n"))
			return err
		},
	}
}

// startArgs turns the arguments of kafka-server-start.sh into those of serve.
func startArgs(args []string) ([]string, error) {
	for _, a := range args {
		if a == "-daemon" || a == "--daemon" {
			return nil, usageError{fmt.Errorf("%s is not supported: the broker stays in the foreground; leave that to the shell or a service manager", a)}
		}
	}
	if len(args) == 1 && args[0] == "--version" {
		return []string{"version"}, nil
	}
	return append([]string{"serve"}, args...), nil
}

// toolCommand makes one of Kafka's tools a command of this program.
func (p *program) toolCommand(t shell.Tool) *cobra.Command {
	return &cobra.Command{
		Use:                t.Name,
		Short:              t.Short + " (as kafka-" + t.Name + ".sh)",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			sh := &shell.Shell{Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Version: version, Configuration: func(file string) (*config.Static, error) {
				conf, err := p.configuration(flags{config: file})
				if err != nil {
					return nil, err
				}
				return conf.static, nil
			}}
			return sh.Run(c.Context(), t.Name, args)
		},
	}
}
