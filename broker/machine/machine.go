// Package machine holds the words that a coordinator's driver and the machines
// it drives share. A machine takes an event and the time and returns one value
// that says what to write, whom to answer, whom to ask and when to wake it; the
// driver (broker/coordinator) does those things. broker/group is such a machine.
//
// The room is pure and holds no behaviour. What it promises is the contract
// between the two sides:
//
//   - Hard state, which is what the records hold, changes only in Replay and
//     ReplayMarker. They are called while the log is loaded and again, live, for
//     every record a decision asked to be written, so that recovery and running
//     are one code path.
//   - Append first, replay after. A decision with records is followed by either
//     the replay of each of its records and then Written, or by Refused alone.
//     No other event comes in between. After Refused the machine is as it was
//     before the event that led to the decision, but for what it decides then; the
//     driver answers that event's own request with the error, sends none of the
//     decision's replies and starts none of its sends. Requests that were parked
//     before stay parked.
//   - A decision without records takes effect at once.
//   - Whoever is not answered by a decision stays parked: the machine keeps the
//     ticket and answers it in a later decision. A ticket is answered once.
//   - The machine is thrown away, soft state and all, when its partition's
//     leadership is lost or gained or when the outcome of an append is unknown.
//     The driver then answers every ticket it has not answered yet.
package machine

import (
	"time"

	"millrace/controller/image"
)

// Machine is the state of one partition of an internal topic. Its methods are
// called from one goroutine.
type Machine interface {
	// Handle decides. It is not called between a decision with records and the
	// Written or Refused that answers it.
	Handle(now time.Time, ev Event) Decision
	// Replay applies one record of the log. It cannot refuse; a record that
	// means nothing to the machine is skipped, and the text says why.
	Replay(rec Record) (skipped string)
	// ReplayMarker ends a transaction: what its producer id wrote since the last
	// marker counts, or never happened.
	ReplayMarker(m Marker)
}

// Ticket names a request until it is answered. It is never zero and never used
// twice by one driver.
type Ticket uint64

// SendID names a send; the machine chooses it and gets it back in the Answer.
type SendID uint64

// Event is what a machine is told. It is one of Request, Answer, ImageChanged,
// Marked, Expire, Loaded, Written and Refused.
type Event interface{ event() }

// Client is who asks.
type Client struct {
	ID        string // client.id, "" when the header had none
	Host      string // as Kafka prints it: "/127.0.0.1"
	Principal string
}

// Request asks for something and is answered once, by a Reply with its ticket.
type Request struct {
	Ticket Ticket
	// Body is a kmsg request, its version set, or a type of the machine's own. It
	// holds no bytes of a pooled buffer.
	Body   any
	Client Client
	// Fresh is chance for this request: random bytes that no other request got.
	Fresh [16]byte
}

// Answer is the outcome of a send.
type Answer struct {
	Send SendID
	Body any
	Err  error
}

// ImageChanged brings a newer image of the cluster. Delta is what changed since
// the image before; nil says that anything may have, as in the first one after
// Loaded.
type ImageChanged struct {
	Image *image.Image
	Delta *image.Delta
}

// Marked says that a transaction's marker was appended and replayed.
type Marked struct{ Marker Marker }

// Expire says that the deadline of an earlier decision has come. A machine that
// has nothing due does nothing.
type Expire struct{}

// Loaded says that the log was replayed to its end. It is the first event that
// a machine is told.
type Loaded struct{}

// Written says that the records of the decision before were appended and
// replayed. They are not yet committed.
type Written struct{}

// Refused says that the records of the decision before were not appended, and
// will not be. Code is what a client of the coordinator is told of it.
type Refused struct {
	Code int16
	Err  error
}

func (Request) event()      {}
func (Answer) event()       {}
func (ImageChanged) event() {}
func (Marked) event()       {}
func (Expire) event()       {}
func (Loaded) event()       {}
func (Written) event()      {}
func (Refused) event()      {}

// Record is one record of an internal topic. A nil Value is a tombstone.
type Record struct {
	Key   []byte
	Value []byte
	// Producer is set on records that were written in a transaction: they count
	// only once its marker says so. Decisions set Decision.Producer instead.
	Producer *Producer
}

// Producer is the identity under which a transactional batch is written.
type Producer struct {
	ID    int64
	Epoch int16
}

// Marker ends a transaction on this partition.
type Marker struct {
	Producer         Producer
	CoordinatorEpoch int32
	Commit           bool
}

// Decision is what a machine wants done. The zero value wants nothing.
type Decision struct {
	// Records are appended as one batch, all or none.
	Records []Record
	// Producer, if set, makes the batch part of that producer's transaction.
	Producer *Producer
	// Keys are the groups or transactional ids whose state the records change.
	// Replies that wait for such a key wait until the records are committed.
	Keys []string

	Replies []Reply
	Sends   []Send

	// Deadline is when the machine wants to be told Expire, counted anew by every
	// decision; zero is never.
	Deadline time.Time
}

// Reply answers a request. Body is a kmsg response or a type of the machine's
// own.
type Reply struct {
	Ticket Ticket
	Body   any
	Wait   Wait
}

// Wait says what has to be committed before a reply may leave. The zero value
// waits for nothing.
type Wait struct {
	// Written waits for the records of this decision, or, if it has none, for all
	// records appended so far. When time is up, the answer is the driver's
	// ErrUnavailable.
	Written bool
	// Keys wait for what these keys have that is not yet committed. Time is
	// shorter, and the answer then ErrLoading.
	Keys []string
}

// Send asks somebody else: a broker, the controller, a background job. The
// driver calls what it was given for that and hands the outcome back as Answer.
type Send struct {
	ID   SendID
	To   any
	Body any
	// Written holds the send back until the records of this decision, or all
	// appended so far if it has none, are committed.
	Written bool
}
