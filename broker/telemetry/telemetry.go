// Package telemetry answers clients that push their own metrics (KIP-714): which
// metrics an operator has subscribed to, how often they may come, and what was
// last pushed.
//
// The room is pure. A Machine takes a request and the time and returns the
// answer; it holds one instance for each client and the series that clients have
// pushed, both bounded. It is not safe for concurrent use. It writes nothing:
// what it holds is lost with the process, as in Kafka, and clients begin anew.
//
// The answers are those of Kafka's ClientMetricsManager, with one more: metrics
// that do not decompress or are no OTLP are refused with INVALID_RECORD, where
// Kafka leaves that to a plugin.
package telemetry

import (
	"container/list"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/storage/codec"
)

// Limits of a machine.
const (
	// MaxInstances is how many clients are remembered; the one that was heard of
	// least lately makes room.
	MaxInstances = 16384
	// maxDecoded bounds what one push may decompress to.
	maxDecoded = 10 << 20
	// minExpiry is how long an instance is kept that is not heard of; longer where
	// its interval is.
	minExpiry = 60 * time.Second
)

// ID is a client instance id.
type ID [16]byte

// reserved ids are given to nobody: zero and one.
func (id ID) reserved() bool { return id == ID{} || id == ID{15: 1} }

// Client is who asks, as subscriptions match it.
type Client struct {
	ClientID, SoftwareName, SoftwareVersion string
	Address                                 string // without the port
	Port                                    int
	Connection                              uint64 // that it asks on
}

// maxClientText bounds what is kept of each word that a client says of itself.
const maxClientText = 1 << 10

// kept is a client as it is remembered: with words of a bounded length.
func (c Client) kept() Client {
	for _, s := range []*string{&c.ClientID, &c.SoftwareName, &c.SoftwareVersion} {
		if len(*s) > maxClientText {
			*s = strings.ToValidUTF8(strings.Clone((*s)[:maxClientText]), "")
		}
	}
	return c
}

// Compressions are the compression types that are accepted, the preferred first.
var Compressions = []int8{int8(codec.Zstd), int8(codec.LZ4), int8(codec.Gzip), int8(codec.Snappy)}

// Answer is what a client that asks for its subscriptions is told.
type Answer struct {
	Code           int16
	Instance       ID
	SubscriptionID int32
	Interval       time.Duration
	Metrics        []string
}

// Push is what a client pushes.
type Push struct {
	Instance       ID
	SubscriptionID int32
	Terminating    bool
	Compression    int8
	Metrics        []byte
}

// instance is one client.
type instance struct {
	id      ID
	client  Client
	version uint64 // of the subscriptions it was matched with

	subscription int32
	interval     time.Duration
	metrics      []string

	lastGet, lastPush time.Time
	terminating       bool
	lastError         int16
	used              *list.Element
	expires           time.Time
}

// Machine holds the instances of one broker.
type Machine struct {
	maxBytes      int
	subscriptions []Subscription
	version       uint64
	instances     map[ID]*instance
	connections   map[uint64]ID // the instance that was last made on each
	order         list.List     // of *instance, the least lately used first
	series        store
}

// New makes a machine; maxBytes is telemetry.max.bytes.
func New(maxBytes int) *Machine {
	m := &Machine{maxBytes: maxBytes, version: 1, instances: map[ID]*instance{}, connections: map[uint64]ID{}}
	m.series.init()
	return m
}

// Configure takes over the subscriptions there are now. Instances are matched
// anew when they are next heard of.
func (m *Machine) Configure(subscriptions []Subscription) {
	m.subscriptions = inJavaOrder(subscriptions, func(s Subscription) string { return s.Name })
	m.version++
}

// Instances is how many clients are known.
func (m *Machine) Instances() int { return len(m.instances) }

// Get answers GetTelemetrySubscriptions. fresh is chance, for a client without an
// id.
func (m *Machine) Get(now time.Time, c Client, id ID, fresh ID) Answer {
	if id == (ID{}) {
		id = fresh
		for i := 15; id.reserved() || m.instances[id] != nil; i = (i + 15) % 16 {
			id[i]++
		}
	}
	x := m.instance(now, c, id)
	if last := later(x.lastGet, x.lastPush); last.IsZero() || now.Sub(last) >= x.interval {
		x.lastGet = now
	} else if x.lastError != kerr.UnknownSubscriptionID.Code && x.lastError != kerr.UnsupportedCompressionType.Code {
		return Answer{Code: kerr.ThrottlingQuotaExceeded.Code}
	}
	x.lastError = 0
	return Answer{Instance: x.id, SubscriptionID: x.subscription, Interval: x.interval, Metrics: x.metrics}
}

// Push answers PushTelemetry and keeps what was pushed. The error says more than
// the code where there is one.
func (m *Machine) Push(now time.Time, c Client, p Push) (code int16, err error) {
	if p.Instance.reserved() {
		return kerr.InvalidRequest.Code, errors.New("the client instance id is reserved")
	}
	x := m.instance(now, c, p.Instance)
	code, err = m.accept(now, x, p)
	x.terminating = p.Terminating
	if code == 0 && len(p.Metrics) > 0 {
		if err = m.take(now, x, p); err != nil {
			code = kerr.InvalidRecord.Code
		}
	}
	x.lastError = code
	return code, err
}

func (m *Machine) accept(now time.Time, x *instance, p Push) (int16, error) {
	if x.terminating {
		return kerr.InvalidRequest.Code, errors.New("the client has said before that it ends")
	}
	// One push may follow a get at once; each counts, whatever becomes of it.
	allowed := x.lastGet.After(x.lastPush) || x.lastPush.IsZero() && x.lastGet.IsZero() || now.Sub(x.lastPush) >= x.interval
	if allowed {
		x.lastPush = now
	} else if !p.Terminating {
		return kerr.ThrottlingQuotaExceeded.Code, errors.New("pushed before the interval was over")
	}
	switch {
	case p.SubscriptionID != x.subscription:
		return kerr.UnknownSubscriptionID.Code, fmt.Errorf("subscription %d, now it is %d", p.SubscriptionID, x.subscription)
	case !supported(p.Compression):
		return kerr.UnsupportedCompressionType.Code, fmt.Errorf("compression type %d", p.Compression)
	case len(p.Metrics) > m.maxBytes:
		return kerr.TelemetryTooLarge.Code, fmt.Errorf("%d bytes, telemetry.max.bytes is %d", len(p.Metrics), m.maxBytes)
	}
	return 0, nil
}

func supported(kind int8) bool {
	if kind == int8(codec.None) {
		return true
	}
	for _, k := range Compressions {
		if k == kind {
			return true
		}
	}
	return false
}

// take decodes what was pushed and keeps it.
func (m *Machine) take(now time.Time, x *instance, p Push) error {
	b := p.Metrics
	if p.Compression != int8(codec.None) {
		var err error
		if b, err = codec.Decompress(codec.Kind(p.Compression), nil, b, maxDecoded); err != nil {
			return fmt.Errorf("decompressing pushed metrics: %w", err)
		}
	}
	points, err := decode(b)
	if err != nil {
		return fmt.Errorf("reading pushed metrics: %w", err)
	}
	m.series.take(x, points, now.Add(x.expiry()))
	return nil
}

func (x *instance) expiry() time.Duration { return max(minExpiry, 3*x.interval) }

// instance finds a client, or makes one; a client that was matched with older
// subscriptions is made anew, as in Kafka: it may ask and push again at once.
func (m *Machine) instance(now time.Time, c Client, id ID) *instance {
	x := m.instances[id]
	switch {
	case x == nil:
		if len(m.instances) >= MaxInstances {
			m.drop(m.order.Front().Value.(*instance))
		}
		x = &instance{id: id, client: c.kept()}
		x.used = m.order.PushBack(x)
		m.instances[id] = x
		m.match(x)
		m.connections[c.Connection] = id
	case x.version != m.version:
		*x = instance{id: id, client: x.client, used: x.used}
		m.match(x)
		m.connections[c.Connection] = id
	}
	x.expires = now.Add(x.expiry())
	m.order.MoveToBack(x.used)
	return x
}

func (m *Machine) drop(x *instance) {
	m.order.Remove(x.used)
	delete(m.instances, x.id)
}

// Disconnected forgets the instance that was last made on a connection that has
// ended; what it pushed stays to be seen for a while. Others of that connection, of
// which no ordinary client has any, stay until they were not heard of for long, as
// in Kafka.
func (m *Machine) Disconnected(connection uint64) {
	if x := m.instances[m.connections[connection]]; x != nil {
		m.drop(x)
	}
	delete(m.connections, connection)
}

// Lost is how many points found no room.
func (m *Machine) Lost() int { return m.series.lost }

// Expire forgets clients and series that were not heard of for long.
func (m *Machine) Expire(now time.Time) {
	for e := m.order.Front(); e != nil; {
		x := e.Value.(*instance)
		e = e.Next()
		if !x.expires.After(now) {
			m.drop(x)
		}
	}
	m.series.expire(now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// String is the id as Kafka writes ids.
func (id ID) String() string { return text(id) }
