package frames

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/normal"
)

// answered is an answer as a play records it.
func answered(r kmsg.Response) Answer {
	return Answer{What: "asked", Outcome: frame.Outcome{Response: r}}
}

// metadata is an answer to compare: two brokers' worth of everything that the
// comparison treats in its own way.
func metadata(f func(*kmsg.MetadataResponse)) Answer {
	m := &kmsg.MetadataResponse{Version: 12, ClusterID: kmsg.StringPtr("ours"), ControllerID: 1}
	m.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "localhost", Port: 9092}, {NodeID: 2, Host: "localhost", Port: 9093}}
	for i, name := range []string{"a", "b"} {
		m.Topics = append(m.Topics, kmsg.MetadataResponseTopic{
			Topic: kmsg.StringPtr(name), TopicID: [16]byte{byte(i + 1)},
			Partitions: []kmsg.MetadataResponseTopicPartition{{Partition: 0, Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}},
		})
	}
	if f != nil {
		f(m)
	}
	return answered(m)
}

// TestAlikeIsAlike: what two servers may differ in is not a difference.
func TestAlikeIsAlike(t *testing.T) {
	for name, f := range map[string]func(*kmsg.MetadataResponse){
		"nothing changed": nil,
		"other ids":       func(m *kmsg.MetadataResponse) { m.Topics[0].TopicID, m.Topics[1].TopicID = [16]byte{7}, [16]byte{8} },
		"another cluster": func(m *kmsg.MetadataResponse) { m.ClusterID = kmsg.StringPtr("theirs") },
		"another address": func(m *kmsg.MetadataResponse) { m.Brokers[0].Host, m.Brokers[0].Port = "10.0.0.1", 1 },
		"another order of topics and brokers": func(m *kmsg.MetadataResponse) {
			m.Topics[0], m.Topics[1] = m.Topics[1], m.Topics[0]
			m.Brokers[0], m.Brokers[1] = m.Brokers[1], m.Brokers[0]
		},
	} {
		if d := Compare([]Answer{metadata(nil)}, []Answer{metadata(f)}); len(d) != 0 {
			t.Errorf("%s: %q", name, d)
		}
	}
}

// TestPlantedFaultsAreCaught plants a fault in one of two answers that are
// alike, and wants it named.
func TestPlantedFaultsAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*kmsg.MetadataResponse)
		want  string
	}{
		"a wrong code":              {func(m *kmsg.MetadataResponse) { m.Topics[0].ErrorCode = 3 }, "ErrorCode: 0 against 3"},
		"a partition's wrong code":  {func(m *kmsg.MetadataResponse) { m.Topics[1].Partitions[0].ErrorCode = 5 }, "Partitions[0].ErrorCode: 0 against 5"},
		"a missing id":              {func(m *kmsg.MetadataResponse) { m.Topics[0].TopicID = [16]byte{} }, "TopicID"},
		"the same id twice":         {func(m *kmsg.MetadataResponse) { m.Topics[1].TopicID = m.Topics[0].TopicID }, "TopicID"},
		"a missing cluster id":      {func(m *kmsg.MetadataResponse) { m.ClusterID = nil }, "ClusterID"},
		"an empty host":             {func(m *kmsg.MetadataResponse) { m.Brokers[1].Host = "" }, "Host: true against false"},
		"a missing topic":           {func(m *kmsg.MetadataResponse) { m.Topics = m.Topics[:1] }, `Topics."b": {`},
		"another name":              {func(m *kmsg.MetadataResponse) { m.Topics[0].Topic = kmsg.StringPtr("c") }, "Topic"},
		"a null name":               {func(m *kmsg.MetadataResponse) { m.Topics[0].Topic = nil }, "Topic"},
		"replicas in another order": {func(m *kmsg.MetadataResponse) { m.Topics[0].Partitions[0].Replicas = []int32{2, 1} }, "Replicas[0]: 1 against 2"},
		"a replica too many":        {func(m *kmsg.MetadataResponse) { m.Topics[0].Partitions[0].ISR = []int32{1, 2, 3} }, "2 elements against 3"},
		"an empty list for null":    {func(m *kmsg.MetadataResponse) { m.Topics[0].Partitions[0].OfflineReplicas = []int32{} }, "OfflineReplicas: null against []"},
	} {
		if d := strings.Join(Compare([]Answer{metadata(nil)}, []Answer{metadata(c.plant)}), "\n"); !strings.Contains(d, c.want) {
			t.Errorf("%s: %q does not name it as %q", name, d, c.want)
		}
	}
}

// TestHowItCameIsCompared: an answer, a closed connection, silence and bytes
// that do not decode are four things.
func TestHowItCameIsCompared(t *testing.T) {
	hows := []frame.Outcome{{Response: &kmsg.HeartbeatResponse{}}, {Closed: true}, {Silent: true}, {Bad: "short"}}
	for i, a := range hows {
		for j, b := range hows {
			d := Compare([]Answer{{What: "asked", Outcome: a}}, []Answer{{What: "asked", Outcome: b}})
			if (len(d) == 0) != (i == j) {
				t.Errorf("%v against %v: %q", a, b, d)
			}
		}
	}
	one, two := metadata(nil), metadata(nil)
	if d := Compare([]Answer{one}, []Answer{one, two}); len(d) != 1 {
		t.Errorf("one answer against two: %q", d)
	}
	two.What = "asked otherwise"
	if d := Compare([]Answer{one}, []Answer{two}); len(d) != 1 {
		t.Errorf("answers to different questions: %q", d)
	}
	if d := Compare([]Answer{{What: "worked out", Value: 5}}, []Answer{{What: "worked out", Value: 6}}); len(d) != 1 {
		t.Errorf("5 against 6: %q", d)
	}
}

// TestOrderMattersWhereItDoes: partitions of a Fetch come in an order that
// Kafka keeps, those of a ListOffsets in none.
func TestOrderMattersWhereItDoes(t *testing.T) {
	fetched := func(indexes ...int32) Answer {
		r := &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{{Topic: "a"}}}
		for _, i := range indexes {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.FetchResponseTopicPartition{Partition: i})
		}
		return answered(r)
	}
	listed := func(indexes ...int32) Answer {
		r := &kmsg.ListOffsetsResponse{Topics: []kmsg.ListOffsetsResponseTopic{{Topic: "a"}}}
		for _, i := range indexes {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.ListOffsetsResponseTopicPartition{Partition: i})
		}
		return answered(r)
	}
	if d := Compare([]Answer{fetched(0, 1)}, []Answer{fetched(1, 0)}); len(d) == 0 {
		t.Error("a swapped order of fetched partitions is not seen")
	}
	if d := Compare([]Answer{listed(0, 1)}, []Answer{listed(1, 0)}); len(d) != 0 {
		t.Errorf("the order of listed partitions is taken for a difference: %q", d)
	}
	if d := Compare([]Answer{listed(0, 1)}, []Answer{listed(1, 1)}); len(d) == 0 {
		t.Error("a partition in place of another is not seen")
	}
}

// TestIdsKeepTheirNumbers: an id is followed through the answers of a case.
func TestIdsKeepTheirNumbers(t *testing.T) {
	ids := func(list ...int64) []Answer {
		var out []Answer
		for _, n := range list {
			out = append(out, answered(&kmsg.InitProducerIDResponse{ProducerID: n}))
		}
		return out
	}
	for _, c := range []struct {
		ours, theirs []Answer
		alike        bool
	}{
		{ids(5, 6, 5), ids(80, 90, 80), true},
		{ids(5, 6, 5), ids(80, 90, 90), false},
		{ids(0, 1), ids(1, 2), true}, // producer ids begin at 0
		{ids(5), ids(-1), false},
		{ids(5, 5), ids(1, 2), false},
	} {
		if d := Compare(c.ours, c.theirs); (len(d) == 0) != c.alike {
			t.Errorf("%q", d)
		}
	}
}

// TestKeyedElements: one config too many is one difference, not a shift of all
// behind it.
func TestKeyedElements(t *testing.T) {
	configs := func(pairs ...string) Answer {
		r := kmsg.DescribeConfigsResponseResource{}
		for i := 0; i+1 < len(pairs); i += 2 {
			r.Configs = append(r.Configs, kmsg.DescribeConfigsResponseResourceConfig{Name: pairs[i], Value: &pairs[i+1]})
		}
		return answered(&kmsg.DescribeConfigsResponse{Resources: []kmsg.DescribeConfigsResponseResource{r}})
	}
	for _, c := range []struct {
		theirs Answer
		want   int
	}{
		{configs("c", "3", "a", "1"), 0},
		{configs("a", "1", "b", "2", "c", "3"), 1},
		{configs("a", "1", "c", "4"), 1},
		{configs("a", "1"), 1},
	} {
		if d := Compare([]Answer{configs("a", "1", "c", "3")}, []Answer{c.theirs}); len(d) != c.want {
			t.Errorf("%q, want %d", d, c.want)
		}
	}
}

// TestMomentsAndWords: the present is alike to all, any other time is exact; of
// sentences it counts whether there is one.
func TestMomentsAndWords(t *testing.T) {
	produced := func(at int64, message *string) Answer {
		return answered(&kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Partitions: []kmsg.ProduceResponseTopicPartition{{LogAppendTime: at, ErrorMessage: message}}}}})
	}
	now := normal.With(kinds).Now.UnixMilli()
	for _, c := range []struct {
		ours, theirs Answer
		alike        bool
	}{
		{produced(now, nil), produced(now-1000, nil), true},
		{produced(now, nil), produced(-1, nil), false},
		{produced(1000, nil), produced(1001, nil), false},
		{produced(-1, kmsg.StringPtr("one")), produced(-1, kmsg.StringPtr("other")), true},
		{produced(-1, kmsg.StringPtr("one")), produced(-1, nil), false},
		{produced(-1, kmsg.StringPtr("one")), produced(-1, kmsg.StringPtr("")), false},
	} {
		if d := Compare([]Answer{c.ours}, []Answer{c.theirs}); (len(d) == 0) != c.alike {
			t.Errorf("%q", d)
		}
	}
}

// TestExplanationsAreNarrow: an explanation covers its own difference and not
// another in the same place.
func TestExplanationsAreNarrow(t *testing.T) {
	none := func(string) {}
	if Explained(`Produce/null records/v9: null records (Produce v9): answered against no answer`, none) == "" {
		t.Error("null records are not explained")
	}
	for _, d := range []string{
		`Produce/null records/v9: null records (Produce v9): closed against no answer`,
		`Produce/good/v9: one (Produce v9): answered against no answer`,
		`Produce/records/v9: plain: deltas swapped (Produce v9).Topics[0].Partitions[0].ErrorCode: 2 against 0`,
		`Metadata/by name/v9: one (Metadata v9).Topics[0].ErrorCode: 17 against 3`,
	} {
		if why := Explained(d, none); why != "" {
			t.Errorf("%s is explained by: %s", d, why)
		}
	}
}
