package auth

import "testing"

// only allows one operation, so that the bit field is shown to ask.
type only Operation

func (o only) Allowed(_ Subject, a Action) bool { return a.Operation == Operation(o) }

func TestOperations(t *testing.T) {
	for _, c := range []struct {
		typ  ResourceType
		want int32
	}{{Topic, 3576}, {Cluster, 8096}, {Group, 3400}} {
		if got := Operations(AllowAll{}, Subject{}, c.typ, "x"); got != c.want {
			t.Errorf("type %d: %d, Kafka answers %d", c.typ, got, c.want)
		}
	}
	if got := Operations(only(Write), Subject{}, Topic, "x"); got != 1<<4 {
		t.Errorf("only WRITE: %b", got)
	}
}
