package metrics

import (
	"slices"
	"strings"
	"testing"
)

const sample = `# HELP kafka_a_total Help.
# TYPE kafka_a_total counter
kafka_a_total 1
kafka_a_total{topic="x\"},y"} 2
# TYPE kafka_b gauge
kafka_b{partition="0",topic="t"} 1
# TYPE kafka_c gauge
kafka_c 3
# TYPE jvm_x gauge
jvm_x 1
`

// Each planted fault is found, and nothing where there is none.
func TestCompareNotices(t *testing.T) {
	theirs, err := parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if d := compare(theirs, theirs, nil); len(d) != 0 {
		t.Errorf("itself: %q", d)
	}
	ours := strings.NewReplacer("# TYPE jvm_x gauge\njvm_x 1\n", "")
	for _, c := range []struct {
		name, from, to string
		lacking        []string
		want           string
	}{
		{"nothing", "kafka_q", "kafka_q", nil, ""},
		{"a missing one", "# TYPE kafka_c gauge\nkafka_c 3\n", "", nil, "kafka_c is not shown"},
		{"one known to be missing", "# TYPE kafka_c gauge\nkafka_c 3\n", "", []string{"kafka_c"}, ""},
		{"one known by its beginning", "# TYPE kafka_c gauge\nkafka_c 3\n", "", []string{"kafka_c*"}, ""},
		{"a renamed one", "kafka_b", "kafka_bb", nil, "kafka_b is not shown; kafka_bb is not Kafka's"},
		{"another type", "kafka_b gauge", "kafka_b counter", nil, "kafka_b is a counter, Kafka's a gauge"},
		{"a renamed label", `partition="0"`, `part="0"`, nil, `kafka_b has labels ["part,topic"], Kafka's ["partition,topic"]`},
		{"a form without labels", "kafka_a_total 1\n", "", nil, `kafka_a_total has labels ["topic"], Kafka's ["" "topic"]`},
		{"listed and shown", "kafka_q", "kafka_q", []string{"kafka_c"}, "kafka_c is shown and listed as missing"},
		{"listed and nobody's", "kafka_q", "kafka_q", []string{"kafka_gone"}, "kafka_gone is listed as missing and Kafka does not show it"},
	} {
		mine, err := parse(strings.ReplaceAll(ours.Replace(sample), c.from, c.to))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(compare(mine, theirs, c.lacking), "; "); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	if again := recorded(record(theirs)); !slices.Equal(compare(again, theirs, nil), nil) {
		t.Error("what was recorded is not what was read")
	}
}
