package coordinator

import (
	"errors"
	"sync"

	"millrace/storage/batch"
)

// memLog is a partition in memory. It outlives the shards that run on it.
type memLog struct {
	mu      sync.Mutex
	batches [][]byte
	start   batch.Offset
	end     batch.Offset
	hw      batch.Offset
	held    bool // the high watermark moves only by commit
	wakes   map[int]func()
	nextID  int

	// fail decides about an append: nil lets it be; store says whether the bytes
	// get into the log all the same.
	fail func(b []byte) (err error, store bool)
	// read fails reads, once each.
	read  []error
	block chan struct{} // reads wait for it if set
	most  int           // bytes per read, if smaller than asked; may cut a batch
}

func (l *memLog) Append(b []byte) (base, last batch.Offset, err error) {
	l.mu.Lock()
	store := true
	if l.fail != nil {
		err, store = l.fail(b)
	}
	base = l.end
	h, perr := batch.ParseHeader(b)
	if perr != nil {
		panic(perr)
	}
	last = base + batch.Offset(h.LastOffsetDelta)
	if store {
		c := append([]byte(nil), b...)
		batch.Patch(c, base, 1)
		l.batches = append(l.batches, c)
		l.end = last + 1
		if !l.held {
			l.hw = l.end
		}
	}
	l.mu.Unlock()
	l.wake()
	return base, last, err
}

func (l *memLog) wake() {
	l.mu.Lock()
	var fs []func()
	for _, f := range l.wakes {
		fs = append(fs, f)
	}
	l.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// commit moves the high watermark; -1 is to the end.
func (l *memLog) commit(to batch.Offset) {
	l.mu.Lock()
	if to < 0 {
		to = l.end
	}
	l.hw = max(l.hw, to)
	l.mu.Unlock()
	l.wake()
}

func (l *memLog) Start() batch.Offset { l.mu.Lock(); defer l.mu.Unlock(); return l.start }
func (l *memLog) End() batch.Offset   { l.mu.Lock(); defer l.mu.Unlock(); return l.end }
func (l *memLog) HighWatermark() batch.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hw
}

func (l *memLog) Read(from batch.Offset, maxBytes int) ([]byte, error) {
	if l.block != nil {
		<-l.block
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.read) > 0 {
		err := l.read[0]
		l.read = l.read[1:]
		return nil, err
	}
	if from < l.start || from >= l.end {
		return nil, errors.New("offset out of range")
	}
	if l.most > 0 {
		maxBytes = l.most
	}
	var out []byte
	for _, b := range l.batches {
		h, _ := batch.ParseHeader(b)
		if h.NextOffset() <= from {
			continue
		}
		if len(out) > 0 && len(out)+len(b) > maxBytes {
			// The tail of what was read may be a cut batch.
			return append(out, b[:max(0, min(len(b), maxBytes-len(out)))]...), nil
		}
		out = append(out, b...)
	}
	return out, nil
}

func (l *memLog) Where(o batch.Offset) (string, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := int64(0)
	for _, b := range l.batches {
		if h, _ := batch.ParseHeader(b); h.NextOffset() > o {
			break
		}
		at += int64(len(b))
	}
	return "memory", at
}

func (l *memLog) Watch(wake func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wakes == nil {
		l.wakes = map[int]func(){}
	}
	id := l.nextID
	l.nextID++
	l.wakes[id] = wake
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.wakes, id)
	}
}

// flip damages a batch, or mends it again.
func (l *memLog) flip(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches[i][len(l.batches[i])-1] ^= 1
}
