package broker

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"millrace/controller/config"
	"millrace/wire"
)

func TestConnectionLimits(t *testing.T) {
	parse := func(pairs ...string) (wire.Limits, error) {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return parseLimits(t.Context(), []string{"PLAINTEXT", "BACK"}, func(name string) (string, bool) {
			v, ok := m[name]
			return v, ok
		})
	}
	none, err := parse()
	if err != nil || none.MaxConnections != 0 || none.MaxConnectionsPerIP != 0 || none.MaxCreationRate != 0 || len(none.PerIP)+len(none.PerListener)+len(none.PerListenerRate) != 0 {
		t.Errorf("nothing set: %+v, %v", none, err)
	}
	got, err := parse("max.connections", "100", "max.connections.per.ip", "0", "max.connection.creation.rate", "7",
		"max.connections.per.ip.overrides", "127.0.0.1:5,[::1]:6,::ffff:10.0.0.1:0",
		"listener.name.plaintext.max.connections", "9", "listener.name.back.max.connection.creation.rate", "2147483647",
		"listener.name.back.max.connections", "0", "listener.name.other.max.connections", "1")
	want := wire.Limits{
		MaxConnections: 100, MaxConnectionsPerIP: -1, MaxCreationRate: 7,
		PerIP:       map[netip.Addr]int{netip.MustParseAddr("127.0.0.1"): 5, netip.MustParseAddr("::1"): 6, netip.MustParseAddr("10.0.0.1"): 0},
		PerListener: map[string]int{"PLAINTEXT": 9, "BACK": -1}, PerListenerRate: map[string]float64{"BACK": 0},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range [][]string{
		{"listener.name.plaintext.max.connections", "-1"},
		{"listener.name.back.max.connection.creation.rate", "many"},
		{"max.connections.per.ip.overrides", "127.0.0.1"},
		{"max.connections.per.ip.overrides", "no such host.invalid:3"},
	} {
		if _, err := parse(bad...); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestRequestBudget(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want int64
	}{
		{nil, 256 << 20},
		{map[string]string{"queued.max.request.bytes": "-1"}, 256 << 20},
		{map[string]string{"queued.max.request.bytes": "200000000"}, 200000000},
		{map[string]string{"socket.request.max.bytes": "1000000000"}, 1000000000},
	} {
		static, _, err := config.ParseStatic(c.set)
		if err != nil {
			t.Fatal(err)
		}
		if got := requestBudget(static); got != c.want {
			t.Errorf("%v: a budget of %d, want %d", c.set, got, c.want)
		}
	}
}
