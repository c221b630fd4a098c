package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/controller/config"

	"millrace/shell"
)

// flags are those of serve and dev.
type flags struct {
	config    string
	overrides []string
	topics    []string
	logLevel  string
	throwAway bool     // the directories are dev's own
	cleared   []string // what dev has removed before
	operations
}

func (f *flags) add(c *cobra.Command) {
	f.operations.add(c)
	f.addSource(c)
	c.Flags().StringArrayVar(&f.topics, "topics", nil, "have these topics, as name:partitions[:config=value...], several with commas; may be repeated")
	c.Flags().StringVar(&f.logLevel, "log-level", "", "what to log: debug, info (the default), warn or error (or "+logLevelVariable+")")
}

// addSource adds the flags that say what the configuration is.
func (f *flags) addSource(c *cobra.Command) {
	c.Flags().StringVarP(&f.config, "config", "c", "", "read server properties from this file")
	c.Flags().StringArrayVar(&f.overrides, "override", nil, "set a config, as key=value; may be repeated")
}

func (p *program) command() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:     "millrace",
		Version: version,
		Short:   "A broker that speaks the Apache Kafka protocol",
		Long: "Millrace is a broker that speaks the Apache Kafka protocol.\n\n" +
			"Without a command it serves, as 'millrace serve' does.",
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return p.serve(c.Context(), f) },
		SilenceErrors: true, SilenceUsage: true,
	}
	f.add(root)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; '%s --help' lists what there is", err, c.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(p.serveCommand(), p.devCommand(), p.healthCommand(), p.configCommand(), p.importCommand(), p.logCommand(), p.toolsCommand(), p.versionCommand())
	for _, t := range shell.Tools() {
		root.AddCommand(p.toolCommand(t))
	}
	return root
}

func (p *program) serveCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "serve [server.properties]",
		Short: "Run a broker until it is stopped",
		Long: "Run a broker until it is stopped.\n\n" +
			"The configuration is Kafka's server.properties, over it KAFKA_* environment\n" +
			"variables, over those --override. Without any of them the broker listens on\n" +
			"port 9092 of the loopback addresses and keeps its data in ./millrace-data.\n" +
			"KAFKA_ADVERTISED_LISTENERS without listeners sets those too: the same ports, on\n" +
			"every interface. 'millrace config' tells what comes out.\n\n" +
			"CLUSTER_ID in the environment is the id of the cluster that an empty directory\n" +
			"becomes; a directory of another cluster is refused.\n\n" + topicsHelp + "\n\n" +
			"SIGTERM or SIGINT stops it in order; another one, a second or more after the\n" +
			"first, stops it at once.",
		Args: propertiesArg(&f),
		RunE: func(c *cobra.Command, _ []string) error { return p.serve(c.Context(), f) },
	}
	f.add(c)
	return c
}

func (p *program) devCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "dev [server.properties]",
		Short: "Run a broker whose data is thrown away at its end",
		Long:  "Run a broker as 'millrace serve' does, but in a temporary directory that is\nremoved when the broker stops. What one that was killed has left behind is\nremoved at the start of the next one of the same user.",
		Args:  propertiesArg(&f),
		RunE:  func(c *cobra.Command, _ []string) error { return p.dev(c.Context(), f) },
	}
	f.add(c)
	return c
}

func (p *program) healthCommand() *cobra.Command {
	var f flags
	var bootstrap string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "health",
		Short: "Exit with 0 if a broker serves clients",
		Long: "Ask a broker for its API versions and its metadata, and exit with 0 if it\n" +
			"answers as one that is ready for clients, with 1 otherwise. It is ready while\n" +
			"partitions are offline because a data directory is missing, too: the others are\n" +
			"served, and a restart, which is what mostly follows, would not bring them back.\n" +
			"/readyz of --http-address tells of that: it is 503 then.\n\n" +
			"The broker is the one that the configuration describes, or --bootstrap-server.",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.health(c.Context(), f, bootstrap, timeout)
		},
	}
	f.addSource(c)
	c.Flags().StringVarP(&bootstrap, "bootstrap-server", "b", "", "the broker's address, as host:port")
	c.Flags().StringVar(&bootstrap, "bootstrap", "", "the older name of --bootstrap-server")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for an answer")
	return c
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "millrace %s (%s %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	near := ""
	if name := config.Closest(args[0], names); name != "" {
		near = fmt.Sprintf(" (did you mean '%s %s'?)", c.CommandPath(), name)
	}
	return usageError{fmt.Errorf("unknown command or argument %q for %q%s; '%s --help' lists what there is", strings.Join(args, " "), c.CommandPath(), near, c.CommandPath())}
}
