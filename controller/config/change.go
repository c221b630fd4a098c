package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Op is an operation of IncrementalAlterConfigs (KIP-339).
type Op int8

const (
	OpSet      Op = 0
	OpDelete   Op = 1
	OpAppend   Op = 2
	OpSubtract Op = 3
)

// maxLength is the longest value that is stored, in UTF-16 units.
const maxLength = 32767

// CheckLength judges how long a value is that is to be stored, whatever of.
func CheckLength(value string) error {
	if len(value) > maxLength && len(utf16.Encode([]rune(value))) > maxLength {
		return &Error{Message: fmt.Sprintf("The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", maxLength)}
	}
	return nil
}

// ListOp gives the value after APPEND or SUBTRACT of items: current is what the
// resource itself holds, or what it inherits if it holds nothing. APPEND leaves
// out what is there already, SUBTRACT takes an item out once; of what is absent it
// changes nothing. Items are compared as they are written, blanks included, and to
// append nothing is to append an item that is empty, as in Kafka. k is nil for a
// config that the catalogue does not know.
func ListOp(k *Key, name string, op Op, current, items string) (string, error) {
	if k == nil || k.Type != List {
		return "", &Error{Message: fmt.Sprintf("Can't %s to key %s because its type is not LIST.", opName(op), name)}
	}
	list := slices.DeleteFunc(javaSplit(current, ","), func(item string) bool { return item == "" })
	switch op {
	case OpAppend:
		there := map[string]bool{}
		for _, item := range list {
			there[item] = true
		}
		for _, item := range javaSplit(items, ",") {
			if !there[item] {
				there[item] = true
				list = append(list, item)
			}
		}
	case OpSubtract:
		away := map[string]int{}
		for _, item := range javaSplit(items, ",") {
			away[item]++
		}
		list = slices.DeleteFunc(list, func(item string) bool {
			away[item]--
			return away[item] >= 0
		})
	default:
		return "", &Error{Message: fmt.Sprintf("Unknown operation %d on key %s", op, name), Request: true}
	}
	return strings.Join(list, ","), nil
}

// javaSplit cuts a text as Java's String.split does: empty parts at the end are left
// out, but a text without the separator is one part, even if it is empty.
func javaSplit(s, separator string) []string {
	if s == "" {
		return []string{""}
	}
	parts := strings.Split(s, separator)
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

func opName(op Op) string {
	switch op {
	case OpAppend:
		return "APPEND"
	case OpSubtract:
		return "SUBTRACT"
	case OpSet:
		return "SET"
	}
	return "DELETE"
}

// CheckTopic judges all that a topic sets itself: each value, and how they fit
// together. own are the names it sets, in the order to check them in.
func CheckTopic(st *Static, defaultDyn, brokerDyn, topic Lookup, own []string) error {
	for _, name := range own {
		k, ok := Find(TopicScope, name)
		if !ok {
			return &Error{Message: "Unknown topic config name: " + name}
		}
		v, _ := topic.get(name)
		if err := k.Check(v); err != nil {
			return err
		}
	}
	c, err := Topic(st, defaultDyn, brokerDyn, topic)
	if err != nil {
		return &Error{Message: err.Error()}
	}
	if c.MinCompactionLagMs > c.MaxCompactionLagMs {
		return &Error{Message: fmt.Sprintf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", c.MinCompactionLagMs, c.MaxCompactionLagMs)}
	}
	if c.RemoteStorageEnable {
		return &Error{Message: "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."}
	}
	return nil
}

// listenerOf splits listener.name.<listener>.<key>; false if a config is of no
// listener.
func listenerOf(name string) (listener, key string, ok bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", name, false
	}
	listener, key, ok = strings.Cut(rest, ".")
	if !ok {
		return "", name, false
	}
	return listener, key, true
}

// ofAllListeners are the configs that the cluster's defaults may give a listener.
var ofAllListeners = []string{"max.connections", "max.connection.creation.rate", "num.network.threads"}

// CheckBroker judges a change of a running broker's config. A nil value deletes
// it; clusterDefault says that the change is to the default of all brokers. A
// config that the catalogue does not know is accepted, as in Kafka, and so is one of a
// listener that is not there, or that no listener has of its own, if its type is right.
func (s *Static) CheckBroker(name string, value *string, clusterDefault bool) error {
	listener, base, prefixed := listenerOf(name)
	if value == nil {
		return nil // Kafka judges what would be set then
	}
	k, ok := Find(BrokerScope, base)
	if ok && k.Update == ReadOnly && !prefixed {
		return &Error{Message: fmt.Sprintf("Cannot update these configs dynamically: [%s]", name), Request: true}
	}
	if err := RefusedProtection(name, *value); err != nil {
		return &Error{Message: err.Error(), Request: true}
	}
	if clusterDefault && (prefixed && !slices.Contains(ofAllListeners, base) || !prefixed && ok && k.Update == PerBroker) {
		return &Error{Message: fmt.Sprintf("Cannot update these configs at default cluster level, broker id must be specified: [%s]", name), Request: true}
	}
	if !ok {
		return nil
	}
	check, here := s.checkOne, true
	if prefixed {
		check, here = s.checkOfListener, s.listens(listener)
	}
	if err := check(k, *value, here); err != nil {
		return &Error{Message: err.Error(), Request: true}
	}
	if v, _ := k.parse(*value); here && v.num <= 0 && (base == "max.connections" || base == "max.connection.creation.rate") {
		return &Error{Message: fmt.Sprintf("Invalid %s %d", base, v.num), Request: true}
	}
	return nil
}

// checkOne judges a value that the broker is to have.
func (s *Static) checkOne(k *Key, value string, _ bool) error {
	if err := k.Check(value); err != nil {
		return err
	}
	if err := checkHeirs(k.Name, value); err != nil {
		return err
	}
	if k.Name == "metric.reporters" && k.Canonical(value) != k.Default && strings.TrimFunc(value, javaBlank) != "" {
		return invalid(k.Name, value, "Class could not be found.")
	}
	return nil
}

// checkOfListener judges one that a listener is to have, which the broker's own
// requirements say nothing of. What cannot change on a running broker is looked at
// only for a listener that is there.
func (s *Static) checkOfListener(k *Key, value string, here bool) error {
	if k.Update == ReadOnly && !here {
		return nil
	}
	v, err := k.parse(value)
	if err == nil {
		err = k.follow(v)
	}
	if err == nil && k.Name == "principal.builder.class" {
		err = k.require(v) // no other class is there
	}
	return err
}

// listens says that the broker has a listener that configs call so: in lower case.
func (s *Static) listens(name string) bool {
	return slices.ContainsFunc(s.Listeners(), func(l Listener) bool { return strings.ToLower(l.Name) == name })
}

// groupLimits are the broker configs that bound a group config.
var groupLimits = []struct{ name, least, most string }{
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
}

// CheckGroup judges all that a group sets itself, against the broker's limits too.
func CheckGroup(st *Static, defaultDyn, brokerDyn, group Lookup, own []string) error {
	l := levels{st, defaultDyn, brokerDyn}
	for _, name := range own {
		k, ok := Find(GroupScope, name)
		if !ok {
			return &Error{Message: "Unknown group config name: " + name}
		}
		text, _ := group.get(name)
		v, err := k.parse(text)
		if err == nil {
			err = k.obey(v)
		}
		if err != nil {
			return err
		}
		for _, limit := range groupLimits {
			if limit.name != name {
				continue
			}
			if least, ok := l.number(limit.least); ok && v.num < least {
				return &Error{Message: fmt.Sprintf("%s must be greater than or equal to %s", name, limit.least)}
			}
			if most, ok := l.number(limit.most); ok && v.num > most {
				return &Error{Message: fmt.Sprintf("%s must be less than or equal to %s", name, limit.most)}
			}
		}
		if name == "streams.assignor.name" {
			assignors, _ := l.broker("group.streams.assignors")
			if list := SplitList(assignors); !contains(list, v.text) {
				return &Error{Message: fmt.Sprintf("%s '%s' is not a registered task assignor. Registered assignors are: [%s].", name, v.text, strings.Join(list, ", "))}
			}
		}
	}
	for _, protocol := range []string{"consumer", "share", "streams"} {
		session, okS := l.groupNumber(group, protocol+".session.timeout.ms")
		heartbeat, okH := l.groupNumber(group, protocol+".heartbeat.interval.ms")
		if okS && okH && session <= heartbeat {
			return &Error{Message: fmt.Sprintf("%s.session.timeout.ms must be greater than %s.heartbeat.interval.ms", protocol, protocol)}
		}
	}
	return nil
}

// number is the value of an int or long broker config.
func (l levels) number(name string) (int64, bool) {
	k, ok := Find(BrokerScope, name)
	if !ok {
		return 0, false
	}
	text, ok := l.broker(name)
	if !ok {
		return 0, false
	}
	v, err := k.parse(text)
	return v.num, err == nil
}

func (l levels) groupNumber(group Lookup, name string) (int64, bool) {
	k, ok := Find(GroupScope, name)
	if !ok {
		return 0, false
	}
	text, set := group.get(name)
	if !set {
		if text, set = l.inherited(k); !set {
			return 0, false
		}
	}
	v, err := k.parse(text)
	return v.num, err == nil
}

// CheckClientMetrics judges all that a client metrics subscription sets (KIP-714). As
// in Kafka each kind of fault is looked for in all configs before the next kind is:
// which of several is told of does not depend on their names.
func CheckClientMetrics(subscription Lookup, own []string) error {
	for _, name := range own {
		if _, ok := Find(ClientMetricsScope, name); !ok {
			return &Error{Message: "Unknown client metrics configuration: " + name, Request: true}
		}
	}
	values := map[string]value{}
	for _, name := range own {
		k, _ := Find(ClientMetricsScope, name)
		text, _ := subscription.get(name)
		v, err := k.parse(text)
		if err == nil && k.Type == List {
			err = k.distinct(v)
		}
		if err != nil {
			return err
		}
		values[name] = v
	}
	for _, name := range own {
		k, _ := Find(ClientMetricsScope, name)
		if v := values[name]; k.Rule.Kind == Between && (v.num < k.Rule.Min || v.num > k.Rule.Max) {
			return &Error{Message: fmt.Sprintf("Invalid value %s for %s, interval must be between %d and %d (1 hour)", v, name, k.Rule.Min, k.Rule.Max), Request: true}
		}
	}
	for _, name := range own {
		k, _ := Find(ClientMetricsScope, name)
		if k.Rule.Kind == Matches {
			if err := checkMatches(values[name].list); err != nil {
				return err
			}
		}
	}
	return nil
}

var matchKeys = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// checkMatches takes key=regex entries. Kafka's patterns are Java's; what Go
// cannot compile is refused here, as it could not be matched. Kafka splits an entry
// at each = and wants two parts, not counting empty ones at its end.
func checkMatches(list []string) error {
	for _, entry := range list {
		parts := javaSplit(entry, "=")
		ok := len(parts) == 2 && contains(matchKeys, strings.TrimFunc(parts[0], javaBlank))
		if ok {
			_, err := regexp.Compile(strings.TrimFunc(parts[1], javaBlank))
			ok = err == nil
		}
		if !ok {
			return &Error{Message: "Illegal client matching pattern: " + entry}
		}
	}
	return nil
}
