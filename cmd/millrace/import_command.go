package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/adopt"
)

const withoutMissing = "without-missing-dirs"

// importedTransactions is true as long as transactions are not built: then nobody can end one.
const importedTransactions = "A transaction whose end Kafka had decided ends that way. One that was open stays\n" +
	"so: nothing here ends it, and consumers that read committed records only get\n" +
	"nothing from its first record on. --abort-transactions ends it with ABORT markers."

func (p *program) importCommand() *cobra.Command {
	var to, metadata, level string
	var abort, without bool
	c := &cobra.Command{
		Use:   "import FROM --log-dir TO",
		Short: "Take over the data directory of an Apache Kafka",
		Long: "Take over what a single node of Apache Kafka 4, broker and controller at once, has\n" +
			"written: topics with their ids, partitions and configs, records, committed offsets,\n" +
			"the cluster's and the node's id. Kafka must have stopped, in order or not; its\n" +
			"directories stay as they are. What is not taken over is printed.\n\n" +
			"Several directories are named with commas, as many in TO as in FROM, and all that\n" +
			"Kafka had. Afterwards: millrace serve --override log.dirs=TO\n\n" +
			importedTransactions + "\n\n" +
			"An import that did not come to its end leaves directories that no broker starts\n" +
			"on: remove what is in them, and import again.",
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
			logger, _, err := p.logger(setting{value: level, flag: "--log-level"})
			if err != nil {
				return err
			}
			return p.adopt(adopt.Options{From: strings.Split(args[0], ","), To: strings.Split(to, ","), Metadata: metadata, Abort: abort, WithoutMissing: without, Logger: logger})
		},
	}
	c.Flags().StringVar(&to, "log-dir", "", "the directory to write, or several with commas; empty or not there")
	c.Flags().StringVar(&metadata, "metadata-dir", "", "Kafka's metadata.log.dir, if it is not among FROM")
	c.Flags().BoolVar(&abort, "abort-transactions", false, "end open transactions with ABORT markers")
	c.Flags().BoolVar(&without, withoutMissing, false, "leave out the directories that Kafka had and FROM does not name: partitions in them are offline")
	c.Flags().StringVar(&level, "log-level", "warn", "what to log: debug, info, warn or error")
	return c
}

func (p *program) adopt(o adopt.Options) error {
	r, err := adopt.Run(o)
	if errors.Is(err, adopt.ErrDirectoryMissing) {
		return fmt.Errorf("import: %w, or give --%s", err, withoutMissing)
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	how := "in order"
	if !r.Clean {
		how = "not in order"
	}
	fmt.Fprintf(p.stdout, "cluster %s, node %d, which had stopped %s: %d topics, %d partitions with files, %d offsets in them\n", r.ClusterID, r.NodeID, how, r.Topics, r.Logs, r.Records)
	for _, t := range r.Open {
		fmt.Fprintf(p.stdout, "transaction of producer %d in %s-%d from offset %d: %s\n", t.ProducerID, t.Topic, t.Partition, t.First, t.Outcome)
	}
	for _, text := range r.Left {
		fmt.Fprintf(p.stdout, "not taken over: %s\n", text)
	}
	_, err = fmt.Fprintf(p.stdout, "start it with: millrace serve --override log.dirs=%s\n", strings.Join(o.To, ","))
	return err
}
