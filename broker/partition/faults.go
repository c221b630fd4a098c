package partition

// faults breaks the partition on purpose, so that tests show they would notice. Only tests of this package can set it.
var faults faultSwitches

type faultSwitches struct {
	ackAppended   bool // acks=all is acknowledged once appended
	ackUnflushed  bool // what waits to be flushed counts as written
	keepDiverged  bool // a follower is not told where its log diverges
	followerAhead bool // a follower takes its own log end for the high watermark
	sameEpoch     bool // a leadership does not begin its epoch in the log
	readToEnd     bool // consumers are shown what is not committed
}
