// Package state decides: it turns a request for a change of the cluster into
// metadata records and an answer. It is the whole of what makes a controller
// Kafka's: the rules, error codes, messages and order of checks of CreateTopics
// and its kin, of broker registration and heartbeats, of ISR changes and leader
// election.
//
// It is a pure room. Time comes in as an argument and goes out as a deadline;
// chance (topic ids, placement) comes in as a seed with the request. It knows
// nothing of raft: the driver in package controller proposes what it decided,
// and lets answers out when that is committed.
//
// A Decider works on the working image: the committed one and all that was
// proposed on top of it. Each decision moves the working image, so that requests
// that arrive together are decided one after another and still make one entry.
// Everything but the working image is soft: which brokers have been heard of and
// when. It dies with the leadership, and the next Decider gives every broker a
// full session.
package state

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire/records"
)

// Options of a Decider.
type Options struct {
	NodeID int32
	Static *config.Static
}

// Request is a request to decide.
type Request struct {
	Body      kmsg.Request
	Principal string
	Seed      [32]byte // fresh chance for this request
}

// Outcome is the answer to a request. What it wants written is in the batch.
type Outcome struct {
	Response kmsg.Response
	// Again: the request can only be decided in a later entry than this one.
	Again bool
	// Unsupported: not a request that a controller decides.
	Unsupported bool
}

// Decider is an active controller's mind.
type Decider struct {
	static   *config.Static
	node     int32
	settings settings

	working *image.Image
	offset  int64 // the offset that the batch will have
	batch   image.Entry
	delta   *image.Delta

	sessions map[int32]*session // by broker id; looked up, never walked
	looked   time.Time          // when time was last given
	alike    map[string][]string
	plain    described
}

// settings are the static configs that decisions need.
type settings struct {
	partitions     int32
	factor         int16 // 0: as many as there are brokers, up to three
	deleteTopics   bool
	sessionTimeout time.Duration
}

// largestDefaultFactor is the replication factor of topics when none is
// configured, once there are that many brokers.
const largestDefaultFactor = 3

// New gives the Decider of a leadership that begins at the committed image.
func New(o Options, committed *image.Image, now time.Time) *Decider {
	d := &Decider{static: o.Static, node: o.NodeID, working: committed, sessions: map[int32]*session{}, looked: now}
	d.settings = settings{
		partitions:     o.Static.Int("num.partitions"),
		deleteTopics:   o.Static.Bool("delete.topic.enable"),
		sessionTimeout: time.Duration(o.Static.Int("broker.session.timeout.ms")) * time.Millisecond,
	}
	if _, set := o.Static.Set("default.replication.factor"); set {
		d.settings.factor = int16(o.Static.Int("default.replication.factor"))
	}
	for b := range committed.Brokers() {
		d.sessions[b.ID] = &session{contact: now}
	}
	return d
}

// Working is the image after all that was decided.
func (d *Decider) Working() *image.Image { return d.working }

// Begin says which metadata offset the next batch will have.
func (d *Decider) Begin(offset int64) {
	d.offset = offset
	d.batch = image.Entry{}
	d.delta = nil
}

// Batch gives what was decided since Begin: the entry to propose, the working
// image after it, and the delta to the one before. The entry is nil if nothing
// is to be written.
func (d *Decider) Batch() (*image.Entry, *image.Image, *image.Delta) {
	if d.delta == nil {
		return nil, d.working, nil
	}
	e := d.batch
	return &e, d.working, d.delta
}

// write puts records into the batch and applies them to the working image.
func (d *Decider) write(recs ...records.Metadata) {
	if len(recs) == 0 {
		return
	}
	d.apply(&image.Entry{Records: recs})
}

func (d *Decider) apply(e *image.Entry) {
	var delta *image.Delta
	d.working, delta = d.working.ApplyEntry(d.offset, e)
	d.delta = d.delta.Then(delta)
	if e.ClusterID != "" {
		d.batch.ClusterID = e.ClusterID
	}
	d.batch.Nodes = append(d.batch.Nodes, e.Nodes...)
	d.batch.Records = append(d.batch.Records, e.Records...)
}

// Decide decides one request.
func (d *Decider) Decide(now time.Time, r *Request) Outcome {
	d.look(now)
	c := chance{seed: r.Seed}
	switch req := r.Body.(type) {
	case *kmsg.CreateTopicsRequest:
		return Outcome{Response: d.createTopics(req, &c)}
	case *kmsg.DeleteTopicsRequest:
		return Outcome{Response: d.deleteTopics(req, &c)}
	case *kmsg.CreatePartitionsRequest:
		return Outcome{Response: d.createPartitions(req, &c)}
	case *kmsg.IncrementalAlterConfigsRequest:
		return Outcome{Response: d.incrementalAlterConfigs(req)}
	case *kmsg.AlterConfigsRequest:
		return Outcome{Response: d.alterConfigs(req)}
	case *kmsg.ElectLeadersRequest:
		return Outcome{Response: d.electLeaders(req)}
	case *kmsg.AlterPartitionAssignmentsRequest:
		return Outcome{Response: d.alterReassignments(req)}
	case *kmsg.ListPartitionReassignmentsRequest:
		return Outcome{Response: d.listReassignments(req)}
	case *kmsg.UpdateFeaturesRequest:
		return Outcome{Response: d.updateFeatures(req)}
	case *kmsg.AllocateProducerIDsRequest:
		return Outcome{Response: d.allocateProducerIDs(req)}
	case *kmsg.BrokerRegistrationRequest:
		return d.registerBroker(now, req)
	case *kmsg.BrokerHeartbeatRequest:
		return Outcome{Response: d.heartbeat(now, req)}
	case *kmsg.UnregisterBrokerRequest:
		return Outcome{Response: d.unregisterBroker(req)}
	case *kmsg.AlterPartitionRequest:
		return Outcome{Response: d.alterPartition(req)}
	case *kmsg.AssignReplicasToDirsRequest:
		return Outcome{Response: d.assignReplicas(req)}
	}
	return Outcome{Unsupported: true}
}

// Found writes a new cluster's first records.
func (d *Decider) Found(clusterID string, nodes []image.Node) {
	d.apply(&image.Entry{
		ClusterID: clusterID, Nodes: nodes,
		Records: []records.Metadata{&records.FeatureLevelRecord{Name: metadataVersion, FeatureLevel: foundingLevel}},
	})
}

// Record writes the identity of a controller.
func (d *Decider) Record(n image.Node) { d.apply(&image.Entry{Nodes: []image.Node{n}}) }

// chance makes of a seed as many random values as a request needs.
type chance struct {
	seed  [32]byte
	count uint64
}

func (c *chance) bytes() [32]byte {
	c.count++
	return sha256.Sum256(binary.BigEndian.AppendUint64(c.seed[:], c.count))
}

func (c *chance) number() uint64 {
	b := c.bytes()
	return binary.BigEndian.Uint64(b[:])
}

// uuid gives a random (version 4) UUID whose text does not begin with a dash, as
// Kafka's do not: tools take it for an option.
func (c *chance) uuid() [16]byte {
	for {
		b := c.bytes()
		id := [16]byte(b[:16])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if base64.RawURLEncoding.EncodeToString(id[:])[0] != '-' {
			return id
		}
	}
}
