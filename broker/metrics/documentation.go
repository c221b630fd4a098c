package metrics

import (
	"fmt"
	"strings"
)

// Documentation is the generated part of docs/metrics.md.
func Documentation() string {
	var b strings.Builder
	b.WriteString("## What is shown\n\n| name | type | labels | stands for | what it is |\n|---|---|---|---|---|\n")
	for _, m := range all {
		sets := make([]string, 0, len(m.Sets))
		for _, s := range m.Sets {
			sets = append(sets, strings.Join(s, ", "))
		}
		bean := "Millrace's own"
		if m.Bean != "" {
			bean = "`" + m.Bean + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(sets, " or "), bean, m.Help)
	}
	b.WriteString("\n## What Kafka shows and Millrace does not\n\n| name | why |\n|---|---|\n")
	for _, m := range Lacking {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, m.Why)
	}
	return b.String()
}
