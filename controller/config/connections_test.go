package config

import (
	"strings"
	"testing"
)

// A broker that would take a connection from nobody does not start.
func TestConnectionsFromNobody(t *testing.T) {
	if _, _, err := ParseStatic(map[string]string{"max.connections.per.ip": "0"}); err == nil || !strings.Contains(err.Error(), "set to zero only if") {
		t.Errorf("no connections from any address: %v", err)
	}
	if _, _, err := ParseStatic(map[string]string{"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}); err != nil {
		t.Errorf("with an exception: %v", err)
	}
}

// Each thread of the cleaner has a part of the buffer.
func TestCleanerThreadsHaveRoom(t *testing.T) {
	for threads, good := range map[string]bool{"127": true, "128": false} {
		if _, _, err := ParseStatic(map[string]string{"log.cleaner.threads": threads}); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "1MB per cleaner thread") {
			t.Errorf("%s threads: %v", threads, err)
		}
	}
}
