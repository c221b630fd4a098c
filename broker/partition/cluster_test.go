package partition

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/broker/faulttest"
	"millrace/broker/replica"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// cluster is one partition with replicas on several brokers, and a controller that elects from the ISR. Everything
// happens on one goroutine, in the order that a test draws.
type cluster struct {
	t      *rapid.T
	ck     *clock
	nodes  []*node
	epoch  batch.LeaderEpoch
	pepoch int32
	leader int32 // -1: none
	isr    []int32
	minISR int

	acked []acked
	waits []pendingAck
	sent  map[batch.Offset]string

	elections, truncations, commits int
}

// acked is a record that was acknowledged with acks=all.
type acked struct {
	offset batch.Offset
	value  string
}

type pendingAck struct {
	a      *Acks
	offset batch.Offset
	value  string
}

type node struct {
	id   int32
	fs   *disktest.FS
	log  *log.Log
	p    *Partition
	down bool
	late *Copied // an answer of a leader that is still on its way
}

func newCluster(t *rapid.T, n, minISR int) *cluster {
	c := &cluster{t: t, ck: &clock{t: time.Unix(1_700_000_000, 0)}, leader: 1, minISR: minISR, sent: map[batch.Offset]string{}}
	for id := int32(1); id <= int32(n); id++ {
		nd := &node{id: id, fs: disktest.New()}
		if err := errors.Join(nd.fs.MkdirAll("/d"), nd.fs.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, nd)
		c.isr = append(c.isr, id)
		c.start(nd)
	}
	c.pepoch = 1
	for _, nd := range c.nodes {
		c.tell(nd)
	}
	return c
}

func (c *cluster) start(nd *node) {
	l, _, err := log.Open(log.Options{FS: nd.fs, Dir: "/d/t-0", Topic: "t", TopicID: [16]byte{1}, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1, Now: c.ck.now})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := defaults()
	cfg.MinInsyncReplicas = int32(c.minISR)
	cfg.SegmentBytes = 400
	nd.log, nd.down, nd.late = l, false, nil
	nd.p = New(Options{Log: l, Topic: "t", ID: [16]byte{1}, Self: nd.id, Config: cfg, Now: c.ck.now, LagMax: 10 * time.Second})
}

func (c *cluster) brokers() []replica.Broker {
	var bs []replica.Broker
	for _, nd := range c.nodes {
		bs = append(bs, replica.Broker{ID: nd.id, Epoch: 1, Live: !nd.down})
	}
	return bs
}

// tell brings a node's partition in line with what the controller has decided.
func (c *cluster) tell(nd *node) {
	if nd.down {
		return
	}
	a := Assignment{LeaderID: c.leader, LeaderEpoch: c.epoch, PartitionEpoch: c.pepoch, ISR: c.isr, Brokers: c.brokers()}
	var err error
	if c.leader == nd.id {
		err = nd.p.BecomeLeader(a)
	} else {
		err = nd.p.BecomeFollower(a)
	}
	if err != nil {
		c.t.Fatalf("node %d takes %+v: %v", nd.id, a, err)
	}
}

// elect gives the partition another leader out of the ISR.
func (c *cluster) elect() {
	c.epoch++
	c.pepoch++
	c.leader = -1
	for _, nd := range c.nodes {
		if !nd.down && slices.Contains(c.isr, nd.id) && (c.leader == -1 || rapid.Bool().Draw(c.t, "next")) {
			c.leader = nd.id
		}
	}
	c.elections++
}

// crash takes the power from a node. Only one may be down at a time while others are in sync: the promise holds while
// one member of the ISR survives.
func (c *cluster) crash(nd *node) {
	nd.p.Close()
	nd.log.Abandon()
	nd.fs.Kill()
	nd.down = true
	if slices.Contains(c.isr, nd.id) && len(c.isr) > 1 {
		c.isr = slices.DeleteFunc(slices.Clone(c.isr), func(id int32) bool { return id == nd.id })
		c.pepoch++
	}
	if c.leader == nd.id || c.leader == -1 {
		c.elect()
	}
}

func (c *cluster) node(id int32) *node {
	for _, nd := range c.nodes {
		if nd.id == id {
			return nd
		}
	}
	return nil
}

// produce appends at a node that may or may not know that it leads no more.
func (c *cluster) produce(nd *node, n int) {
	if nd.down {
		return
	}
	value := fmt.Sprintf("%d@%d", n, nd.id)
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(c.ck.t.UnixMilli(), []byte("k"), []byte(value))
	b := u.Bytes()
	h, err := batch.ParseHeader(b)
	if err != nil {
		c.t.Fatal(err)
	}
	ap, err := nd.p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1})
	if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNotEnoughReplicas) {
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	a := NewAcks(1)
	nd.p.Await(a, 0, ap, -1)
	a.Seal()
	c.waits = append(c.waits, pendingAck{a: a, offset: ap.Last, value: value})
}

// fetch lets a follower fetch once from whom it takes for the leader.
func (c *cluster) fetch(nd *node) {
	if nd.late != nil && !nd.down {
		late := *nd.late
		nd.late = nil
		c.copied(nd, late)
		return
	}
	pos := nd.p.Position()
	if nd.down || pos.LeaderID == nd.id || pos.LeaderID < 0 {
		return
	}
	from := c.node(pos.LeaderID)
	if from.down {
		return
	}
	last := pos.LastEpoch
	r, err := from.p.Read(ReadRequest{Offset: pos.Offset, MaxBytes: 200, MinOne: true, CurrentLeaderEpoch: pos.LeaderEpoch, LastFetchedEpoch: last, Replica: nd.id})
	switch {
	case errors.Is(err, ErrFencedLeaderEpoch), errors.Is(err, ErrUnknownLeaderEpoch), errors.Is(err, ErrNotLeader):
		return
	case errors.Is(err, ErrOffsetOutOfRange):
		c.t.Fatalf("node %d at %d (epoch %d) is out of range of the leader's %+v", nd.id, pos.Offset, last, from.p.State())
	case err != nil:
		c.t.Fatal(err)
	}
	if r.Diverging != nil {
		to := min(r.Diverging.EndOffset, pos.Offset)
		if _, end := nd.log.EndOffsetForEpoch(r.Diverging.Epoch); end >= 0 {
			to = min(to, end)
		}
		if to < nd.log.View().HighWatermark() {
			c.t.Fatalf("node %d has to cut to %d, below its high watermark %d", nd.id, to, nd.log.View().HighWatermark())
		}
		if err := nd.p.Truncate(pos.LeaderEpoch, to); err != nil {
			c.t.Fatal(err)
		}
		c.truncations++
		return
	}
	records := make([]byte, r.Records.Len())
	if len(records) > 0 {
		if _, err := r.Records.ReadAt(records, 0); err != nil {
			c.t.Fatal(err)
		}
	}
	r.Records.Release()
	if err := from.p.FollowerFetched(pos.LeaderEpoch, replica.Fetch{ID: nd.id, BrokerEpoch: 1, Offset: pos.Offset, LogStart: pos.LogStart, LeaderEnd: r.LogEnd}); err != nil && !errors.Is(err, ErrNotLeader) {
		c.t.Fatal(err)
	}
	copied := Copied{LeaderEpoch: pos.LeaderEpoch, From: pos.Offset, Records: records, HighWatermark: r.HighWatermark, LogStart: r.LogStart}
	if rapid.IntRange(0, 3).Draw(c.t, "late") == 0 {
		nd.late = &copied
		return
	}
	c.copied(nd, copied)
}

// copied lets a follower take what a leader has answered, which may be none by now.
func (c *cluster) copied(nd *node, x Copied) {
	before := nd.p.Position()
	err := nd.p.Replicate(x)
	if err != nil && (before.LeaderEpoch != x.LeaderEpoch || before.LeaderID == nd.id) && (errors.Is(err, ErrFencedLeaderEpoch) || errors.Is(err, ErrUnknownLeaderEpoch)) {
		return
	}
	if err != nil {
		c.t.Fatalf("node %d copies %d bytes to %d: %v", nd.id, len(x.Records), x.From, err)
	}
}

// decide lets the controller answer the leader's proposal.
func (c *cluster) decide(nd *node) {
	if nd.down {
		return
	}
	prop, ok := nd.p.Proposal()
	if !ok {
		return
	}
	if prop.LeaderEpoch != c.epoch || prop.PartitionEpoch != c.pepoch || nd.id != c.leader {
		return // out of date, which does not say that it was not carried out
	}
	var isr []int32
	for _, m := range prop.ISR {
		if c.node(m.ID).down {
			nd.p.ProposalRefused(prop.PartitionEpoch)
			return
		}
		isr = append(isr, m.ID)
	}
	c.isr = isr
	c.pepoch++
	c.commits++
	if rapid.Bool().Draw(c.t, "answered") {
		nd.p.ISRCommitted(c.epoch, c.pepoch, c.isr)
	}
}

// values are the records of a node's log, up to an offset.
func (c *cluster) values(nd *node, upper batch.Offset) map[batch.Offset]string {
	out := map[batch.Offset]string{}
	v := nd.log.View()
	for at := v.LogStart(); at < upper; {
		s, err := v.Read(at, upper, 1<<20, true)
		if err != nil {
			c.t.Fatal(err)
		}
		b := make([]byte, s.Len())
		if len(b) == 0 {
			c.t.Fatalf("node %d has nothing at %d below %d", nd.id, at, upper)
		}
		if _, err := s.ReadAt(b, 0); err != nil {
			c.t.Fatal(err)
		}
		s.Release()
		at = c.collect(out, b)
	}
	return out
}

// consume reads what a node shows to consumers.
func (c *cluster) consume(nd *node) map[batch.Offset]string {
	out := map[batch.Offset]string{}
	for at := nd.log.View().LogStart(); ; {
		r, err := nd.p.Read(consumer(at))
		if err != nil {
			c.t.Fatal(err)
		}
		if r.Records.Len() == 0 {
			return out
		}
		b := make([]byte, r.Records.Len())
		if _, err := r.Records.ReadAt(b, 0); err != nil {
			c.t.Fatal(err)
		}
		r.Records.Release()
		at = c.collect(out, b)
	}
}

// collect adds the records of whole batches to out, and says where they end.
func (c *cluster) collect(out map[batch.Offset]string, b []byte) (next batch.Offset) {
	for len(b) > 0 {
		h, err := batch.ParseHeader(b)
		if err != nil {
			c.t.Fatal(err)
		}
		for r, err := range batch.Records(b[:h.Size()], 0) {
			if err != nil {
				c.t.Fatal(err)
			}
			out[r.Offset] = string(r.Value)
		}
		b, next = b[h.Size():], h.NextOffset()
	}
	return next
}

// check looks for breaches of what is promised.
func (c *cluster) check() {
	rest := c.waits[:0]
	for _, w := range c.waits {
		if !decided(w.a) {
			rest = append(rest, w)
			continue
		}
		if w.a.Err(0) == nil {
			c.acked = append(c.acked, acked{w.offset, w.value})
		}
	}
	c.waits = rest
	shown := map[batch.Offset]string{}
	for _, nd := range c.nodes {
		if nd.down {
			continue
		}
		v := nd.log.View()
		if v.LogStart() > v.LastStable() || v.LastStable() > v.HighWatermark() || v.HighWatermark() > v.LogEnd() {
			c.t.Fatalf("node %d: log start %d, last stable %d, high watermark %d, log end %d", nd.id, v.LogStart(), v.LastStable(), v.HighWatermark(), v.LogEnd())
		}
		for o, value := range c.consume(nd) {
			if other, ok := shown[o]; ok && other != value {
				c.t.Fatalf("offset %d is %q on one replica and %q on another", o, other, value)
			}
			shown[o] = value
			if before, ok := c.sent[o]; ok && before != value {
				c.t.Fatalf("offset %d was shown as %q and is %q now", o, before, value)
			}
			c.sent[o] = value
		}
	}
	if len(c.acked) == 0 {
		return
	}
	// Every member of the ISR holds everything that was acknowledged.
	for _, id := range c.isr {
		nd := c.node(id)
		if nd.down {
			continue
		}
		has := c.values(nd, nd.log.View().LogEnd())
		for _, a := range c.acked {
			if has[a.offset] != a.value {
				c.t.Fatalf("offset %d was acknowledged as %q; node %d of the ISR %v has %q (epoch %d, leader %d)", a.offset, a.value, id, c.isr, has[a.offset], c.epoch, c.leader)
			}
		}
	}
}

// TestCluster lets replicas produce, copy, crash and be elected at random, with brokers that learn late, and checks after
// every step that nothing acknowledged is lost and nothing shown changes.
func TestCluster(t *testing.T) {
	n := clusters(t)
	t.Logf("%+v", n)
	if !testing.Short() && (n.elections < 100 || n.truncations < 10 || n.commits < 20 || n.acks < 100) {
		t.Error("an idle world")
	}
}

type happened struct{ elections, truncations, commits, acks int }

func clusters(t rapid.TB) (all happened) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "replicas")
		c := newCluster(t, n, rapid.IntRange(1, 2).Draw(t, "min"))
		any := func() *node { return c.nodes[rapid.IntRange(0, n-1).Draw(t, "node")] }
		for i := range rapid.IntRange(150, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "step") {
			case 0, 1, 2:
				c.produce(any(), i)
			case 3, 4, 5, 6:
				c.fetch(any())
			case 7:
				c.decide(any())
			case 8:
				c.tell(any())
			case 9:
				c.ck.pass(time.Duration(rapid.IntRange(0, 7).Draw(t, "seconds")) * time.Second)
				if nd := any(); !nd.down {
					nd.p.Expire()
				}
			case 10:
				nd := any()
				if nd.down {
					c.start(nd)
					if c.leader == -1 && slices.Contains(c.isr, nd.id) {
						c.elect()
					}
					c.tell(nd)
				} else if others := slices.ContainsFunc(c.isr, func(id int32) bool { return id != nd.id && !c.node(id).down }); others {
					c.crash(nd)
				}
			case 12, 13: // a quiet while: everybody hears the news and copies
				for _, nd := range c.nodes {
					c.tell(nd)
				}
				for range 3 {
					for _, nd := range c.nodes {
						c.fetch(nd)
						c.decide(nd)
					}
				}
			case 11:
				if rapid.IntRange(0, 2).Draw(t, "elect") == 0 {
					c.elect()
				}
			}
			c.check()
		}
		all.elections += c.elections
		all.truncations += c.truncations
		all.commits += c.commits
		all.acks += len(c.acked)
		for _, nd := range c.nodes {
			if !nd.down {
				nd.p.Close()
				nd.log.Abandon()
			}
		}
	})
	return all
}

// TestPlantedFaults: the clusters are worth something only if a broken partition breaks what they promise.
func TestPlantedFaults(t *testing.T) {
	defer func() { faults = faultSwitches{} }()
	for name, f := range map[string]faultSwitches{
		"ackAppended":   {ackAppended: true},
		"keepDiverged":  {keepDiverged: true},
		"followerAhead": {followerAhead: true},
		"sameEpoch":     {sameEpoch: true},
		"readToEnd":     {readToEnd: true},
	} {
		faults = f
		if !faulttest.Noticed(t, "1000", "0", func(t rapid.TB) { clusters(t) }) {
			t.Errorf("nobody notices %s", name)
		}
	}
	faults = faultSwitches{ackUnflushed: true}
	if lost := powerLoss(t, nil); lost == 0 {
		t.Error("nobody notices ackUnflushed")
	}
}
