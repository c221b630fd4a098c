package broker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage"
)

// directories tells the controller in which data directory each replica lies
// (KIP-858), where the metadata does not say so yet: a broker with several
// chooses for itself. What is recorded keeps a later start, at which one of them
// fails, from beginning the partitions in it anew in another.
type directories struct {
	mu     sync.Mutex
	untold map[replicaKey][16]byte
	wake   chan struct{}
}

// assignRetry is the pause after a controller did not take note.
const assignRetry = time.Second

// assignMost bounds one request.
const assignMost = 2000

// where is what an image says of where this broker's replica lies. A partition
// that nobody has led yet, and that came in this life, is new.
func (b *Broker) where(img *image.Image, p *image.Partition) storage.Where {
	var at storage.Where
	if i := slices.Index(p.Replicas, b.nodeID); i >= 0 && i < len(p.Directories) {
		at.Directory = p.Directories[i]
	}
	own := img.Broker(b.nodeID)
	at.New = p.LeaderEpoch == 0 && p.PartitionEpoch == 0 && own != nil && own.Incarnation == b.incarnation
	return at
}

// chosen takes note of a replica's directory, to be told.
func (d *directories) chosen(k replicaKey, dir [16]byte) {
	d.mu.Lock()
	d.untold[k] = dir
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// some takes a number of those to be told, in order.
func (d *directories) some() map[replicaKey][16]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(d.untold), compareReplicas)
	out := map[replicaKey][16]byte{}
	for _, k := range keys[:min(len(keys), assignMost)] {
		out[k] = d.untold[k]
	}
	return out
}

// told forgets what the controller has recorded, unless it changed meanwhile.
func (d *directories) told(k replicaKey, dir [16]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.untold[k] == dir {
		delete(d.untold, k)
	}
}

func compareReplicas(a, b replicaKey) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.index, b.index))
}

// tellFound tells, before anybody is served, of replicas that were found in another
// directory than they are recorded in: one that has lost its meta.properties, say,
// and bears a new id. Nobody leads them until then.
func (b *Broker) tellFound(ctx context.Context) error {
	for {
		some := b.directories.some()
		if len(some) == 0 {
			return nil
		}
		if _, err := b.assignDirectories(ctx, some); err != nil {
			return err
		}
	}
}

// tellDirectories tells the controller until the broker stops.
func (b *Broker) tellDirectories(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.directories.wake:
		}
		for {
			some := b.directories.some()
			if len(some) == 0 {
				break
			}
			if _, err := b.assignDirectories(ctx, some); err != nil {
				if ctx.Err() != nil {
					return
				}
				b.refused.Warn("the controller does not record the directories of replicas; it is told again", zap.Error(err))
				select {
				case <-ctx.Done():
					return
				case <-time.After(assignRetry):
				}
			}
		}
	}
}

// assignDirectories tells the controller of some replicas, and why it did not
// take note of which.
func (b *Broker) assignDirectories(ctx context.Context, some map[replicaKey][16]byte) (refused map[replicaKey]error, err error) {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = b.nodeID, b.brokerEpoch.Load()
	for _, k := range slices.SortedFunc(maps.Keys(some), func(x, y replicaKey) int {
		dx, dy := some[x], some[y]
		return cmp.Or(bytes.Compare(dx[:], dy[:]), compareReplicas(x, y))
	}) {
		if n := len(req.Directories); n == 0 || req.Directories[n-1].ID != some[k] {
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = some[k]
			req.Directories = append(req.Directories, dir)
		}
		dir := &req.Directories[len(req.Directories)-1]
		if n := len(dir.Topics); n == 0 || dir.Topics[n-1].TopicID != k.topic {
			t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			t.TopicID = k.topic
			dir.Topics = append(dir.Topics, t)
		}
		t := &dir.Topics[len(dir.Topics)-1]
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = k.index
		t.Partitions = append(t.Partitions, p)
	}
	got, err := b.change(ctx, "", req, startTimeout)
	if err != nil {
		return nil, fmt.Errorf("assigning replicas to directories: %w", err)
	}
	resp := got.(*kmsg.AssignReplicasToDirsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("assigning replicas to directories: %w", err)
	}
	refused = map[replicaKey]error{}
	for _, d := range resp.Directories {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					refused[replicaKey{t.TopicID, p.Partition}] = err
				}
			}
		}
	}
	// A partition that is refused is not there any more, or not ours.
	for k, dir := range some { // any order: each is struck off by itself
		b.directories.told(k, dir)
	}
	return refused, nil
}

// cordonedDirs is the config that keeps new replicas out of data directories
// (KIP-1066).
const cordonedDirs = "cordoned.log.dirs"

// checkCordoned says what is wrong with what is set of it: entries are among
// log.dirs as they stand there, or "*" alone is all of them.
func (b *Broker) checkCordoned(set config.Lookup) error {
	text, _ := set(cordonedDirs)
	list := config.SplitList(text)
	if slices.Contains(list, "*") {
		if len(list) > 1 {
			return fmt.Errorf("%s is * and must then hold nothing else", cordonedDirs)
		}
		return nil
	}
	known := b.config.LogDirs()
	missing := slices.DeleteFunc(slices.Clone(list), func(dir string) bool { return slices.Contains(known, dir) })
	if len(missing) > 0 {
		return fmt.Errorf("%s must name directories of log.dirs, and these are not: %s", cordonedDirs, strings.Join(missing, ", "))
	}
	return nil
}

func (b *Broker) cordon(set config.Lookup) {
	text, _ := set(cordonedDirs)
	b.store.Cordon(config.SplitList(text))
}
