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

// cell is the outcome of a step over all flavours.
func (r Row) cell(step string) string {
	highest := NotRun
	for _, res := range r.Results {
		if res.Step == step {
			highest = max(highest, res.Outcome)
		}
	}
	return [...]string{"not reached", "no call", "ok", "**fails**"}[highest]
}

// Key orders and identifies rows.
func (r Row) Key() string { return r.Client + " " + r.Version }

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
		lines = append(lines, fmt.Sprintf("- %s: %s", r.Key(), remark))
	}
	seen := make(map[string]bool)
	for _, res := range r.Results {
		first, _, _ := strings.Cut(res.Detail, "\n")
		word := map[Outcome]string{NotRun: "not run", Unsupported: "no call", Failed: "fails"}[res.Outcome]
		line := fmt.Sprintf("- %s: %s: %s: %s", r.Key(), res.Step, word, first)
		if word != "" && first != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return lines
}

// cutTable splits a file's text into what is before, between and behind the markers.
func cutTable(path string) (head, table, tail string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", "", err
	}
	head, rest, ok := strings.Cut(string(text), beginTable+"\n")
	table, tail, ok2 := strings.Cut(rest, endTable)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%s has no line %q followed by %q", path, beginTable, endTable)
	}
	return head, table, tail, nil
}

// rowCells gives the cells of a table's line, the row's key first; nil for every other line.
func rowCells(line string) (key string, cells []string) {
	line = strings.TrimRight(line, "\n")
	cells = strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
	if len(cells) != len(Steps)+4 || !strings.HasPrefix(line, "| ") || cells[0] == "client" {
		return "", nil
	}
	return cells[0] + " " + cells[1], cells
}

// Seen is what a table says of one client.
type Seen struct {
	Flavours []string
	Cells    map[string]string // by step
}

// ReadTable reads the rows between the markers of a file, by Row.Key.
func ReadTable(path string) (map[string]Seen, error) {
	_, table, _, err := cutTable(path)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]Seen)
	for line := range strings.Lines(table) {
		key, cells := rowCells(line)
		if cells == nil {
			continue
		}
		seen := Seen{Cells: make(map[string]string)}
		if cells[3] != "" {
			seen.Flavours = strings.Split(cells[3], ", ")
		}
		for i, step := range Steps {
			seen.Cells[step] = cells[4+i]
		}
		rows[key] = seen
	}
	return rows, nil
}

// Worse names what a run did worse than what was seen before. Steps in without were left out of the run on purpose.
func (r Row) Worse(seen Seen, without ...string) []string {
	good := map[string]int{"no call": 1, "ok": 2}
	var worse []string
	for _, step := range Steps {
		if slices.Contains(without, step) {
			continue
		}
		if was, is := seen.Cells[step], r.cell(step); good[is] < good[was] {
			worse = append(worse, fmt.Sprintf("%s: %s, the table says %s", step, is, was))
		}
	}
	for _, f := range seen.Flavours {
		if !slices.Contains(r.Flavours, f) {
			worse = append(worse, fmt.Sprintf("no group with %s came about, the table says that one did", f))
		}
	}
	return worse
}

// UpdateTable writes the rows between the markers of a file. Rows of other clients that are there already stay, unless
// the rows are all there is to say.
func UpdateTable(path string, rows []Row, all bool) error {
	head, old, tail, err := cutTable(path)
	if err != nil {
		return err
	}
	lines := make(map[string]string) // by key
	notes := make(map[string][]string)
	if all {
		old = ""
	}
	for line := range strings.Lines(old) {
		line = strings.TrimRight(line, "\n")
		if key, cells := rowCells(line); cells != nil {
			lines[key] = line
		} else if who, _, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": "); ok && strings.HasPrefix(line, "- ") {
			notes[who] = append(notes[who], line)
		}
	}
	for _, r := range rows {
		lines[r.Key()] = r.line()
		notes[r.Key()] = r.notes()
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
