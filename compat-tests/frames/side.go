package frames

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/normal"
)

// Case is a sequence of frames for one API, run in each of its versions.
type Case struct {
	API  kmsg.Key
	Name string
	// From and To narrow the versions; zero means all that Millrace serves.
	From, To int16
	// Old narrows them to those that the newest Kafka has dropped.
	Old bool
	// Below narrows them to those below it: 1 is version 0 alone.
	Below int16
	// Alone: it changes what other cases see, and runs beside none.
	Alone bool
	// Controller: what is compared is asked on the controller listener; what only
	// prepares, on the broker's.
	Controller bool
	// Run asks. It is run once for each server; what it asked with Ask is
	// compared in order.
	Run func(s *Side)
}

// Side is one server in the run of a case.
type Side struct {
	// API is the one under test, and Version its version.
	API     kmsg.Key
	Version int16
	// Prefix makes names unique: one run of a case in one version.
	Prefix string
	Addr   string
	// Controller is the address of the controller listener where that is asked.
	Controller string
	// ClientID is who asks; "" is "frame".
	ClientID string
	// Patience is how long an answer may take; 0: 10 s.
	Patience time.Duration

	ids     map[string][16]byte // of topics
	conn    *frame.Conn         // to the broker listener
	other   *frame.Conn         // to the controller listener
	answers []Answer
	err     error
}

// Address is where a server listens.
type Address struct{ Broker, Controller string }

// Find asks a broker where the active controller listens.
func Find(broker string) (Address, error) {
	c, err := frame.Dial(broker)
	if err != nil {
		return Address{}, err
	}
	defer c.Close()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	o := c.Ask(req)
	got, ok := o.Response.(*kmsg.DescribeQuorumResponse)
	if !ok || len(got.Nodes) != 1 || len(got.Nodes[0].Listeners) != 1 {
		return Address{}, fmt.Errorf("%s does not tell its one controller listener: %v", broker, o)
	}
	l := got.Nodes[0].Listeners[0]
	return Address{Broker: broker, Controller: fmt.Sprintf("%s:%d", l.Host, l.Port)}, nil
}

// Answer is one compared answer.
type Answer struct {
	What    string
	Outcome frame.Outcome
	// Value is compared in place of an outcome where it is set.
	Value any
}

// Topic is a topic name of this run.
func (s *Side) Topic(name string) string { return s.Prefix + name }

// Ask sends a request in the version under test and records the answer for
// comparison.
func (s *Side) Ask(what string, req kmsg.Request) frame.Outcome {
	req.SetVersion(s.Version)
	return s.record(what, req)
}

// AskIn is Ask in another version, for an answer of another API that is worth
// comparing.
func (s *Side) AskIn(version int16, what string, req kmsg.Request) frame.Outcome {
	req.SetVersion(version)
	return s.record(what, req)
}

func (s *Side) record(what string, req kmsg.Request) frame.Outcome {
	o := s.ask(req)
	s.answers = append(s.answers, Answer{What: told(what, req), Outcome: o})
	return o
}

// AskFor is Ask for an answer that also holds what is not this case's: keep
// takes that out before the comparison.
func (s *Side) AskFor(what string, req kmsg.Request, keep func(kmsg.Response)) frame.Outcome {
	req.SetVersion(s.Version)
	o := s.ask(req)
	if o.Response != nil {
		keep(o.Response)
	}
	s.answers = append(s.answers, Answer{What: told(what, req), Outcome: o})
	return o
}

// AskNothing sends a request that has no answer and then asks for the API
// versions: recorded is whether that is what comes next.
func (s *Side) AskNothing(what string, req kmsg.Request) frame.Outcome {
	req.SetVersion(s.Version)
	probe := kmsg.NewPtrApiVersionsRequest()
	kind := probe.ResponseKind()
	o := s.asked(func(c *frame.Conn) frame.Outcome {
		if err := c.Push(c.Encode(req)); err != nil {
			return frame.Outcome{Closed: true}
		}
		return c.Send(c.Encode(probe), kind)
	})
	s.answers = append(s.answers, Answer{What: told(what, req) + ", then", Outcome: o})
	return o
}

// Check records something that was worked out of answers, to be compared as it
// is.
func (s *Side) Check(what string, value any) {
	s.answers = append(s.answers, Answer{What: what, Value: value})
}

func told(what string, req kmsg.Request) string {
	return fmt.Sprintf("%s (%s v%d)", what, kmsg.NameForKey(req.Key()), req.GetVersion())
}

// Fail ends the play with an error: its preparation did not work out.
func (s *Side) Fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// Do sends a request that only prepares; its answer is not compared.
func (s *Side) Do(version int16, req kmsg.Request) frame.Outcome {
	req.SetVersion(version)
	return s.send(req)
}

func (s *Side) send(req kmsg.Request) frame.Outcome {
	kind := req.ResponseKind()
	kind.SetVersion(req.GetVersion())
	return s.deliver(func(c *frame.Conn) frame.Outcome { return c.Send(c.Encode(req), kind) })
}

// ask is send on the listener under test. What a case asks of another API, to see
// what became of its own, it asks the broker.
func (s *Side) ask(req kmsg.Request) frame.Outcome {
	if kmsg.Key(req.Key()) != s.API {
		return s.send(req)
	}
	kind := req.ResponseKind()
	kind.SetVersion(req.GetVersion())
	return s.asked(func(c *frame.Conn) frame.Outcome { return c.Send(c.Encode(req), kind) })
}

// Bytes sends a frame's bytes as they are and records how the server reacts.
func (s *Side) Bytes(what string, raw []byte, kind kmsg.Response) frame.Outcome {
	o := s.asked(func(c *frame.Conn) frame.Outcome { return c.Send(raw, kind) })
	s.answers = append(s.answers, Answer{What: what, Outcome: o})
	return o
}

// deliver uses the side's one connection to the broker listener.
func (s *Side) deliver(f func(*frame.Conn) frame.Outcome) frame.Outcome {
	return s.over(&s.conn, s.Addr, f)
}

// asked uses its one connection to the listener under test.
func (s *Side) asked(f func(*frame.Conn) frame.Outcome) frame.Outcome {
	if s.Controller != "" {
		return s.over(&s.other, s.Controller, f)
	}
	return s.deliver(f)
}

// over uses a connection, a new one after it was closed.
func (s *Side) over(conn **frame.Conn, addr string, f func(*frame.Conn) frame.Outcome) frame.Outcome {
	if *conn == nil {
		c, err := frame.Dial(addr)
		if err != nil {
			s.err = err
			return frame.Outcome{Closed: true}
		}
		*conn = c
	}
	c := *conn
	c.ClientID, c.Patience = "frame", s.Patience
	if s.ClientID != "" {
		c.ClientID = s.ClientID
	}
	o := f(c)
	if o.Closed || o.Silent || o.Bad != "" {
		c.Close()
		*conn = nil
	}
	return o
}

func (s *Side) close() {
	for _, c := range []*frame.Conn{s.conn, s.other} {
		if c != nil {
			c.Close()
		}
	}
}

// Play runs a case on one server.
func (c *Case) Play(addr Address, version int16, prefix string) ([]Answer, error) {
	s := &Side{API: c.API, Version: version, Prefix: prefix, Addr: addr.Broker}
	if c.Controller {
		s.Controller = addr.Controller
	}
	defer s.close()
	c.Run(s)
	return s.answers, s.err
}

// Compare lists the differences of two plays, a line each.
func Compare(ours, theirs []Answer) []string {
	var out []string
	if len(ours) != len(theirs) {
		return []string{fmt.Sprintf("%d answers against %d", len(ours), len(theirs))}
	}
	a, b := normal.With(kinds), normal.With(kinds)
	for i := range ours {
		x, y := ours[i], theirs[i]
		if x.What != y.What {
			return append(out, fmt.Sprintf("%s against %s", x.What, y.What))
		}
		if x.Value != nil || y.Value != nil {
			for _, d := range normal.CompareValues(a, b, x.Value, y.Value) {
				out = append(out, x.What+d)
			}
			continue
		}
		if how(x.Outcome) != how(y.Outcome) {
			out = append(out, fmt.Sprintf("%s: %s against %s", x.What, how(x.Outcome), how(y.Outcome)))
			continue
		}
		if x.Outcome.Response == nil {
			continue
		}
		for _, d := range normal.Compare(a, b, x.Outcome.Response, y.Outcome.Response) {
			out = append(out, x.What+d)
		}
	}
	return out
}

func how(o frame.Outcome) string {
	switch {
	case o.Closed:
		return "closed"
	case o.Silent:
		return "no answer"
	case o.Bad != "":
		return "undecodable: " + o.Bad
	}
	return "answered"
}

// pause is a pause of milliseconds, for what a server does behind its answer.
func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }
