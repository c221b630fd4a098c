// Package explained is the one table of what the differential test (package oracle)
// may find and nobody has to mend, and of why. docs/compatibility.md is made from the
// same table, so that the page and the test say the same.
//
// A difference is meant only if it follows from one of the Purposes, which are what
// the broker is for, or if Kafka's own tracker has a ticket or a KIP for what Kafka does
// there. Everything else is a fault.
package explained

import (
	"regexp"
	"strings"
)

// Purpose is one of the things in which Millrace differs from Apache Kafka on purpose.
type Purpose struct {
	Name string
	What string // some sentences, for the page
}

// The purposes.
var (
	Created = Purpose{"created at once", "topics that a request creates, internal ones too, exist when it is answered; an admin request is answered when the broker " +
		"that was asked has applied the change. Kafka answers earlier."}
	Address = Purpose{"address", "a broker without a configured address tells each client the address it has reached it by."}
	Overlap = Purpose{"produces overlap", "Produce requests of one connection overlap while they wait for replication; replies keep the order of requests."}
	OneNode = Purpose{"one node", "defaults suit one node: replication factors, the initial rebalance delay, `node.id`, `process.roles`, `listeners`, `log.dirs`; a directory " +
		"that is not formatted is founded; a node needs no controller listener, and DescribeQuorum tells of none then. In a cluster of one broker configured " +
		"replication factors count as 1, with a warning; a request that asks for more is refused, as in Kafka."}
	Old = Purpose{"old versions", "versions that Kafka 4.0 dropped (KIP-896) are served, message sets too, as 3.9 served them; where 4.4 does otherwise what both do, " +
		"as 4.4 does it. What is converted for a client before 0.11 is bounded: a compressed batch that would become more than 16 MiB and four times its size is " +
		"refused to it (MESSAGE_TOO_LARGE). Records with a time below -1 are given to such a client; 3.9 fails at them, in whatever partition they are."}
	Environment = Purpose{"environment", "environment variables are merged over the defaults, for the program as for the image."}
	Telemetry   = Purpose{"telemetry", "the APIs of KIP-714 are advertised without a plugin, while there is a client-metrics subscription, and served " +
		"at any time, as in Kafka: what clients push is read, and shown at /metrics."}
	Unbuilt = Purpose{"not ahead of its code", "what is not built is not advertised: no API version, feature level or type of coordinator; a request for one is " +
		"answered UNSUPPORTED_VERSION. A config that waits for something warns once; one that asks for protection which is not there is refused."}
	// What follows is named after the tickets that say why Kafka does otherwise.
	Skipped = Purpose{"KAFKA-8106", "compressed records are walked one by one, and what no consumer could read is refused (INVALID_RECORD); Kafka skips over them since then, " +
		"and stores it."}
	Answered = Purpose{"KAFKA-13149", "requests at which Kafka 4.4.0 still fails without an answer are answered, as a null record is since then: null records in Produce " +
		"(INVALID_RECORD), a resource that comes twice in AlterConfigs (INVALID_REQUEST), a member of a group that has asked twice."}
	Listeners = Purpose{"KAFKA-19931", "configs are checked alike on both listeners; Kafka's controller stores what its broker refuses, which the ticket means to end."}
	Inherited = Purpose{"KAFKA-12613", "defaults of topics that no topic can have are refused, as for the other configs that the ticket has gone through; Kafka takes " +
		"`log.flush.interval.ms=-1`, cannot apply it, and creates no topic any more."}
)

// Purposes are all of them, as the page lists them.
var Purposes = []*Purpose{&Created, &Address, &Overlap, &OneNode, &Old, &Environment, &Telemetry, &Unbuilt, &Skipped, &Answered, &Listeners, &Inherited}

// Difference is one that is meant.
type Difference struct {
	API string // as package kmsg names it
	// At matches what follows "API vN: " in the text of a difference: what was asked,
	// where in the answer it is, and both values, "what.path: ours against Kafka's".
	At  *regexp.Regexp
	Why string
	// Old: it is one from Kafka 3.9 alone, in versions that 4 has dropped.
	Old bool
	// Purpose is what it follows from; nil where Ticket names a ticket or a KIP of Kafka's.
	Purpose *Purpose
	Ticket  string
}

// Cites is what a difference follows from, in a word.
func (d *Difference) Cites() string {
	if d.Purpose != nil {
		return d.Purpose.Name
	}
	return d.Ticket
}

var head = regexp.MustCompile(`^(\w+) v\d+: `)

// unescaped undoes what encoding/json does to the marks of what is normalised.
var unescaped = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">")

// Find gives the entry that explains a difference; nil if there is none.
func Find(text string) *Difference { return find(text, false) }

// FindOld is Find for a difference from Kafka 3.9, in a version that 4 has dropped.
func FindOld(text string) *Difference {
	if d := find(text, true); d != nil {
		return d
	}
	return find(text, false)
}

func find(text string, old bool) *Difference {
	text = unescaped.Replace(text)
	m := head.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	for i := range Sequences {
		if d := &Sequences[i]; d.Old == old && d.API == m[1] && d.At.MatchString(text[len(m[0]):]) {
			return d
		}
	}
	return nil
}

// Lines are the table as the page shows it: the purposes, and what sequences show of
// them or of what Kafka has tickets for.
func Lines() (purposes, sequences []string) {
	for _, p := range Purposes {
		purposes = append(purposes, "- *"+p.Name+"*: "+p.What)
	}
	for i := range Sequences {
		d := &Sequences[i]
		beside := ""
		if d.Old {
			beside = " beside 3.9"
		}
		sequences = append(sequences, "- "+d.API+beside+": "+d.Why+" ("+d.Cites()+")")
	}
	return purposes, sequences
}
