package main

import (
	"fmt"
	"slices"
	"strings"

	"millrace/controller/config"
)

// variables are the environment variables of the program's own.
var variables = []string{topicsVariable, httpVariable, logLevelVariable, logRequestsVariable, inContainer, publishedPort, defaultsFile}

// misspelt tells of the environment's variables that look like one of the
// program's own and are none.
func (p *program) misspelt() []string {
	var list []string
	for _, v := range p.environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "MILLRACE_") || slices.Contains(variables, name) {
			continue
		}
		if near := config.Closest(name, variables); near != "" {
			list = append(list, fmt.Sprintf("variable %s means nothing; ignored (did you mean %s?)", name, near))
		}
	}
	return list
}
