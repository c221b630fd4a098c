package config

import "testing"

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		scope      Scope
		name, want string
	}{
		{BrokerScope, "log.retention.hour", "log.retention.hours"},
		{BrokerScope, "advertised.listner", "advertised.listeners"},
		{BrokerScope, "advertised.listenres", "advertised.listeners"},
		{BrokerScope, "log.dirss", "log.dirs"},
		{BrokerScope, "lgo.dir", "log.dir"},
		{BrokerScope, "Log_Retention-Hours", "log.retention.hours"},
		{BrokerScope, " num.partition ", "num.partitions"},
		{BrokerScope, "listener.name.plaintext.max.connection", "listener.name.plaintext.max.connections"},
		{BrokerScope, "listener.name.plaintext.no.such.thing.at.all", ""},
		{BrokerScope, "x", ""},
		{BrokerScope, "", ""},
		{BrokerScope, "completely.other", ""},
		{TopicScope, "retention.sm", "retention.ms"},
		{TopicScope, "cleanup.polcy", "cleanup.policy"},
		{TopicScope, "log.dirs", ""},
		{GroupScope, "consumer.session.timeout", "consumer.session.timeout.ms"},
		{ClientMetricsScope, "interval.m", "interval.ms"},
	} {
		if got := Nearest(c.scope, c.name); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.scope, c.name, got, c.want)
		}
	}
	for _, s := range []Scope{BrokerScope, TopicScope, GroupScope, ClientMetricsScope} {
		for _, k := range Keys(s) {
			if got := Nearest(s, k.Name); got != k.Name {
				t.Errorf("%s is nearest to %q", k.Name, got)
			}
		}
	}
}

// distance is the same by definition, without a limit.
func distance(a, b string) int {
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case a[0] == b[0]:
		return distance(a[1:], b[1:])
	}
	d := 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, 1+distance(a[2:], b[2:]))
	}
	return d
}

func TestEditDistance(t *testing.T) {
	words := []string{""}
	for i := 0; i < len(words) && len(words[i]) < 4; i++ {
		for _, letter := range []string{"a", "b", "c"} {
			words = append(words, words[i]+letter)
		}
	}
	for _, a := range words {
		for _, b := range words {
			want := distance(a, b)
			for limit := 1; limit < 6; limit++ {
				if got := editDistance(a, b, limit); got != min(want, limit) {
					t.Fatalf("%q to %q below %d: %d, want %d", a, b, limit, got, min(want, limit))
				}
			}
		}
	}
}
