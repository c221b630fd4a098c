package check_test

import (
	"strings"
	"testing"
)

// TestKafkasOrderOfRemoval: where an exchange has begun, a segment that is replaced may have gone before its indexes, as with
// Apache Kafka; the next start drops these.
func TestKafkasOrderOfRemoval(t *testing.T) {
	fs := written(t, false)
	entries, err := fs.ReadDir(dir + "/v-0")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, e := range entries {
		index, ok := strings.CutSuffix(e.Name, ".index.deleted")
		if !ok {
			continue
		}
		tried++
		if err := fs.Rename(dir+"/v-0/"+e.Name, dir+"/v-0/"+index+".index"); err != nil {
			t.Fatal(err)
		}
		if r := report(t, fs); !r.Sound() {
			t.Errorf("with %s.index: %v", index, r.All())
		}
	}
	if tried < 2 {
		t.Fatalf("%d segments were replaced", tried)
	}
}
