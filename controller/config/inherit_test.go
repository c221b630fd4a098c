package config

import (
	"strings"
	"testing"
)

// What a broker config may be, every topic that inherits it must be able to be:
// a topic config that does not hold would stop the broker at every start.
func TestInheritedValuesHold(t *testing.T) {
	values := []string{
		"-9223372036854775808", "-2147483648", "-131072", "-6", "-5", "-3", "-2", "-1", "0", "1", "2", "3", "4", "1023", "1048576",
		"2147483639", "2147483640", "2147483647", "9223372036854775807", "-0.5", "0.5", "1.5", "NaN", "Infinity",
		"", ",", "true", "false", "gzip", "producer", "delete", "compact", "compact,delete", "delete,delete", "CreateTime", "LogAppendTime",
	}
	tried := 0
	for i := range topicKeys {
		for _, name := range topicKeys[i].SynonymNames() {
			for _, v := range values {
				static, _, err := ParseStatic(map[string]string{name: v})
				if err == nil {
					tried++
					if _, err := Topic(static, nil, nil, nil); err != nil {
						t.Errorf("a start with %s=%q is let through: %v", name, v, err)
					}
				}
				plain, _, _ := ParseStatic(nil)
				if plain.CheckBroker(name, &v, true) == nil {
					tried++
					dynamic := func(asked string) (string, bool) { return v, asked == name }
					if _, err := Topic(plain, dynamic, nil, nil); err != nil {
						t.Errorf("a change to %s=%q is let through: %v", name, v, err)
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d values passed the checks", tried)
	}
}

func TestInheritedValueIsRefusedInTheTopicsWords(t *testing.T) {
	const want = "Invalid value -1 for configuration flush.ms: Value must be at least 0"
	_, _, err := ParseStatic(map[string]string{"log.flush.interval.ms": "-1"})
	if err == nil || err.Error() != want {
		t.Errorf("at a start: %v", err)
	}
	v := "-1"
	plain, _, _ := ParseStatic(nil)
	err = plain.CheckBroker("log.flush.interval.ms", &v, true)
	if e, ok := err.(*Error); !ok || !e.Request || !strings.Contains(e.Message, want) {
		t.Errorf("on a running broker: %v", err)
	}
}
