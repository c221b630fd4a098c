package tools

import (
	"regexp"
	"slices"
	"strings"
)

// tabular names the tools that pad columns to the longest value in them: the
// length of a port or a directory moves the rest of the line.
var tabular = map[string]bool{
	"kafka-consumer-groups": true, "kafka-groups": true, "kafka-metadata-quorum": true, "kafka-transactions": true, "kafka-cluster": true,
	"kafka-share-groups": true, "kafka-streams-groups": true,
}

// Order is an output whose order is that of a Java hash table or of answers as
// they arrive, which says nothing.
type Order struct {
	Words []string // the command has all of them
	Lines bool     // sort whole lines
	List  *regexp.Regexp
	Why   string
}

// orders is the one table of what is sorted before it is compared.
var orders = []Order{}

func orderOf(words []string) *Order {
	for i, o := range orders {
		if !slices.ContainsFunc(o.Words, func(w string) bool { return !slices.Contains(words, w) }) {
			return &orders[i]
		}
	}
	return nil
}

// within sorts the parts of a list, between commas, where List finds one in a
// line.
func (o *Order) within(line string) string {
	if o.List == nil {
		return line
	}
	at := o.List.FindStringSubmatchIndex(line)
	if at == nil {
		return line
	}
	parts := strings.Split(line[at[2]:at[3]], ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return line[:at[2]] + strings.Join(parts, ",") + line[at[3]:]
}

// Explained is a line that may stand on one side only, because the two servers
// differ on purpose.
type Explained struct {
	Words []string // the command has all of them
	Line  *regexp.Regexp
	Why   string
}

var explained = []Explained{}

func isExplained(play string, words []string, line string, used map[string]int) bool {
	for _, e := range explained {
		if e.Line.MatchString(line) && !slices.ContainsFunc(e.Words, func(w string) bool { return !slices.Contains(words, w) }) {
			if used != nil {
				used[e.Why]++
			}
			return true
		}
	}
	return false
}
