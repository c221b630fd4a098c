package shell

import (
	"errors"
	"fmt"
	"sort"
	"strings"
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
	run     func(sh *Shell, c *toolCall) error
}

// action is one of a tool's own commands: 'format' of kafka-storage.
type action struct {
	name    string
	short   string
	options []option
	run     func(sh *Shell, c *toolCall) error
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
