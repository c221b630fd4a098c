package config

import (
	"slices"
	"strings"
)

// Nearest is the known config of a scope that a name was most likely meant to be,
// or "" if none is similar enough: at most a quarter of the name may differ.
// Upper case, and dashes or underscores in place of dots, cost nothing. A broker
// config under a listener's prefix is looked for without it, and comes back with
// it. Of several that are equally near the first by name counts.
func Nearest(s Scope, name string) string {
	prefix, base := "", name
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok && s == BrokerScope {
		if listener, key, ok := strings.Cut(rest, "."); ok {
			prefix, base = "listener.name."+listener+".", key
		}
	}
	base = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return '.'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(base)))
	keys := table(s)
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
	}
	best := Closest(base, names)
	if best == "" {
		return ""
	}
	return prefix + best
}

// editDistance is the number of letters to put in, take out, replace, or swap
// with their neighbour, to make b of a; it is given up at limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	// The last three rows of the table; before[j] is two letters of a back.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		least := row[0]
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least >= limit && slices.Min(last) >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}

// Closest gives the name that another one is most likely a misspelling of, ""
// if it is like none of them.
func Closest(name string, names []string) string {
	best, distance := "", len(name)/4+1
	for _, n := range names {
		if d := editDistance(name, n, distance); d < distance {
			best, distance = n, d
		}
	}
	return best
}
