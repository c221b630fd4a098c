package coordinator

import (
	"errors"
	"time"

	"millrace/broker/machine"
	"millrace/storage/batch"

	"go.uber.org/zap"
)

// run is one life of a machine, from load to the end of its use. Only the
// shard's goroutine touches it.
type run struct {
	s    *Shard
	life uint64
	m    machine.Machine

	ticket   machine.Ticket // the last one given
	parked   map[machine.Ticket]*call
	deadline time.Time // the machine's

	// end is the log end. What lies below floor was there when the log was
	// loaded: whose keys it holds is not known, so every read waits for it.
	end   batch.Offset
	floor batch.Offset
	// keys has, for a key with uncommitted records, the offset after its last
	// one; order lists the same by offset.
	keys  map[string]batch.Offset
	order []keyEnd

	waits waits
}

type keyEnd struct {
	key string
	end batch.Offset
}

// loop serves until the shard stops (false) or the machine has to be thrown
// away (true).
func (r *run) loop() (again bool) {
	s := r.s
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	if !r.tell(machine.Loaded{}) {
		return true
	}
	s.mu.Lock()
	s.fresh = s.image != nil
	s.whole = true
	s.mu.Unlock()
	if !r.newImage() {
		return true
	}
	for {
		now := s.o.Now()
		next := earliest(r.deadline, r.waits.deadline())
		wait := time.Hour
		if !next.IsZero() {
			wait = max(next.Sub(now), 0)
		}
		timer.Reset(wait)
		select {
		case <-s.quit:
			return false
		default:
		}
		ok := true
		select {
		case c := <-s.calls:
			ok = r.serve(c)
		case a := <-s.answers:
			if a.life == r.life {
				ok = r.tell(a.ev)
			}
		case <-s.wake:
			r.committed()
			ok = r.newImage()
		case <-timer.C:
			now = s.o.Now()
			r.waits.expire(now)
			if !r.deadline.IsZero() && !r.deadline.After(now) {
				ok = r.tell(machine.Expire{})
			}
		case <-s.quit:
			return false
		}
		if !ok {
			return true
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// abandon answers everybody who waits for a machine that is gone.
func (r *run) abandon() {
	r.waits.abandon(result{err: ErrNotCoordinator})
	for _, c := range r.parked {
		c.out <- result{err: ErrNotCoordinator}
	}
	r.parked = nil
}

// serve takes one request or marker.
func (r *run) serve(c *call) bool {
	if c.marker != nil {
		return r.mark(c)
	}
	r.ticket++
	c.req.Ticket = r.ticket
	r.parked[r.ticket] = c
	return r.tell(c.req)
}

// newImage tells the machine of an image it has not seen.
func (r *run) newImage() bool {
	s := r.s
	s.mu.Lock()
	ev := machine.ImageChanged{Image: s.image, Delta: s.delta}
	if s.whole {
		ev.Delta = nil
	}
	fresh := s.fresh
	s.delta, s.whole, s.fresh = nil, false, false
	s.mu.Unlock()
	if !fresh {
		return true
	}
	return r.tell(ev)
}

// tell gives the machine an event and does what it decides, to the end. It is
// false if the outcome of an append is unknown.
func (r *run) tell(ev machine.Event) bool {
	for {
		d := r.m.Handle(r.s.o.Now(), ev)
		r.deadline = d.Deadline
		if len(d.Records) == 0 {
			r.touch(ev, d)
			r.dispatch(d)
			return true
		}
		err := r.append(d)
		if err == nil {
			for _, rec := range d.Records {
				rec.Producer = d.Producer
				if why := r.m.Replay(rec); why != "" {
					r.s.o.Logger.Warn("skipped a record of the coordinator's log", zap.Int64("offset", int64(r.end-1)), zap.String("why", why))
				}
			}
			r.dispatch(d)
			ev = machine.Written{}
			continue
		}
		if !refused(err) {
			r.s.o.Logger.Error("append to the coordinator's log has an unknown outcome; loading anew", zap.Error(err))
			return false
		}
		r.s.o.Logger.Warn("append to the coordinator's log was refused", zap.Error(err))
		told := translate(err)
		if q, ok := ev.(machine.Request); ok {
			r.answer(q.Ticket, result{err: told})
		}
		ev = machine.Refused{Code: told.Code, Err: err}
	}
}

// touch notes which keys a marker changed; its decision names them but holds no
// records.
func (r *run) touch(ev machine.Event, d machine.Decision) {
	if _, ok := ev.(machine.Marked); ok {
		r.uncommitted(d.Keys)
	}
}

func refused(err error) bool {
	var why *Refused
	return errors.As(err, &why)
}

// append writes a decision's records as one batch.
func (r *run) append(d machine.Decision) error {
	return r.write(newBatch(r.s.o.Now().UnixMilli(), r.s.o.Batches, d), d.Keys)
}

func (r *run) write(b []byte, keys []string) error {
	_, last, err := r.s.o.Log.Append(b)
	if err != nil {
		return err
	}
	r.end = last + 1
	r.uncommitted(keys)
	return nil
}

// uncommitted notes that keys have records up to the log end.
func (r *run) uncommitted(keys []string) {
	if len(keys) == 0 || r.s.o.Log.HighWatermark() >= r.end {
		return
	}
	for _, k := range keys {
		r.keys[k] = r.end
		r.order = append(r.order, keyEnd{k, r.end})
	}
}

// mark appends a transaction's marker.
func (r *run) mark(c *call) bool {
	err := r.write(newMarker(r.s.o.Now().UnixMilli(), *c.marker), nil)
	if err != nil {
		if refused(err) {
			c.out <- result{err: translate(err)}
			return true
		}
		c.out <- result{err: ErrNotCoordinator}
		r.s.o.Logger.Error("append of a marker has an unknown outcome; loading anew", zap.Error(err))
		return false
	}
	r.m.ReplayMarker(*c.marker)
	r.waits.add(r.hold(machine.Wait{Written: true}), &waiter{call: c}, r.s.o.Log.HighWatermark())
	return r.tell(machine.Marked{Marker: *c.marker})
}

// dispatch answers and asks; what has to wait for a commit is kept.
func (r *run) dispatch(d machine.Decision) {
	hw := r.s.o.Log.HighWatermark()
	for _, p := range d.Replies {
		c := r.parked[p.Ticket]
		if c == nil {
			continue // its append was refused, and it knows
		}
		delete(r.parked, p.Ticket)
		r.waits.add(r.hold(p.Wait), &waiter{call: c, result: result{body: p.Body}}, hw)
	}
	for _, send := range d.Sends {
		h := hold{}
		if send.Written {
			h.end = r.end
		}
		r.waits.add(h, &waiter{send: &send, run: r}, hw)
	}
}

// hold turns a wait into an offset and a time.
func (r *run) hold(w machine.Wait) hold {
	now := r.s.o.Now()
	if w.Written {
		return hold{end: r.end, until: now.Add(r.s.o.WriteTimeout), late: ErrUnavailable}
	}
	if len(w.Keys) == 0 {
		return hold{}
	}
	h := hold{end: r.floor, until: now.Add(r.s.o.ReadTimeout), late: ErrLoading}
	for _, k := range w.Keys {
		h.end = max(h.end, r.keys[k])
	}
	return h
}

func (r *run) answer(t machine.Ticket, res result) {
	if c := r.parked[t]; c != nil {
		delete(r.parked, t)
		c.out <- res
	}
}

// committed lets go whom the high watermark has passed.
func (r *run) committed() {
	hw := r.s.o.Log.HighWatermark()
	n := 0
	for n < len(r.order) && r.order[n].end <= hw {
		if e := r.order[n]; r.keys[e.key] == e.end {
			delete(r.keys, e.key)
		}
		n++
	}
	r.order = r.order[n:]
	r.waits.committed(hw)
}

// start asks whom a send names, in a goroutine of its own.
func (r *run) start(send machine.Send) {
	s := r.s
	life := r.life
	s.sends.Go(func() {
		var body any
		err := errNobodyToAsk
		if s.o.Send != nil {
			body, err = s.o.Send(s.ctx, send)
		}
		select {
		case s.answers <- answer{life: life, ev: machine.Answer{Send: send.ID, Body: body, Err: err}}:
		case <-s.quit:
		}
	})
}

var errNobodyToAsk = errors.New("the shard was given nobody to ask")
