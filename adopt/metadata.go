package adopt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/state"
	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/wire/records"
)

// metadata is what Kafka's metadata log says, read.
type metadata struct {
	img   *image.Image
	left  map[string]int // kinds of records that are not taken over, and how many
	texts []string       // what else is not taken over, a sentence each
}

// readMetadata reads the newest snapshot of a metadata directory and the log behind it. A log that a crash has cut short
// ends at its last whole batch: on a single node what is in the log is committed. clean says that there was no crash.
func readMetadata(fsys disk.FS, dir string, clean bool, clusterID string, node image.Node) (*metadata, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var snapshot string
	var from int64
	var segments []string
	for _, n := range names {
		switch {
		case n.Dir:
		case strings.HasSuffix(n.Name, ".checkpoint"):
			// <offset>-<epoch>.checkpoint; names sort as the numbers do.
			if o, err := strconv.ParseInt(n.Name[:min(20, len(n.Name))], 10, 64); err == nil && n.Name > snapshot {
				snapshot, from = n.Name, o
			}
		case strings.HasSuffix(n.Name, ".log"):
			segments = append(segments, n.Name)
		}
	}
	slices.Sort(segments)
	m := &metadata{left: map[string]int{}}
	r := reader{m: m, clean: clean, end: -1}
	if from > 0 {
		// The one of offset 0 is what the first leader has copied into the log.
		if err := r.file(fsys, dir+"/"+snapshot, false); err != nil {
			return nil, err
		}
		if !r.footed {
			return nil, fmt.Errorf("%s does not end as a snapshot does: part of it is missing", dir+"/"+snapshot)
		}
	}
	r.from, r.next, r.end = from, from, -1
	for i, name := range segments {
		if err := r.file(fsys, dir+"/"+name, i == len(segments)-1); err != nil {
			return nil, err
		}
	}
	if len(r.all) == 0 {
		return nil, fmt.Errorf("%s holds no metadata", dir)
	}
	return m, m.build(r.all, max(r.next, 10), clusterID, node)
}

// reader collects the records of batches; those between a begin and an end of a transaction only with the end.
type reader struct {
	m       *metadata
	clean   bool  // Kafka had stopped in order
	from    int64 // what lies below is in the snapshot
	next    int64 // the offset that is expected
	end     int64 // where the batch before ends, which of a log may lie below next; -1: there is none
	footed  bool  // the last batch was a snapshot's footer
	all     []records.Metadata
	pending []records.Metadata
	open    bool
}

const maxFile = math.MaxInt32

func (r *reader) file(fsys disk.FS, path string, last bool) error {
	b, err := disk.ReadFile(fsys, path, maxFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for at := 0; at < len(b); {
		h, err := wholeBatch(b[at:])
		if err != nil && last {
			return r.torn(path, b, at, err)
		}
		if err != nil {
			return fmt.Errorf("%s at %d, offset %d: %w", path, at, r.next, err)
		}
		if int64(h.BaseOffset) > r.next {
			// A snapshot is written before what it covers is removed: what is missing has been lost.
			return fmt.Errorf("%s at %d: begins at offset %d, and what comes from offset %d on is nowhere", path, at, h.BaseOffset, r.next)
		}
		if r.end >= 0 && int64(h.BaseOffset) != r.end {
			// No checksum covers a batch's offset. Were it taken for one below the snapshot, it would be left out.
			return fmt.Errorf("%s at %d: begins at offset %d, and the batch before it ends at offset %d", path, at, h.BaseOffset, r.end)
		}
		one := b[at : at+h.Size()]
		at += h.Size()
		r.end = int64(h.NextOffset())
		r.next = max(r.next, r.end)
		r.footed = h.Attributes.Control() && isFooter(one)
		if h.Attributes.Control() || int64(h.LastOffset()) < r.from {
			continue
		}
		for rec, err := range batch.Records(one, maxFile) {
			if err != nil {
				return fmt.Errorf("%s at %d: %w", path, at, err)
			}
			if int64(rec.Offset) < r.from {
				continue
			}
			v, _, err := records.DecodeMetadata(rec.Value)
			if err != nil {
				r.m.left[fmt.Sprintf("records that are not understood (%v)", err)]++
				continue
			}
			r.add(v)
		}
	}
	return nil
}

// wholeBatch is the header of the batch at the start of some bytes, if all of it is there and as it was written.
func wholeBatch(b []byte) (batch.Header, error) {
	h, err := batch.ParseHeader(b)
	if err == nil && h.Size() > len(b) {
		err = batch.ErrShort
	}
	if err == nil {
		err = batch.CheckCRC(b[:h.Size()])
	}
	return h, err
}

// torn takes what stands at the end of the log and is no whole batch for a write that a crash has cut short, where it can be
// one: there was a crash, and nothing was written behind it. Else it is damage, and whatever came behind it was committed.
func (r *reader) torn(path string, b []byte, at int, why error) error {
	damaged := func(how string) error {
		return fmt.Errorf("%s at %d, offset %d: %w; %s: it was damaged later, and what it held, and all that came behind it, would be missing", path, at, r.next, why, how)
	}
	if r.clean {
		return damaged("Kafka had stopped in order, which leaves no batch half written")
	}
	if i, h, ok := r.behind(b, at); ok {
		return damaged(fmt.Sprintf("a whole batch follows at %d, of offset %d, so that this is no write that a crash has cut short", i, h.BaseOffset))
	}
	if len(bytes.Trim(b[at:], "\x00")) > 0 {
		r.m.texts = append(r.m.texts, fmt.Sprintf("%d bytes at the end of %s, from offset %d on, which are no whole batch", len(b)-at, path, r.next))
	}
	return nil
}

// behind finds the first whole batch behind a place at which there is none. The length of what stands there may be what is
// wrong, so that it can begin at any byte. That its offset can be that of a batch there keeps most checksums from being
// computed.
func (r *reader) behind(b []byte, at int) (int, batch.Header, bool) {
	for i := at + 1; i+batch.HeaderSize <= len(b); i++ {
		if o := int64(binary.BigEndian.Uint64(b[i:])); o < r.next || o-r.next > int64(i-at) {
			continue
		}
		if h, err := wholeBatch(b[i:]); err == nil {
			return i, h, true
		}
	}
	return 0, batch.Header{}, false
}

// snapshotFooter is the type of the control record that ends a snapshot (KIP-630).
const snapshotFooter = 4

func isFooter(b []byte) bool {
	for rec, err := range batch.Records(b, maxFile) {
		return err == nil && len(rec.Key) >= 4 && binary.BigEndian.Uint16(rec.Key[2:]) == snapshotFooter
	}
	return false
}

func (r *reader) add(v records.Metadata) {
	switch v.(type) {
	case *records.BeginTransactionRecord:
		r.open, r.pending = true, nil
	case *records.AbortTransactionRecord:
		r.open, r.pending = false, nil
	case *records.EndTransactionRecord:
		r.all, r.open, r.pending = append(r.all, r.pending...), false, nil
	default:
		if r.open {
			r.pending = append(r.pending, v)
			return
		}
		r.all = append(r.all, v)
	}
}

// build makes the image. Records of what is not built are counted, not applied.
func (m *metadata) build(all []records.Metadata, offset int64, clusterID string, node image.Node) (err error) {
	defer func() {
		// Records that contradict one another break the image's invariants.
		if p := recover(); p != nil {
			err = fmt.Errorf("the metadata does not hold together: %v", p)
		}
	}()
	levels := map[string]int16{}
	var kept []records.Metadata
	for _, r := range all {
		switch r := r.(type) {
		case *records.TopicRecord, *records.PartitionRecord, *records.PartitionChangeRecord, *records.RemoveTopicRecord, *records.ClearElrRecord,
			*records.ProducerIdsRecord, *records.RegisterBrokerRecord, *records.UnregisterBrokerRecord, *records.BrokerRegistrationChangeRecord,
			*records.FenceBrokerRecord, *records.UnfenceBrokerRecord:
			kept = append(kept, r)
		case *records.ConfigRecord:
			if m.takes(r) {
				kept = append(kept, r)
			}
		case *records.FeatureLevelRecord:
			levels[r.Name] = r.FeatureLevel
		case *records.NoOpRecord, *records.RegisterControllerRecord, *records.UnregisterControllerRecord, *records.ZkMigrationStateRecord:
			// What a controller says of itself.
		default:
			m.left[records.Name(r)]++
		}
	}
	for _, f := range state.SupportedFeatures() {
		if level, ok := levels[f.Name]; ok && level >= f.Min && level <= f.Max {
			kept = append(kept, &records.FeatureLevelRecord{Name: f.Name, FeatureLevel: level})
			delete(levels, f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if levels[name] > 0 {
			m.texts = append(m.texts, fmt.Sprintf("feature %s at level %d", name, levels[name]))
		}
	}
	img, _ := image.New().ApplyEntry(offset, &image.Entry{ClusterID: clusterID, Nodes: []image.Node{node}, Records: kept})
	// A node that is alone is in sync with itself, whatever it said at its end: it leads again once it is there.
	var back []records.Metadata
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			r := records.NewPartitionChangeRecord()
			r.TopicId, r.PartitionId, r.Isr, r.Leader = t.ID, p.Index, slices.Clone(p.Replicas), image.NoLeader
			r.EligibleLeaderReplicas, r.LastKnownElr = []int32{}, []int32{}
			back = append(back, r)
		}
	}
	m.img, _ = img.Apply(offset, back)
	return nil
}

// takes says whether a config can be taken over: a value that would stop the broker is told of.
func (m *metadata) takes(r *records.ConfigRecord) bool {
	scope, ok := map[image.ResourceType]config.Scope{
		image.TopicResource: config.TopicScope, image.BrokerResource: config.BrokerScope, image.GroupResource: config.GroupScope, image.ClientMetricsResource: config.ClientMetricsScope,
	}[image.ResourceType(r.ResourceType)]
	if !ok {
		m.left[fmt.Sprintf("configs of resource type %d", r.ResourceType)]++
		return false
	}
	if r.Value == nil {
		return true
	}
	k, known := config.Find(scope, r.Name)
	if !known {
		if scope == config.TopicScope {
			m.texts = append(m.texts, fmt.Sprintf("config %s of topic %s, which is not known", r.Name, r.ResourceName))
			return false
		}
		return true
	}
	if err := k.Check(*r.Value); err != nil {
		m.texts = append(m.texts, fmt.Sprintf("config %s=%s of %q: %v", r.Name, *r.Value, r.ResourceName, err))
		return false
	}
	return true
}
