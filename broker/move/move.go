// Package move decides about replicas that are to lie in another data directory (KIP-113): what a request for one comes
// to, and how fast what is moved may be copied.
//
// It is not the copying: broker/partition fills the other log and exchanges the two, storage renames the directories, and
// the broker drives both.
package move

import "github.com/twmb/franz-go/pkg/kerr"

// State is what a request for one partition meets.
type State struct {
	NameTooLong bool // the name that the directory of a log on its way has does not fit into a file system

	// Of the directory that is asked for.
	Known, Offline, Cordoned bool

	// Of the partition.
	Exists bool   // the metadata knows it
	Broken bool   // it is here, and its log did not open
	Here   bool   // its log is open
	At     string // the directory it lies in
	To     string // the one it is on its way to; "": none
}

// Decision is what a request comes to.
type Decision struct {
	Code   int16 // the answer
	Cancel bool  // give up the move that is under way
	Prefer bool  // if the partition comes here later, have it made in that directory
	Begin  bool  // begin to move
}

// Decide decides about a request to have a partition in a directory. A request for the directory it lies in calls off a
// move. The order of what is wrong is Kafka's. The directory of a partition that is not here is kept in mind beside its
// error. A cordoned directory takes no new log (KIP-1066); one that is on its way there already arrives all the same.
func Decide(dir string, s State) Decision {
	switch {
	case s.NameTooLong:
		return Decision{Code: kerr.InvalidTopicException.Code}
	case !s.Known:
		return Decision{Code: kerr.LogDirNotFound.Code}
	case s.Cordoned && s.At != dir:
		return Decision{Code: kerr.InvalidReplicaAssignment.Code}
	case s.Offline || s.Broken:
		return Decision{Code: kerr.KafkaStorageError.Code}
	case !s.Here && !s.Exists:
		return Decision{Code: kerr.UnknownTopicOrPartition.Code, Prefer: true}
	case !s.Here:
		return Decision{Code: kerr.ReplicaNotAvailable.Code, Prefer: true}
	}
	d := Decision{Cancel: s.To != "" && s.To != dir}
	d.Begin = s.At != dir && s.To != dir
	return d
}

// Quota says how fast may be copied: so many bytes a second, with what one second gives in advance. Its zero value gives
// nothing.
type Quota struct {
	Rate int64 // bytes a second

	left  int64 // bytes; below zero after a batch that was larger than what was left
	at    int64 // when left was so, in ms
	begun bool
}

// unlimited is from which rate on nothing is counted.
const unlimited = 1 << 40

// Take says how many bytes may be copied at a time in ms; 0: none before Wait is over.
func (q *Quota) Take(now int64) int64 {
	if q.Rate >= unlimited {
		return unlimited
	}
	q.fill(now)
	return max(q.left, 0)
}

// Wait is after how many ms to look again; at most a second, as the rate may change meanwhile.
func (q *Quota) Wait(now int64) int64 {
	switch {
	case q.Take(now) > 0:
		return 0
	case q.Rate <= 0:
		return 1000
	}
	return min(1+(-q.left)*1000/q.Rate, 1000)
}

// Took takes note of so many bytes.
func (q *Quota) Took(bytes int) {
	if q.Rate < unlimited {
		q.left -= int64(bytes)
	}
}

func (q *Quota) fill(now int64) {
	if !q.begun {
		q.left, q.at, q.begun = max(q.Rate, 0), now, true
		return
	}
	// Less than a byte's time is left for the next look.
	passed := min(now-q.at, 1<<22)
	if gained := passed*(q.Rate/1000) + passed*(q.Rate%1000)/1000; gained > 0 {
		q.left, q.at = min(q.left+gained, q.Rate), now
	}
}
