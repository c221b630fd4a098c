// Command cmd brings what the differential test has written into the conformance ledger, or holds it against the ledger.
//
//	go run ./compat-tests/ledger/cmd [-check | -add] SUMMARY.json
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"millrace/compat-tests/ledger"
)

func main() {
	check := flag.Bool("check", false, "write nothing; end with exit code 1 if a line is worse than the ledger's")
	add := flag.Bool("add", false, "add the counts to those of runs with other seeds, in place of replacing them")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./compat-tests/ledger/cmd [-check | -add] SUMMARY.json")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := bring(flag.Arg(0), *check, *add); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func bring(path string, check, add bool) error {
	root, err := ledger.Root()
	if err != nil {
		return err
	}
	committed, err := ledger.Load(filepath.Join(root, ledger.File))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, err := committed.FromOracle(text)
	if err != nil {
		return err
	}
	switch {
	case !check && add:
		if err := committed.Add(lines); err != nil {
			return err
		}
		return committed.Save(root)
	case !check:
		return ledger.Write(root, lines)
	}
	if worse := ledger.Worse(committed, lines, true); len(worse) > 0 {
		for _, w := range worse {
			fmt.Fprintln(os.Stderr, w)
		}
		return fmt.Errorf("%d lines are worse than %s", len(worse), ledger.File)
	}
	return nil
}
