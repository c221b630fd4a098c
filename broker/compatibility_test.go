package broker

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/explained"
	"millrace/compat-tests/ledger"
	"millrace/controller/state"
)

var update = flag.Bool("update", false, "write docs/compatibility.md anew")

const (
	compatibilityPage = "../" + ledger.Page
	compatibilityFile = "../" + ledger.File
)

// kafkaAPI is what Kafka has under a key.
type kafkaAPI struct {
	key       int16
	name      string
	listeners string // "-" for none
	min, max  int16  // -1 for none
}

func kafkaAPIs(t *testing.T) []kafkaAPI {
	t.Helper()
	raw, err := os.ReadFile("testdata/kafka-apis.tsv")
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int16 {
		if s == "-" {
			return -1
		}
		n, err := strconv.ParseInt(s, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		return int16(n)
	}
	var out []kafkaAPI
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 5 {
			t.Fatalf("%q has %d fields", line, len(f))
		}
		out = append(out, kafkaAPI{number(f[0]), f[1], f[2], number(f[3]), number(f[4])})
	}
	return out
}

// waits says, for each API of Kafka's that is not served, or not on every
// listener, what it waits for; and why versions are left out.
var waits = map[int16]string{
	1: "a controller's Fetch is KRaft's own replication, in whose place raft's own messages agree on the metadata",
	4: "removed in Kafka 4.0", 5: "removed in Kafka 4.0", 6: "removed in Kafka 4.0", 7: "removed in Kafka 4.0",
	17: "SASL", 36: "SASL", 38: "delegation tokens", 39: "delegation tokens", 40: "delegation tokens", 41: "delegation tokens",
	24: "transactions", 25: "transactions", 26: "transactions", 27: "transactions", 28: "transactions", 65: "transactions", 66: "transactions",
	48: "client quotas", 49: "client quotas", 50: "SCRAM users", 51: "SCRAM users",
	52: "nothing: raft's own messages agree on the metadata", 53: "nothing: raft's own messages agree on the metadata", 54: "nothing: raft's own messages agree on the metadata", 59: "nothing: raft's own messages agree on the metadata",
	56: "several brokers in one cluster", 58: "several brokers in one cluster", 62: "several brokers in one cluster", 63: "several brokers in one cluster",
	67: "several brokers in one cluster", 70: "several brokers in one cluster", 73: "several brokers in one cluster",
	80: "several controllers in one cluster", 81: "several controllers in one cluster", 82: "several controllers in one cluster", 94: "several controllers in one cluster",
	68: "next-generation groups (KIP-848)", 69: "next-generation groups (KIP-848)",
	76: "share groups", 77: "share groups", 78: "share groups", 79: "share groups", 83: "share groups", 84: "share groups", 85: "share groups", 86: "share groups",
	87: "share groups", 90: "share groups", 91: "share groups", 92: "share groups",
	88: "streams groups", 89: "streams groups", 93: "streams groups",
}

func listenersOf(k listenerKind) string {
	switch k {
	case onBroker:
		return "broker"
	case onController:
		return "controller"
	}
	return "broker, controller"
}

func versions(low, high int16) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// servedVersions is every version of every API in the table, as the ledger
// names them.
func servedVersions() []ledger.API {
	var out []ledger.API
	for i := range table {
		a := &table[i]
		for v := a.min; v <= a.max; v++ {
			out = append(out, ledger.API{Key: int16(a.key), Name: kmsg.NameForKey(int16(a.key)), Version: v})
		}
	}
	return out
}

// compatibility is the page, made of the table in apis.go and of what the ledger
// has.
func compatibility(t *testing.T, figures *ledger.Ledger) []byte {
	var served, unserved bytes.Buffer
	known := map[int16]bool{}
	for _, k := range kafkaAPIs(t) {
		known[k.key] = true
		why := waits[k.key]
		a := lookup(k.key)
		if a == nil {
			if why == "" {
				t.Errorf("%s (%d) is not served, and nothing says what it waits for", k.name, k.key)
			}
			if k.max < 0 {
				fmt.Fprintf(&unserved, "| %d | %s | | | %s |\n", k.key, k.name, why)
				continue
			}
			fmt.Fprintf(&unserved, "| %d | %s | %s | %s | %s |\n", k.key, k.name, k.listeners, versions(k.min, k.max), why)
			continue
		}
		whole := a.min == k.min && a.max == k.max && listenersOf(a.on) == k.listeners
		if whole != (why == "") {
			t.Errorf("%s (%d) is served on %q in %d-%d, Kafka's on %q in %d-%d; what is said of it: %q", k.name, k.key, listenersOf(a.on), a.min, a.max, k.listeners, k.min, k.max, why)
		}
		if a.max > k.max || a.on&onController != 0 && !strings.Contains(k.listeners, "controller") || a.on&onBroker != 0 && !strings.Contains(k.listeners, "broker") {
			t.Errorf("%s (%d) is served where or in versions that Kafka does not serve it", k.name, k.key)
		}
		fmt.Fprintf(&served, "| %d | %s | %s | %s | %s |\n", k.key, k.name, listenersOf(a.on), versions(a.min, a.max), why)
	}
	for i := range table {
		if !known[int16(table[i].key)] {
			t.Errorf("key %d is served and Kafka does not have it", table[i].key)
		}
	}
	page, err := os.ReadFile("testdata/compatibility.txt")
	if err != nil {
		t.Fatal(err)
	}
	if page, err = figures.Into(bytes.Replace(page, []byte("{{ledger}}\n"), ledger.Marks(), 1)); err != nil {
		t.Fatal(err)
	}
	var features bytes.Buffer
	for _, f := range state.SupportedFeatures() {
		fmt.Fprintf(&features, "| %s | %s |\n", f.Name, versions(f.Min, f.Max))
	}
	purposes, differences := explained.Lines()
	lines := func(list []string) []byte { return []byte(strings.Join(list, "\n") + "\n") }
	for mark, text := range map[string][]byte{"{{purposes}}\n": lines(purposes), "{{differences}}\n": lines(differences), "{{served}}\n": served.Bytes(), "{{unserved}}\n": unserved.Bytes(), "{{features}}\n": features.Bytes()} {
		if bytes.Count(page, []byte(mark)) != 1 {
			t.Fatalf("testdata/compatibility.txt has %s not once", mark)
		}
		page = bytes.Replace(page, []byte(mark), text, 1)
	}
	return page
}

// TestCompatibilityPage holds docs/compatibility.md to the table of APIs, to that
// of explained differences and to the ledger, and the ledger's lines to the table. With -update it writes the
// page, and makes the ledger's lines those of the table.
func TestCompatibilityPage(t *testing.T) {
	figures, err := ledger.Load(compatibilityFile)
	if err != nil {
		t.Fatal(err)
	}
	before := figures.JSON()
	figures.Serve(servedVersions())
	after := figures.JSON()
	want := compatibility(t, figures)
	if *update {
		for path, text := range map[string][]byte{compatibilityFile: after, compatibilityPage: want} {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before = after
	}
	have, err := os.ReadFile(compatibilityPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("%s has other versions than broker/apis.go: go test ./broker -run CompatibilityPage -update", compatibilityFile)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what broker/apis.go, broker/testdata, compat-tests/explained and %s make: go test ./broker -run CompatibilityPage -update", compatibilityPage, compatibilityFile)
	}
}
