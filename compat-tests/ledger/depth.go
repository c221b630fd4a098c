package ledger

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Depth is what the sequences of some seeds reached of Apache Kafka itself, as JaCoCo's agent counts it, and which error
// codes it answered them with.
type Depth struct {
	Commit    string             `json:"commit"`
	Seeds     [2]int64           `json:"seeds"` // the first, and the one behind the last
	Parts     []Reached          `json:"parts"`
	Codes     map[string][]int16 `json:"codes"` // error codes seen, by API key
	Unseen    []Unseen           `json:"unseen,omitempty"`
	Unreached []Unreached        `json:"unreached,omitempty"`
}

// Reached counts the branches of a class, of several, or of the handlers of an API.
type Reached struct {
	Name     string `json:"name"`
	Reached  int    `json:"reached"`
	Branches int    `json:"branches"`
}

// Unseen is a code that an API is known to answer with, and that was not seen.
type Unseen struct {
	API  int16  `json:"api"`
	Code int16  `json:"code"`
	Why  string `json:"why,omitempty"`
}

// Unreached counts the branches of a method that were not reached, where less is reached of its part than has to be.
type Unreached struct {
	Part     string   `json:"part"`
	Method   string   `json:"method"`
	Branches int      `json:"branches"`
	Why      []string `json:"why,omitempty"`
}

// chance is how many branches of a part may be reached in one run and not in the next: what is reached when two requests
// meet.
const chance = 2

// worseDepth names what fewer branches were reached of, or that fewer error codes were seen. Runs over other seeds are
// not compared.
func worseDepth(before, seen *Depth) []string {
	if before == nil || seen == nil || before.Seeds != seen.Seeds {
		return nil
	}
	var out []string
	var all [2]int
	for _, was := range before.Parts {
		i := slices.IndexFunc(seen.Parts, func(r Reached) bool { return r.Name == was.Name })
		if i < 0 {
			out = append(out, fmt.Sprintf("depth: the branches of %s were not counted, the ledger has them", was.Name))
			continue
		}
		is := seen.Parts[i]
		all[0] += was.Reached
		all[1] += is.Reached
		if lost := was.Reached - is.Reached; lost > chance && fell(was.Reached, is.Reached) {
			out = append(out, fmt.Sprintf("depth: %d branches of %s were reached, the ledger has %d", is.Reached, was.Name, was.Reached))
		}
	}
	if fell(all[0], all[1]) {
		out = append(out, fmt.Sprintf("depth: %d branches were reached, the ledger has %d", all[1], all[0]))
	}
	if was, is := pairs(before.Codes), pairs(seen.Codes); fell(was, is) {
		out = append(out, fmt.Sprintf("depth: APIs were seen with %d error codes, the ledger has %d", is, was))
	}
	return out
}

// fell says whether a figure has fallen by more than a hundredth.
func fell(was, is int) bool { return (was-is)*100 > was }

func pairs(codes map[string][]int16) int {
	n := 0
	for _, list := range codes {
		n += len(list)
	}
	return n
}

// json is the depth as the file holds it: a line for each part, API and reason.
func (d *Depth) json(b *bytes.Buffer, line func(any) string) {
	fmt.Fprintf(b, "{\"commit\":%s,\"seeds\":%s,\n", line(d.Commit), line(d.Seeds))
	list := func(name string, n int, one func(int) string, open, shut, last string) {
		fmt.Fprintf(b, "\"%s\":%s\n", name, open)
		for i := range n {
			b.WriteString("  " + one(i))
			if i < n-1 {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteString(shut + last)
	}
	keys := d.keys()
	list("parts", len(d.Parts), func(i int) string { return line(d.Parts[i]) }, "[", "]", ",\n")
	list("codes", len(keys), func(i int) string { return line(keys[i]) + ":" + line(d.Codes[keys[i]]) }, "{", "}", ",\n")
	list("unseen", len(d.Unseen), func(i int) string { return line(d.Unseen[i]) }, "[", "]", ",\n")
	list("unreached", len(d.Unreached), func(i int) string { return line(d.Unreached[i]) }, "[", "]", "}")
}

// keys are the keys of APIs with codes, in their order as numbers.
func (d *Depth) keys() []string {
	var out []string
	for k := range d.Codes { // any order: sorted next
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int { return number(a) - number(b) })
	return out
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func (d *Depth) markdown(b *bytes.Buffer, name func(key int16) string) {
	b.WriteString("\n### How deep the sequences go\n\n")
	fmt.Fprintf(b, "Branches of Apache Kafka's own code that the sequences of the seeds %d to %d reached (`make oracle-depth`, with JaCoCo's agent in\n", d.Seeds[0], d.Seeds[1]-1)
	fmt.Fprintf(b, "Kafka), at %s. Each run over these seeds is held against these figures: none may fall by more than a hundredth.\n", d.Commit)
	b.WriteString("GroupMetadataManager, GroupCoordinatorService, GroupCoordinatorShard and OffsetMetadataManager hold the groups that are not served yet, too.\n\n")
	b.WriteString("| part of Kafka | branches | reached | of a hundred |\n|---|---|---|---|\n")
	row := func(r Reached) {
		fmt.Fprintf(b, "| %s | %d | %d | %.0f |\n", r.Name, r.Branches, r.Reached, 100*float64(r.Reached)/float64(max(1, r.Branches)))
	}
	handlers := Reached{Name: "KafkaApis: all handlers of APIs that are served"}
	for _, r := range d.Parts {
		row(r)
		if strings.HasPrefix(r.Name, "KafkaApis: ") {
			handlers.Reached += r.Reached
			handlers.Branches += r.Branches
		}
	}
	if handlers.Branches > 0 {
		row(handlers)
	}
	if len(d.Unreached) > 0 {
		b.WriteString("\nNot reached, in parts of which less than 70 of a hundred branches are:\n\n")
		for _, u := range d.Unreached {
			fmt.Fprintf(b, "- %s, %s, %d: %s\n", u.Part, u.Method, u.Branches, strings.Join(u.Why, "; "))
		}
	}
	b.WriteString("\nError codes that the same sequences saw of Apache Kafka, and those that an API is known for and that were not seen, with why.\n\n")
	b.WriteString("| API | seen | not seen |\n|---|---|---|\n")
	for _, k := range d.keys() {
		key := int16(number(k))
		var unseen []string
		for _, u := range d.Unseen {
			if u.API == key {
				unseen = append(unseen, fmt.Sprintf("%d: %s", u.Code, u.Why))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name(key), strings.Trim(strings.ReplaceAll(fmt.Sprint(d.Codes[k]), " ", ", "), "[]"), strings.Join(unseen, "; "))
	}
}
