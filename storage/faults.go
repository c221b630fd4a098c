package storage

// faults breaks the store on purpose, so that tests show they would notice. Only tests of this package can set it.
var faults faultSwitches

type faultSwitches struct {
	remember  bool // the checkpoints keep what they say of a deleted topic
	keepPoint bool // a truncation does not lower the stored recovery point
	keepMark  bool // a start leaves the mark of a clean stop
	// exchangeBackwards: a log that was moved gets the plain name before the old one has lost it, as in Kafka
	exchangeBackwards bool
}
