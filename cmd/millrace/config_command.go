package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/controller/config"
)

func (p *program) configCommand() *cobra.Command {
	var f flags
	var all, machine, properties bool
	c := &cobra.Command{
		Use:   "config [server.properties]",
		Short: "Print the configuration that a broker would run with, and where it comes from",
		Long: "Print the configuration that 'millrace serve' would run with, one config a line,\n" +
			"and after it where it was set: a file and its line, an environment variable, or\n" +
			"--override. A later one of these wins. Warnings go to standard error. Secrets and\n" +
			"the values of configs that are not known are not shown, but with --properties,\n" +
			"which writes a file that 'millrace serve' and Kafka can read.",
		Args: propertiesArg(&f),
		RunE: func(*cobra.Command, []string) error {
			if properties && (all || machine) {
				return usageError{errors.New("--properties goes with neither --all nor --json")}
			}
			if properties {
				return p.printProperties(f)
			}
			return p.printConfig(f, all, machine)
		},
	}
	f.addSource(c)
	c.Flags().BoolVar(&all, "all", false, "print the defaults too")
	c.Flags().BoolVar(&machine, "json", false, "print JSON")
	c.Flags().BoolVar(&properties, "properties", false, "print what is set, secrets included, as a properties file")
	return c
}

// shown is one config as 'millrace config' prints it.
type shown struct {
	Name      string  `json:"name"`
	Value     *string `json:"value"` // null: not set, or not to be shown
	Source    string  `json:"source"`
	Sensitive bool    `json:"sensitive,omitempty"`
	Warning   string  `json:"warning,omitempty"`
}

const fromDefault = "default"

func (p *program) printConfig(f flags, all, machine bool) error {
	c, err := p.configuration(f)
	if err != nil {
		return err
	}
	list := c.shown(all)
	if machine {
		e := json.NewEncoder(p.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	if len(list) == 0 {
		fmt.Fprintln(p.stderr, "nothing is set: every config has its default, which --all prints")
	}
	var out strings.Builder
	width := 0
	lines := make([]string, len(list))
	for i, one := range list {
		value := ""
		switch {
		case one.Sensitive:
			value = "[hidden]"
		case one.Value != nil:
			value = *one.Value
		}
		lines[i] = one.Name + "=" + lineBreaks.Replace(value)
		if len(lines[i]) <= 60 {
			width = max(width, len(lines[i]))
		}
	}
	for i, one := range list {
		fmt.Fprintf(&out, "%-*s  # %s\n", width, lines[i], one.Source)
	}
	for _, one := range list {
		if one.Warning != "" {
			fmt.Fprintf(p.stderr, "config %s (%s) %s\n", one.Name, one.Source, one.Warning)
		}
	}
	for _, line := range p.misspelt() {
		fmt.Fprintln(p.stderr, line)
	}
	_, err = fmt.Fprint(p.stdout, out.String())
	return err
}

// printProperties prints what is set in the format of server.properties.
func (p *program) printProperties(f flags) error {
	c, err := p.configuration(f)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, key := range sorted(c.props) {
		fmt.Fprintf(&out, "%s=%s\n", propertyKey.Replace(key), propertyValue(c.props[key]))
	}
	_, err = fmt.Fprint(p.stdout, out.String())
	return err
}

// What a properties file would read as something else is written with a
// backslash.
var (
	propertyKey  = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, " ", `\ `, "=", `\=`, ":", `\:`, "#", `\#`, "!", `\!`)
	propertyText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`)
)

// lineBreaks keeps a config that has some on its line.
var lineBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`)

func propertyValue(v string) string {
	text := propertyText.Replace(v)
	if strings.HasPrefix(text, " ") {
		text = `\` + text
	}
	return text
}

// shown lists the configs that are set, or all of them, by name.
func (c *configuration) shown(all bool) []shown {
	warnings := map[string]string{}
	for _, w := range c.warnings {
		warnings[w.Key] = c.warning(w)
	}
	list := []shown{}
	for _, e := range c.static.DescribeBroker(nil, nil) {
		origin, set := c.origin[e.Name]
		if !set {
			if !all {
				continue
			}
			origin = fromDefault
			if _, twin := c.static.Set(e.Name); twin {
				origin = c.origin[twinOf(e.Name)] // node.id and broker.id are one
			}
		}
		if c.ofListener(e.Name) {
			value := c.props[e.Name]
			e.Value, e.Sensitive = &value, false
		}
		list = append(list, shown{Name: e.Name, Value: e.Value, Source: origin, Sensitive: e.Sensitive, Warning: warnings[e.Name]})
	}
	return list
}

// ofListener says whether a name is listener.name.<listener>. and a config that
// is known and no secret.
func (c *configuration) ofListener(name string) bool {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	_, rest, listener := strings.Cut(rest, ".")
	k, known := config.Find(config.BrokerScope, rest)
	return ok && listener && known && !k.Sensitive()
}

func twinOf(name string) string {
	if name == "node.id" {
		return "broker.id"
	}
	return "node.id"
}

// propertiesArg takes one argument for the file of -c, as Kafka's start script
// has it.
func propertiesArg(f *flags) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return nil
		case len(args) == 1 && f.config == "":
			f.config = args[0]
			return nil
		case len(args) == 1:
			return usageError{fmt.Errorf("two configuration files, %s and %s: a broker has one", f.config, args[0])}
		}
		return noArgs(c, args[1:])
	}
}
