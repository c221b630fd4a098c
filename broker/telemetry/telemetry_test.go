package telemetry

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/protobuf/encoding/protowire"

	"millrace/storage/codec"
)

// The machine in transcripts: time passes with `after`, the rest is what clients
// and operators do.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		m := New(1000)
		now := time.UnixMilli(1000000)
		subs := map[string]Subscription{}
		ids := map[string]int32{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(key, otherwise string) string {
				for _, a := range d.CmdArgs {
					if a.Key == key {
						return strings.Join(a.Vals, ",")
					}
				}
				return otherwise
			}
			n, _ := strconv.Atoi(arg("id", "0"))
			id := ID{15: byte(n)}
			c := Client{ClientID: arg("client", "c"), SoftwareName: "test", SoftwareVersion: "1", Address: "127.0.0.1", Port: 5000}
			if v, err := strconv.Atoi(arg("connection", "1")); err == nil {
				c.Connection = uint64(v)
			}
			switch d.Cmd {
			case "after":
				dur, err := time.ParseDuration(d.CmdArgs[0].Key)
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(dur)
				m.Expire(now)
				return fmt.Sprintf("%d instances\n", m.Instances())
			case "subscribe":
				s, err := Parse(arg("name", "s"), arg("metrics", ""), arg("interval", ""), arg("match", ""))
				subs[s.Name] = s
				var list []Subscription
				for _, name := range []string{"s", "t"} {
					if s, ok := subs[name]; ok {
						list = append(list, s)
					}
				}
				m.Configure(list)
				if err != nil {
					return err.Error() + "\n"
				}
				return "ok\n"
			case "get":
				a := m.Get(now, c, id, ID{1, 2, 3})
				if a.Code != 0 {
					return kerr.ErrorForCode(a.Code).(*kerr.Error).Message + "\n"
				}
				ids[a.Instance.String()] = a.SubscriptionID
				return fmt.Sprintf("%s every %v: %q\n", a.Instance, a.Interval, a.Metrics)
			case "push":
				p := Push{Instance: id, SubscriptionID: ids[id.String()], Terminating: arg("last", "") != ""}
				off, _ := strconv.Atoi(arg("wrong", "0"))
				p.SubscriptionID += int32(off)
				kind, _ := strconv.Atoi(arg("compression", "0"))
				p.Compression = int8(kind)
				size, _ := strconv.Atoi(arg("size", "0"))
				p.Metrics = make([]byte, size)
				if d.Input != "" {
					p.Metrics = encode(t, d.Input)
					if kind > 0 && kind <= 4 {
						packed, err := codec.Compress(codec.Kind(kind), nil, p.Metrics, 0)
						if err != nil {
							t.Fatal(err)
						}
						p.Metrics = packed
					}
				}
				code, err := m.Push(now, c, p)
				if code != 0 {
					return fmt.Sprintf("%s: %v\n", kerr.ErrorForCode(code).(*kerr.Error).Message, err)
				}
				return "ok\n"
			case "gone":
				m.Disconnected(c.Connection)
				return fmt.Sprintf("%d instances\n", m.Instances())
			case "series":
				list, lost := m.Series()
				var b strings.Builder
				for _, s := range list {
					fmt.Fprintf(&b, "%s %v %v", s.Name, s.Value, s.Labels)
					if s.Counter {
						b.WriteString(" counter")
					}
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "%d lost\n", lost)
				return b.String()
			}
			t.Fatalf("nobody knows %q", d.Cmd)
			return ""
		})
	})
}

// encode writes OTLP: lines of KIND NAME VALUE [key=value ...], where KIND is
// gauge, sum (cumulative), delta, updown or histogram; a line "resource k=v"
// names the resource.
func encode(t testing.TB, text string) []byte {
	var scope, resource []byte
	msg := func(b []byte, num protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
	}
	attribute := func(kv string) []byte {
		k, v, _ := strings.Cut(kv, "=")
		b := msg(nil, 1, []byte(k))
		if n, err := strconv.Atoi(v); err == nil {
			return msg(b, 2, protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(n)))
		}
		return msg(b, 2, msg(nil, 1, []byte(v)))
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		if f[0] == "resource" {
			for _, kv := range f[1:] {
				resource = msg(resource, 1, attribute(kv))
			}
			continue
		}
		v, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		var point []byte
		labels := protowire.Number(7)
		switch f[0] {
		case "histogram":
			labels = 9
			point = protowire.AppendFixed64(protowire.AppendTag(point, 4, protowire.Fixed64Type), 4)
			point = protowire.AppendFixed64(protowire.AppendTag(point, 5, protowire.Fixed64Type), math.Float64bits(v))
		case "delta":
			point = protowire.AppendFixed64(protowire.AppendTag(point, 6, protowire.Fixed64Type), uint64(int64(v)))
		default:
			point = protowire.AppendFixed64(protowire.AppendTag(point, 4, protowire.Fixed64Type), math.Float64bits(v))
		}
		for _, kv := range f[3:] {
			point = msg(point, labels, attribute(kv))
		}
		data := msg(nil, 1, point)
		kind := func(temporality uint64, monotonic bool) {
			data = protowire.AppendVarint(protowire.AppendTag(data, 2, protowire.VarintType), temporality)
			data = protowire.AppendVarint(protowire.AppendTag(data, 3, protowire.VarintType), protowire.EncodeBool(monotonic))
		}
		field := protowire.Number(7)
		switch f[0] {
		case "gauge":
			field = 5
		case "sum":
			kind(2, true)
		case "delta":
			kind(1, true)
		case "updown":
			kind(2, false)
		case "histogram":
			field = 9
			data = protowire.AppendVarint(protowire.AppendTag(data, 2, protowire.VarintType), 1)
		}
		metric := msg(msg(nil, 1, []byte(f[1])), field, data)
		scope = msg(scope, 2, metric)
	}
	return msg(nil, 1, msg(msg(nil, 1, resource), 2, scope))
}

// Whatever clients push, what is kept is bounded.
func TestBounds(t *testing.T) {
	m := New(1 << 20)
	now := time.UnixMilli(0)
	for i := range MaxInstances + 100 {
		id := ID{0: 1, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i)}
		now = now.Add(time.Millisecond)
		a := m.Get(now, Client{}, id, ID{})
		if a.Code != 0 {
			t.Fatalf("instance %d: %d", i, a.Code)
		}
	}
	if n := m.Instances(); n != MaxInstances {
		t.Errorf("%d instances, the limit is %d", n, MaxInstances)
	}
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, "gauge g%d 1\n", i)
	}
	body := encode(t, b.String())
	for i := range 40 {
		id := ID{0: 2, 14: byte(i)}
		a := m.Get(now, Client{}, id, ID{})
		if code, err := m.Push(now, Client{}, Push{Instance: id, SubscriptionID: a.SubscriptionID, Metrics: body}); code != 0 {
			t.Fatal(code, err)
		}
	}
	list, lost := m.Series()
	if len(list) != maxSeries || lost != 40*1500-maxSeries {
		t.Errorf("%d series and %d lost", len(list), lost)
	}
	m.Expire(now.Add(time.Hour))
	if list, _ := m.Series(); len(list) != 0 || m.Instances() != 0 || len(m.series.kinds) != 0 || m.series.total != 0 {
		t.Errorf("after an hour: %d series, %d instances, %d names", len(list), m.Instances(), len(m.series.kinds))
	}
}

// What a push says once of its resource is shown with every point: few bytes on
// the wire are not to become many that are kept.
func TestBoundsOfText(t *testing.T) {
	m := New(1 << 20)
	now := time.UnixMilli(0)
	var b strings.Builder
	b.WriteString("resource")
	for i := range maxLabels {
		fmt.Fprintf(&b, " k%d%s=%s", i, strings.Repeat("k", maxText-4), strings.Repeat("v", maxText))
	}
	for i := range 200 {
		fmt.Fprintf(&b, "\ngauge g%d 1", i)
	}
	body := encode(t, b.String())
	c := Client{ClientID: strings.Repeat("c", 30000), SoftwareName: strings.Repeat("n", 30000), SoftwareVersion: strings.Repeat("v", 30000)}
	for i := range 24 {
		id := ID{0: 2, 14: byte(i)}
		a := m.Get(now, c, id, ID{})
		if code, err := m.Push(now, c, Push{Instance: id, SubscriptionID: a.SubscriptionID, Metrics: body}); code != 0 {
			t.Fatal(code, err)
		}
	}
	list, lost := m.Series()
	held := 0
	for _, s := range list {
		for _, text := range s.Labels {
			held += len(text)
		}
	}
	if len(list) == 0 || lost == 0 || held > maxHeld {
		t.Errorf("%d series with %d bytes of labels, %d lost", len(list), held, lost)
	}
	m.Expire(now.Add(time.Hour))
	if m.series.held != 0 {
		t.Errorf("nothing is kept, and weighs %d", m.series.held)
	}
}

// With a connection ends the instance that was last made on it, wherever it was heard
// of since, and no other.
func TestConnections(t *testing.T) {
	m := New(1000)
	now := time.UnixMilli(0)
	for i := range MaxInstances + 100 {
		id := ID{0: 1, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
		m.Get(now, Client{Connection: 7}, id, ID{})
	}
	last, other := m.connections[7], ID{0: 2}
	m.Get(now, Client{Connection: 8}, other, ID{})
	m.Get(now, Client{Connection: 8}, last, ID{})
	if m.Instances() != MaxInstances || len(m.connections) != 2 || m.connections[8] != other {
		t.Fatalf("%d instances, %v", m.Instances(), m.connections)
	}
	m.Disconnected(7)
	if m.Instances() != MaxInstances-1 || m.instances[last] != nil || len(m.connections) != 1 {
		t.Fatalf("%d instances, %v", m.Instances(), m.connections)
	}
	m.Disconnected(7)
	m.Disconnected(8)
	if m.Instances() != MaxInstances-2 || m.instances[other] != nil || len(m.connections) != 0 || m.order.Len() != m.Instances() {
		t.Fatalf("%d instances, %v", m.Instances(), m.connections)
	}
	// One that is made anew for other subscriptions is of the connection that asks then.
	m.Get(now, Client{Connection: 9}, last, ID{})
	m.Configure([]Subscription{{Name: "s", Interval: time.Second}})
	m.Get(now, Client{Connection: 10}, last, ID{})
	m.Disconnected(10)
	if m.instances[last] != nil {
		t.Error("it outlasts the connection")
	}
	m.Disconnected(9)
	if len(m.connections) != 0 {
		t.Errorf("%v", m.connections)
	}
}

// A client that connects anew keeps its state until the connection ends on which it
// was made, whichever it uses by then, as a running Kafka 4.4.0 answered it (each
// line was asked there): -c ends connection c, ! changes what is subscribed to, and
// a connection's name alone asks for the subscriptions, which is refused with 89 as
// long as the client is known to have asked before.
func TestConnectingAnew(t *testing.T) {
	const ok, early = 0, int(89)
	for steps, want := range map[string][]int{
		"A A -A B":        {ok, early, ok},
		"A B -A B":        {ok, early, ok},
		"A B -B A":        {ok, early, early},
		"A ! B -A B":      {ok, ok, ok},
		"A ! B -B A":      {ok, ok, ok},
		"A ! B -B C -A C": {ok, ok, ok, ok},
		"A B -A B B -B C": {ok, early, ok, early, ok},
		"A ! A -A B":      {ok, ok, ok},
	} {
		m := New(1000)
		var got []int
		for i, step := range strings.Fields(steps) {
			connection := uint64(step[len(step)-1])
			switch {
			case step == "!":
				m.Configure([]Subscription{{Name: "s", Interval: time.Hour + time.Duration(i)*time.Second}})
			case step[0] == '-':
				m.Disconnected(connection)
			default:
				got = append(got, int(m.Get(time.UnixMilli(int64(i)), Client{Connection: connection}, ID{0: 1}, ID{}).Code))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", steps, got, want)
		}
	}
}

// A small push may not unpack to much.
func TestBomb(t *testing.T) {
	m := New(1 << 20)
	id := ID{5}
	a := m.Get(time.UnixMilli(0), Client{}, id, ID{})
	packed, err := codec.Compress(codec.Gzip, nil, make([]byte, 2*maxDecoded), 0)
	if err != nil {
		t.Fatal(err)
	}
	code, err := m.Push(time.UnixMilli(0), Client{}, Push{Instance: id, SubscriptionID: a.SubscriptionID, Compression: int8(codec.Gzip), Metrics: packed})
	if code != kerr.InvalidRecord.Code {
		t.Errorf("%d %v", code, err)
	}
}

// FuzzDecode: whatever is pushed, nothing falls over, and what is read is bounded.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, "resource group_id=g\ngauge org.apache.kafka.x.y 1.5 topic=t partition=3\ndelta a.b 3\nhistogram h 7 k=v"))
	f.Add([]byte{10, 0})
	f.Add(bytes.Repeat([]byte{10, 2, 18, 0}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		points, err := decode(b)
		if len(points) > maxPoints {
			t.Fatalf("%d points", len(points))
		}
		if err != nil {
			return
		}
		for i := range points {
			if len(points[i].name) > maxText+8 || len(points[i].labels) > 2*maxLabels {
				t.Fatalf("%+v", points[i])
			}
		}
		m := New(1 << 20)
		m.series.take(&instance{id: ID{1}}, points, time.UnixMilli(1))
		list, _ := m.Series()
		for _, s := range list {
			for i := 2; i < len(s.Labels); i += 2 {
				if s.Labels[i] <= s.Labels[i-2] {
					t.Fatalf("labels out of order or twice: %q", s.Labels)
				}
			}
		}
	})
}
