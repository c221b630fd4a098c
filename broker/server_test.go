package broker

import (
	"testing"

	"millrace/controller/config"
)

// The system chooses the sizes of socket buffers unless somebody has: Kafka's
// defaults keep it from growing them.
func TestSocketBuffersOfTheSystem(t *testing.T) {
	for _, name := range []string{"socket.send.buffer.bytes", "socket.receive.buffer.bytes"} {
		for value, want := range map[string]int{"": 0, "102400": 102400, "-1": -1, "4096": 4096} {
			set := map[string]string{}
			if value != "" {
				set[name] = value
			}
			static, _, err := config.ParseStatic(set)
			if err != nil {
				t.Fatal(err)
			}
			if got := (&Broker{config: static}).socketBuffer(name); got != want {
				t.Errorf("%s=%s makes buffers of %d bytes, want %d", name, value, got, want)
			}
		}
	}
}
