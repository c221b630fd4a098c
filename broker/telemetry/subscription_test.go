package telemetry

import "testing"

// TestPatterns: patterns are split as Kafka splits them, and of two for one thing
// the last counts.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		match, client string
		fits          bool
	}{
		{"client_id=a", "a", true},
		{"client_id=a", "ab", false},
		{"client_id=a==", "a", true},
		{" client_id = a ", "a", true},
		{"client_id=a,client_id=b", "a", false},
		{"client_id=a,client_id=b", "b", true},
		{"client_id=a,client_software_name=b", "a", false},
	} {
		s, err := Parse("s", "*", "", c.match)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.fits(ID{}, &Client{ClientID: c.client}); got != c.fits {
			t.Errorf("%q for client %q: %v", c.match, c.client, got)
		}
	}
}
