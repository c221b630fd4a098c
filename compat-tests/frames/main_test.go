//go:build compat

package frames

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more cases run together than there are processors, as they
// mostly wait for an answer or a timeout.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "16")
	}
	os.Exit(m.Run())
}
