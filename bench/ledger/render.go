package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Book is all that docs/benchmarks.json holds.
type Book struct {
	Machine string `json:"machine,omitempty"` // of the newest run, in words
	Method  string `json:"method,omitempty"`  // what its settings were
	Rows    []Row  `json:"rows"`
}

// Read reads a book.
func Read(b []byte) (Book, error) {
	var out Book
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("read the figures: %w", err)
	}
	return out, nil
}

// JSON is the book for programs.
func (b Book) JSON() ([]byte, error) {
	if b.Rows == nil {
		b.Rows = []Row{}
	}
	out, err := json.MarshalIndent(b, "", " ")
	return append(out, '\n'), err
}

const opening = `# Benchmarks

Written by ` + "`make bench`" + `; [benchmarks.json](benchmarks.json) is the same for programs.

## How to take figures

    make bench                                   # all of it: at most an hour, on a machine that does nothing else
    make bench FIGURE=telling LIMIT=15m          # the most telling figures, seven rounds: about ten minutes
    make bench FIGURE=produce/1KiB/p1/acks=all/c1 # one figure by its name, or those that match an expression
    make bench FIGURE=list                       # their names
    make bench ROUNDS=1 FIGURE=request PEERS=kfake  # a quick try

A run of fewer than seven rounds is a try: it is compared, shown and kept under ` + "`.cache/bench`" + `, but not written here.
Nor is a figure to which time or failures left fewer than seven (memory: three) of the rounds asked for; the run says which.
It ends with exit code 1 when a ratio has fallen behind the committed one beyond its quartiles, or an aim that the committed figures
meet is missed, and says which. What fell behind is first measured a second time; it counts when it falls behind again. What is
behind is not written here either, nor what was measured beside fewer peers, unless ` + "`BENCHFLAGS=-accept`" + ` says so.
What a run measured is kept in ` + "`.cache/bench/<time>`" + `, with pprof's profiles (processor time, allocations) of the load in which Millrace stands
worst beside Kafka, or without Kafka beside the floor.

## What is measured, and how

- **Subjects.** Millrace (` + "`bin/millrace serve`" + `), Apache Kafka 4.4.0 (one combined node, the JVM flags of its own scripts, 1 GiB of heap) and
  franz-go's kfake with a data directory, each with its own defaults but for the delay before deleted files go (200 ms, so that an
  hour's run finds the disk as it was). None of them syncs before it acknowledges, but where a figure says so. All run from the start
  of the run to its end, on one machine, over loopback; Kafka has had a minute of load before the first figure.
- **Floors.** Small programs that do the least: receive and drop; receive, CRC32C and write, all frames that came together at
  once; answer from files by sendfile, or by pread and write; echo; fdatasync. They have no protocol. They are fair to the figure that
  they stand beside: the same client sends them requests of the same bytes over as many connections; answers carry as many bytes
  behind headers as long as a broker's; what is twelve partitions there is twelve files here, which all connections share, each batch
  checked and written by itself, each part of an answer sent from its file; sockets are as the system makes them, the floor's and
  Millrace's; connections that read begin at different places; of what is read whole batches count, and as many bytes are asked
  for as whole batches have. What they send lies in files that were written a batch at a time, as a log is: the
  page cache keeps it in as small pieces, and sending those takes about twice the work. The floor of fetching is the better of its
  two ways, that of the read path is sendfile. What a floor has less to do: it decodes nothing, looks nothing up, and keeps no
  index. As brokers do with segments it makes a file of 1 GiB durable once it is full, beside what goes on: at these rates that is
  each second, and about a tenth of a produce figure's processor time.
- **Network.** The run makes a network of its own, that has a loopback and nothing else, with TCP as simple as it
  comes (reno, which without loss does what cubic does), where the system lets it; else it takes the one there is and says so. On a
  system whose connections pace what they send (BBR) timers send, not those who write: one connection over loopback was
  three times as dear as the next, the floor's as anybody's, and 16 KiB took twice the processor time.
- **Rounds.** In each round every figure is taken of each subject, one after the other, in an order that is shuffled anew. A ratio
  is made within the round. Shown are medians, and the quartiles in brackets.
- **Server CPU** is what the server's process used, all threads, user and system, read from its CPU clock at the two ends of the
  steady part, after a ramp. Clients run on the same cores, nothing is pinned: throughput is what the machine does with both,
  CPU per GB and per request is the server's own.
- **Raw frames** (produce, fetch, request): batches encoded beforehand, without compression, 256 KiB of batches with each request
  (shared by the partitions), five produce requests in flight on a connection, one fetch; stored batches are of 16 KiB. A GB is
  10^9 bytes of record batches. After every load each partition must end where the acknowledged batches say, and hold the bytes that
  were sent at its start and end; what is read by fetch figures was first read through and compared to the last byte. Each batch that
  a fetch is given must follow the one before it.
- **Append and read path**: one partition and one connection, one batch of the size with each request.
- **Recovery** is a start after kill -9 on a partition that was never flushed, from exec to readiness; the floor reads as much and compares checksums.
  **Cleaner** is one cleaning of a log in which each key comes twice, as the server's log tells of it; the floor reads as much twice and writes half.
- **franz-go and Kafka's tools**: clients as they come, without compression. A GB is 10^9 bytes of values. Kafka's tools tell their rate
  themselves, and CPU is over their whole run.
- **Tail**: readers wait at the end of what one connection produces at a fixed pace; CPU is that of both sides, for each GB delivered.
- **Latency** is an open loop from the moment when a record was due until its reader has it, acks=all, no linger, one partition, 100-byte values.
  The floor of raw frames is an echo at the same pace (floor/echo by itself: 1,000 a second), that of franz-go a relay between the same two clients: it keeps what comes in memory,
  checks nothing, and hands it to the reader who waits before it acknowledges it. At 100 records a second a round has too few records for its p99.9 to differ from its slowest.
- **Start** is from exec in an empty directory; formatting Kafka's directory is not counted. **Memory** is resident memory of a fresh process, mapped files included; what a
  connection costs is counted without them.
  Memory is taken in three rounds: it hardly differs between them. kfake cannot have 10,000 partitions with a data directory.

`

const empty = `## Figures

No figures are committed yet: they are worth something only from a machine that does nothing else. ` + "`make bench`" + ` fills this page.
`

// Markdown is the book for people.
func (b Book) Markdown() []byte {
	var out bytes.Buffer
	out.WriteString(opening)
	if len(b.Rows) == 0 {
		out.WriteString(empty)
		return out.Bytes()
	}
	if b.Machine != "" {
		fmt.Fprintf(&out, "The newest figures are from a machine with %s; %s.\n\n", b.Machine, b.Method)
	}
	b.aims(&out)
	out.WriteString("## Figures\n\nThe three ratios are Millrace's value over the other's.\n")
	out.Write(b.Tables(b.Rows))
	return out.Bytes()
}

// Tables are the rows, in a table for each kind of figure.
func (b Book) Tables(rows []Row) []byte {
	var out bytes.Buffer
	var sections []string
	tables := map[string]*bytes.Buffer{}
	for _, r := range rows {
		section, _, _ := strings.Cut(r.Figure, "/")
		t := tables[section]
		if t == nil {
			t = new(bytes.Buffer)
			tables[section] = t
			sections = append(sections, section)
			t.WriteString("| figure | measure | Millrace | Kafka | kfake | floor | to Kafka | to kfake | to floor | rounds | commit |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(t, "| %s | %s |", r.Figure, r.Measure)
		for _, s := range Subjects {
			t.WriteString(cell(r.Subjects[s]))
		}
		for _, s := range Subjects[1:] {
			t.WriteString(cell(r.Ratios[s]))
		}
		fmt.Fprintf(t, " %d | %s |\n", r.Rounds(), r.Commit)
	}
	for _, s := range sections {
		fmt.Fprintf(&out, "\n### %s\n\n%s", s, tables[s].Bytes())
	}
	return out.Bytes()
}

func cell(s Spread) string {
	if s.N == 0 {
		return " |"
	}
	return fmt.Sprintf(" %s (%s, %s) |", number(s.Median), number(s.Q1), number(s.Q3))
}

// number writes three digits that count.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
