package config

import (
	"regexp"
	"strings"
)

// notProperties are KAFKA_ variables that tune a JVM or the image, and no
// property of the broker.
var notProperties = []string{
	"KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
	"KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS",
	"KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
}

// Variable is an environment variable that was taken for a property.
type Variable struct {
	Name string // KAFKA_LOG_DIRS
	Key  string // log.dirs
}

// MergeEnvironment lays environment variables (NAME=value) over properties, as
// Kafka's container image does: KAFKA_LOG_DIRS is log.dirs, two underscores are
// one, three are a dash (KIP-974); and it lists what it took, in their order.
// Unlike there, what no variable names keeps its value. Advertised listeners
// that come from the environment, while no listeners are set at all, are
// listened on by every interface.
func MergeEnvironment(props map[string]string, environ []string) []Variable {
	var taken []Variable
	var advertised string
	for _, variable := range environ {
		name, v, ok := strings.Cut(variable, "=")
		if !ok || contains(notProperties, name) || serviceLink(name, v) {
			continue
		}
		key := propertyName(name)
		if key == "" {
			continue
		}
		if key == "advertised.listeners" {
			v = strings.TrimSuffix(v, ",") // start scripts append what may be nothing
		}
		props[key] = v
		taken = append(taken, Variable{Name: name, Key: key})
		if key == "advertised.listeners" {
			advertised = name
		}
	}
	if advertised != "" && deriveListeners(props) {
		taken = append(taken, Variable{Name: advertised, Key: "listeners"})
	}
	return taken
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

// VariableName is the variable that stands for a property.
func VariableName(key string) string {
	name := strings.ReplaceAll(key, "_", "__")
	name = strings.ReplaceAll(name, "-", "___")
	return "KAFKA_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// serviceLinks are the names of the variables that Kubernetes puts beside every
// container of a namespace for a service called kafka, or kafka-something, and
// Docker for a container that is linked by such a name.
var serviceLinks = regexp.MustCompile(`^KAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)$|^KAFKA_(\w+_)?ENV_\w+$`)

// serviceLink says whether a variable is one of those. They look like properties
// and are none. KAFKA_PORT and KAFKA_NAME are told by their values: people set
// the first, meaning the port of the broker.
func serviceLink(name, value string) bool {
	switch {
	case serviceLinks.MatchString(name):
		return true
	case !strings.HasPrefix(name, "KAFKA_"):
		return false
	case strings.HasSuffix(name, "_PORT"):
		protocol, _, ok := strings.Cut(value, "://")
		return ok && (protocol == "tcp" || protocol == "udp" || protocol == "sctp")
	case strings.HasSuffix(name, "_NAME"):
		return strings.HasPrefix(value, "/") && strings.Count(value, "/") == 2
	}
	return false
}

func deriveListeners(props map[string]string) bool {
	if _, set := props["listeners"]; set {
		return false
	}
	var derived []string
	for _, entry := range SplitList(props["advertised.listeners"]) {
		l, ok := parseListener(entry)
		if !ok {
			return false // the entry itself is what gets refused
		}
		l.Host = "0.0.0.0"
		derived = append(derived, l.String())
	}
	props["listeners"] = strings.Join(derived, ",")
	return true
}
