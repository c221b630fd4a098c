package oracle

import "millrace/compat-tests/explained"

// explain says why a difference is meant; "" if it is not. Package explained has the
// table.
func (p *Play) explain(difference string) string {
	find := explained.Find
	if p.old {
		find = explained.FindOld
	}
	d := find(difference)
	if d == nil {
		return ""
	}
	return d.Why + " (" + d.Cites() + ")"
}
