package log

// faults breaks the log on purpose, so that tests show they would notice. Only tests of this package can set it.
var faults faultSwitches

type faultSwitches struct {
	keepTail      bool // a truncation leaves the file as it is
	keepSnapshots bool // a truncation leaves newer producer snapshots
	skipSync      bool // a flush does not sync the segment
	skipDirSync   bool // a flush does not sync the directory
	skipEpochs    bool // a flush does not write the leader epochs
	keepNewer     bool // recovery keeps snapshots that are newer than the log
	keepDeleted   bool // recovery knows the producers of segments below the log start
	trustDeleted  bool // recovery asks a close's snapshot for who wrote deleted records
	snapAlways    bool // a roll leaves a snapshot of a log whose records were all deleted before it had any
	skipMadeAnew  bool // recovery does not sync what it makes anew below the recovery point
	keepIndexes   bool // recovery goes on with the indexes it finds
	indexFirst    bool // a flush syncs the indexes, and the recovery point passes them, before the segment is synced
	pointAhead    bool // the recovery point is where the log ends, flushed or not
	pointPasses   bool // the recovery point is where a segment begins although the indexes of the one before were not synced
	rolledAhead   bool // a flush of the rolled segments counts for the active one as well
	passGathered  bool // a segment is rolled before what was gathered for it is written
	passHalf      bool // the log goes on before a segment that could not be begun
	forgetDirty   bool // what a flush could not sync for lack of a descriptor counts as synced
	trustCRC      bool // recovery does not compare checksums
	keepExpired   bool // a retention leaves the last segment that is to go
	hastyExpiry   bool // a retention takes a segment at half its age
	acceptHoles   bool // recovery goes on behind a hole between segments
	overwrite     bool // a truncation cuts in place although readers have the bytes
	mixSwaps      bool // a start completes a replacement of which an unfinished part is there too
	witnessFirst  bool // a start removes what an unfinished replacement is known by before what that condemns
	skipSwapSync  bool // a cleaning does not sync the directory
	skipCleanSync bool // a cleaning does not sync what it has written
	keepCleaned   bool // a truncation leaves the offset that was cleaned up to
	forgetLast    bool // a cleaning removes the last batch of a producer
	oldFirst      bool // a cleaning takes the old segments away before the new one has a name that a start takes up
	indexesFirst  bool // a cleaning gives the new indexes their names before the segment
	keepReplaced  bool // a start leaves the indexes of a replaced segment that is gone
	noHorizon     bool // a cleaning removes tombstones and markers as soon as it sees them again
	loseTxns      bool // a cleaning writes no index of aborted transactions
	trustClose    bool // a start takes it that the newest segment ends where the log was closed
	trustTxns     bool // an append does not look at the index of aborted transactions that it finds
	blameDisk     bool // what the files hold is taken for an error of the disk
}
