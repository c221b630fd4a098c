package frames

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Subscriptions are the whole server's, and a change of one makes every client
// anew: these cases run alone.
func telemetryCases() []Case {
	return []Case{
		{API: kmsg.GetTelemetrySubscriptions, Name: "subscriptions", Alone: true, Run: subscriptions},
		{API: kmsg.GetTelemetrySubscriptions, Name: "how often", Alone: true, Run: getOften},
		{API: kmsg.PushTelemetry, Name: "refused", Alone: true, Run: pushRefused},
		{API: kmsg.PushTelemetry, Name: "how often", Alone: true, Run: pushOften},
		{API: kmsg.PushTelemetry, Name: "the end", Alone: true, Run: pushLast},
	}
}

// instance is a client instance id of a case's own.
func instance(n byte) [16]byte {
	return [16]byte{0x4d, 0x69, 0x6c, 0x6c, 0x72, n, 0x40, 0x80, 0x9c, 0x11, 0xf0, n, 3, 5, 8, 13}
}

func wanting(id [16]byte) *kmsg.GetTelemetrySubscriptionsRequest {
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = id
	return req
}

func pushing(id [16]byte, subscription int32) *kmsg.PushTelemetryRequest {
	req := kmsg.NewPtrPushTelemetryRequest()
	req.ClientInstanceID, req.SubscriptionID = id, subscription
	req.Metrics = []byte{}
	return req
}

// subscribed asks for the subscriptions as a preparation, and gives their id.
func (s *Side) subscribed(id [16]byte) int32 {
	got, ok := s.Do(0, wanting(id)).Response.(*kmsg.GetTelemetrySubscriptionsResponse)
	if !ok {
		s.Fail("asking for the subscriptions of %x", id)
		return 0
	}
	return got.SubscriptionID
}

// clear removes subscriptions.
func (s *Side) clearMetrics(names ...string) {
	for _, n := range names {
		s.alter(ofMetrics, s.Prefix+n, "metrics", "interval.ms", "match")
	}
}

func subscriptions(s *Side) {
	s.AskFor("no id", wanting([16]byte{}), func(r kmsg.Response) {
		got := r.(*kmsg.GetTelemetrySubscriptionsResponse)
		s.Check("an id is given", got.ClientInstanceID != [16]byte{})
		got.ClientInstanceID, got.SubscriptionID = [16]byte{}, 0
	})
	s.Ask("an id", wanting(instance(1)))
	s.Ask("the reserved id", wanting([16]byte{15: 1}))

	s.ClientID = "watched"
	one, two, three := s.Prefix+"one", s.Prefix+"two", s.Prefix+"three"
	s.alter(ofMetrics, one, "metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.,a,b,c", "interval.ms=2000", "match=client_id=watch.*,client_source_address=127.*")
	s.alter(ofMetrics, two, "metrics=org.apache.kafka.consumer.coordinator.rebalance.latency.max,b,x,y,z,org.apache.kafka.admin", "interval.ms=1000", "match=client_id=other")
	s.alter(ofMetrics, three, "interval.ms=1500")
	s.Ask("one fits", wanting(instance(2)))
	s.alter(ofMetrics, two, "match=client_id=[w-z].*d")
	s.Ask("two fit", wanting(instance(3)))
	s.Ask("the same client anew", wanting(instance(2)))
	for i, p := range []string{"client_instance_id=TWlsbHI.*", "client_instance_id=x", "client_source_port=[0-9]+", "client_software_name=nobody", "client_id=watche", "client_id=(watched|other)"} {
		s.alter(ofMetrics, two, "match="+p)
		s.Ask("match "+p, wanting(instance(byte(10+i))))
	}
	s.alter(ofMetrics, two, "match=client_id=watched", "metrics=*")
	s.Ask("everything", wanting(instance(4)))
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("org.apache.kafka.metric.%d", i)
	}
	s.alter(ofMetrics, two, "metrics="+strings.Join(many, ","))
	s.Ask("many", wanting(instance(5)))
	s.ClientID = ""
	s.Ask("another client", wanting(instance(6)))
	s.clearMetrics("one", "two", "three")
	s.Ask("none any more", wanting(instance(2)))
}

func getOften(s *Side) {
	id := instance(20)
	s.Ask("first", wanting(id))
	s.Ask("at once again", wanting(id))
	s.Ask("and again", wanting(id))
	s.Do(0, pushing(id, 77))
	s.Ask("after a push with a wrong subscription", wanting(id))
	s.Ask("then again", wanting(id))
	other := instance(21)
	bad := pushing(other, s.subscribed(other))
	bad.CompressionType = 9
	s.Do(0, bad)
	s.Ask("after a push with a compression nobody has", wanting(other))
}

func pushRefused(s *Side) {
	s.Ask("no id", pushing([16]byte{}, 0))
	s.Ask("the reserved id", pushing([16]byte{15: 1}, 0))
	s.Ask("a client that never asked", pushing(instance(30), 1))
	for i, c := range []int8{-1, 5, 9, 127} {
		id := instance(byte(31 + i))
		req := pushing(id, s.subscribed(id))
		req.CompressionType, req.Metrics = c, []byte{1}
		s.Ask(fmt.Sprintf("compression %d", c), req)
	}
	large := pushing(instance(40), s.subscribed(instance(40)))
	large.Metrics = make([]byte, 1<<20+1)
	s.Ask("too large", large)
	s.Ask("asking after that", pushing(instance(40), 0))
	noise := pushing(instance(41), s.subscribed(instance(41)))
	noise.Metrics = []byte("noise")
	s.Ask("no metrics", noise)
	unpackable := pushing(instance(42), s.subscribed(instance(42)))
	unpackable.Metrics, unpackable.CompressionType = []byte("noise"), 1
	s.Ask("not unpackable", unpackable)
}

func pushOften(s *Side) {
	id := instance(50)
	sub := s.subscribed(id)
	s.Ask("first", pushing(id, sub))
	s.Ask("at once again", pushing(id, sub))
	s.Ask("wrong subscription, too early", pushing(id, sub+1))
	s.alter(ofMetrics, s.Prefix+"often", "metrics=a", "interval.ms=400")
	s.Ask("the subscription has changed", pushing(id, sub))
	again := s.subscribed(id)
	s.Check("another subscription", again != sub)
	s.Ask("with the new one", pushing(id, again))
	pause(500)
	s.Ask("after the interval", pushing(id, again))
	s.Ask("at once after that", pushing(id, again))
	pause(500)
	s.Ask("a failed one", pushing(id, again+1))
	s.Ask("counts too", pushing(id, again))
	s.clearMetrics("often")
	fresh := instance(51)
	s.Ask("a get, then", pushing(fresh, s.subscribed(fresh)))
	late := pushing(instance(52), 5)
	s.Ask("without a get", late)
	s.Ask("without a get, again", late)
}

func pushLast(s *Side) {
	id := instance(60)
	last := pushing(id, s.subscribed(id))
	last.Terminating = true
	s.Ask("terminating", last)
	s.Ask("terminating again", last)
	s.Ask("another after the last", pushing(id, last.SubscriptionID))
	s.Ask("and another", pushing(id, last.SubscriptionID))
	s.AskIn(0, "and asking", wanting(id))
	early := instance(61)
	sub := s.subscribed(early)
	s.Ask("an ordinary one", pushing(early, sub))
	end := pushing(early, sub)
	end.Terminating = true
	s.Ask("terminating too early", end)
	wrong := pushing(instance(62), s.subscribed(instance(62))+1)
	wrong.Terminating = true
	s.Ask("terminating with a wrong subscription", wrong)
	wrong.SubscriptionID--
	s.Ask("and with the right one", wrong)
}
