package broker

import (
	"context"
	"iter"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/controller/image"
	"millrace/wire"
)

// listenerKind says which of Kafka's two kinds of listener an API is served on.
type listenerKind int8

const (
	onBroker listenerKind = 1 << iota
	onController
)

// api is one row of the table that ApiVersions, the dispatcher and the
// documentation are made from.
type api struct {
	key kmsg.Key
	// min and max are the versions served, whole.
	min, max int16
	on       listenerKind
	// worded: its answers hold texts that are made of what clients said (clipTexts).
	worded bool
	// handle executes one request on the goroutine that read it. It may block.
	handle func(*Broker, *call) wire.Reply
	// told says whether ApiVersions lists it while an image holds; nil: always.
	// Served it is all the same.
	told func(*image.Image) bool
}

// table lists every API that is served, by key. What is not built yet is not
// in it.
var table []api

func init() {
	table = []api{
		{key: kmsg.Produce, min: 0, max: 13, on: onBroker, handle: (*Broker).produce},
		{key: kmsg.Fetch, min: 0, max: 18, on: onBroker, handle: (*Broker).fetch},
		{key: kmsg.ListOffsets, min: 0, max: 11, on: onBroker, handle: answer((*Broker).listOffsets)},
		{key: kmsg.Metadata, min: 0, max: 13, on: onBroker, handle: answer((*Broker).metadata)},
		{key: kmsg.OffsetCommit, min: 0, max: 10, on: onBroker, handle: answer((*Broker).offsetCommit)},
		{key: kmsg.OffsetFetch, min: 0, max: 10, on: onBroker, handle: answer((*Broker).offsetFetch)},
		{key: kmsg.FindCoordinator, min: 0, max: 6, on: onBroker, handle: answer((*Broker).findCoordinator)},
		{key: kmsg.JoinGroup, min: 0, max: 9, on: onBroker, handle: answer((*Broker).joinGroup)},
		{key: kmsg.Heartbeat, min: 0, max: 4, on: onBroker, handle: answer((*Broker).heartbeat)},
		{key: kmsg.LeaveGroup, min: 0, max: 5, on: onBroker, handle: answer((*Broker).leaveGroup)},
		{key: kmsg.SyncGroup, min: 0, max: 5, on: onBroker, handle: answer((*Broker).syncGroup)},
		{key: kmsg.DescribeGroups, min: 0, max: 6, on: onBroker, handle: answer((*Broker).describeGroups)},
		{key: kmsg.ListGroups, min: 0, max: 5, on: onBroker, handle: answer((*Broker).listGroups)},
		{key: kmsg.ApiVersions, min: 0, max: 5, on: onBroker | onController, handle: (*Broker).apiVersions},
		{key: kmsg.CreateTopics, min: 0, max: 7, on: onBroker | onController, handle: answer((*Broker).createTopics)},
		{key: kmsg.DeleteTopics, min: 0, max: 6, on: onBroker | onController, handle: answer((*Broker).deleteTopics)},
		{key: kmsg.DeleteRecords, min: 0, max: 2, on: onBroker, handle: answer((*Broker).deleteRecords)},
		{key: kmsg.InitProducerID, min: 0, max: 5, on: onBroker, handle: answer((*Broker).initProducerID)},
		{key: kmsg.OffsetForLeaderEpoch, min: 0, max: 4, on: onBroker, handle: answer((*Broker).offsetForLeaderEpoch)},
		{key: kmsg.DescribeACLs, min: 0, max: 3, on: onBroker | onController, handle: answer((*Broker).describeACLs)},
		{key: kmsg.CreateACLs, min: 0, max: 3, on: onBroker | onController, handle: answer((*Broker).createACLs)},
		{key: kmsg.DeleteACLs, min: 0, max: 3, on: onBroker | onController, handle: answer((*Broker).deleteACLs)},
		{key: kmsg.DescribeConfigs, min: 0, max: 4, on: onBroker | onController, handle: answer((*Broker).describeConfigs)},
		{key: kmsg.AlterConfigs, min: 0, max: 2, on: onBroker | onController, handle: answer((*Broker).alterConfigs)},
		{key: kmsg.AlterReplicaLogDirs, min: 0, max: 2, on: onBroker, handle: answer((*Broker).alterReplicaLogDirs)},
		{key: kmsg.DescribeLogDirs, min: 0, max: 5, on: onBroker, handle: answer((*Broker).describeLogDirs)},
		{key: kmsg.CreatePartitions, min: 0, max: 3, on: onBroker | onController, handle: answer((*Broker).createPartitions)},
		{key: kmsg.DeleteGroups, min: 0, max: 3, on: onBroker, handle: answer((*Broker).deleteGroups)},
		{key: kmsg.ElectLeaders, min: 0, max: 2, on: onBroker | onController, handle: answer((*Broker).electLeaders)},
		{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, on: onBroker | onController, handle: answer((*Broker).incrementalAlterConfigs)},
		{key: kmsg.OffsetDelete, min: 0, max: 0, on: onBroker, handle: answer((*Broker).offsetDelete)},
		{key: kmsg.ListConfigResources, min: 0, max: 1, on: onBroker, handle: answer((*Broker).listConfigResources)},
		{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, on: onBroker | onController, handle: answer((*Broker).alterPartitionReassignments)},
		{key: kmsg.ListPartitionReassignments, min: 0, max: 0, on: onBroker | onController, handle: answer((*Broker).listPartitionReassignments)},
		{key: kmsg.DescribeQuorum, min: 0, max: 2, on: onBroker | onController, handle: answer((*Broker).describeQuorum)},
		{key: kmsg.UpdateFeatures, min: 0, max: 2, on: onBroker | onController, handle: answer((*Broker).updateFeatures)},
		{key: kmsg.GetTelemetrySubscriptions, min: 0, max: 0, on: onBroker, handle: answer((*Broker).getTelemetrySubscriptions), told: subscribed},
		{key: kmsg.PushTelemetry, min: 0, max: 0, on: onBroker, handle: answer((*Broker).pushTelemetry), told: subscribed},
		{key: kmsg.DescribeCluster, min: 0, max: 2, on: onBroker | onController, handle: answer((*Broker).describeCluster)},
		{key: kmsg.DescribeProducers, min: 0, max: 0, on: onBroker, handle: answer((*Broker).describeProducers)},
		{key: kmsg.UnregisterBroker, min: 0, max: 0, on: onBroker | onController, handle: answer((*Broker).unregisterBroker)},
		{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, on: onBroker, handle: answer((*Broker).describeTopicPartitions)},
	}
	for i := range table {
		a := &table[i]
		a.worded = hasTexts(reflect.TypeOf(kmsg.ResponseForKey(int16(a.key))))
		byKey[a.key] = a
	}
}

// byKey finds a row of the table; API keys are small and dense.
var byKey [128]*api

func lookup(key int16) *api {
	if key < 0 || int(key) >= len(byKey) {
		return nil
	}
	return byKey[key]
}

// call is one request on its way through a handler: what came in, who asks,
// and the image that this broker has applied.
type call struct {
	*wire.Request
	ctx   context.Context
	msg   kmsg.Request
	image *image.Image
	b     *Broker
	// padding is the size of what the answer says again, or of what is not there.
	padding int
	// wait is what a Produce is made of; nil for all else.
	wait *produceWait
}

// mostPadding bounds what a client can make of one answer with the names of few
// things, asked over and over, or of none: names take few bytes, and what is said
// of each may be long. Answers that Kafka gives to clients' and tools' requests
// repeat nothing.
const mostPadding = 32 << 20

// pads takes note of so many bytes of that kind, and says whether the answer is
// still one to give; else the connection is closed.
func (c *call) pads(bytes int) bool {
	c.padding += bytes
	return c.padding <= mostPadding
}

// padsAbsent takes note of those partitions of a topic that are not there, where
// the answer is to tell of each in words that hold the topic's name: of a few
// bytes each comes a name that may be as long as a string can be.
func (c *call) padsAbsent(topic string, partitions iter.Seq[int32]) bool {
	const around = 100 // the other words, and the row that holds them
	t := c.image.TopicByName(topic)
	for i := range partitions {
		if t.Partition(i) == nil && !c.pads(len(topic)+around) {
			return false
		}
	}
	return true
}

// padsPartitions is pads where of each of so many partitions a sentence is said,
// or as much kept until the answer is made: those beyond what there is are named
// twice, or are not there.
func (c *call) padsPartitions(asked int) bool {
	const sentence = 256 // about what one takes while it is decided, answered and sent
	for t := range c.image.Topics() {
		if asked -= len(t.Partitions); asked <= 0 {
			return true
		}
	}
	return c.pads(asked * sentence)
}

// subject is who asks, for the authorizer.
func (c *call) subject() auth.Subject {
	return auth.Subject{Principal: c.Conn.Principal, Host: c.Conn.Remote.Addr()}
}

// host is the client's address as Kafka writes it in group members: a slash
// and the IP.
func (c *call) host() string { return "/" + c.Conn.Remote.Addr().Unmap().String() }

func (c *call) clientID() string {
	if c.ClientID == nil {
		return ""
	}
	return *c.ClientID
}

func (c *call) allowed(op auth.Operation, t auth.ResourceType, name string) bool {
	return c.b.authorizer.Allowed(c.subject(), auth.Action{Operation: op, Type: t, Name: name})
}

func (c *call) operations(t auth.ResourceType, name string) int32 {
	return auth.Operations(c.b.authorizer, c.subject(), t, name)
}

// answer fits a handler that is given its decoded request and returns a
// decoded response into the table.
func answer[Q any, PQ interface {
	*Q
	kmsg.Request
}, R kmsg.Response](f func(*Broker, *call, PQ) R) func(*Broker, *call) wire.Reply {
	return func(b *Broker, c *call) wire.Reply {
		q, ok := c.msg.(PQ)
		if !ok {
			panic("broker: the table names another request type for this key")
		}
		resp := f(b, c, q)
		if c.padding > mostPadding {
			b.refused.Warn("a request asks for the same thing too often, or for too much that is not there: the connection is closed", zap.Int16("api", c.Key),
				zap.Stringer("remote", c.Conn.Remote))
			return wire.Reply{Close: true}
		}
		resp.SetVersion(c.Version)
		if byKey[c.Key].worded {
			clipTexts(reflect.ValueOf(resp))
		}
		c.answered(resp)
		return wire.Reply{Body: wire.Encode(resp)}
	}
}

// answered takes note of a decoded answer.
func (c *call) answered(resp kmsg.Response) {
	if seen := c.b.seen; seen != nil {
		errorCodes(resp, func(code int16) { seen.failed(c.Key, 0, code) })
	}
}

// dispatcher serves one broker's requests to package wire.
type dispatcher struct{ b *Broker }

// Serves says whether a listener answers an API in a version.
func (d dispatcher) Serves(listener string, key, version int16) bool {
	a := lookup(key)
	return a != nil && a.on&d.b.kindOf(listener) != 0 && version >= a.min && version <= a.max
}

// Handle executes one request that is no Produce. A body that does not parse closes
// the connection, as Kafka does.
func (d dispatcher) Handle(ctx context.Context, r *wire.Request) wire.Reply {
	c := d.call(ctx, r)
	if c == nil {
		return wire.Reply{Close: true}
	}
	return d.execute(c)
}

// HandleTogether executes Produces. One that is logged, or that has no answer unless it
// fails, is executed by itself.
func (d dispatcher) HandleTogether(ctx context.Context, requests []*wire.Request, replies []wire.Reply) int {
	var few [8]*call
	calls := few[:0]
	for i, r := range requests {
		c := d.produceCall(ctx, r)
		if c != nil && !d.logged(c) && c.wait.req.Acks != 0 {
			calls = append(calls, c)
			continue
		}
		d.b.produceTogether(calls, replies[i-len(calls):i])
		calls = calls[:0]
		if c == nil {
			replies[i] = wire.Reply{Close: true}
		} else {
			replies[i] = d.execute(c)
		}
		if replies[i].Close {
			return i + 1
		}
	}
	d.b.produceTogether(calls, replies[len(requests)-len(calls):])
	return len(requests)
}

// call decodes a request; nil: it does not parse.
func (d dispatcher) call(ctx context.Context, r *wire.Request) *call {
	c := &call{Request: r, ctx: ctx, b: d.b, image: d.b.applied()}
	if r.Body == nil && r.Key == int16(kmsg.ApiVersions) {
		return c
	}
	var err error
	if c.msg, err = wire.Decode(r); err != nil {
		d.doesNotParse(r, err)
		return nil
	}
	return c
}

// produceCall is call of a Produce.
func (d dispatcher) produceCall(ctx context.Context, r *wire.Request) *call {
	w := newProduceWait()
	w.own.call = call{Request: r, ctx: ctx, b: d.b, image: d.b.applied(), msg: w.req, wait: w}
	if err := wire.DecodeInto(r, w.req); err != nil {
		d.doesNotParse(r, err)
		return nil
	}
	return w.c
}

func (d dispatcher) doesNotParse(r *wire.Request, err error) {
	d.b.refused.Warn("a request that does not parse: the connection is closed", zap.Int16("api", r.Key), zap.Int16("version", r.Version),
		zap.Stringer("remote", r.Conn.Remote), zap.Error(err))
}

func (d dispatcher) logged(c *call) bool { return d.b.requests != nil && d.b.requests.wants(c) }

func (d dispatcher) execute(c *call) wire.Reply {
	if d.logged(c) {
		return d.b.requests.handle(c, byKey[c.Key].handle)
	}
	return byKey[c.Key].handle(d.b, c)
}
