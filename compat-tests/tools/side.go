package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Server is one of the two servers.
type Server struct {
	Name       string
	Bootstrap  string // HOST:PORT
	Controller string // HOST:PORT of its controller listener
	Data       string // its data directory
	ClusterID  string
	Dir        string // where files of plays go
	// Late: its broker learns of a new topic a moment after whoever created it has
	// been answered.
	Late bool
}

// Seen is one compared command: what was asked, and what came of it.
type Seen struct {
	What   string // the command line as it stands in the play
	Words  []string
	Result Result
}

const (
	commandLimit = time.Minute
	untilLimit   = 30 * time.Second
	lookAgain    = 100 * time.Millisecond
)

// side is one server in the run of a play.
type side struct {
	server *Server
	runner *Runner
	play   *Play
	run    string // makes names differ from those of other runs
	kept   map[string]string
	begun  map[string]background
	last   Result
	seen   []Seen
}

type background struct {
	id   int64
	done <-chan Result
	act  Act
}

// Perform runs a play on one server.
func Perform(server *Server, runner *Runner, play *Play, run string) ([]Seen, error) {
	s := &side{server: server, runner: runner, play: play, run: run, kept: make(map[string]string), begun: make(map[string]background)}
	defer s.stopAll()
	if err := os.MkdirAll(s.path(""), 0o755); err != nil {
		return nil, err
	}
	for _, a := range play.Acts {
		if err := s.act(a); err != nil {
			return s.seen, fmt.Errorf("line %d, on %s: %w", a.Line, server.Name, err)
		}
	}
	return s.seen, nil
}

// Lacking runs what a play that waits says of the time until then, on Millrace
// alone. It returns the number of commands.
func Lacking(server *Server, runner *Runner, play *Play, run string) (int, error) {
	s := &side{server: server, runner: runner, play: play, run: run, kept: make(map[string]string)}
	if err := os.MkdirAll(s.path(""), 0o755); err != nil {
		return 0, err
	}
	for _, a := range play.Acts {
		if a.Kind == File {
			if err := s.act(a); err != nil {
				return 0, err
			}
		}
	}
	for i, a := range play.Without {
		res, err := s.do(a)
		if err != nil {
			return i, err
		}
		if !strings.Contains(res.Out+"\n"+res.Err, a.Text) || res.Stopped || res.Hung {
			return i, fmt.Errorf("%s has not printed %q: exit %d, stopped %v\n%s", strings.Join(a.Words, " "), a.Text, res.Exit, res.Stopped, short(res))
		}
	}
	return len(play.Without), nil
}

func (s *side) stopAll() {
	for _, b := range s.begun {
		s.runner.Stop(b.id)
	}
}

// path of a file of the play.
func (s *side) path(name string) string {
	return filepath.Join(s.server.Dir, s.prefix()+"files", name)
}

// prefix makes names those of this play.
func (s *side) prefix() string {
	return s.run + strings.TrimPrefix(s.play.Tool, "kafka-") + "-" + s.play.Name + "-"
}

func (s *side) act(a Act) error {
	switch a.Kind {
	case File:
		return os.WriteFile(s.path(a.Name), []byte(s.expand(a.Text)), 0o644)
	case Keep:
		m := regexp.MustCompile(s.expand(a.Text)).FindStringSubmatch(s.last.Out + "\n" + s.last.Err)
		if m == nil {
			return fmt.Errorf("nothing like %q in\n%s%s", a.Text, s.last.Out, s.last.Err)
		}
		s.kept[a.Name] = m[1]
		return nil
	case Run, Quiet:
		res, err := s.do(a)
		if err != nil {
			return err
		}
		if s.server.Late && a.Words[0] == "kafka-topics" && slices.Contains(a.Words, "--create") && res.Exit == 0 {
			if err := s.awaitTopic(a); err != nil {
				return err
			}
		}
		if a.Kind == Run {
			s.record(a, res)
		} else if res.Exit != 0 || res.Hung {
			return fmt.Errorf("%s: exit %d\n%s%s", strings.Join(a.Words, " "), res.Exit, res.Out, res.Err)
		}
		return nil
	case Until:
		for end := time.Now().Add(untilLimit); ; time.Sleep(lookAgain) {
			res, err := s.do(a)
			if err != nil {
				return err
			}
			if text := s.expand(a.Text); strings.Contains(res.Out+"\n"+res.Err, text) {
				s.record(a, res)
				return nil
			} else if time.Now().After(end) {
				return fmt.Errorf("%s has not printed %q: exit %d\n%s%s", strings.Join(a.Words, " "), text, res.Exit, res.Out, res.Err)
			}
		}
	case Start:
		t, args := s.command(a)
		id, done, err := s.runner.Begin(t.Class, args, s.expand(a.Stdin), 3*commandLimit)
		s.begun[a.Name] = background{id, done, a}
		return err
	case Await:
		for end := time.Now().Add(untilLimit); ; time.Sleep(lookAgain) {
			res, err := s.runner.Peek(s.begun[a.Name].id)
			if err != nil {
				return err
			}
			if text := s.expand(a.Text); strings.Contains(res.Out+"\n"+res.Err, text) {
				return nil
			} else if time.Now().After(end) || res.Exit >= 0 {
				return fmt.Errorf("%s has not printed %q: exit %d\n%s%s", a.Name, text, res.Exit, res.Out, res.Err)
			}
		}
	case Stop, Join:
		b := s.begun[a.Name]
		delete(s.begun, a.Name)
		if a.Kind == Stop {
			if err := s.runner.Stop(b.id); err != nil {
				return err
			}
		}
		res, err := receive(b.done)
		if err != nil {
			return err
		}
		s.record(b.act, res)
		return nil
	}
	return fmt.Errorf("no such act")
}

// awaitTopic waits until the broker knows the topic that a command has created.
func (s *side) awaitTopic(a Act) error {
	i := slices.Index(a.Words, "--topic")
	look := Act{Words: []string{"kafka-topics", "-B", "--describe", "--topic", regexp.QuoteMeta(s.expand(a.Words[i+1]))}}
	last := s.last
	defer func() { s.last = last }()
	for end := time.Now().Add(untilLimit); ; time.Sleep(lookAgain) {
		res, err := s.do(look)
		if err != nil || res.Exit == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("created and not there: %s%s", res.Out, res.Err)
		}
	}
}

// command is a tool and its arguments.
func (s *side) command(a Act) (Tool, []string) {
	t, _ := ToolNamed(a.Words[0])
	var args []string
	for _, w := range a.Words[1:] {
		switch w {
		case "-B":
			args = append(args, "--bootstrap-server", s.server.Bootstrap)
		case "-C":
			args = append(args, "--bootstrap-controller", s.server.Controller)
		default:
			args = append(args, s.expand(w))
		}
	}
	return t, args
}

func (s *side) do(a Act) (Result, error) {
	t, args := s.command(a)
	limit := a.Limit
	if limit == 0 {
		limit = commandLimit
	}
	res, err := s.runner.Do(t.Class, args, s.expand(a.Stdin), limit)
	s.last = res
	return res, err
}

func (s *side) record(a Act, res Result) {
	s.seen = append(s.seen, Seen{What: strings.Join(a.Words, " "), Words: a.Words, Result: res})
}

var variable = regexp.MustCompile(`\$[A-Za-z]+|(^|[^A-Za-z0-9@])@[a-z.(\[]|(^|[\s,:=])%[a-z]`)

// expand puts in what stands for something else; see [ParsePlays].
func (s *side) expand(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		if name, ok := strings.CutPrefix(v, "$"); ok {
			switch name {
			case "B":
				return s.server.Bootstrap
			case "C":
				return s.server.Controller
			case "DATA":
				return s.server.Data
			}
			if kept, ok := s.kept[name]; ok {
				return kept
			}
			return v
		}
		n := len(v) - 2
		if v[n] == '@' {
			return v[:n] + s.prefix() + v[n+1:]
		}
		return v[:n] + s.path(v[n+1:])
	})
}
