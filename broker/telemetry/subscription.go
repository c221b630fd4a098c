package telemetry

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultInterval is how often clients push where no subscription says less.
const defaultInterval = 300000 * time.Millisecond

// everything is the prefix that stands for all metrics.
const everything = "*"

// Subscription is what an operator wants of some clients.
type Subscription struct {
	Name     string
	Metrics  []string // prefixes; "*" is all
	Interval time.Duration
	match    []pattern
	never    bool // a pattern cannot be understood
}

type pattern struct {
	key string
	re  *regexp.Regexp
}

// Parse makes a subscription of its configs: metrics and match as they are
// written, comma-separated, and interval.ms. The error says which pattern does
// not hold here; such a subscription is for nobody. (Patterns are Java's in
// Kafka; what RE2 does not have, such as back-references, is not understood.)
func Parse(name, metrics, interval, match string) (Subscription, error) {
	s := Subscription{Name: name, Interval: defaultInterval}
	for _, p := range split(metrics) {
		if !slices.Contains(s.Metrics, p) {
			s.Metrics = append(s.Metrics, p)
		}
	}
	if interval != "" {
		ms, err := strconv.ParseInt(strings.TrimSpace(interval), 10, 32)
		if err != nil {
			return s, fmt.Errorf("interval.ms of client metrics %s: %w", name, err)
		}
		s.Interval = time.Duration(ms) * time.Millisecond
	}
	for _, m := range split(match) {
		// As Kafka splits it; of two patterns for one thing the last counts.
		key, expr, _ := strings.Cut(strings.TrimRight(m, "="), "=")
		key = strings.TrimSpace(key)
		re, err := regexp.Compile(`^(?:` + strings.TrimSpace(expr) + `)$`)
		if err != nil {
			s.never = true
			return s, fmt.Errorf("match of client metrics %s: %w", name, err)
		}
		s.match = append(slices.DeleteFunc(s.match, func(p pattern) bool { return p.key == key }), pattern{key, re})
	}
	return s, nil
}

func split(list string) []string {
	var out []string
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// fits says whether a subscription is for a client: every pattern must match
// whole.
func (s *Subscription) fits(id ID, c *Client) bool {
	if s.never {
		return false
	}
	for _, p := range s.match {
		var v string
		switch p.key {
		case "client_instance_id":
			v = text(id)
		case "client_id":
			v = c.ClientID
		case "client_software_name":
			v = c.SoftwareName
		case "client_software_version":
			v = c.SoftwareVersion
		case "client_source_address":
			v = c.Address
		case "client_source_port":
			v = strconv.Itoa(c.Port)
		default:
			return false
		}
		if !p.re.MatchString(v) {
			return false
		}
	}
	return true
}

// match sets what an instance is subscribed to.
func (m *Machine) match(x *instance) {
	var set []string
	x.interval, x.version = defaultInterval, m.version
	all := false
	for i := range m.subscriptions {
		s := &m.subscriptions[i]
		if !s.fits(x.id, &x.client) {
			continue
		}
		for _, p := range s.Metrics {
			all = all || p == everything
			if !slices.Contains(set, p) {
				set = append(set, p)
			}
		}
		x.interval = min(x.interval, s.Interval)
	}
	x.metrics = inJavaOrder(set, func(s string) string { return s })
	if all {
		x.metrics = []string{everything}
	}
	x.subscription = subscriptionID(x.metrics, x.interval, x.id)
}

// subscriptionID tells one state of a client's subscriptions from another. It is
// Kafka's: CRC-32C of the set as Java prints it and the interval, and the id's
// hash.
func subscriptionID(metrics []string, interval time.Duration, id ID) int32 {
	sum := crc32.Checksum([]byte("["+strings.Join(metrics, ", ")+"]"+strconv.FormatInt(interval.Milliseconds(), 10)), crc32.MakeTable(crc32.Castagnoli))
	var x uint64
	for i := range 8 {
		x = x<<8 | uint64(id[i]^id[i+8])
	}
	return int32(sum) ^ int32(x>>32) ^ int32(x)
}

// inJavaOrder puts a list into the order in which Java's hash tables give the same
// names, put in as they come: Kafka walks subscriptions and names and hashes
// metrics so, and two of them may want the same in different words.
func inJavaOrder[T any](list []T, name func(T) string) []T {
	size := uint32(16)
	for uint32(len(list))*4 > size*3 {
		size *= 2
	}
	out := append(make([]T, 0, len(list)), list...)
	slices.SortStableFunc(out, func(a, b T) int { return int(bucket(name(a), size)) - int(bucket(name(b), size)) })
	return out
}

func bucket(s string, size uint32) uint32 {
	var h uint32
	for _, r := range s { // names are ASCII; others only come in another order
		h = 31*h + uint32(r)
	}
	return (h ^ h>>16) & (size - 1)
}

func text(id ID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
