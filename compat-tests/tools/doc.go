// Package tools runs Apache Kafka's own command-line tools against Millrace and
// against Apache Kafka, and compares what a user sees: exit code, standard
// output, standard error.
//
// It is not a test of the tools, and it compares no timing. What is compared is
// written down in testdata, one file for each tool, as plays: command lines with
// what they are given to read (the form stands at [ParsePlays]). Both servers get
// the same state because they are given the same commands.
//
// It promises that nothing is left out silently: every option that a tool's
// --help names is used by a play, or is listed in the tool's file with a reason;
// outputs are changed before the comparison only by type (ids, times, addresses,
// measured figures, the prose of a broker's error message; see normalise.go), and
// lines are sorted or set aside only by the two tables in explained.go.
package tools
