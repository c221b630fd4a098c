package frames

import "regexp"

// explanation is a difference that is meant.
type explanation struct {
	// at matches "API/case/vN: what.path: ours against Kafka's".
	at  *regexp.Regexp
	why string
}

func explain(at, why string) explanation { return explanation{regexp.MustCompile(at), why} }

// explained lists every difference that is meant. One that a whole run does not
// meet any more fails too.
var explained = []explanation{}

// Explained says why a difference is meant; "" if it is not. seen counts the
// explanations used.
func Explained(difference string, seen func(at string)) string {
	for _, e := range explained {
		if e.at.MatchString(difference) {
			seen(e.at.String())
			return e.why
		}
	}
	return ""
}
