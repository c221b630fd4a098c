package explained

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryDifferenceCites: what explains a difference is a purpose that the page
// lists, or a ticket, and says more than that.
func TestEveryDifferenceCites(t *testing.T) {
	listed := map[*Purpose]bool{}
	for _, p := range Purposes {
		if p.Name == "" || !strings.HasSuffix(p.What, ".") || listed[p] {
			t.Errorf("purpose %+v", p)
		}
		listed[p] = true
	}
	ticket := regexp.MustCompile(`^(KAFKA|KIP)-\d+$`)
	// Only what the broker is for is a purpose without a ticket.
	meant := []*Purpose{&Created, &Address, &Overlap, &OneNode, &Old, &Environment, &Telemetry, &Unbuilt}
	for _, p := range Purposes {
		if !slices.Contains(meant, p) && !ticket.MatchString(p.Name) {
			t.Errorf("%q is neither a purpose nor a ticket", p.Name)
		}
	}
	for _, d := range Sequences {
		if (d.Purpose != nil) == (d.Ticket != "") || d.Purpose != nil && !listed[d.Purpose] || d.Ticket != "" && !ticket.MatchString(d.Ticket) {
			t.Errorf("%s, %s: cites %q", d.API, d.At, d.Cites())
		}
		if d.API == "" || d.Why == "" {
			t.Errorf("%+v", d)
		}
	}
}

// TestExplainedNarrowly: an entry explains what it is there for and not what lies
// beside it.
func TestExplainedNarrowly(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the purpose or ticket; "" for none
	}{
		{`Metadata v9: metadata of some [{none name}], create true, operations false false.Topics."orc-1-none".ErrorCode: 0 against 3`, "created at once"},
		{`Metadata v9: metadata of some [{none name}], create true, operations false false.Topics."orc-1-none".TopicID: "\u003cTopicID 2\u003e" against "\u003cnone\u003e"`, "created at once"},
		{`Metadata v9: metadata of some [{a name}], create false, operations false false.Topics."orc-1-none".ErrorCode: 0 against 3`, ""},
		{`Metadata v9: metadata of some [{a name}], create true, operations false false.Topics."orc-1-none".ErrorCode: 3 against 0`, ""},
		{`Metadata v9: metadata of some [{a name}], create true, operations false false.Topics."orc-1-none".Partitions[0].Leader: 1 against 2`, ""},
		{`Metadata v9: metadata of some [{a name}], create true, operations false false.Topics."orc-1-none".Partitions: 1 elements against 2: [] against []`, ""},
		{`UpdateFeatures v1: update features [{kraft.version 1 1}], down false.ErrorCode: 95 against 0`, "not ahead of its code"},
		{`UpdateFeatures v1: update features [{kraft.version 1 1}], down false.Results: null against [{"ErrorCode":0,"ErrorMessage":"\u003ctext\u003e","Feature":"kraft.version","UnknownTags":0}]`, "not ahead of its code"},
		{`UpdateFeatures v1: update features [{kraft.version 1 1}], down false.Results: null against [{"ErrorCode":95,"ErrorMessage":"\u003ctext\u003e","Feature":"kraft.version","UnknownTags":0}]`, ""},
		{`UpdateFeatures v1: update features [{metadata.version 7 1}], down false.ErrorCode: 95 against 0`, ""},
		{`DescribeConfigs v3: describe configs type 8 "=1" [], synonyms true, documentation true.Resources[0].Configs."a.B": null against {"Value":"WARN"}`, "KIP-412"},
		{`DescribeConfigs v3: describe configs type 8 "=1" [], synonyms true, documentation true.Resources[0].Configs."root".ReadOnly: true against false`, ""},
		{`IncrementalAlterConfigs v1: type 4 "=1": ssl.provider="x".Resources[0].ErrorCode: 42 against 0`, "not ahead of its code"},
		{`IncrementalAlterConfigs v1: type 4 "=1": ssl.provider="x".Resources[0].ErrorCode: 0 against 42`, ""},
		{`IncrementalAlterConfigs v1: type 4 "=1": log.retention.ms="5".Resources[0].ErrorCode: 42 against 0`, ""},
		{`PushTelemetry v0: push telemetry, its own, terminating false, codec 0.ErrorCode: 87 against 0`, "telemetry"},
		{`PushTelemetry v0: push telemetry, its own, terminating false, codec 0.ErrorCode: 87 against 42`, ""},
		{`Fetch v0: push telemetry.ErrorCode: 87 against 0`, ""},
		{`DescribeConfigs v0: describe ["flush.ms"] of a.Resources[0].Configs."flush.ms".IsDefault: true against false`, ""},
		{`no difference at all`, ""},
	} {
		got := ""
		if d := Find(c.text); d != nil {
			got = d.Cites()
		}
		if got != c.want {
			t.Errorf("%s: explained by %q, want %q", c.text, got, c.want)
		}
	}
}

// TestExplainedBesideOld: what Kafka 3.9 does otherwise explains nothing beside 4.
func TestExplainedBesideOld(t *testing.T) {
	for text, want := range map[string]bool{
		`DescribeConfigs v0: describe ["flush.ms"] of a.Resources[0].Configs."flush.ms".IsDefault: true against false`:    true,
		`DescribeConfigs v0: describe ["flush.ms"] of a.Resources[0].Configs."flush.ms".IsDefault: false against true`:    false,
		`Fetch v3: fetch a/0.Topics[0].Partitions[0].RecordBatches: [] against null`:                                      true,
		`Fetch v3: fetch a/0.Topics[0].Partitions[0].RecordBatches: 2 elements against 1: [] against []`:                  false,
		`OffsetCommit v1: commit to g1 generation 0 member "" for 1: [].Topics[0].Partitions[0].ErrorCode: 25 against 22`: true,
		`OffsetCommit v1: commit to g1 generation 0 member "" for 1: [].Topics[0].Partitions[0].ErrorCode: 22 against 25`: false,
		`PushTelemetry v0: push telemetry.ErrorCode: 87 against 0`:                                                        true,
	} {
		if (FindOld(text) != nil) != want {
			t.Errorf("%s: %v", text, FindOld(text))
		}
		if d := Find(text); d != nil && d.Old {
			t.Errorf("%s: explained beside 4 by %s", text, d.Why)
		}
	}
}
