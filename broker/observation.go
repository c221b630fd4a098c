package broker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/metrics"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/wire"
)

// observation is what a broker counts while metrics are served; where they are
// not, there is none, and its methods do nothing. What is counted on the way of a
// request is counted with atomics; the rest is looked at when somebody asks, in
// gather.go.
type observation struct {
	apis      [128]atomic.Pointer[apiCounts]
	consumers atomic.Pointer[apiCounts] // FetchConsumer
	followers atomic.Pointer[apiCounts] // FetchFollower

	all      topicCounts
	topicsMu sync.RWMutex
	topics   map[string]*topicCounts
	// exists says whether a topic is in the applied image: one that is not gets no
	// counts of its own, but these, which are shown nowhere. It is asked under
	// topicsMu.
	exists func(topic string) bool
	gone   topicCounts

	invalidMagic, invalidCRC, invalidOffset atomic.Int64
	replicationIn, replicationOut           atomic.Int64
	shrinks, expands                        atomic.Int64
	waitingFetches                          atomic.Int64
	expiredConsumers, expiredFollowers      atomic.Int64
	expiredProduces                         atomic.Int64

	flushes, commits metrics.Histogram
	turns, elections atomic.Int64

	listenersMu sync.RWMutex
	listeners   map[string]*listenerCounts

	softwareMu sync.Mutex
	software   map[softwareKey]int

	// Under gathering, which one gatherer at a time holds.
	gathering      sync.Mutex
	flushWindow    metrics.Window
	commitWindow   metrics.Window
	requestWindows map[*apiCounts]*[times]metrics.Window
}

// times is how many histograms a kind of request has.
const times = 8

// apiCounts is what is counted of one kind of request. It is made when the first
// one comes.
type apiCounts struct {
	versions [32]atomic.Int64
	errors   [256]atomic.Int64 // by code + 1; codes beyond are counted as unknown
	times    [times]metrics.Histogram
}

// topicCounts is what is counted of one topic, or of all.
type topicCounts struct {
	messagesIn, bytesIn, bytesOut, bytesRejected atomic.Int64
	produces, fetches                            atomic.Int64
	failedProduces, failedFetches                atomic.Int64
	conversions, downgrades                      atomic.Int64
}

type listenerCounts struct{ in, out, requests, responses atomic.Int64 }

type softwareKey struct{ name, version, listener string }

// maxSoftware bounds the names that clients give themselves and that are told
// apart; what goes beyond is counted as "other".
const maxSoftware = 200

// The marks of a Fetch in wire.Request.Mark.
const (
	markConsumer = 1
	markFollower = 2
)

func newObservation(exists func(topic string) bool) *observation {
	o := &observation{exists: exists, topics: map[string]*topicCounts{}, listeners: map[string]*listenerCounts{}, software: map[softwareKey]int{}, requestWindows: map[*apiCounts]*[times]metrics.Window{}}
	o.flushWindow.Of, o.commitWindow.Of = &o.flushes, &o.commits
	return o
}

func made(at *atomic.Pointer[apiCounts]) *apiCounts {
	if c := at.Load(); c != nil {
		return c
	}
	at.CompareAndSwap(nil, &apiCounts{})
	return at.Load()
}

func (o *observation) api(key int16) *apiCounts {
	if key < 0 || int(key) >= len(o.apis) {
		key = int16(len(o.apis) - 1)
	}
	return made(&o.apis[key])
}

// request takes what a request took.
func (o *observation) request(t wire.Timing) {
	o.api(t.Key).count(&t)
	switch t.Mark {
	case markConsumer:
		made(&o.consumers).count(&t)
	case markFollower:
		made(&o.followers).count(&t)
	}
	l := o.listener(t.Listener)
	l.in.Add(int64(t.RequestBytes) + 4)
	l.responses.Add(1)
	if t.ResponseBytes > 0 {
		l.out.Add(int64(t.ResponseBytes) + 8)
		l.requests.Add(1)
	}
}

func (a *apiCounts) count(t *wire.Timing) {
	a.versions[int(t.Version)&(len(a.versions)-1)].Add(1)
	for i, d := range [...]time.Duration{t.Total, t.Queue, t.Local, t.Remote, t.ResponseQueue, t.Send, t.Throttle} {
		a.times[i].Duration(d)
	}
	a.times[times-1].Observe(int64(t.RequestBytes))
}

// keepListeners drops the counts of listeners that are gone.
func (o *observation) keepListeners(there map[string]int) {
	o.listenersMu.Lock()
	defer o.listenersMu.Unlock()
	maps.DeleteFunc(o.listeners, func(name string, _ *listenerCounts) bool {
		_, is := there[name]
		return !is
	})
}

func (o *observation) listener(name string) *listenerCounts {
	o.listenersMu.RLock()
	l := o.listeners[name]
	o.listenersMu.RUnlock()
	if l != nil {
		return l
	}
	o.listenersMu.Lock()
	defer o.listenersMu.Unlock()
	if l = o.listeners[name]; l == nil {
		l = &listenerCounts{}
		o.listeners[name] = l
	}
	return l
}

// failed counts an error code of an answer, 0 included.
func (o *observation) failed(key int16, mark uint8, code int16) {
	if o == nil {
		return
	}
	i := int(code) + 1
	if i < 0 || i >= 256 {
		i = 0
	}
	o.api(key).errors[i].Add(1)
	switch mark {
	case markConsumer:
		made(&o.consumers).errors[i].Add(1)
	case markFollower:
		made(&o.followers).errors[i].Add(1)
	}
}

// topic finds the counts of a topic. Requests outlive topics: a deletion wakes the
// fetches that wait, and they read once more. What they count does not bring the
// topic back.
func (o *observation) topic(name string) *topicCounts {
	o.topicsMu.RLock()
	t := o.topics[name]
	o.topicsMu.RUnlock()
	if t != nil {
		return t
	}
	o.topicsMu.Lock()
	defer o.topicsMu.Unlock()
	if t = o.topics[name]; t == nil {
		if !o.exists(name) {
			return &o.gone
		}
		t = &topicCounts{}
		o.topics[name] = t
	}
	return t
}

// forget drops the counts of a deleted topic; what the broker has counted in all
// stays. It is to be called when the topic is out of the applied image: nothing
// makes them anew then.
func (o *observation) forget(name string) {
	if o == nil {
		return
	}
	o.topicsMu.Lock()
	delete(o.topics, name)
	o.topicsMu.Unlock()
}

// appended counts an append: asked for, and done where err is nil.
func (o *observation) appended(topic string, records, size int, err error) {
	if o == nil {
		return
	}
	for _, t := range [...]*topicCounts{&o.all, o.topic(topic)} {
		t.produces.Add(1)
		if err == nil {
			t.messagesIn.Add(int64(records))
			t.bytesIn.Add(int64(size))
		}
	}
	if err != nil {
		o.appendFailed(topic, size, err)
	}
}

// appendFailed sorts the reasons, as Kafka does: of most, clients are expected
// to make something, and they do not count as failed.
func (o *observation) appendFailed(topic string, size int, err error) {
	t := o.topic(topic)
	code := codeOf(err)
	switch code {
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code:
		o.all.bytesRejected.Add(int64(size))
		t.bytesRejected.Add(int64(size))
		return
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.KafkaStorageError.Code:
		return
	case kerr.CorruptMessage.Code:
		o.invalidCRC.Add(1)
		return
	case kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code, kerr.DuplicateSequenceNumber.Code:
		o.invalidOffset.Add(1)
	}
	var refused *batch.Error
	if errors.As(err, &refused) && refused.Kind == batch.UnsupportedMagic {
		o.invalidMagic.Add(1)
	}
	o.all.failedProduces.Add(1)
	t.failedProduces.Add(1)
}

// recompressed counts records that were made anew before they were appended.
func (o *observation) recompressed(topic string, records int) {
	if o == nil {
		return
	}
	o.all.conversions.Add(int64(records))
	o.topic(topic).conversions.Add(int64(records))
}

// downgraded counts records that were converted for an old client.
func (o *observation) downgraded(topic string, records int) {
	if o == nil || records == 0 {
		return
	}
	o.all.downgrades.Add(int64(records))
	o.topic(topic).downgrades.Add(int64(records))
}

// read counts the read of one partition.
func (o *observation) read(topic string, err error) {
	if o == nil {
		return
	}
	t := o.topic(topic)
	o.all.fetches.Add(1)
	t.fetches.Add(1)
	if err == nil || errors.Is(err, log.ErrOffsetOutOfRange) {
		return
	}
	switch codeOf(err) {
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.UnknownLeaderEpoch.Code, kerr.FencedLeaderEpoch.Code,
		kerr.ReplicaNotAvailable.Code, kerr.KafkaStorageError.Code, kerr.OffsetOutOfRange.Code:
	default:
		o.all.failedFetches.Add(1)
		t.failedFetches.Add(1)
	}
}

// sent counts records that are given away.
func (o *observation) sent(topic string, size int, follower bool) {
	switch {
	case o == nil || size == 0:
	case follower:
		o.replicationOut.Add(int64(size))
	default:
		o.all.bytesOut.Add(int64(size))
		o.topic(topic).bytesOut.Add(int64(size))
	}
}

// waits counts a fetch that waits, until the function it returns is called.
func (o *observation) waits(n int64) {
	if o != nil {
		o.waitingFetches.Add(n)
	}
}

func (o *observation) expiredFetch(follower bool) {
	switch {
	case o == nil:
	case follower:
		o.expiredFollowers.Add(1)
	default:
		o.expiredConsumers.Add(1)
	}
}

func (o *observation) expiredProduce() {
	if o != nil {
		o.expiredProduces.Add(1)
	}
}

// isr counts what became of an ISR that is led here.
func (o *observation) isr(before, after int) {
	switch {
	case o == nil || before == 0:
	case after < before:
		o.shrinks.Add(1)
	case after > before:
		o.expands.Add(1)
	}
}

// named counts a connection under what its client calls itself, until it ends.
func (o *observation) named(conn *wire.Conn) {
	if o == nil || conn.SoftwareName == "" {
		return
	}
	k := softwareKey{conn.SoftwareName, conn.SoftwareVersion, conn.Listener}
	o.softwareMu.Lock()
	if _, known := o.software[k]; !known && len(o.software) >= maxSoftware {
		k.name, k.version = "other", "other"
	}
	o.software[k]++
	o.softwareMu.Unlock()
	context.AfterFunc(conn.Context(), func() {
		o.softwareMu.Lock()
		defer o.softwareMu.Unlock()
		if o.software[k]--; o.software[k] <= 0 {
			delete(o.software, k)
		}
	})
}

// produceErrors counts the codes of an answer to Produce.
func (o *observation) produceErrors(resp *kmsg.ProduceResponse) {
	if o == nil {
		return
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			code := resp.Topics[i].Partitions[j].ErrorCode
			o.failed(int16(kmsg.Produce), 0, code)
			if code == kerr.RequestTimedOut.Code {
				o.expiredProduce()
			}
		}
	}
}
