package tools

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Compare lists how what was seen of Millrace differs from what was seen of
// Apache Kafka, a line each. Explained differences are counted in used.
func Compare(ours, theirs []Seen, we, they *Server, used map[string]int) []string {
	var out []string
	a, b := NewNormaliser(we), NewNormaliser(they)
	for i := range min(len(ours), len(theirs)) {
		x, y := ours[i], theirs[i]
		if x.What != y.What {
			return append(out, fmt.Sprintf("%s against %s", x.What, y.What))
		}
		if x.Result.Exit != y.Result.Exit {
			out = append(out, fmt.Sprintf("%s: exit code %d, Kafka's is %d\n    ours: %s\n    Kafka's: %s", x.What, x.Result.Exit, y.Result.Exit,
				short(x.Result), short(y.Result)))
			continue
		}
		if x.Result.Hung || y.Result.Hung || x.Result.Stopped != y.Result.Stopped {
			out = append(out, fmt.Sprintf("%s: hung %v, stopped %v; Kafka's hung %v, stopped %v", x.What, x.Result.Hung, x.Result.Stopped, y.Result.Hung, y.Result.Stopped))
		}
		for _, part := range []struct{ name, ours, theirs string }{{"output", x.Result.Out, y.Result.Out}, {"errors", x.Result.Err, y.Result.Err}} {
			lines, kafkas := view(x, a, part.ours), view(y, b, part.theirs)
			lines = reconcile(x.Words, lines, kafkas, used)
			for _, d := range diff(lines, kafkas) {
				if d = x.What + ": " + part.name + ": " + d; !isExplained(d, used) {
					out = append(out, d)
				}
			}
		}
	}
	if len(ours) != len(theirs) {
		out = append(out, fmt.Sprintf("%d commands against %d", len(ours), len(theirs)))
	}
	return out
}

func short(r Result) string {
	text := strings.TrimSpace(frameText.ReplaceAllString(r.Err+"\n"+r.Out, ""))
	if len(text) > 1500 {
		text = text[:1500] + "..."
	}
	return text
}

var spaces = regexp.MustCompile(`[ \t]+`)

var numbered = regexp.MustCompile(`<([a-z ]+) \d+>`)

// unnumbered is a line with one name for all identities of a type.
func unnumbered(server *Server, line string) string {
	return numbered.ReplaceAllString(NewNormaliser(server).Text(line), "<$1>")
}

// view is the lines of an output, normalised, and sorted where Kafka's order is
// that of a hash.
func view(s Seen, n *Normaliser, text string) []string {
	lines := strings.Split(text, "\n")
	if order := orderOf(s.Words); order != nil {
		for i := range lines {
			lines[i] = order.within(lines[i])
		}
		if order.Lines {
			// By what a line is with its ids told apart no more: they are random.
			slices.SortFunc(lines, func(a, b string) int {
				return cmp.Or(strings.Compare(unnumbered(n.server, a), unnumbered(n.server, b)), strings.Compare(a, b))
			})
		}
	}
	text = n.Text(strings.Join(lines, "\n"))
	lines = strings.Split(text, "\n")
	if tabular[s.Words[0]] {
		for i := range lines {
			lines[i] = strings.TrimSpace(spaces.ReplaceAllString(lines[i], " "))
		}
	}
	return lines
}

// diff lists lines that stand in one text and not in the other, in order.
func diff(ours, theirs []string) []string {
	if slices.Equal(ours, theirs) {
		return nil
	}
	// The longest common run of lines, by the textbook; outputs are short.
	if len(ours)*len(theirs) > 4<<20 {
		return []string{fmt.Sprintf("%d lines, Kafka's are %d, and they differ", len(ours), len(theirs))}
	}
	width := len(theirs) + 1
	common := make([]int32, (len(ours)+1)*width)
	for i := len(ours) - 1; i >= 0; i-- {
		for j := len(theirs) - 1; j >= 0; j-- {
			if ours[i] == theirs[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(ours) || j < len(theirs) {
		switch {
		case i < len(ours) && j < len(theirs) && ours[i] == theirs[j]:
			i, j = i+1, j+1
		case j == len(theirs) || i < len(ours) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, fmt.Sprintf("only ours: %q", ours[i]))
			i++
		default:
			out = append(out, fmt.Sprintf("only Kafka's: %q", theirs[j]))
			j++
		}
	}
	return out
}
