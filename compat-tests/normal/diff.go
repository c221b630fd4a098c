package normal

import (
	"fmt"
	"strings"
)

// diff lists where two normalised answers differ, one line a place.
func diff(a, b any) []string {
	var out []string
	walk(&out, "", a, b)
	return out
}

func walk(out *[]string, at string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		for _, k := range keys(x, y) {
			walk(out, at+"."+k, x[k], y[k])
		}
		return
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		if len(x) != len(y) {
			*out = append(*out, fmt.Sprintf("%s: %d elements against %d: %s against %s", at, len(x), len(y), short(a), short(b)))
			return
		}
		for i := range x {
			walk(out, fmt.Sprintf("%s[%d]", at, i), x[i], y[i])
		}
		return
	}
	if Text(a) != Text(b) {
		*out = append(*out, fmt.Sprintf("%s: %s against %s", at, short(a), short(b)))
	}
}

func short(v any) string {
	s := Text(v)
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.ReplaceAll(s, "\n", " ")
}
