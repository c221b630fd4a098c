package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// RuleKind is the shape of a rule.
type RuleKind int8

const (
	Any             RuleKind = iota
	AtLeast                  // number >= Min
	Between                  // Min <= number <= Max
	BetweenOrMinus1          // -1, or Min <= number <= Max
	OneOf                    // one of Words
	OneOfAnyCase             // one of Words in any case
	NonEmpty                 // a string that is not empty
	Distinct                 // list without duplicates; empty is allowed
	DistinctOf               // list without duplicates, of Words
	DistinctSome             // as Distinct, not empty
	DistinctSomeOf           // as DistinctOf, not empty
	SetOf                    // list of Words, in which a duplicate counts once
	NoBlanks                 // list without empty entries
	Throttled                // "*" or partition:broker pairs
	AutoOffsetReset          // earliest, latest or by_duration:<ISO 8601 duration>
	QuorumVoters             // id@host:port list
	QuorumServers            // host:port list
	Matches                  // key=regex list of client metrics
)

// Rule limits the values of a key. Numbers are held as float64 only for doubles.
type Rule struct {
	Kind     RuleKind
	Min, Max int64
	Words    string  // separated by commas
	MaxF     float64 // Max of a double, where it is no integer
}

func (r Rule) words() []string { return strings.Split(r.Words, ",") }

// String says which values a rule allows; "" if all of the type.
func (r Rule) String() string {
	words := strings.ReplaceAll(r.Words, ",", ", ")
	switch r.Kind {
	case AtLeast:
		return fmt.Sprintf("from %d", r.Min)
	case Between, BetweenOrMinus1:
		most := strconv.FormatInt(r.Max, 10)
		if r.MaxF != 0 {
			most = strconv.FormatFloat(r.MaxF, 'g', -1, 64)
		}
		text := fmt.Sprintf("%d to %s", r.Min, most)
		if r.Kind == BetweenOrMinus1 {
			text = "-1, or " + text
		}
		return text
	case OneOf:
		return "one of " + words
	case OneOfAnyCase:
		return "one of " + words + ", in any case"
	case NonEmpty:
		return "not empty"
	case Distinct:
		return "no duplicates"
	case DistinctOf:
		return "of " + words + ", no duplicates"
	case DistinctSome:
		return "not empty, no duplicates"
	case DistinctSomeOf:
		return "some of " + words + ", no duplicates"
	case SetOf:
		return "of " + words
	case NoBlanks:
		return "no empty entries"
	case Throttled:
		return "* or partition:broker pairs"
	case AutoOffsetReset:
		return "earliest, latest or by_duration:PnDTnHnMn.nS"
	case QuorumVoters:
		return "id@host:port"
	case QuorumServers:
		return "host:port"
	case Matches:
		return "key=pattern"
	}
	return ""
}

// Error is a value that was refused, in the words of Kafka's ConfigException.
type Error struct {
	Message string
	// Request marks what Kafka answers with INVALID_REQUEST (42); everything else
	// is INVALID_CONFIG (40).
	Request bool
}

func (e *Error) Error() string { return e.Message }

func invalid(name, value, why string) *Error {
	return &Error{Message: fmt.Sprintf("Invalid value %s for configuration %s: %s", value, name, why)}
}

// Check says whether value is one the key can have. Blanks around it do not count.
func (k *Key) Check(value string) error {
	v, err := k.parse(value)
	if err != nil {
		return err
	}
	return k.obey(v)
}

// Canonical is the value as Kafka shows it once parsed; an invalid value is
// given back as it is.
func (k *Key) Canonical(value string) string {
	v, err := k.parse(value)
	if err != nil {
		return value
	}
	switch k.Rule.Kind {
	case SetOf, NoBlanks, Matches: // a duplicate counts once
		once := map[string]bool{}
		v.list = slices.DeleteFunc(v.list, func(item string) bool {
			again := once[item]
			once[item] = true
			return again
		})
	}
	return v.String()
}

// value is a parsed value of any type.
type value struct {
	typ  Type
	text string
	num  int64
	real float64
	list []string
}

func (v value) String() string {
	switch v.typ {
	case Boolean:
		return strconv.FormatBool(v.num != 0)
	case Int, Short, Long:
		return strconv.FormatInt(v.num, 10)
	case Double:
		return javaDouble(v.real)
	case List:
		return strings.Join(v.list, ",")
	}
	return v.text
}

// javaBlank is what Java's String.trim takes away: all up to the space.
func javaBlank(r rune) bool { return r <= ' ' }

func (k *Key) parse(s string) (value, error) {
	t := strings.TrimFunc(s, javaBlank)
	v := value{typ: k.Type, text: t}
	var bits int
	switch k.Type {
	case Boolean:
		switch strings.ToLower(t) {
		case "true":
			v.num = 1
		case "false":
		default:
			return v, invalid(k.Name, s, "Expected value to be either true or false")
		}
		return v, nil
	case Int:
		bits = 32
	case Short:
		bits = 16
	case Long:
		bits = 64
	case Double:
		f, err := strconv.ParseFloat(t, 64)
		if err != nil && !math.IsInf(f, 0) {
			return v, invalid(k.Name, s, "Not a number of type DOUBLE")
		}
		v.real = f
		return v, nil
	case List:
		v.list = SplitList(t)
		return v, nil
	default:
		return v, nil
	}
	n, err := strconv.ParseInt(t, 10, bits)
	if err != nil {
		return v, invalid(k.Name, s, "Not a number of type "+k.Type.Name())
	}
	v.num = n
	return v, nil
}

// SplitList splits a list value as Kafka does: at commas, blanks around them do
// not count, and an empty value is the empty list.
func SplitList(s string) []string {
	s = strings.TrimFunc(s, javaBlank)
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimFunc(parts[i], javaBlank)
	}
	return parts
}

// javaDouble writes a number as Java's Double.toString does.
func javaDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	s := strconv.FormatFloat(f, 'E', -1, 64)
	mantissa, exponent, _ := strings.Cut(s, "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

func (k *Key) obey(v value) error {
	if err := k.follow(v); err != nil {
		return err
	}
	return k.require(v)
}

// follow checks a value against the key's rule.
func (k *Key) follow(v value) error {
	r := k.Rule
	switch r.Kind {
	case AtLeast, Between, BetweenOrMinus1:
		return k.inRange(v)
	case OneOf:
		if !contains(r.words(), v.text) {
			return invalid(k.Name, v.text, "String must be one of: "+strings.Join(r.words(), ", "))
		}
	case OneOfAnyCase:
		if !contains(r.words(), strings.ToLower(v.text)) && !contains(r.words(), strings.ToUpper(v.text)) {
			return invalid(k.Name, v.text, "String must be one of (case insensitive): "+strings.Join(r.words(), ", "))
		}
	case NonEmpty:
		if v.text == "" {
			return invalid(k.Name, v.text, "String must be non-empty")
		}
	case Distinct, DistinctOf, DistinctSome, DistinctSomeOf, SetOf, NoBlanks:
		return k.distinct(v)
	case Throttled:
		return k.throttled(v)
	case AutoOffsetReset:
		if !autoOffsetReset(v.text) {
			return invalid(k.Name, v.text, fmt.Sprintf("Invalid value `%s` for configuration %s. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.", v.text, k.Name))
		}
	case QuorumVoters:
		_, err := ParseVoters(v.list)
		return err
	case QuorumServers:
		_, err := ParseBootstrapServers(v.list)
		return err
	case Matches:
		if err := k.distinct(v); err != nil {
			return err
		}
		return checkMatches(v.list)
	}
	return nil
}

func (k *Key) inRange(v value) error {
	r := k.Rule
	low, high := v.num < r.Min, r.Kind != AtLeast && v.num > r.Max
	most := strconv.FormatInt(r.Max, 10)
	if k.Type == Double {
		limit := float64(r.Max)
		if r.MaxF != 0 {
			limit = r.MaxF
		}
		// NaN is in every range, as in Kafka's comparisons.
		low, high = v.real < float64(r.Min), r.Kind != AtLeast && v.real > limit
		most = strconv.FormatFloat(limit, 'f', -1, 64)
	}
	switch {
	case r.Kind == BetweenOrMinus1 && v.num == -1:
		return nil
	case r.Kind == BetweenOrMinus1 && (low || high):
		return invalid(k.Name, v.String(), fmt.Sprintf("Value must be between %d and %d or equal to -1", r.Min, r.Max))
	case low:
		return invalid(k.Name, v.String(), fmt.Sprintf("Value must be at least %d", r.Min))
	case high:
		return invalid(k.Name, v.String(), "Value must be no more than "+most)
	}
	return nil
}

func (k *Key) distinct(v value) error {
	r := k.Rule
	var words []string
	if r.Words != "" {
		words = r.words()
	}
	if len(v.list) == 0 && (r.Kind == DistinctSome || r.Kind == DistinctSomeOf) {
		valid := "any non-empty value"
		if words != nil {
			valid = "[" + strings.Join(words, ", ") + "]"
		}
		return &Error{Message: fmt.Sprintf("Configuration '%s' must not be empty. Valid values include: %s", k.Name, valid)}
	}
	for _, item := range v.list {
		if item == "" {
			return &Error{Message: fmt.Sprintf("Configuration '%s' values must not be empty.", k.Name)}
		}
		if words != nil && !contains(words, item) {
			return invalid(k.Name, item, "String must be one of: "+strings.Join(words, ", "))
		}
	}
	for i, item := range v.list {
		if r.Kind != NoBlanks && r.Kind != SetOf && r.Kind != Matches && contains(v.list[:i], item) {
			return &Error{Message: fmt.Sprintf("Configuration '%s' values must not be duplicated.", k.Name)}
		}
	}
	return nil
}

// throttled takes what Kafka does: entries that are empty stand for nothing, beside
// "*" too.
func (k *Key) throttled(v value) error {
	if strings.Join(v.list, "") == "*" {
		return nil
	}
	for _, item := range v.list {
		partition, broker, ok := strings.Cut(item, ":")
		if item != "" && (!ok || !digits(partition) || !digits(broker)) {
			return invalid(k.Name, "["+strings.Join(v.list, ", ")+"]", fmt.Sprintf("%s must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...", k.Name))
		}
	}
	return nil
}

func digits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// autoOffsetReset takes what java.time.Duration.parse takes, as long as nothing
// in it is negative.
func autoOffsetReset(s string) bool {
	if s == "earliest" || s == "latest" {
		return true
	}
	d, ok := strings.CutPrefix(s, "by_duration:")
	return ok && isoDuration(strings.TrimPrefix(d, "+"))
}

// isoDuration takes PnDTnHnMn.nS, with at least one part, and one after a T.
func isoDuration(s string) bool {
	s = strings.ToUpper(s)
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	days, rest, timed := strings.Cut(s, "T")
	if days == "" && !timed {
		return false
	}
	if days != "" {
		if n, ok := strings.CutSuffix(days, "D"); !ok || !digits(strings.TrimPrefix(n, "+")) {
			return false
		}
	}
	if !timed {
		return true
	}
	parts := 0
	for _, unit := range []string{"H", "M", "S"} {
		n, after, ok := strings.Cut(rest, unit)
		if !ok {
			continue
		}
		n = strings.TrimPrefix(n, "+")
		if unit == "S" {
			if i := strings.IndexAny(n, ".,"); i >= 0 {
				if fraction := n[i+1:]; len(fraction) > 9 || fraction != "" && !digits(fraction) {
					return false
				}
				n = n[:i]
			}
		}
		if !digits(n) {
			return false
		}
		parts++
		rest = after
	}
	return parts > 0 && rest == ""
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}
