package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is the file of one tool.
type Script struct {
	Tool  Tool
	Plays []Play
	// Unasked are options that no play uses, with the reason.
	Unasked map[string]string
}

// Play is a sequence of command lines that is run on both servers.
type Play struct {
	Tool  string
	Name  string
	Smoke bool // is part of the short run
	Alone bool // sees or changes what other plays see, and runs beside none
	Needs []Need
	Acts  []Act
	// Without are commands that are run on Millrace alone as long as the play
	// waits: they must print their Text, and end by themselves.
	Without []Act
	Line    int // in its file
}

// Need is an API that a server has to advertise for the play to be run. A play
// whose need is not met waits, and is reported so.
type Need struct {
	Key     int16
	Name    string
	Feature string // in place of Key: a finalized feature
}

func (n Need) String() string { return n.Name }

// Act is one line of a play.
type Act struct {
	Kind  Kind
	Name  string   // of a file, a background command, a kept text
	Text  string   // what to wait for, a file's content, a pattern
	Words []string // of a command; the first is the tool
	Stdin string
	Limit time.Duration // after it the command is stopped as SIGTERM does; 0: a minute, and reaching it is a failure
	Line  int
}

// Kind says what an act does.
type Kind int

const (
	Run   Kind = iota // run a command and compare it
	Quiet             // run a command that only prepares: it must succeed, and is not compared
	Until             // run a command again and again until it prints Text, compare the last
	Start             // run a command in the background
	Await             // wait until a background command has printed Text
	Stop              // stop a background command and compare it
	Join              // wait for a background command's own end and compare it
	File              // write a file
	Keep              // keep what Text, a pattern with one group, finds in the last command's output
)

var quoted = regexp.MustCompile(`'[^']*'|[^\s']+`)

// words splits a command line: at spaces, but for what stands in single quotes.
func words(line string) []string {
	var out []string
	end := -1
	for _, at := range quoted.FindAllStringIndex(line, -1) {
		w := strings.Trim(line[at[0]:at[1]], "'")
		if at[0] == end {
			out[len(out)-1] += w
		} else {
			out = append(out, w)
		}
		end = at[1]
	}
	return out
}

// ParsePlays reads the file of a tool:
//
//	tool NAME
//	unasked OPTION: REASON           an option that no play uses
//	play NAME [smoke] [alone]
//	  needs KEY API                  only where API is advertised
//	  needs feature NAME             only where that feature is finalized above 0
//	  without 'TEXT' $ TOOL WORDS    while that is missing: what Millrace's user is told
//	  file NAME                      a file, named %NAME in command lines; its lines follow
//	  | line
//	  $ TOOL WORDS                   a command; what it reads follows
//	  | line
//	  quiet $ TOOL WORDS             a command that only prepares and must succeed
//	  for DURATION $ TOOL WORDS      a command that is stopped after that
//	  until 'TEXT' $ TOOL WORDS      the command again and again, for 30 s, until it prints TEXT
//	  start NAME $ TOOL WORDS        a command in the background
//	  await NAME 'TEXT'              until it has printed TEXT
//	  stop NAME | join NAME          its end, which is compared
//	  keep NAME 'PATTERN'            from the last command's output; then $NAME
//
// In command lines, files and what is read, -B stands for --bootstrap-server with the
// server's address, -C for --bootstrap-controller, $B and $C for the addresses,
// $DATA for the server's data directory, and a name that begins with @ is made
// unique to the play.
func ParsePlays(text string) (*Script, error) {
	s := &Script{Unasked: make(map[string]string)}
	var play *Play
	fail := func(n int, format string, args ...any) (*Script, error) {
		return nil, fmt.Errorf("line %d: %s", n, fmt.Sprintf(format, args...))
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimSpace(line)
		if bare == "" || strings.HasPrefix(bare, "#") {
			continue
		}
		word, rest, _ := strings.Cut(bare, " ")
		if word == "tool" {
			t, ok := ToolNamed(rest)
			if !ok {
				return fail(n, "no tool %q", rest)
			}
			s.Tool = t
			continue
		}
		if word == "unasked" {
			option, reason, ok := strings.Cut(rest, ": ")
			if !ok {
				return fail(n, "no reason")
			}
			s.Unasked[option] = reason
			continue
		}
		if word == "play" {
			f := strings.Fields(rest)
			s.Plays = append(s.Plays, Play{Tool: s.Tool.Name, Name: f[0], Smoke: slices.Contains(f, "smoke"), Alone: slices.Contains(f, "alone"), Line: n})
			play = &s.Plays[len(s.Plays)-1]
			continue
		}
		if play == nil {
			return fail(n, "before the first play: %s", bare)
		}
		if word == "|" {
			if len(play.Acts) == 0 {
				return fail(n, "a line for nothing to read")
			}
			_, content, _ := strings.Cut(line, "| ")
			if a := &play.Acts[len(play.Acts)-1]; a.Kind == File {
				a.Text += content + "\n"
			} else {
				a.Stdin += content + "\n"
			}
			continue
		}
		a := Act{Line: n}
		head, command, isCommand := strings.Cut(" "+bare, " $ ")
		if isCommand {
			a.Words = words(command)
			if _, ok := ToolNamed(a.Words[0]); !ok {
				return fail(n, "no tool %q", a.Words[0])
			}
		}
		w := words(head)
		var verb string
		if len(w) > 0 {
			verb = w[0]
		}
		switch {
		case isCommand && verb == "":
			a.Kind = Run
		case isCommand && verb == "quiet":
			a.Kind = Quiet
		case isCommand && verb == "for" && len(w) == 2:
			d, err := time.ParseDuration(w[1])
			if err != nil {
				return fail(n, "%v", err)
			}
			a.Kind, a.Limit = Run, d
		case isCommand && verb == "without" && len(w) == 2:
			a.Text = w[1]
			play.Without = append(play.Without, a)
			continue
		case isCommand && verb == "until" && len(w) == 2:
			a.Kind, a.Text = Until, w[1]
		case isCommand && verb == "start" && len(w) == 2:
			a.Kind, a.Name = Start, w[1]
		case !isCommand && verb == "await" && len(w) == 3:
			a.Kind, a.Name, a.Text = Await, w[1], w[2]
		case !isCommand && verb == "stop" && len(w) == 2:
			a.Kind, a.Name = Stop, w[1]
		case !isCommand && verb == "join" && len(w) == 2:
			a.Kind, a.Name = Join, w[1]
		case !isCommand && verb == "file" && len(w) == 2:
			a.Kind, a.Name = File, w[1]
		case !isCommand && verb == "keep" && len(w) == 3:
			if re, err := regexp.Compile(w[2]); err != nil || re.NumSubexp() != 1 {
				return fail(n, "%q is not a pattern with one group", w[2])
			}
			a.Kind, a.Name, a.Text = Keep, w[1], w[2]
		case !isCommand && verb == "needs" && len(w) == 3 && w[1] == "feature":
			play.Needs = append(play.Needs, Need{Feature: w[2], Name: "feature " + w[2]})
			continue
		case !isCommand && verb == "needs" && len(w) == 3:
			key, err := strconv.ParseInt(w[1], 10, 16)
			if err != nil {
				return fail(n, "%v", err)
			}
			play.Needs = append(play.Needs, Need{Key: int16(key), Name: w[2]})
			continue
		default:
			return fail(n, "not an act: %s", bare)
		}
		play.Acts = append(play.Acts, a)
	}
	if s.Tool.Name == "" {
		return nil, fmt.Errorf("no line says which tool")
	}
	return s, nil
}

// Scripts reads testdata. There must be a file for each tool.
func Scripts(dir string) ([]*Script, error) {
	var out []*Script
	for _, t := range Tools {
		path := filepath.Join(dir, t.Name+".txt")
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s, err := ParsePlays(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if s.Tool != t {
			return nil, fmt.Errorf("%s is about %s", path, s.Tool.Name)
		}
		seen := make(map[string]bool)
		for _, p := range s.Plays {
			if seen[p.Name] {
				return nil, fmt.Errorf("%s: two plays %s", path, p.Name)
			}
			seen[p.Name] = true
		}
		out = append(out, s)
	}
	return out, nil
}

// Used lists the options of a tool that plays use: "--x", and "sub --x" after a
// subcommand.
func Used(scripts []*Script, t Tool, subcommands []string) map[string]bool {
	used := make(map[string]bool)
	for _, s := range scripts {
		for _, p := range s.Plays {
			for _, a := range p.Acts {
				if len(a.Words) == 0 || a.Words[0] != t.Name {
					continue
				}
				sub := ""
				for _, w := range a.Words[1:] {
					switch w {
					case "-B":
						w = "--bootstrap-server"
					case "-C":
						w = "--bootstrap-controller"
					}
					w, _, _ = strings.Cut(w, "=")
					if sub == "" && slices.Contains(subcommands, w) {
						sub = w + " "
						used[w] = true
					} else if strings.HasPrefix(w, "-") {
						used[sub+w] = true
					}
				}
			}
		}
	}
	return used
}

// everywhere are options of all tools that ask nothing of a broker.
var everywhere = []string{"--help", "--version"}

// Uncovered compares the options that a tool's --help names with those that plays
// use and those that are left out with a reason.
func Uncovered(options []string, used map[string]bool, unasked map[string]string) []string {
	var out []string
	for _, o := range options {
		last := o[strings.LastIndex(o, " ")+1:]
		_, left := unasked[o]
		switch {
		case slices.Contains(everywhere, last):
		case used[o] && left:
			out = append(out, fmt.Sprintf("%s is used, and listed as not", o))
		case !used[o] && !left:
			out = append(out, fmt.Sprintf("no play uses %s", o))
		}
	}
	for o := range unasked { // any order: each is a line of its own
		if !slices.Contains(options, o) {
			out = append(out, fmt.Sprintf("%s is listed as not used, and --help does not name it", o))
		}
	}
	return out
}
