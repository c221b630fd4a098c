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
var explained = []explanation{
	// Produce.
	explain(`^Produce/null records/.*: answered against no answer`, "a fault of Kafka: it fails on null records and never answers; INVALID_RECORD (87) here"),
	explain(`^Produce/shape/.*: length of 2 GiB .*ErrorCode: 87 against -1$`, "Kafka's sum of length and 12 overflows and it fails; here a batch longer than what came is a cut one (87)"),
	explain(`^Produce/shape/.*: a partition twice, the last bad stored`, "Kafka refuses the last batch and appends the first all the same; here what is answered with an error is not stored"),
	explain(`^Produce/records/.*: plain: (deltas swapped|deltas with a gap|a negative delta) .*(ErrorCode: 87 against 0|BaseOffset: -1 against \d+)$`,
		"Kafka does not look at the offset deltas of plain batches and stores offsets that are not dense; here they always are"),
	explain(`^Produce/records/.*: packed \d: (deltas swapped|deltas with a gap|a negative delta) .*ErrorCode: 87 against -1$`,
		"Kafka fails on the offset deltas of compressed batches; here INVALID_RECORD says what is wrong"),
	explain(`^Produce/records/.*: packed \d: (length too small|length too large|length 0) .*(ErrorCode: 87 against 0|BaseOffset: -1 against \d+)$`,
		"Kafka skips over compressed records and stores what no consumer can read; here every record is walked"),
}

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
