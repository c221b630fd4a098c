package config

import (
	"fmt"
	"maps"
	"sort"
	"strconv"
	"strings"
)

// Static is a broker's own configuration: what server.properties and its
// overrides set, over the defaults. It does not change after ParseStatic.
type Static struct {
	set map[string]string // as written, without the blanks around
	net *network
}

// WithNodeID gives the same configuration for another node.id: the one that a
// data directory of this node's already bears.
func (s *Static) WithNodeID(id int32) (*Static, error) {
	props := maps.Clone(s.set)
	props["node.id"] = strconv.Itoa(int(id))
	changed, _, err := ParseStatic(props)
	return changed, err
}

// Warning is something in the configuration that does not stop the start.
type Warning struct {
	Key     string
	Message string
}

// ParseStatic checks properties and gives the configuration they make. Its error
// is one line that names the key; warnings come sorted by key.
func ParseStatic(props map[string]string) (*Static, []Warning, error) {
	s := &Static{set: make(map[string]string, len(props))}
	names := make([]string, 0, len(props))
	// any order: they are sorted below.
	for name, v := range props {
		names = append(names, name)
		s.set[name] = strings.TrimFunc(v, javaBlank)
	}
	sort.Strings(names)
	if err := s.mergeIDs(); err != nil {
		return nil, nil, err
	}
	var warnings []Warning
	for _, name := range names {
		message, err := s.checkProperty(name)
		if err != nil {
			return nil, nil, err
		}
		if message != "" {
			warnings = append(warnings, Warning{Key: name, Message: message})
		}
	}
	n, err := s.parseNetwork()
	if err != nil {
		return nil, nil, err
	}
	s.net = n
	if overrides, _ := s.Set("max.connections.per.ip.overrides"); s.Int("max.connections.per.ip") == 0 && strings.TrimSpace(overrides) == "" {
		return nil, nil, &Error{Message: "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."}
	}
	if threads := int64(s.Int("log.cleaner.threads")); threads > 0 && s.Long("log.cleaner.dedupe.buffer.size")/threads <= 1<<20 {
		return nil, nil, &Error{Message: "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."}
	}
	return s, warnings, nil
}

// mergeIDs makes node.id and broker.id, its older name, one (KIP-1232).
func (s *Static) mergeIDs() error {
	node, hasNode := s.set["node.id"]
	broker, hasBroker := s.set["broker.id"]
	switch {
	case hasNode && hasBroker && node != broker:
		return &Error{Message: fmt.Sprintf("You must set `node.id` to the same value as `broker.id`: %s and %s", node, broker)}
	case hasNode:
		s.set["broker.id"] = node
	case hasBroker:
		s.set["node.id"] = broker
	}
	return nil
}

// checkProperty judges one property: an error stops the start, a message is
// worth a warning.
func (s *Static) checkProperty(name string) (string, error) {
	v := s.set[name]
	if err := RefusedProtection(name, v); err != nil {
		return "", err
	}
	k, ok := Find(BrokerScope, name)
	if !ok {
		return unknownProperty(name), nil
	}
	if k.DynamicOnly {
		return "can only be set on a running broker; ignored here", nil
	}
	if err := k.Check(v); err != nil {
		return "", err
	}
	if err := checkHeirs(name, v); err != nil {
		return "", err
	}
	return k.withoutEffect(), nil
}

func (k *Key) withoutEffect() string {
	switch k.Effect {
	case NoEffect:
		return "has no effect: " + k.Reason
	case Waiting:
		return "has no effect yet: it waits for " + k.Reason
	}
	return ""
}

// WithoutEffect says why a config that was set while the broker runs changes
// nothing; "" where it does what Kafka documents.
func WithoutEffect(s Scope, name string) string {
	if k, ok := Find(s, name); ok {
		return k.withoutEffect()
	}
	if s == BrokerScope {
		return unknownProperty(name)
	}
	return ""
}

// RefusedProtection is an error if the config asks for protection that is not
// there: leaving it out silently would open what was meant to be closed. It
// holds for static configs and for changes on a running broker. A config that
// only tunes protection (a time, a size) asks for none and is no error.
func RefusedProtection(name, value string) error {
	base := name
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		// listener.name.<listener>.<key>, or with a mechanism before the key.
		for _, p := range []string{".ssl.", ".sasl."} {
			if i := strings.Index("."+rest, p); i >= 0 {
				base = ("." + rest)[i+1:]
			}
		}
		if strings.HasSuffix(name, ".connections.max.reauth.ms") {
			base = "connections.max.reauth.ms"
		}
	}
	k, known := Find(BrokerScope, base)
	if known && k.Effect != Refused {
		return nil
	}
	reason := ""
	switch {
	case base == "ssl.client.auth" && strings.TrimFunc(value, javaBlank) == "none":
		return nil
	case strings.HasPrefix(base, "ssl."):
		reason = "TLS"
	case strings.HasPrefix(base, "sasl."):
		reason = "SASL"
	case !known:
		return nil
	default:
		if v := strings.TrimFunc(value, javaBlank); v == "" || !k.Null && v == k.Default {
			return nil
		}
		reason = k.Reason
	}
	return &Error{Message: fmt.Sprintf("%s asks for %s, which is not available; remove it to run without", name, reason)}
}

// removed are configs of earlier Kafka versions, which configuration files still
// carry; Kafka 4 ignores them.
var removed = []string{
	"broker.id.generation.enable", "control.plane.listener.name", "group.coordinator.new.enable",
	"inter.broker.protocol.version", "log.message.downconversion.enable", "log.message.format.version",
	"log.message.timestamp.difference.max.ms", "offsets.commit.required.acks", "password.encoder.secret",
	"reserved.broker.max.id", "zookeeper.connect", "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms",
}

// replaced are configs that went with Kafka 3.0 and whose work another one does.
var replaced = map[string]string{
	"host.name": "listeners", "port": "listeners",
	"advertised.host.name": "advertised.listeners", "advertised.port": "advertised.listeners",
}

func unknownProperty(name string) string {
	if by, ok := replaced[name]; ok {
		return "was removed in Kafka 3.0; ignored (" + by + " has taken its place)"
	}
	if contains(removed, name) || strings.HasPrefix(name, "zookeeper.") || strings.HasPrefix(name, "password.encoder.") {
		return "was removed in Kafka 4.0; ignored"
	}
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		_, key, _ := strings.Cut(rest, ".")
		if key == "max.connections" || key == "max.connection.creation.rate" {
			return ""
		}
		if _, known := Find(BrokerScope, key); known {
			return "has no effect yet: it waits for configs of single listeners"
		}
	}
	if strings.HasPrefix(name, "rsm.config.") || strings.HasPrefix(name, "rlmm.config.") {
		return "has no effect yet: it waits for tiered storage"
	}
	for _, s := range []Scope{TopicScope, GroupScope, ClientMetricsScope} {
		k, known := Find(s, name)
		if !known {
			continue
		}
		text := fmt.Sprintf("is a %s config and no broker config; ignored", s)
		if behind := k.SynonymNames(); len(behind) > 0 {
			text += fmt.Sprintf(" (for every %s that does not set it: %s)", s, behind[0])
		}
		return text
	}
	if near := Nearest(BrokerScope, name); near != "" {
		return fmt.Sprintf("is not a broker config; ignored (did you mean %s?)", near)
	}
	return "is not a broker config; ignored"
}

// Set gives what was set for a name, known or not.
func (s *Static) Set(name string) (string, bool) {
	if s == nil {
		return "", false
	}
	v, ok := s.set[name]
	return v, ok
}

// Names gives the names that were set, sorted.
func (s *Static) Names() []string {
	names := make([]string, 0, len(s.set))
	// any order: they are sorted below.
	for name := range s.set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// value gives the parsed value of a broker config. A name or a type that the
// catalogue does not have is a mistake in this program.
func (s *Static) value(name string, types ...Type) (v value, null bool) {
	k, ok := Find(BrokerScope, name)
	if !ok {
		panic("config: no broker config is named " + name)
	}
	fits := false
	for _, t := range types {
		fits = fits || t == k.Type
	}
	if !fits {
		panic(fmt.Sprintf("config: %s is of type %s, and was asked for as another", name, k.Type.Name()))
	}
	text, set := s.Set(name)
	if !set {
		if k.Null {
			return value{typ: k.Type}, true
		}
		text = k.Default
	}
	v, err := k.parse(text)
	if err != nil {
		panic(fmt.Sprintf("config: %s holds %q past its check: %v", name, text, err))
	}
	return v, false
}

// String is a value of any type, as Kafka shows it; "" for null.
func (s *Static) String(name string) string {
	v, null := s.value(name, Boolean, String, Int, Short, Long, Double, List, Class, Password)
	if null {
		return ""
	}
	return v.String()
}

// Int is an int's or short's value; 0 for null.
func (s *Static) Int(name string) int32 {
	v, _ := s.value(name, Int, Short)
	return int32(v.num)
}

// Long is a long's, int's or short's value; 0 for null.
func (s *Static) Long(name string) int64 {
	v, _ := s.value(name, Long, Int, Short)
	return v.num
}

// Bool is a boolean's value.
func (s *Static) Bool(name string) bool {
	v, _ := s.value(name, Boolean)
	return v.num != 0
}

// Double is a double's value.
func (s *Static) Double(name string) float64 {
	v, _ := s.value(name, Double)
	return v.real
}

// List is a list's value; nil for null and for the empty list.
func (s *Static) List(name string) []string {
	v, _ := s.value(name, List)
	return v.list
}

// NodeID is node.id.
func (s *Static) NodeID() int32 { return s.Int("node.id") }

// Rack is broker.rack, nil if not set.
func (s *Static) Rack() *string {
	v, ok := s.Set("broker.rack")
	if !ok {
		return nil
	}
	return &v
}

// LogDirs are the data directories: log.dirs, else log.dir, else the default.
func (s *Static) LogDirs() []string {
	if _, set := s.Set("log.dirs"); !set {
		if _, set := s.Set("log.dir"); set {
			return s.List("log.dir")
		}
	}
	return s.List("log.dirs")
}

// MetadataLogDir is where the cluster's metadata lies: metadata.log.dir, else
// the first data directory.
func (s *Static) MetadataLogDir() string {
	if v, set := s.Set("metadata.log.dir"); set && v != "" {
		return v
	}
	return s.LogDirs()[0]
}

// Listeners are the addresses to bind, controllers' among them.
func (s *Static) Listeners() []Listener { return s.net.listeners }

// Advertised are the addresses to tell clients, nil if they are to be told the
// one they connected to. An entry with an empty host asks for the same.
func (s *Static) Advertised() []Listener { return s.net.advertised }

// InterBrokerListener is the name of the listener that brokers talk over.
func (s *Static) InterBrokerListener() string { return s.net.interBroker }

// ControllerListeners are the names in controller.listener.names, in upper case.
func (s *Static) ControllerListeners() []string { return s.net.controllers }

// Voters are controller.quorum.voters.
func (s *Static) Voters() []Voter { return s.net.voters }

// BootstrapServers are controller.quorum.bootstrap.servers.
func (s *Static) BootstrapServers() []Address { return s.net.bootstrap }

// ReplicationFactor is the value of a replication factor config, or, if it was
// not set, what so many live brokers can hold: at most three, at least one.
func (s *Static) ReplicationFactor(name string, live int) int16 {
	if _, set := s.Set(name); set {
		return int16(s.Int(name))
	}
	return int16(max(1, min(3, live)))
}
