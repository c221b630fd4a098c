package config

import "strings"

// notProperties are KAFKA_ variables that tune a JVM or the image, and no
// property of the broker.
var notProperties = []string{
	"KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
	"KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS",
	"KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
}

// MergeEnvironment lays environment variables (NAME=value) over properties, as
// Kafka's container image does: KAFKA_LOG_DIRS is log.dirs, two underscores are
// one, three are a dash (KIP-974). Advertised listeners that come from the
// environment, while no listeners are set at all, are listened on by every
// interface.
func MergeEnvironment(props map[string]string, environ []string) {
	for _, variable := range environ {
		name, v, ok := strings.Cut(variable, "=")
		if !ok || contains(notProperties, name) {
			continue
		}
		if key := propertyName(name); key != "" {
			props[key] = v
			if _, set := props["listeners"]; key == "advertised.listeners" && !set {
				defer deriveListeners(props)
			}
		}
	}
}

// propertyName is the property that a variable stands for, "" if none.
func propertyName(variable string) string {
	name, ok := strings.CutPrefix(variable, "KAFKA_")
	if !ok {
		return ""
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", ".")
	name = strings.ReplaceAll(name, "...", "-")
	return strings.ReplaceAll(name, "..", "_")
}

func deriveListeners(props map[string]string) {
	if _, set := props["listeners"]; set {
		return
	}
	var derived []string
	for _, entry := range SplitList(props["advertised.listeners"]) {
		l, ok := parseListener(entry)
		if !ok {
			return // the entry itself is what gets refused
		}
		l.Host = "0.0.0.0"
		derived = append(derived, l.String())
	}
	props["listeners"] = strings.Join(derived, ",")
}
