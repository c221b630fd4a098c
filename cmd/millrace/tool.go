package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
)

// kafkaVersion is what Kafka's tools of the parity target call themselves.
const kafkaVersion = "4.4.0"

// A tool is a command that takes the flags of one of Kafka's shell tools and
// ends with its exit codes: 0, or 1 whatever went wrong.
type tool struct {
	name  string // topics; Kafka's is called kafka-topics.sh
	short string
	// actions are the words that one of must come first; nil: the tool has none.
	actions []action
	options []option
	run     func(p *program, c *toolCall) error
}

// action is one of a tool's own commands: 'format' of kafka-storage.
type action struct {
	name    string
	short   string
	options []option
	run     func(p *program, c *toolCall) error
}

// option is one flag of a tool.
type option struct {
	name   string
	letter string // its short form, "" if it has none
	value  string // what it takes, "" if it takes nothing
	many   bool   // may be repeated
	must   bool   // has to be given
	help   string
	refuse string // why it is not supported; it is then refused
}

// toolCall is one command line of a tool, parsed.
type toolCall struct {
	tool   *tool
	action string
	args   []string // as they were given
	values map[string][]string
	extra  []string // what belongs to no flag
}

func (c *toolCall) has(name string) bool { return len(c.values[name]) > 0 }

func (c *toolCall) get(name string) string {
	if v := c.values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// toolUsage is a mistake in a tool's flags: told with the usage, as Kafka's
// tools do.
type toolUsage struct{ error }

func (e toolUsage) Unwrap() error { return e.error }

func misuse(format string, args ...any) error { return toolUsage{fmt.Errorf(format, args...)} }

// says is an error in Kafka's words, which scripts may look for.
func says(format string, args ...any) error { return kafkaWords(fmt.Sprintf(format, args...)) }

type kafkaWords string

func (w kafkaWords) Error() string { return string(w) }

// errTold ends a tool with exit code 1; what there was to say has been said.
var errTold = errors.New("the tool failed")

// errHelp is a request for help.
var errHelp = errors.New("help")

// parse reads a command line. Flags may be written --name value and
// --name=value, and be cut short where that leaves one meaning, as Kafka's tools
// allow.
func (t *tool) parse(args []string) (*toolCall, error) {
	c := &toolCall{tool: t, args: args, values: map[string][]string{}}
	options := t.options
	if len(t.actions) > 0 {
		// An action may stand behind the tool's own flags.
		rest, err := c.read(options, args, true)
		if err != nil {
			return c, err
		}
		if len(rest) == 0 {
			return c, misuse("too few arguments")
		}
		var chosen *action
		names := make([]string, len(t.actions))
		for i := range t.actions {
			names[i] = "'" + t.actions[i].name + "'"
			if t.actions[i].name == rest[0] {
				chosen = &t.actions[i]
			}
		}
		if chosen == nil {
			return c, misuse("invalid choice: '%s' (choose from %s)", rest[0], strings.Join(names, ", "))
		}
		c.action = chosen.name
		options, args = append(append([]option{}, options...), chosen.options...), rest[1:]
	}
	rest, err := c.read(options, args, false)
	if err != nil {
		return c, err
	}
	c.extra = rest
	if len(t.actions) > 0 && len(rest) > 0 {
		return c, misuse("unrecognized arguments: '%s'", rest[0])
	}
	for _, o := range options {
		if o.refuse != "" && c.has(o.name) {
			return c, fmt.Errorf("--%s is not supported: %s", o.name, o.refuse)
		}
	}
	for _, o := range options {
		if o.must && !c.has(o.name) {
			return c, misuse("argument %s is required", o.title())
		}
	}
	return c, nil
}

func (o option) title() string {
	if o.letter != "" {
		return "--" + o.name + "/-" + o.letter
	}
	return "--" + o.name
}

// read takes flags off args into c and gives what remains; it stops at the first
// word that is no flag if untilWord.
func (c *toolCall) read(options []option, args []string, untilWord bool) ([]string, error) {
	var rest []string
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return append(rest, args[1:]...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			if untilWord {
				return args, nil
			}
			rest, args = append(rest, arg), args[1:]
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		o, err := find(options, name)
		if err != nil {
			return nil, err
		}
		args = args[1:]
		if o.value == "" {
			if inline && value != "true" {
				return nil, misuse("option %s takes no value", o.name)
			}
			value = "true"
		} else if o.value == stateValue && !inline {
			value = ""
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				value, args = args[0], args[1:]
			}
		} else if !inline {
			if len(args) == 0 {
				return nil, misuse("Option %s requires an argument", o.name)
			}
			value, args = args[0], args[1:]
		}
		if o.name == "help" {
			return nil, errHelp
		}
		if !o.many && o.value != "" && c.has(o.name) {
			return nil, misuse("Found multiple arguments for option %s, but you asked for only one", o.name)
		}
		c.values[o.name] = append(c.values[o.name], value)
	}
	return rest, nil
}

var helpOption = option{name: "help", letter: "h", help: "print this"}

// find gives the option that a flag names, whole or cut short.
func find(options []option, flag string) (option, error) {
	options = append([]option{helpOption}, options...)
	if name, ok := strings.CutPrefix(flag, "--"); ok {
		var near []option
		for _, o := range options {
			if o.name == name {
				return o, nil
			}
			if strings.HasPrefix(o.name, name) {
				near = append(near, o)
			}
		}
		if len(near) == 1 {
			return near[0], nil
		}
		if len(near) > 1 {
			names := make([]string, len(near))
			for i, o := range near {
				names[i] = o.name
			}
			sort.Strings(names)
			return option{}, misuse("%s is not a recognized option: it may stand for %s", name, strings.Join(names, ", "))
		}
		return option{}, misuse("%s is not a recognized option", name)
	}
	for _, o := range options {
		if o.letter != "" && flag == "-"+o.letter {
			return o, nil
		}
	}
	return option{}, misuse("%s is not a recognized option", strings.TrimPrefix(flag, "-"))
}

// usage tells the flags.
func (t *tool) usage(action string) string {
	var b strings.Builder
	options := t.options
	fmt.Fprintf(&b, "usage: millrace %s", t.name)
	switch {
	case action != "":
		fmt.Fprintf(&b, " %s", action)
		for _, a := range t.actions {
			if a.name == action {
				options = append(append([]option{}, options...), a.options...)
			}
		}
	case len(t.actions) > 0:
		b.WriteString(" COMMAND")
	}
	b.WriteString(" [FLAGS]\n")
	if action == "" && len(t.actions) > 0 {
		b.WriteString("\ncommands:\n")
		for _, a := range t.actions {
			fmt.Fprintf(&b, "  %-24s %s\n", a.name, a.short)
		}
	}
	b.WriteString("\nflags:\n")
	for _, o := range append([]option{helpOption}, options...) {
		if o.refuse != "" {
			continue
		}
		flag := "--" + o.name
		if o.letter != "" {
			flag = "-" + o.letter + ", " + flag
		}
		if o.value != "" {
			flag += " " + o.value
		}
		fmt.Fprintf(&b, "  %-40s %s\n", flag, o.help)
	}
	return b.String()
}

// runTool runs one command line of a tool and gives its exit code.
func (p *program) runTool(t *tool, args []string) error {
	c, err := t.parse(args)
	if err == nil {
		run := t.run
		for _, a := range t.actions {
			if a.name == c.action {
				run = a.run
			}
		}
		err = run(p, c)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHelp):
		fmt.Fprint(p.stdout, t.usage(c.action))
		return nil
	case errors.As(err, new(toolUsage)):
		fmt.Fprintf(p.stderr, "%s\n%s", oneLine(err), t.usage(c.action))
	case errors.Is(err, errTold), onlyCanceled(err):
	default:
		fmt.Fprintf(p.stderr, "%s\n", oneLine(err))
	}
	return errTold
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// command makes a tool a command of this program.
func (t *tool) command(p *program) *cobra.Command {
	return &cobra.Command{
		Use:                t.name,
		Short:              t.short + " (as kafka-" + t.name + ".sh)",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return p.runTool(t, args) },
	}
}

// tools are those of Kafka's shell tools that this program stands in for.
func tools() []*tool {
	return []*tool{
		topicsTool(), configsTool(), groupsTool(), consumerGroupsTool(), offsetsTool(), consoleProducerTool(), consoleConsumerTool(),
		clusterTool(), apiVersionsTool(), quorumTool(), featuresTool(), storageTool(),
	}
}

// calledAs gives the arguments that a call by one of Kafka's names stands for:
// kafka-topics.sh and kafka-topics are 'millrace topics'.
func calledAs(argv0 string, args []string) ([]string, error) {
	name := strings.TrimSuffix(filepath.Base(argv0), ".sh")
	rest, ok := strings.CutPrefix(name, "kafka-")
	if !ok {
		return args, nil
	}
	if rest == "server-start" {
		return startArgs(args)
	}
	for _, t := range tools() {
		if t.name == rest {
			return append([]string{rest}, args...), nil
		}
	}
	return nil, usageError{fmt.Errorf("%s is not among Kafka's tools that this program stands in for: %s", name, strings.Join(toolNames(), ", "))}
}

// toolNames are the names that calledAs knows, sorted, without .sh.
func toolNames() []string {
	names := []string{"kafka-server-start"}
	for _, t := range tools() {
		names = append(names, "kafka-"+t.name)
	}
	sort.Strings(names)
	return names
}

func (p *program) toolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tools",
		Short: "Print the names of Kafka's tools that this program stands in for",
		Long: "Print the names of Kafka's tools that this program stands in for, one a line.\n" +
			"Called by one of them, with or without .sh, it takes that tool's flags.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, strings.Join(toolNames(), "\n"))
			return err
		},
	}
}

// startArgs turns the arguments of kafka-server-start.sh into those of serve.
func startArgs(args []string) ([]string, error) {
	for _, a := range args {
		if a == "-daemon" || a == "--daemon" {
			return nil, usageError{fmt.Errorf("%s is not supported: the broker stays in the foreground; leave that to the shell or a service manager", a)}
		}
	}
	if len(args) == 1 && args[0] == "--version" {
		return []string{"version"}, nil
	}
	return append([]string{"serve"}, args...), nil
}
