package main

import (
	"fmt"
	"os"
	"strings"

	"go.uber.org/zap"

	"millrace/controller/config"
)

// configuration reads the file, lays the environment over it and the overrides
// over both. Its errors are one line and are usage errors.
func (p *program) configuration(f flags) (*config.Static, []config.Warning, error) {
	props := map[string]string{}
	if f.config != "" {
		if err := readProperties(f.config, props); err != nil {
			return nil, nil, usageError{err}
		}
	}
	config.MergeEnvironment(props, p.environ)
	for _, o := range f.overrides {
		key, value, ok := strings.Cut(o, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, nil, usageError{fmt.Errorf("--override %s: expected key=value", o)}
		}
		props[key] = strings.TrimSpace(value)
	}
	static, warnings, err := config.ParseStatic(props)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("configuration: %w", err)}
	}
	return static, warnings, nil
}

func readProperties(path string, into map[string]string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	defer file.Close()
	list, err := config.ParseProperties(file)
	if err != nil {
		return fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	for _, property := range list {
		into[property.Key] = property.Value
	}
	return nil
}

// warn logs what is in the configuration without having its effect, once.
func warn(logger *zap.Logger, warnings []config.Warning) {
	for _, w := range warnings {
		logger.Warn("config "+w.Key+" "+w.Message, zap.String("key", w.Key))
	}
}
