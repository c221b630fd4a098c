package run

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Row is one client's line of the table.
type Row struct {
	Client, Version string
	Records         int
	Flavours        []string
	Results         []Result
	Remarks         []string
}

const (
	beginTable = "<!-- table: begin (written by the run) -->"
	endTable   = "<!-- table: end -->"
)

// cell is the worst outcome of a step over all flavours.
func (r Row) cell(step string) string {
	worst := NotRun
	for _, res := range r.Results {
		if res.Step == step {
			worst = max(worst, res.Outcome)
		}
	}
	return [...]string{"not reached", "ok", "no call", "**fails**"}[worst]
}

// key orders and identifies rows.
func (r Row) key() string { return r.Client + " " + r.Version }

func (r Row) line() string {
	cells := []string{r.Client, r.Version, fmt.Sprint(r.Records), strings.Join(r.Flavours, ", ")}
	for _, step := range Steps {
		cells = append(cells, r.cell(step))
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// notes are sentences for below the table: what a client does not have, and what failed.
func (r Row) notes() []string {
	var lines []string
	for _, remark := range r.Remarks {
		lines = append(lines, fmt.Sprintf("- %s: %s", r.key(), remark))
	}
	seen := make(map[string]bool)
	for _, res := range r.Results {
		first, _, _ := strings.Cut(res.Detail, "\n")
		word := map[Outcome]string{NotRun: "not run", Unsupported: "no call", Failed: "fails"}[res.Outcome]
		line := fmt.Sprintf("- %s: %s: %s: %s", r.key(), res.Step, word, first)
		if word != "" && first != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return lines
}

// UpdateTable writes the rows between the markers of a file. Rows of other clients that are there already stay.
func UpdateTable(path string, rows []Row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), beginTable+"\n")
	old, tail, ok2 := strings.Cut(rest, endTable)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no line %q followed by %q", path, beginTable, endTable)
	}
	lines := make(map[string]string) // by key
	notes := make(map[string][]string)
	for line := range strings.Lines(old) {
		line = strings.TrimRight(line, "\n")
		if cells := strings.Split(line, " | "); len(cells) == len(Steps)+4 && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| client |") {
			lines[strings.TrimPrefix(cells[0], "| ")+" "+cells[1]] = line
		} else if who, _, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": "); ok && strings.HasPrefix(line, "- ") {
			notes[who] = append(notes[who], line)
		}
	}
	for _, r := range rows {
		lines[r.key()] = r.line()
		notes[r.key()] = r.notes()
	}
	keys := make([]string, 0, len(lines))
	for k := range lines {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n| client | version | records | groups | %s |\n%s\n", head, beginTable, strings.Join(Steps, " | "), strings.Repeat("|---", len(Steps)+4)+"|")
	for _, k := range keys {
		fmt.Fprintln(&b, lines[k])
	}
	fmt.Fprintln(&b)
	for _, k := range keys {
		for _, n := range notes[k] {
			fmt.Fprintln(&b, n)
		}
	}
	b.WriteString(endTable + tail)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
