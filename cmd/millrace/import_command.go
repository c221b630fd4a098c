package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/adopt"
)

func (p *program) importCommand() *cobra.Command {
	var to, metadata, level string
	var abort bool
	c := &cobra.Command{
		Use:   "import FROM --log-dir TO",
		Short: "Take over the data directory of an Apache Kafka",
		Long: "Take over what a single node of Apache Kafka 4, broker and controller at once, has\n" +
			"written: topics with their ids, partitions and configs, records, committed offsets,\n" +
			"the cluster's and the node's id. Kafka must have stopped, in order or not; its\n" +
			"directories stay as they are. What is not taken over is printed.\n\n" +
			"Several directories are named with commas, as many in TO as in FROM. Afterwards:\n" +
			"millrace serve --override log.dirs=TO\n\n" +
			"A transaction that was open stays so, until its producer or its coordinator ends\n" +
			"it; --abort-transactions ends it with ABORT markers.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("import: expected one argument, Kafka's log.dirs")}
			}
			if to == "" {
				return usageError{fmt.Errorf("import: --log-dir says whereto")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			logger, _, err := p.logger(level)
			if err != nil {
				return err
			}
			return p.adopt(adopt.Options{From: strings.Split(args[0], ","), To: strings.Split(to, ","), Metadata: metadata, Abort: abort, Logger: logger})
		},
	}
	c.Flags().StringVar(&to, "log-dir", "", "the directory to write, or several with commas; empty or not there")
	c.Flags().StringVar(&metadata, "metadata-dir", "", "Kafka's metadata.log.dir, if it is not among FROM")
	c.Flags().BoolVar(&abort, "abort-transactions", false, "end open transactions with ABORT markers")
	c.Flags().StringVar(&level, "log-level", "warn", "what to log: debug, info, warn or error")
	return c
}

func (p *program) adopt(o adopt.Options) error {
	r, err := adopt.Run(o)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	how := "in order"
	if !r.Clean {
		how = "not in order"
	}
	fmt.Fprintf(p.stdout, "cluster %s, node %d, which had stopped %s: %d topics, %d partitions with files, %d offsets\n", r.ClusterID, r.NodeID, how, r.Topics, r.Logs, r.Records)
	for _, t := range r.Open {
		what := "left open"
		if t.Aborted {
			what = "aborted"
		}
		fmt.Fprintf(p.stdout, "transaction of producer %d in %s-%d from offset %d: %s\n", t.ProducerID, t.Topic, t.Partition, t.First, what)
	}
	for _, text := range r.Left {
		fmt.Fprintf(p.stdout, "not taken over: %s\n", text)
	}
	_, err = fmt.Fprintf(p.stdout, "start it with: millrace serve --override log.dirs=%s\n", strings.Join(o.To, ","))
	return err
}
