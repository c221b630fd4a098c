package oracle

import "millrace/compat-tests/explained"

// explain says why a difference is meant; "" if it is not. Package explained has the
// table.
func explain(difference string) string {
	d := explained.Find(difference)
	if d == nil {
		return ""
	}
	return d.Why + " (" + d.Cites() + ")"
}
