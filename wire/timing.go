package wire

import "time"

// Timing is what one request took. Its parts have the meaning that Kafka gives
// them in kafka.network:type=RequestMetrics, as far as there is one without
// queues: Queue is the wait for a place among those that run, Remote what the
// handler spent waiting (from its call of Request.Waiting, or from its return
// with a pending reply, until the answer was there), Local the rest of the
// handler's time, ResponseQueue the wait for earlier replies of the connection,
// Send the writing.
type Timing struct {
	Key, Version int16
	Listener     string
	// Mark is what the handler put into Request.Mark.
	Mark uint8
	// RequestBytes and ResponseBytes are without the frame's length field;
	// ResponseBytes is 0 where there was no answer, or it was dropped unwritten.
	RequestBytes, ResponseBytes int

	Total, Queue, Local, Remote, ResponseQueue, Send, Throttle time.Duration
}

// timing is a request's clock readings, of server.clock; it is zero, and not
// kept, where nobody observes.
type timing struct {
	key, version int16
	mark         uint8
	answered     bool
	request      int32
	response     int64
	received     int64
	started      int64
	waiting      int64 // 0: it did not wait
	ready        int64 // when the answer was there
	queued       int64 // when it was handed to the sender
	throttle     time.Duration
}

// settled notes that the answer is there.
func (t *timing) settled(now int64, r *Reply) {
	if t.received == 0 {
		return
	}
	t.ready, t.throttle = now, r.Throttle
	if t.answered = !r.None && !r.Close; t.answered {
		t.response = int64(r.Body.Len())
	}
}

// givenUp notes that the answer will not be written.
func (t *timing) givenUp(now int64) {
	if t.ready == 0 {
		t.ready = now
	}
	t.queued, t.response, t.answered = now, 0, false
}

// observed tells the observer of requests whose replies were written, or given
// up, just now.
func (c *connection) observed(list []timing) {
	if len(list) == 0 {
		return
	}
	now := c.server.clock()
	for i := range list {
		t := &list[i]
		o := Timing{
			Key: t.key, Version: t.version, Mark: t.mark, Listener: c.Listener, RequestBytes: int(t.request), ResponseBytes: int(t.response),
			Total: time.Duration(now - t.received), Queue: time.Duration(t.started - t.received), Local: time.Duration(t.ready - t.started),
			ResponseQueue: time.Duration(t.queued - t.ready), Send: time.Duration(now - t.queued), Throttle: t.throttle,
		}
		if t.waiting != 0 {
			o.Local, o.Remote = time.Duration(t.waiting-t.started), time.Duration(t.ready-t.waiting)
		}
		c.server.options.Observe(o)
	}
}
