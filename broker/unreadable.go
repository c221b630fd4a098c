package broker

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/storage/log"
)

// unreadable is the places in logs that could not be read and are told of: each
// once, however often clients ask for what lies there.
type unreadable struct {
	mu   sync.Mutex
	told map[unreadablePlace]bool
}

type unreadablePlace struct {
	replicaKey
	file     string // "": none is known
	position int64  // in it; -1: none is known
	why      string
}

// mostUnreadable is how many places are told of. Where more than that are
// damaged, the log says enough.
const mostUnreadable = 1000

// tellUnreadable tells why a partition could not be read for a client, if that is
// neither the client's doing nor told of elsewhere. what says what was asked for.
func (b *Broker) tellUnreadable(p *partition.Partition, err error, what zap.Field) {
	at, is := unreadableFor(err)
	if !is {
		return
	}
	at.replicaKey = replicaKey{p.ID(), p.Index()}
	u := &b.unreadable
	u.mu.Lock()
	told := u.told[at] || len(u.told) >= mostUnreadable
	if !told {
		if u.told == nil {
			u.told = map[unreadablePlace]bool{}
		}
		u.told[at] = true
	}
	u.mu.Unlock()
	if told {
		return
	}
	b.log.Error("bytes of a log cannot be read: whoever asks for them gets an error, and is not told of again",
		zap.String("topic", p.Topic()), zap.Int32("partition", p.Index()), what, zap.String("file", at.file), zap.Int64("position", at.position), zap.Error(err))
}

// unreadableFor says whether the bytes of a log are why it was not read, and where
// they are, the same for each read of the same place.
func unreadableFor(err error) (at unreadablePlace, is bool) {
	var (
		damage *log.CorruptError
		index  *log.IndexError
		disk   *fs.PathError
	)
	at.position = -1
	switch {
	case err == nil, errors.As(err, new(*log.OfflineError)), errors.Is(err, log.ErrNoDescriptor):
		return at, false
	case errors.As(err, &damage):
		at.file, at.position, at.why = damage.File, damage.Position, damage.Error()
		return at, true
	case errors.As(err, &index):
		at.file, at.why = index.File, index.Error()
		return at, true
	case errors.As(err, &disk):
		at.file, at.why = disk.Path, disk.Error()
		return at, true
	case codeOf(err) != kerr.UnknownServerError.Code, errors.Is(err, partition.ErrNegativeCount):
		return at, false
	}
	// Nobody who is answered UNKNOWN_SERVER_ERROR can tell more than the log does: records that do not unpack, say.
	for err != nil {
		at.why, err = err.Error(), errors.Unwrap(err)
	}
	return at, true
}
