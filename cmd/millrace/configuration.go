package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"go.uber.org/zap"

	"millrace/controller/config"
)

// configuration is a broker's configuration, and where each set key came from.
type configuration struct {
	static   *config.Static
	warnings []config.Warning
	props    map[string]string // the keys that are set, known or not
	origin   map[string]string // where: FILE:LINE, a variable's name, or --override

	passedOver []string // what dev chooses for itself, and who had set it: a line each
}

// overridden is the origin of a key that the command line sets.
const overridden = "--override"

// configuration reads the file, lays the environment over it and the overrides
// over both; what none of them sets may have a default in the file that
// MILLRACE_DEFAULTS names. Its errors are one line and are usage errors.
func (p *program) configuration(f flags) (*configuration, error) {
	props, origin := map[string]string{}, map[string]string{}
	if f.config != "" {
		if err := readProperties(f.config, props, origin); err != nil {
			return nil, usageError{err}
		}
	}
	for _, v := range config.MergeEnvironment(props, p.environ) {
		origin[v.Key] = v.Name
	}
	var passedOver []string
	for _, key := range ofDirectories {
		if from, set := origin[key]; set && f.throwAway {
			passedOver = append(passedOver, fmt.Sprintf("config %s (%s) is not used: dev keeps its data in a directory of its own, which goes with it; serve uses it", key, from))
			delete(props, key)
			delete(origin, key)
		}
	}
	for _, o := range f.overrides {
		key, value, ok := strings.Cut(o, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, usageError{fmt.Errorf("--override %s: expected key=value", o)}
		}
		props[key], origin[key] = strings.TrimSpace(value), overridden
	}
	if path := p.variable(defaultsFile); path != "" {
		below, from := map[string]string{}, map[string]string{}
		if err := readProperties(path, below, from); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", defaultsFile, err)}
		}
		for key, value := range below {
			if _, set := props[key]; !set {
				props[key], origin[key] = value, from[key]
			}
		}
	}
	static, warnings, err := config.ParseStatic(props)
	if err != nil {
		return nil, usageError{fmt.Errorf("configuration: %w%s", err, whence(err, origin, props))}
	}
	return &configuration{static: static, warnings: warnings, props: props, origin: origin, passedOver: passedOver}, nil
}

// whence says where the key that an error is about was set, if the error quotes
// its value, or else names it: both listeners and advertised.listeners are
// "broker listeners" in Kafka's words.
func whence(err error, origin, props map[string]string) string {
	if !errors.As(err, new(*config.Error)) {
		return ""
	}
	message, found := err.Error(), ""
	for _, key := range sorted(origin) {
		if len(key) > len(found) && names(message, key) {
			found = key
		}
	}
	for _, key := range sorted(origin) {
		if v := strings.TrimSpace(props[key]); v != "" && strings.Contains(message, "'"+v+"'") {
			found = key
			break
		}
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (%s is set in %s)", found, origin[found])
}

// names says whether a message has a key in it as a word of its own.
func names(message, key string) bool {
	inName := func(c byte) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(message[from:], key)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(key)
		before := i > 0 && (inName(message[i-1]) || message[i-1] == '.')
		after := end < len(message) && (inName(message[end]) || message[end] == '.' && end+1 < len(message) && inName(message[end+1]))
		if !before && !after {
			return true
		}
		from = i + 1
	}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func readProperties(path string, into, origin map[string]string) error {
	list, err := propertiesOf(path)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	for _, property := range list {
		into[property.Key] = property.Value
		origin[property.Key] = fmt.Sprintf("%s:%d", path, property.Line)
	}
	return nil
}

// propertiesOf reads a properties file.
func propertiesOf(path string) ([]config.Property, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := config.ParseProperties(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// warn logs what is in the configuration without having its effect, once.
func (c *configuration) warn(logger *zap.Logger) {
	for _, w := range c.warnings {
		message, fields := "config "+w.Key+" "+c.warning(w), []zap.Field{zap.String("key", w.Key)}
		if from, ok := c.origin[w.Key]; ok {
			message, fields = "config "+w.Key+" ("+from+") "+c.warning(w), append(fields, zap.String("from", from))
		}
		logger.Warn(message, fields...)
	}
}

// warnHome logs which data directories are written as a shell writes those in a home
// directory. No shell has read them, so they are directories named "~", as in Kafka.
func (c *configuration) warnHome(logger *zap.Logger) {
	for _, key := range ofDirectories {
		for dir := range strings.SplitSeq(c.props[key], ",") {
			if dir = strings.TrimSpace(dir); !strings.HasPrefix(dir, "~") {
				continue
			}
			logger.Warn(fmt.Sprintf("config %s (%s) says %s, which is no home directory here: it is taken as it stands, below the working directory; write the whole path", key, c.origin[key], dir),
				zap.String("key", key), zap.String("from", c.origin[key]))
		}
	}
}

// warning is what a warning says of its key.
func (c *configuration) warning(w config.Warning) string {
	if rest, ok := strings.CutPrefix(w.Key, "cfg."); ok && strings.HasPrefix(c.origin[w.Key], "KAFKA_CFG_") {
		return w.Message + "; the variable for " + rest + " is " + config.VariableName(rest)
	}
	if w.Key == "cluster.id" || w.Key == "kraft.cluster.id" {
		return w.Message + "; the variable for the id of a new cluster is " + clusterVariable
	}
	return w.Message
}

// variable gives an environment variable's value; empty counts as not set.
func (p *program) variable(name string) string {
	value := ""
	for _, v := range p.environ {
		if n, rest, ok := strings.Cut(v, "="); ok && n == name {
			value = rest
		}
	}
	return value
}
