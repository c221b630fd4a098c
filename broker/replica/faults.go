package replica

// faults breaks the machine on purpose, so that tests show they would notice. Only tests of this package can set it.
var faults faultSwitches

type faultSwitches struct {
	passFollowers bool // the high watermark does not wait for followers
	passJoining   bool // the high watermark does not wait for members that a proposal adds
	ignoreMin     bool // the high watermark moves while too few are in sync
	joinBehind    bool // followers are proposed before they have what is committed
	goBack        bool // the high watermark follows a follower that was truncated
}
