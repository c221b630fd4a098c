package normal

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
)

// TestCutBatches: of a batch that is cut it is told how much is there, but where its length is its compressor's choice.
func TestCutBatches(t *testing.T) {
	b := make([]byte, 100)
	binary.BigEndian.PutUint64(b, 7)
	binary.BigEndian.PutUint32(b[8:], 200)
	b[16] = 2
	for codec, want := range map[byte]string{0: "[cut in the batch at offset 7: 100 of 212 bytes]", 3: "[cut in the compressed batch at offset 7]"} {
		b[22] = codec
		if got := fmt.Sprint(New("run-", "play-").Batches(reflect.ValueOf(b))); got != want {
			t.Errorf("codec %d: %s, want %s", codec, got, want)
		}
	}
}
