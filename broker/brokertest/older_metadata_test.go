package brokertest

import (
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zapcore"
)

// TestOlderMetadata: that the metadata are older than the logs is told in one line, once, with how many of these there are;
// a start with the newest says nothing.
func TestOlderMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, nil)
		defer n.End()
		lines := n.Observe(zapcore.ErrorLevel)
		n.Start()
		cl := n.Client()
		makeTopic(t, n, cl, "t", 2)
		writeEach(t, n, "t", 2)
		n.Stop()
		older := n.Metadata()
		for range 3 {
			n.Start()
			writeEach(t, n, "t", 2)
			n.Stop()
		}
		if lines.Len() > 0 {
			t.Fatalf("the newest metadata: %v", lines.All())
		}
		older()
		n.Start()
		told := lines.FilterMessageSnippet("the metadata are an older copy").All()
		if len(told) != 1 || lines.Len() != 1 {
			t.Fatalf("older metadata: %v", lines.All())
		}
		if m := told[0].ContextMap(); m["partitions"] != int64(2) || !strings.Contains(m["names"].(string), "t-0, t-1") {
			t.Errorf("it says %v", m)
		}
		writeEach(t, n, "t", 2)
	})
}
