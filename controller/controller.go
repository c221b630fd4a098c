package controller

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/raftlog"
)

// Options of a Controller. RaftLog and Static are needed; the rest has a zero
// value that works.
type Options struct {
	NodeID    int32
	ClusterID string      // of a cluster that this node founds; "": a random one
	Directory [16]byte    // directory.id of the directory the raft log lies in
	RaftLog   raftlog.Log // the controller closes it
	Static    *config.Static
	Logger    *zap.Logger
	Now       func() time.Time
	Transport Transport // nil in a group of one
	// OwnAddress says whether a bootstrap server is this node itself. nil: the
	// configuration has been checked to name no other.
	OwnAddress func(config.Address) bool

	TickInterval    time.Duration // of raft, in a group of several; 0: 100 ms
	SnapshotBytes   int           // of entries, after which a snapshot is due; 0: 4 MiB
	SnapshotEntries int           // 0: 10000
	// Observe, if not nil, is told of each turn: how long what it commits has taken
	// since it was proposed here, the longest where several did; 0 where it commits
	// nothing of this node's. It must not block.
	Observe func(committed time.Duration)
	// VerifyWorking compares the working image with what its committed entry
	// makes, every time. It is for tests; it costs as much as all the rest.
	VerifyWorking bool
}

const (
	defaultTick            = 100 * time.Millisecond
	defaultSnapshotBytes   = 4 << 20
	defaultSnapshotEntries = 10000
	askBacklog             = 256 // requests that wait for the turn under way
)

// Controller runs one member of the raft group.
type Controller struct {
	o         Options
	log       *zap.Logger
	publisher *publisher

	asks       chan ask
	admissions chan *admission
	stored     chan *pb.SnapshotMetadata // nil: storing failed
	stop       chan struct{}
	stopped    chan struct{}
	once       sync.Once
	err        error // set before stopped is closed

	active atomic.Bool
	leader atomic.Int32
	status atomic.Pointer[Status] // of the last turn, kept where somebody observes
}

// Start opens the metadata, forms the raft group if there is none yet and this
// node may, and runs until Stop or until ctx ends. It does not wait for a leader.
// The log is its own from then on, and let go where it does not start.
func Start(ctx context.Context, o Options) (*Controller, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.TickInterval == 0 {
		o.TickInterval = defaultTick
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = defaultSnapshotBytes
	}
	if o.SnapshotEntries == 0 {
		o.SnapshotEntries = defaultSnapshotEntries
	}
	if o.OwnAddress == nil {
		o.OwnAddress = func(config.Address) bool { return true }
	}
	m, first, err := begin(o)
	if err != nil {
		return nil, errors.Join(err, o.RaftLog.Abandon())
	}
	c := &Controller{
		o: o, log: o.Logger, publisher: newPublisher(image.New()),
		asks: make(chan ask, askBacklog), admissions: make(chan *admission), stored: make(chan *pb.SnapshotMetadata, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	c.leader.Store(-1)
	go c.run(ctx, m, first)
	return c, nil
}

// begin makes the member, elects one that is alone, and takes its first turn, which
// applies all that is committed: metadata that is damaged shows before anything of
// it is put to use, and before anything is written.
func begin(o Options) (*member, output, error) {
	if err := own(o); err != nil {
		return nil, output{}, err
	}
	m, err := newMember(memberOptions{
		directory: o.Directory, clusterID: o.ClusterID, log: o.RaftLog, static: o.Static, seed: freshSeed,
		raftLogger:    raftLog{o.Logger.Named("raft")},
		electionTicks: max(2, int(time.Duration(o.Static.Int("controller.quorum.election.timeout.ms"))*time.Millisecond/o.TickInterval)),
		snapshotBytes: o.SnapshotBytes, snapshotEntries: uint64(o.SnapshotEntries), keepEntries: uint64(o.SnapshotEntries / 10), verify: o.VerifyWorking,
	})
	if err != nil {
		return nil, output{}, err
	}
	if m.alone() {
		if o.Transport != nil {
			o.Logger.Debug("a group of one sends no messages")
		}
		if err := m.campaign(); err != nil {
			return nil, output{}, fmt.Errorf("electing the only controller: %w", err)
		}
	} else if o.Transport == nil {
		return nil, output{}, errors.New("a group of several controllers needs a transport")
	}
	first, err := m.turn(o.Now())
	return m, first, err
}

// own founds a group where the log is empty, and says whether the log is this node's.
func own(o Options) error {
	if o.RaftLog.Self() == 0 {
		nodes, err := founders(o.NodeID, o.Static.Voters(), o.Static.BootstrapServers(), o.OwnAddress)
		if err != nil {
			return err
		}
		if err := o.RaftLog.Found(RaftID(o.NodeID, 0), confOf(nodes)); err != nil {
			return fmt.Errorf("founding a cluster: %w", err)
		}
	}
	if owner := NodeOf(o.RaftLog.Self()); owner != o.NodeID {
		return fmt.Errorf("the metadata here is that of node %d, not of node %d", owner, o.NodeID)
	}
	return nil
}

func freshSeed() (seed [32]byte) {
	_, _ = rand.Read(seed[:]) // does not fail: it would crash the process
	return seed
}

// Source gives a new subscriber.
func (c *Controller) Source() Source { return c.publisher.subscribe() }

// Image is the latest committed image.
func (c *Controller) Image() *image.Image { return c.publisher.latest() }

// Client asks this controller.
func (c *Controller) Client() Client { return localClient{c} }

// Active says whether this controller decides.
func (c *Controller) Active() bool { return c.active.Load() }

// LeaderID is the node id of the active controller, -1 while none is known.
func (c *Controller) LeaderID() int32 { return c.leader.Load() }

// Done is closed when the controller has stopped; Err says why, if it stopped by
// itself.
func (c *Controller) Done() <-chan struct{} { return c.stopped }

// Err is nil before Done is closed.
func (c *Controller) Err() error {
	select {
	case <-c.stopped:
		return c.err
	default:
		return nil
	}
}

// Stop ends the controller and closes its log. It may be called more than once.
func (c *Controller) Stop() error {
	c.once.Do(func() { close(c.stop) })
	<-c.stopped
	return c.err
}

// run is the goroutine that owns the member.
func (c *Controller) run(ctx context.Context, m *member, first output) {
	err := c.loop(ctx, m, first)
	if m.snapshotting {
		<-c.stored
	}
	if closed := c.o.RaftLog.Close(); err == nil && closed != nil {
		err = fmt.Errorf("closing the metadata: %w", closed)
	}
	if err != nil {
		c.log.Error("the controller stopped", zap.Error(err))
	}
	c.err = err
	c.active.Store(false)
	c.leader.Store(-1)
	close(c.stopped)
	c.publisher.close()
}

func (c *Controller) loop(ctx context.Context, m *member, out output) error {
	var (
		ticker   *time.Ticker
		ticks    <-chan time.Time
		received <-chan *pb.Message
		failed   <-chan Undelivered
		timer    = time.NewTimer(time.Hour)
	)
	defer timer.Stop()
	defer func() {
		if ticker != nil {
			ticker.Stop()
		}
	}()
	if c.o.Transport != nil {
		received, failed = c.o.Transport.Receive(), c.o.Transport.Failed()
	}
	for {
		c.release(m, out)
		if alone := m.alone(); alone && ticker != nil {
			ticker.Stop()
			ticker, ticks = nil, nil
		} else if !alone && ticker == nil {
			ticker = time.NewTicker(c.o.TickInterval)
			ticks = ticker.C
		}
		timer.Stop()
		if at := m.deadline(); !at.IsZero() {
			timer.Reset(at.Sub(c.o.Now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.stop:
			return nil
		case a := <-c.asks:
			m.request(a)
		case a := <-c.admissions:
			m.admit(a)
		case msg := <-received:
			m.step(msg)
		case u := <-failed:
			m.undelivered(u)
		case <-ticks:
			m.tick()
		case <-timer.C:
		case meta := <-c.stored:
			if err := m.compact(meta); err != nil {
				return err
			}
		}
		c.gather(m, received)
		var err error
		if out, err = m.turn(c.o.Now()); err != nil {
			return err
		}
	}
}

// gather takes what else has arrived, for the same turn.
func (c *Controller) gather(m *member, received <-chan *pb.Message) {
	for range askBacklog {
		select {
		case a := <-c.asks:
			m.request(a)
		case msg := <-received:
			m.step(msg)
		default:
			return
		}
	}
}

// release lets out what a turn gave. Images go first: who gets an answer finds
// what it announces.
func (c *Controller) release(m *member, out output) {
	if leader := NodeOf(m.leader); c.leader.Swap(leader) != leader {
		level := zap.InfoLevel
		if m.alone() {
			level = zap.DebugLevel // it is this node at every start
		}
		c.log.Log(level, "the active controller changed", zap.Int32("leader", leader), zap.Uint64("term", m.node.BasicStatus().GetTerm()))
	}
	c.active.Store(m.active())
	if c.o.Observe != nil {
		c.status.Store(m.status())
		var took time.Duration
		if !out.proposed.IsZero() {
			took = max(c.o.Now().Sub(out.proposed), 1)
		}
		c.o.Observe(took)
	}
	if out.image != nil {
		c.publisher.publish(out.image, out.delta)
	}
	for _, s := range out.answers {
		s.to <- s.answer
	}
	for _, s := range out.admitted {
		s.to <- s.admitted
	}
	if len(out.messages) > 0 && c.o.Transport != nil {
		c.o.Transport.Send(out.messages)
	}
	if out.snapshot != nil {
		go c.store(out)
	}
}

// store writes a snapshot beside the loop: the image does not change.
func (c *Controller) store(out output) {
	s := encodeSnapshot(out)
	if err := c.o.RaftLog.StoreSnapshot(s); err != nil {
		c.log.Error("storing a snapshot of the metadata failed; the log keeps growing", zap.Error(err))
		c.stored <- nil
		return
	}
	c.stored <- s.GetMetadata()
}
