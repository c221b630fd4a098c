package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/storage/log"
)

// TestCodesOfDamage: who asks for what cannot be read is told that, and who writes to a log that is out of use what he is told
// when the disk fails.
func TestCodesOfDamage(t *testing.T) {
	corrupt := &log.CorruptError{Why: "150 bytes are left"}
	for _, c := range []struct {
		err  error
		want *kerr.Error
	}{
		{fmt.Errorf("segment 0: %w", corrupt), kerr.CorruptMessage},
		{&log.UnusableError{Op: "truncation", Err: corrupt}, kerr.KafkaStorageError},
		{fmt.Errorf("roll: %w", &log.NotFileError{Path: "/d"}), kerr.KafkaStorageError},
	} {
		if got := codeOf(c.err); got != c.want.Code {
			t.Errorf("%v is answered with %v", c.err, kerr.ErrorForCode(got))
		}
	}
}
