package image

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"millrace/wire/records"
)

// Entry is what one entry of the metadata log holds, and also what a snapshot
// holds: metadata records, and the two things about a cluster for which Kafka's
// metadata has no record.
type Entry struct {
	Term      uint64 // the term in which it was decided; replay skips it in any other
	ClusterID string // set in a cluster's first entry and in snapshots
	Nodes     []Node // controllers' identities that are new
	Records   []records.Metadata
}

// entryFormat is the first byte of an encoded entry.
const entryFormat = 1

// Append encodes the entry: format, term, cluster id, nodes, then the records to
// the end, each in Kafka's own frame.
func (e *Entry) Append(dst []byte) []byte {
	dst = append(dst, entryFormat)
	dst = binary.AppendUvarint(dst, e.Term)
	dst = binary.AppendUvarint(dst, uint64(len(e.ClusterID)))
	dst = append(dst, e.ClusterID...)
	dst = binary.AppendUvarint(dst, uint64(len(e.Nodes)))
	for _, n := range e.Nodes {
		dst = binary.BigEndian.AppendUint32(dst, uint32(n.ID))
		dst = binary.BigEndian.AppendUint32(dst, n.Incarnation)
		dst = append(dst, n.Directory[:]...)
	}
	for _, r := range e.Records {
		dst = records.AppendMetadata(dst, r)
	}
	return dst
}

const nodeSize = 4 + 4 + 16

// DecodeEntry reads what Append wrote.
func DecodeEntry(b []byte) (*Entry, error) {
	if len(b) == 0 || b[0] != entryFormat {
		return nil, fmt.Errorf("decoding a metadata entry: not format %d", entryFormat)
	}
	rest := b[1:]
	e := &Entry{}
	var ok bool
	var size, count uint64
	if e.Term, rest, ok = uvarint(rest); !ok {
		return nil, fmt.Errorf("decoding a metadata entry: its term is cut")
	}
	if size, rest, ok = uvarint(rest); !ok || size > uint64(len(rest)) {
		return nil, fmt.Errorf("decoding a metadata entry: its cluster id is cut")
	}
	e.ClusterID, rest = string(rest[:size]), rest[size:]
	if count, rest, ok = uvarint(rest); !ok || count > uint64(len(rest))/nodeSize {
		return nil, fmt.Errorf("decoding a metadata entry: its nodes are cut")
	}
	for range count {
		n := Node{ID: int32(binary.BigEndian.Uint32(rest)), Incarnation: binary.BigEndian.Uint32(rest[4:])}
		copy(n.Directory[:], rest[8:])
		e.Nodes = append(e.Nodes, n)
		rest = rest[nodeSize:]
	}
	for len(rest) > 0 {
		r, n, err := records.DecodeMetadata(rest)
		if err != nil {
			return nil, fmt.Errorf("decoding record %d of a metadata entry: %w", len(e.Records), err)
		}
		e.Records = append(e.Records, r)
		rest = rest[n:]
	}
	return e, nil
}

func uvarint(b []byte) (uint64, []byte, bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// Snapshot is the entry that makes the whole image out of an empty one. Equal
// images give equal entries.
func (i *Image) Snapshot() *Entry {
	e := &Entry{ClusterID: i.clusterID}
	for n := range i.Nodes() {
		e.Nodes = append(e.Nodes, *n)
	}
	for _, f := range i.Features() {
		e.Records = append(e.Records, &records.FeatureLevelRecord{Name: f.Name, FeatureLevel: f.Level})
	}
	for b := range i.Brokers() {
		e.Records = append(e.Records, b.record())
	}
	for t := range i.Topics() {
		e.Records = append(e.Records, &records.TopicRecord{Name: t.Name, TopicId: t.ID})
		for _, p := range t.Partitions {
			e.Records = append(e.Records, p.record(t.ID))
		}
	}
	i.configs.Scan(func(key configName, c *Configs) bool {
		for _, pair := range c.pairs {
			e.Records = append(e.Records, &records.ConfigRecord{
				ResourceType: int8(key[0]), ResourceName: string(key[1:]), Name: pair.Key, Value: &pair.Value,
			})
		}
		return true
	})
	if i.nextProducerID != 0 {
		r := records.NewProducerIdsRecord()
		r.BrokerId, r.NextProducerId = -1, i.nextProducerID
		e.Records = append(e.Records, r)
	}
	return e
}

func (b *Broker) record() *records.RegisterBrokerRecord {
	r := records.NewRegisterBrokerRecord()
	r.BrokerId, r.BrokerEpoch, r.IncarnationId = b.ID, b.Epoch, b.Incarnation
	r.Fenced, r.InControlledShutdown, r.Rack = b.Fenced, b.InControlledShutdown, b.Rack
	r.LogDirs, r.CordonedLogDirs = b.Directories, b.Cordoned
	for _, e := range b.Endpoints {
		r.EndPoints = append(r.EndPoints, records.BrokerEndpoint{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
	}
	for _, f := range b.Features {
		r.Features = append(r.Features, records.BrokerFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	return r
}

func (p *Partition) record(topic [16]byte) *records.PartitionRecord {
	r := records.NewPartitionRecord()
	r.PartitionId, r.TopicId = p.Index, topic
	r.Replicas, r.Isr, r.AddingReplicas, r.RemovingReplicas = p.Replicas, p.ISR, p.Adding, p.Removing
	r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.LeaderRecoveryState = p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.LeaderRecoveryState
	r.Directories, r.EligibleLeaderReplicas, r.LastKnownElr = p.Directories, p.ELR, p.LastKnownELR
	return r
}

// FromSnapshot is the image at offset that a snapshot's entry makes.
func FromSnapshot(offset int64, e *Entry) *Image {
	next, _ := New().ApplyEntry(offset, e)
	return next
}

// ReplaySnapshot is FromSnapshot for an entry that comes from a disk or a peer.
func ReplaySnapshot(offset int64, e *Entry) (*Image, error) {
	next, _, err := New().Replay(offset, e)
	return next, err
}

// Equal says whether two images are of the same offset and hold the same.
func Equal(a, b *Image) bool {
	return a.offset == b.offset && bytes.Equal(a.Snapshot().Append(nil), b.Snapshot().Append(nil))
}
