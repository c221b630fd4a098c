package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// require holds what Kafka demands of broker configs beyond the rules of its
// config definitions: the requirements of KafkaConfig.
func (k *Key) require(v value) error {
	switch k.Name {
	case "log.roll.ms":
		return k.atLeast(v, 1)
	case "log.roll.jitter.ms":
		return k.atLeast(v, 0)
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		if v.num == 0 {
			return &Error{Message: "requirement failed: log.retention.ms must be unlimited (-1) or, equal or greater than 1"}
		}
	case "log.cleaner.dedupe.buffer.size":
		if v.num <= 1024*1024 {
			return &Error{Message: "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."}
		}
	case "queued.max.request.bytes":
		if v.num <= 0 && v.num != -1 {
			return &Error{Message: "requirement failed: queued.max.request.bytes must be either -1 or a positive value"}
		}
	case "listener.security.protocol.map":
		_, err := protocolMap(v.text)
		return err
	case "listeners", "advertised.listeners":
		for _, entry := range v.list {
			if _, ok := parseListener(entry); !ok {
				return &Error{Message: fmt.Sprintf("Error creating broker listeners from '%s': Unable to parse %s to a broker endpoint: expected NAME://HOST:PORT", v, entry)}
			}
		}
	case "max.connections.per.ip.overrides":
		_, err := ParseIPOverrides(v.text)
		return err
	case "offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec":
		if v.num < 0 || v.num > 4 {
			return &Error{Message: fmt.Sprintf("Unknown compression type id: %d", v.num)}
		}
	case "principal.builder.class":
		if v.text != k.Default {
			return invalid(k.Name, v.text, fmt.Sprintf("Class %s could not be found.", v.text))
		}
	case "client.quota.callback.class", "replica.selector.class":
		if v.text != "" && v.text != k.Default && !strings.HasPrefix(v.text, "org.apache.kafka.") {
			return invalid(k.Name, v.text, fmt.Sprintf("Class %s could not be found.", v.text))
		}
	}
	return nil
}

func (k *Key) atLeast(v value, least int64) error {
	if v.num >= least {
		return nil
	}
	return &Error{Message: fmt.Sprintf("requirement failed: %s must be greater than or equal to %d", k.Name, least)}
}

// IPOverride is the limit of connections that one address has of its own.
type IPOverride struct {
	Host  string
	Limit int32
}

// ParseIPOverrides reads max.connections.per.ip.overrides.
func ParseIPOverrides(value string) ([]IPOverride, error) {
	const name = "max.connections.per.ip.overrides"
	var list []IPOverride
	for _, entry := range SplitList(value) {
		if entry == "" {
			continue
		}
		i := strings.LastIndexByte(entry, ':')
		if i <= 0 {
			return nil, &Error{Message: fmt.Sprintf("Error parsing configuration property '%s': %s is not of the form {address}:{limit}", name, entry)}
		}
		host := strings.TrimSuffix(strings.TrimPrefix(entry[:i], "["), "]")
		if a, err := netip.ParseAddr(host); err == nil {
			host = a.String()
		}
		n, err := strconv.ParseInt(strings.TrimFunc(entry[i+1:], javaBlank), 10, 32)
		if err != nil || n < 0 {
			return nil, &Error{Message: fmt.Sprintf("Error parsing configuration property '%s': %s has no limit that is a number from 0", name, entry)}
		}
		list = append(list, IPOverride{Host: host, Limit: int32(n)})
	}
	return list, nil
}
