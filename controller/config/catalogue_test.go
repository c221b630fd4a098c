package config

import (
	"sort"
	"testing"
)

func TestTablesAreSortedAndSound(t *testing.T) {
	for _, c := range []struct {
		scope Scope
		count int
	}{{BrokerScope, 382}, {TopicScope, 38}, {GroupScope, 27}, {ClientMetricsScope, 3}} {
		keys := Keys(c.scope)
		if len(keys) != c.count {
			t.Errorf("%s has %d keys, want %d", c.scope, len(keys), c.count)
		}
		if !sort.SliceIsSorted(keys, func(i, j int) bool { return keys[i].Name < keys[j].Name }) {
			t.Errorf("%s is not sorted", c.scope)
		}
		for i, k := range keys {
			if i > 0 && k.Name == keys[i-1].Name {
				t.Errorf("%s comes twice", k.Name)
			}
			if found, ok := Find(c.scope, k.Name); !ok || found != k {
				t.Errorf("%s is not found", k.Name)
			}
			if !k.Null && !k.Required {
				if err := k.Check(k.Default); err != nil && k.Name != "listeners" {
					t.Errorf("the default of %s: %v", k.Name, err)
				}
				if got := k.Canonical(k.Default); got != k.Default {
					t.Errorf("the default of %s is %q, canonical %q", k.Name, k.Default, got)
				}
			}
			for _, s := range k.SynonymNames() {
				if _, ok := Find(BrokerScope, s); !ok {
					t.Errorf("%s has the synonym %s, which is no broker config", k.Name, s)
				}
			}
			if (k.Effect == Honoured) != (k.Reason == "") {
				t.Errorf("%s: effect %d with reason %q", k.Name, k.Effect, k.Reason)
			}
		}
	}
}

func TestEveryTopicKeyIsRead(t *testing.T) {
	st, _, err := ParseStatic(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys(TopicScope) {
		asked := false
		_, err := Topic(st, nil, nil, func(name string) (string, bool) {
			asked = asked || name == k.Name
			return "", false
		})
		if err != nil || !asked {
			t.Errorf("%s: read %v, error %v", k.Name, asked, err)
		}
	}
}
