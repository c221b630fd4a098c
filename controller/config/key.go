// Package config is the catalogue of Kafka's configs: one table per scope with
// every key's name, type, default, rule, way of updating, importance, synonyms
// and a sentence of documentation; and what is read from that table: parsed
// server properties, effective topic configs, DescribeConfigs entries, and the
// checks of a change.
//
// It is a pure room: it reads no file and knows no cluster. Values come in as
// strings, as Kafka keeps them, and its errors carry Kafka's words.
//
// Promises: Kafka's config names live here and nowhere else; the tables are
// plain data that costs nothing at start; a key that is accepted without having
// an effect is marked so and warns; a key that asks for protection that is not
// there is refused, never ignored.
package config

import (
	"sort"
	"strings"
)

// Scope is the kind of resource that a config belongs to.
type Scope int

const (
	BrokerScope Scope = iota
	TopicScope
	GroupScope
	ClientMetricsScope
)

func (s Scope) String() string {
	switch s {
	case BrokerScope:
		return "broker"
	case TopicScope:
		return "topic"
	case GroupScope:
		return "group"
	case ClientMetricsScope:
		return "client metrics"
	}
	return "unknown"
}

// Type is a config's type, with the numbers of DescribeConfigs (KIP-569).
type Type int8

const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// Name is the type in Kafka's error messages.
func (t Type) Name() string {
	switch t {
	case Boolean:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Short:
		return "SHORT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	case Class:
		return "CLASS"
	case Password:
		return "PASSWORD"
	}
	return "UNKNOWN"
}

// Update is where a broker config can be changed while the broker runs (KIP-226).
type Update int8

const (
	ReadOnly    Update = iota // only in server.properties
	ClusterWide               // per broker, or as the cluster's default
	PerBroker                 // per broker only
)

// Importance is Kafka's own judgement of a config.
type Importance int8

const (
	Medium Importance = iota
	High
	Low
)

// Effect says what setting a config does here.
type Effect int8

const (
	// Honoured: the value has the effect that Kafka documents.
	Honoured Effect = iota
	// NoEffect: accepted, and will not have an effect; Reason says why.
	NoEffect
	// Waiting: accepted, without effect until what Reason names is built.
	Waiting
	// Refused: asks for protection that is not there; Reason says which. A start
	// with such a key fails, as ignoring it would open what was to be closed.
	Refused
)

// Key is one row of the catalogue. Treat it as read only.
type Key struct {
	Name       string
	Type       Type
	Default    string // as a string; of no meaning if Null or Required
	Null       bool   // the default is null
	Required   bool   // Kafka knows no default
	Rule       Rule
	Update     Update
	Importance Importance
	Internal   bool // shown by DescribeConfigs only once set
	// DynamicOnly keys are not read from server.properties, and shown only once set.
	DynamicOnly bool
	// Synonyms are the broker configs that a topic's or group's value falls back
	// to, in order; only the first can be changed dynamically. Separated by
	// commas, so that the table stays plain data.
	Synonyms string
	Effect   Effect
	Reason   string
	Doc      string
}

// Sensitive says whether the value is a secret, which is never shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// SynonymNames is Synonyms as a list.
func (k *Key) SynonymNames() []string {
	if k.Synonyms == "" {
		return nil
	}
	return strings.Split(k.Synonyms, ",")
}

func table(s Scope) []Key {
	switch s {
	case BrokerScope:
		return brokerKeys
	case TopicScope:
		return topicKeys
	case GroupScope:
		return groupKeys
	case ClientMetricsScope:
		return clientMetricsKeys
	}
	return nil
}

// Find finds a key. The tables are sorted by name.
func Find(s Scope, name string) (*Key, bool) {
	t := table(s)
	i := sort.Search(len(t), func(i int) bool { return t[i].Name >= name })
	if i < len(t) && t[i].Name == name {
		return &t[i], true
	}
	return nil, false
}

// Keys gives all keys of a scope, sorted by name.
func Keys(s Scope) []*Key {
	t := table(s)
	keys := make([]*Key, len(t))
	for i := range t {
		keys[i] = &t[i]
	}
	return keys
}

// Lookup gives the value that a level of configuration (a topic's own configs, a
// broker's dynamic ones) holds for a name. A nil Lookup holds nothing.
type Lookup func(name string) (string, bool)

func (g Lookup) get(name string) (string, bool) {
	if g == nil {
		return "", false
	}
	return g(name)
}
