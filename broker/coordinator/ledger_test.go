package coordinator

import (
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"millrace/broker/machine"
)

// ledger is the small machine that exercises the driver: a map of strings, with
// something of everything a machine can ask for.
type ledger struct {
	hard    map[string]string
	open    map[int64]map[string]string // of transactions
	parked  map[string][]machine.Ticket // by key: whoever waits for its next value
	alarm   time.Time
	rings   *atomic.Int32 // deadlines that came
	asks    map[machine.SendID]machine.Ticket
	nextID  machine.SendID
	staged  *put // what the records that are being written were for
	images  *[]machine.ImageChanged
	loaded  bool
	refused *int
}

// Requests.
type (
	put struct { // answered when committed
		key, value string
		producer   *machine.Producer
		also       []string // replies to nobody, sends to these once written
	}
	get   struct{ key string } // answered when what the key has is committed
	peek  struct{ key string } // answered at once
	next  struct{ key string } // parked until the key changes
	alarm struct{ in time.Duration }
	ask   struct{ whom string } // answered with what the other one says
	flush struct{}              // writes nothing, waits for all that was written
)

func (l *ledger) Handle(now time.Time, ev machine.Event) machine.Decision {
	var d machine.Decision
	if l.staged != nil {
		p := l.staged
		l.staged = nil
		switch ev.(type) {
		case machine.Written:
			for _, t := range l.parked[p.key] {
				d.Replies = append(d.Replies, machine.Reply{Ticket: t, Body: p.value, Wait: machine.Wait{Keys: []string{p.key}}})
			}
			delete(l.parked, p.key)
		case machine.Refused:
			*l.refused++
		default:
			panic("an event before Written or Refused")
		}
		d.Deadline = l.alarm
		return d
	}
	switch ev := ev.(type) {
	case machine.Loaded:
		l.loaded = true
	case machine.ImageChanged:
		*l.images = append(*l.images, ev)
	case machine.Expire:
		if !l.alarm.IsZero() && !l.alarm.After(now) {
			l.rings.Add(1)
			l.alarm = time.Time{}
		}
	case machine.Answer:
		body := ev.Body
		if ev.Err != nil {
			body = ev.Err.Error()
		}
		if t, ok := l.asks[ev.Send]; ok {
			delete(l.asks, ev.Send)
			d.Replies = append(d.Replies, machine.Reply{Ticket: t, Body: body})
		}
	case machine.Marked:
		for k := range l.hard {
			d.Keys = append(d.Keys, k)
		}
	case machine.Request:
		if !l.loaded {
			panic("a request before Loaded")
		}
		l.request(now, ev, &d)
	}
	d.Deadline = l.alarm
	return d
}

func (l *ledger) request(now time.Time, q machine.Request, d *machine.Decision) {
	switch r := q.Body.(type) {
	case put:
		for _, key := range strings.Split(r.key, ",") {
			rec := machine.Record{Key: []byte(key), Value: []byte(r.value)}
			if r.value == "" {
				rec.Value = nil
			}
			d.Records = append(d.Records, rec)
			d.Keys = append(d.Keys, key)
		}
		d.Producer = r.producer
		d.Replies = append(d.Replies, machine.Reply{Ticket: q.Ticket, Body: "ok", Wait: machine.Wait{Written: true}})
		for _, whom := range r.also {
			l.nextID++
			d.Sends = append(d.Sends, machine.Send{ID: l.nextID, To: whom, Body: r.value, Written: true})
		}
		l.staged = &r
	case get:
		d.Replies = append(d.Replies, machine.Reply{Ticket: q.Ticket, Body: l.hard[r.key], Wait: machine.Wait{Keys: []string{r.key}}})
	case peek:
		d.Replies = append(d.Replies, machine.Reply{Ticket: q.Ticket, Body: l.hard[r.key]})
	case next:
		l.parked[r.key] = append(l.parked[r.key], q.Ticket)
	case alarm:
		l.alarm = now.Add(r.in)
		d.Replies = append(d.Replies, machine.Reply{Ticket: q.Ticket, Body: "set"})
	case ask:
		l.nextID++
		l.asks[l.nextID] = q.Ticket
		d.Sends = append(d.Sends, machine.Send{ID: l.nextID, To: r.whom, Body: "hello"})
	case flush:
		d.Replies = append(d.Replies, machine.Reply{Ticket: q.Ticket, Body: "ok", Wait: machine.Wait{Written: true}})
	default:
		panic("no such request")
	}
}

func (l *ledger) Replay(rec machine.Record) string {
	if strings.HasPrefix(string(rec.Key), "?") {
		return "a key that begins with a question mark"
	}
	m := l.hard
	if rec.Producer != nil {
		if l.open[rec.Producer.ID] == nil {
			l.open[rec.Producer.ID] = map[string]string{}
		}
		m = l.open[rec.Producer.ID]
	}
	if rec.Value == nil {
		delete(m, string(rec.Key))
	} else {
		m[string(rec.Key)] = string(rec.Value)
	}
	return ""
}

func (l *ledger) ReplayMarker(mk machine.Marker) {
	if mk.Commit {
		maps.Copy(l.hard, l.open[mk.Producer.ID])
	}
	delete(l.open, mk.Producer.ID)
}
