package oracle

import "sync"

// parties keeps those of one kind and those of another apart, while any number of one
// kind are inside together. Who comes while others are inside gets in before more of them do.
type parties struct {
	mu      sync.Mutex
	changed sync.Cond
	inside  [2]int
	waiting [2]int
	next    int // whose turn it is where both want in
}

// The two kinds: those who change what others are answered by, and those who ask.
const (
	changers = 0
	askers   = 1
)

// enter waits until nobody of the other kind is inside; leave is to follow.
func (p *parties) enter(kind int) (leave func()) {
	other := 1 - kind
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed.L == nil {
		p.changed.L = &p.mu
	}
	if p.inside[other] > 0 {
		p.next = kind
	}
	p.waiting[kind]++
	for p.inside[other] > 0 || p.waiting[other] > 0 && p.next == other {
		p.changed.Wait()
	}
	p.waiting[kind]--
	p.inside[kind]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.inside[kind]--; p.inside[kind] == 0 {
			p.next = other
		}
		p.changed.Broadcast()
	}
}
