package broker

import (
	"sync"

	"go.uber.org/zap"

	"millrace/storage"
)

// recoveries are the logs that are being opened beside the publisher: those that
// lacked a descriptor (lacking.go) and those on their way to another directory
// (moves_resumed.go). To open one may be to recover it, which takes as long as it is
// large, and nobody can take its files away before it is open, or not. So what is
// deleted meanwhile is forsaken, and deleted by whoever opens it; what comes later
// under its name waits for that.
type recoveries struct {
	mu  sync.Mutex
	all map[storage.Name]bool // whether it is forsaken
}

// begin takes note that the log of a partition is being opened, unless another of its
// name is.
func (r *recoveries) begin(n storage.Name) (begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, under := r.all[n]; under {
		return false
	}
	r.all[n] = false
	return true
}

// under says whether a log of that name is being opened.
func (r *recoveries) under(n storage.Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, under := r.all[n]
	return under
}

// forsake has a log deleted once it is open, and says whether it is being opened.
func (r *recoveries) forsake(n storage.Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, under := r.all[n]
	if under {
		r.all[n] = true
	}
	return under
}

// end takes note that a log is open, or did not open. What was forsaken is deleted
// before its name is free.
func (r *recoveries) end(n storage.Name, remove func()) (forsaken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if forsaken = r.all[n]; forsaken {
		r.mu.Unlock()
		remove()
		r.mu.Lock()
	}
	delete(r.all, n)
	return forsaken
}

// recovered is end, for a log of this broker's.
func (b *Broker) recovered(n storage.Name) (forsaken bool) {
	return b.recoveries.end(n, func() { b.deleteFiles(n) })
}

// deleteFiles deletes what a partition that is no longer here has on disk.
func (b *Broker) deleteFiles(n storage.Name) {
	if err := b.store.Delete(n.Topic, n.Partition); err != nil {
		b.log.Error("a partition that is no longer here leaves its files behind", zap.String("topic", n.Topic), zap.Int32("partition", n.Partition), zap.Error(err))
	}
}
