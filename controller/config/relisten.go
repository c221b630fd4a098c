package config

import (
	"fmt"
	"maps"
)

// listenerKeys are the configs of listeners that can be set for one running
// broker (KIP-226).
var listenerKeys = []string{"listeners", "listener.security.protocol.map"}

// WithListeners gives the configuration with the listeners that a broker's own
// dynamic configs say; it is the same one if they say nothing of them.
func (s *Static) WithListeners(own Lookup) (*Static, error) {
	props := maps.Clone(s.set)
	set := false
	for _, name := range listenerKeys {
		if v, ok := own.get(name); ok {
			props[name], set = v, true
		}
	}
	if !set {
		return s, nil
	}
	changed, _, err := ParseStatic(props)
	return changed, err
}

// CheckListeners says whether a broker's own dynamic configs may go from now to
// after, as far as listeners are concerned: they must make a configuration that
// could be started with, and what a listener is protected by cannot change.
func (s *Static) CheckListeners(now, after Lookup) error {
	if sameListeners(now, after) {
		return nil
	}
	wanted, err := s.WithListeners(after)
	if err != nil {
		return err
	}
	present, err := s.WithListeners(now)
	if err != nil {
		return nil // whatever is wanted is better than that
	}
	for _, l := range wanted.net.listeners {
		for _, old := range present.net.listeners {
			if l.Name == old.Name && l.Protocol != old.Protocol {
				return &Error{Message: fmt.Sprintf("Security protocol cannot be updated for existing listener %s", l.Name)}
			}
		}
	}
	return nil
}

func sameListeners(a, b Lookup) bool {
	for _, name := range listenerKeys {
		x, setX := a.get(name)
		y, setY := b.get(name)
		if x != y || setX != setY {
			return false
		}
	}
	return true
}
