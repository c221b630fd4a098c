package broker

import (
	"context"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/metrics"
	"millrace/controller/image"
)

// Gather tells what /metrics shows. Everything that is not counted on the way of
// requests is looked at here and now.
func (b *Broker) Gather(ctx context.Context, emit metrics.Emit) {
	o := b.seen
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.running, cancel)()
	o.gathering.Lock()
	defer o.gathering.Unlock()
	now := time.Now()
	emit(metrics.BrokerState, float64(b.phase.Load()))
	o.gatherTopics(emit)
	o.gatherRequests(now, emit)
	o.gatherFlushes(now, emit)
	if b.phase.Load() != phaseRunning {
		return // the rest is not there yet, or goes away
	}
	b.gatherConnections(emit)
	b.gatherReplicas(emit)
	b.gatherDirectories(emit)
	b.gatherSessions(emit)
	b.gatherCluster(emit)
	b.gatherRaft(now, emit)
	gatherGroups(ctx, b, b.coordinators.all(), emit)
	b.telemetry.gather(emit)
	emit(metrics.Build, 1, b.version, itoa(b.nodeID), b.applied().ClusterID())
}

// awaitGatherer returns when nobody gathers who began while the broker ran.
func (o *observation) awaitGatherer() {
	if o == nil {
		return
	}
	o.gathering.Lock()
	defer o.gathering.Unlock()
}

func (o *observation) gatherTopics(emit metrics.Emit) {
	o.all.gather(func(m *metrics.Metric, n int64) { emit(m, float64(n)) })
	emit(metrics.InvalidMagic, float64(o.invalidMagic.Load()))
	emit(metrics.InvalidCRC, float64(o.invalidCRC.Load()))
	emit(metrics.InvalidOffset, float64(o.invalidOffset.Load()))
	emit(metrics.ReplicationIn, float64(o.replicationIn.Load()))
	emit(metrics.ReplicationOut, float64(o.replicationOut.Load()))
	// A copy: whoever takes the values may be slow, and the lock is on the way of
	// requests.
	o.topicsMu.RLock()
	topics := maps.Clone(o.topics)
	o.topicsMu.RUnlock()
	// any order: the exposition sorts.
	for name, t := range topics {
		t.gather(func(m *metrics.Metric, n int64) {
			if n != 0 { // as Kafka, which makes a topic's meter when it is first marked
				emit(m, float64(n), name)
			}
		})
	}
}

func (t *topicCounts) gather(tell func(*metrics.Metric, int64)) {
	tell(metrics.MessagesIn, t.messagesIn.Load())
	tell(metrics.BytesIn, t.bytesIn.Load())
	tell(metrics.BytesOut, t.bytesOut.Load())
	tell(metrics.BytesRejected, t.bytesRejected.Load())
	tell(metrics.TotalProduce, t.produces.Load())
	tell(metrics.TotalFetch, t.fetches.Load())
	tell(metrics.FailedProduce, t.failedProduces.Load())
	tell(metrics.FailedFetch, t.failedFetches.Load())
	tell(metrics.ProduceConv, t.conversions.Load())
	tell(metrics.FetchConv, t.downgrades.Load())
}

// requestTimes are the histograms of a kind of request, in the order of
// apiCounts.times.
var requestTimes = [times]metrics.Histo{
	metrics.TotalTime, metrics.QueueTime, metrics.LocalTime, metrics.RemoteTime, metrics.ResponseQueueTime, metrics.SendTime, metrics.ThrottleTime, metrics.RequestBytes,
}

func (o *observation) gatherRequests(now time.Time, emit metrics.Emit) {
	for key := range o.apis {
		if c := o.apis[key].Load(); c != nil {
			o.gatherRequest(now, emit, apiName(int16(key)), c)
		}
	}
	if c := o.consumers.Load(); c != nil {
		o.gatherRequest(now, emit, "FetchConsumer", c)
	}
	if c := o.followers.Load(); c != nil {
		o.gatherRequest(now, emit, "FetchFollower", c)
	}
}

// apiName is what Kafka calls an API.
func apiName(key int16) string {
	switch name := kmsg.NameForKey(key); name {
	case "InitProducerID":
		return "InitProducerId"
	case "Unknown", "":
		return "Unknown"
	default:
		return name
	}
}

func (o *observation) gatherRequest(now time.Time, emit metrics.Emit, name string, c *apiCounts) {
	windows := o.requestWindows[c]
	if windows == nil {
		windows = &[times]metrics.Window{}
		for i := range windows {
			windows[i].Of = &c.times[i]
		}
		o.requestWindows[c] = windows
	}
	for v := range c.versions {
		if n := c.versions[v].Load(); n > 0 {
			emit(metrics.Requests, float64(n), name, strconv.Itoa(v))
		}
	}
	for i := range c.errors {
		if n := c.errors[i].Load(); n > 0 {
			emit(metrics.Errors, float64(n), name, errorName(int16(i-1)))
		}
	}
	for i, h := range requestTimes {
		s := windows[i].Summary(now)
		emit(h.Count, float64(s.Count), name)
		for q := range metrics.Quantiles {
			emit(h.Quantile, s.Quantiles[q]*h.Scale, name, metrics.Quantiles[q].Name)
		}
	}
}

func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return "UNKNOWN_SERVER_ERROR"
}

func (o *observation) gatherFlushes(now time.Time, emit metrics.Emit) {
	s := o.flushWindow.Summary(now)
	emit(metrics.FlushCount, float64(s.Count))
	for q := range metrics.Quantiles {
		emit(metrics.FlushTime, s.Quantiles[q]/1000, metrics.Quantiles[q].Name)
	}
}

func (b *Broker) gatherConnections(emit metrics.Emit) {
	const processor = "0"
	st, o := b.server.Stats(), b.seen
	var idle int64
	// any order: the exposition sorts.
	for name, n := range st.Connections {
		l := o.listener(name)
		emit(metrics.ConnectionCount, float64(n), name, processor)
		emit(metrics.ConnectionCreation, float64(st.AcceptedBy[name]), name, processor)
		emit(metrics.ConnectionClose, float64(st.AcceptedBy[name]-int64(n)), name, processor)
		emit(metrics.ConnectionsExpired, float64(st.Idle[name]), name, processor)
		emit(metrics.IncomingBytes, float64(l.in.Load()), name, processor)
		emit(metrics.OutgoingBytes, float64(l.out.Load()), name, processor)
		emit(metrics.SocketRequests, float64(l.requests.Load()), name, processor)
		emit(metrics.SocketResponses, float64(l.responses.Load()), name, processor)
		idle += st.Idle[name]
	}
	emit(metrics.ExpiredKilled, float64(idle))
	emit(metrics.MemoryUsed, float64(st.BudgetInUse))
	emit(metrics.MemoryAvailable, float64(max(requestBudget(b.config)-st.BudgetInUse, 0)))
	emit(metrics.SendfileSent, float64(st.SendfileBytes))
	emit(metrics.RepliesHeld, float64(st.RepliesInMemory))
	emit(metrics.RefusedIP, float64(st.RefusedPerIP))
	o.keepListeners(st.Connections)
	o.softwareMu.Lock()
	software := maps.Clone(o.software)
	o.softwareMu.Unlock()
	// any order: the exposition sorts.
	for k, n := range software {
		emit(metrics.Software, float64(n), k.name, k.version, k.listener, processor)
	}
}

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (b *Broker) gatherReplicas(emit metrics.Emit) {
	img := b.applied()
	var leaders, under, underMin, atMin, offline, moving, producers, waiting int
	list := b.replicas.all()
	for _, p := range list {
		s, v := p.State(), p.Log().View()
		topic, index := p.Topic(), itoa(p.Index())
		isUnder := s.Leader && len(s.ISR) < s.Replicas
		isUnderMin := s.Leader && len(s.ISR) < s.MinISR
		isAtMin := s.Leader && len(s.ISR) == s.MinISR
		waiting += s.Waiting
		producers += s.Producers
		if s.Leader {
			leaders++
			if t := img.TopicByID(p.ID()); t != nil {
				if q := t.Partition(p.Index()); q != nil && len(q.Adding)+len(q.Removing) > 0 {
					moving++
				}
			}
		}
		if isUnder {
			under++
		}
		if isUnderMin {
			underMin++
		}
		if isAtMin {
			atMin++
		}
		if p.Log().Offline() != nil {
			offline++
		}
		emit(metrics.CellUnderReplicated, bit(isUnder), topic, index)
		emit(metrics.CellInSync, float64(len(s.ISR)), topic, index)
		emit(metrics.CellReplicas, float64(s.Replicas), topic, index)
		emit(metrics.CellUnderMinISR, bit(isUnderMin), topic, index)
		emit(metrics.CellAtMinISR, bit(isAtMin), topic, index)
		emit(metrics.CellStableLag, float64(v.HighWatermark()-v.LastStable()), topic, index)
		emit(metrics.LogSize, float64(p.Log().Size()), topic, index)
		emit(metrics.LogStart, float64(v.LogStart()), topic, index)
		emit(metrics.LogEnd, float64(v.LogEnd()), topic, index)
		emit(metrics.LogSegments, float64(v.Segments()), topic, index)
	}
	broken := b.replicas.countBroken()
	emit(metrics.PartitionCount, float64(len(list)+broken))
	emit(metrics.LeaderCount, float64(leaders))
	emit(metrics.UnderReplicated, float64(under))
	emit(metrics.UnderMinISR, float64(underMin))
	emit(metrics.AtMinISR, float64(atMin))
	emit(metrics.OfflineReplicas, float64(offline+broken))
	emit(metrics.Reassigning, float64(moving))
	emit(metrics.ProducerIDs, float64(producers))
	emit(metrics.ISRShrinks, float64(b.seen.shrinks.Load()))
	emit(metrics.ISRExpands, float64(b.seen.expands.Load()))
	fetches := float64(b.seen.waitingFetches.Load())
	for _, m := range []*metrics.Metric{metrics.PurgatorySize, metrics.DelayedOperations} {
		emit(m, fetches, "Fetch")
		emit(m, float64(waiting), "Produce")
	}
	emit(metrics.ExpiredFetches, float64(b.seen.expiredConsumers.Load()), "consumer")
	emit(metrics.ExpiredFetches, float64(b.seen.expiredFollowers.Load()), "follower")
	emit(metrics.ExpiredProduces, float64(b.seen.expiredProduces.Load()))
}

// countBroken is how many replicas did not open.
func (r *replicas) countBroken() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.offline)
}

func (b *Broker) gatherDirectories(emit metrics.Emit) {
	down, cordoned := 0, 0
	for _, d := range b.store.Directories() {
		emit(metrics.DirectoryDown, bit(d.Failure != nil), d.Path)
		emit(metrics.DirectoryCordoned, bit(d.Cordoned), d.Path)
		if d.Cordoned {
			cordoned++
		}
		if d.Failure != nil {
			down++
		}
	}
	emit(metrics.OfflineDirs, float64(down))
	emit(metrics.CordonedDirs, float64(cordoned))
	b.gatherCleaner(emit)
}

func (b *Broker) gatherCleaner(emit metrics.Emit) {
	c := b.cleaner.Load()
	if c == nil {
		return
	}
	st := c.Stats()
	emit(metrics.CleanerRecopy, float64(100*st.Written/max(st.BytesRead, 1)))
	emit(metrics.CleanerDead, 0)
	emit(metrics.CleanerFull, math.Trunc(st.FullPercent))
	emit(metrics.CleanerTime, math.Trunc(st.LongestSeconds))
	emit(metrics.CleanerDelay, float64(st.LateMs/1000))
	emit(metrics.MaxDirty, math.Trunc(100*st.DirtiestRatio))
	emit(metrics.CleanerLast, float64(b.now().Sub(st.LastRun).Milliseconds()))
	for _, d := range b.store.Directories() {
		emit(metrics.Uncleanable, float64(st.Uncleanable[d.Path]), d.Path)
		emit(metrics.DirtyForEver, float64(st.UncleanableBytes[d.Path]), d.Path)
	}
}

func (b *Broker) gatherSessions(emit metrics.Emit) {
	var sessions, partitions int
	var evicted int64
	for i := range b.sessions.shards {
		shard, done := b.sessions.at(i)
		s := shard.Stats()
		done()
		sessions, partitions, evicted = sessions+s.Sessions, partitions+s.Partitions, evicted+s.Evicted
	}
	emit(metrics.FetchSessions, float64(sessions))
	emit(metrics.FetchPartitions, float64(partitions))
	emit(metrics.FetchEvictions, float64(evicted))
}

func (b *Broker) gatherCluster(emit metrics.Emit) {
	img := b.applied()
	var active, fenced, stopping, partitions, offline, moved int
	for br := range img.Brokers() {
		switch {
		case br.Fenced:
			fenced++
		default:
			active++
		}
		if br.InControlledShutdown {
			stopping++
		}
	}
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			partitions++
			switch {
			case p.Leader == image.NoLeader:
				offline++
			case len(p.Replicas) > 0 && p.Leader != p.Replicas[0]:
				moved++
			}
		}
	}
	emit(metrics.ActiveController, bit(b.controller.Active()))
	emit(metrics.ActiveBrokers, float64(active))
	emit(metrics.FencedBrokers, float64(fenced))
	emit(metrics.ShuttingBrokers, float64(stopping))
	emit(metrics.GlobalTopics, float64(img.NumTopics()))
	emit(metrics.GlobalPartitions, float64(partitions))
	emit(metrics.OfflinePartitions, float64(offline))
	emit(metrics.PreferredImbalance, float64(moved))
	emit(metrics.LastApplied, float64(img.Offset()))
	emit(metrics.MetadataApplied, float64(img.Offset()))
	emit(metrics.NewActive, float64(b.seen.elections.Load()))
	emit(metrics.EventsStarted, float64(b.seen.turns.Load()))
	emit(metrics.CurrentController, float64(b.controller.LeaderID()))
	emit(metrics.MetadataVersion, float64(img.Feature("metadata.version")))
}

func (b *Broker) gatherRaft(now time.Time, emit metrics.Emit) {
	both := func(m metrics.Both, v float64, labels ...string) {
		emit(m[0], v, labels...)
		emit(m[1], v, labels...)
	}
	s := b.controller.Status()
	emit(metrics.LastCommitted, float64(s.Committed))
	both(metrics.RaftLeader, float64(s.Leader))
	both(metrics.RaftVote, float64(s.Vote))
	both(metrics.RaftEpoch, float64(s.Epoch))
	both(metrics.RaftHW, float64(s.Committed+1))
	both(metrics.RaftEnd, float64(s.End))
	both(metrics.RaftEndEpoch, float64(s.EndEpoch))
	both(metrics.RaftVoters, float64(s.Voters))
	both(metrics.RaftObservers, float64(s.Learners))
	both(metrics.RaftState, 1, s.State)
	c := b.seen.commitWindow.Summary(now)
	both(metrics.RaftCommitAvg, c.Mean/1000)
	both(metrics.RaftCommitMax, c.Max/1000)
}
