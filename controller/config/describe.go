package config

// The sources of a value in DescribeConfigs.
const (
	SourceTopic          int8 = 1
	SourceDynamicBroker  int8 = 2
	SourceDynamicDefault int8 = 3
	SourceStatic         int8 = 4
	SourceDefault        int8 = 5
	SourceLogger         int8 = 6
	SourceClientMetrics  int8 = 7
	SourceGroup          int8 = 8
)

// Entry is one config of a resource, as DescribeConfigs answers it.
type Entry struct {
	Name      string
	Value     *string
	Given     *string // Value as it was set, not as it is understood; hours are milliseconds in both
	Source    int8
	Sensitive bool
	ReadOnly  bool
	Type      int8
	Doc       string
	Synonyms  []Synonym
}

// Synonym is one value that was considered, the effective one first.
type Synonym struct {
	Name   string
	Value  *string
	Source int8
}

// brokerSynonyms are the broker configs that stand behind one, in order.
func brokerSynonyms(name string) []string {
	switch name {
	case "log.roll.ms", "log.roll.hours":
		return []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	}
	return []string{name}
}

// synonyms lists every value set for a broker config or one that stands behind
// it, in order of level; those before the first that bears the name itself are
// left out, so a config whose own name is not set anywhere has none.
func (l levels) synonyms(name string) []Synonym {
	names := brokerSynonyms(name)
	var all []Synonym
	add := func(source int8, get Lookup) {
		for _, n := range names {
			v, ok := get.get(n)
			if !ok || len(all) == 0 && n != name {
				continue
			}
			s := Synonym{Name: n, Source: source}
			if k, known := Find(BrokerScope, n); known && !k.Sensitive() {
				s.Value = &v
			}
			all = append(all, s)
		}
	}
	add(SourceDynamicBroker, l.brokerDyn)
	add(SourceDynamicDefault, l.defaultDyn)
	add(SourceStatic, l.static.Set)
	add(SourceDefault, func(n string) (string, bool) {
		k, ok := Find(BrokerScope, n)
		if !ok || k.Null || k.Required || k.DynamicOnly {
			return "", false
		}
		return k.Default, true
	})
	return all
}

// entry puts an entry together; text is the effective value.
func (k *Key) entry(text string, set bool, synonyms []Synonym) Entry {
	e := Entry{Name: k.Name, Source: SourceDefault, Sensitive: k.Sensitive(), Type: int8(k.Type), Doc: k.Doc, Synonyms: synonyms}
	if set && !k.Sensitive() {
		v := k.shown(text)
		e.Value, e.Given = &v, &text
	}
	if len(synonyms) > 0 {
		e.Source = synonyms[0].Source
	}
	return e
}

// shown is a value as it is told of: as it is understood, but internal configs, which
// Kafka takes from what was given, as they were set.
func (k *Key) shown(text string) string {
	if k.Internal {
		return text
	}
	return k.Canonical(text)
}

// DescribeTopic gives a topic's configs, sorted by name.
func (s *Static) DescribeTopic(defaultDyn, brokerDyn, topic Lookup) []Entry {
	l := levels{s, defaultDyn, brokerDyn}
	var entries []Entry
	for i := range topicKeys {
		k := &topicKeys[i]
		text, own := topic.get(k.Name)
		if k.Internal && !own {
			continue
		}
		var synonyms []Synonym
		if names := k.SynonymNames(); len(names) > 0 {
			synonyms = l.synonyms(names[0])
		}
		set := own
		if own {
			synonyms = append([]Synonym{k.synonym(text, SourceTopic)}, synonyms...)
		} else {
			text, set = l.inherited(k)
		}
		entries = append(entries, k.entry(text, set, synonyms))
	}
	return entries
}

// DescribeGroup gives a group's configs, sorted by name; a group need not exist.
func (s *Static) DescribeGroup(defaultDyn, brokerDyn, group Lookup) []Entry {
	l := levels{s, defaultDyn, brokerDyn}
	var entries []Entry
	for i := range groupKeys {
		k := &groupKeys[i]
		text, own := group.get(k.Name)
		if k.Internal && !own {
			continue
		}
		var synonyms []Synonym
		inherited, set := l.inherited(k)
		if k.Name == "streams.assignor.name" {
			if list := SplitList(inherited); len(list) > 0 {
				inherited = list[0]
			}
		}
		if k.Synonyms != "" {
			synonyms = l.synonyms(k.Synonyms)
		} else if set {
			synonyms = []Synonym{k.synonym(inherited, SourceDefault)}
		}
		if own {
			set = true
			synonyms = append([]Synonym{k.synonym(text, SourceGroup)}, synonyms...)
		} else {
			text = inherited
		}
		entries = append(entries, k.entry(text, set, synonyms))
	}
	return entries
}

// DescribeClientMetrics gives the configs of a subscription, sorted by name.
func (s *Static) DescribeClientMetrics(subscription Lookup) []Entry {
	var entries []Entry
	for i := range clientMetricsKeys {
		k := &clientMetricsKeys[i]
		text, own := subscription.get(k.Name)
		var synonyms []Synonym
		if own {
			synonyms = []Synonym{k.synonym(text, SourceClientMetrics)}
		} else {
			text = k.Default
		}
		entries = append(entries, k.entry(text, true, synonyms))
	}
	return entries
}

func (k *Key) synonym(text string, source int8) Synonym {
	s := Synonym{Name: k.Name, Source: source}
	if !k.Sensitive() {
		v := k.shown(text)
		s.Value = &v
	}
	return s
}

// DescribeBroker gives a broker's configs, sorted by name: those of the
// catalogue, and what is set without being in it, whose values are not shown as
// their meaning, and so their secrecy, is not known. dynamic are the names that
// brokerDyn and defaultDyn hold, sorted; those in the catalogue may be left out.
func (s *Static) DescribeBroker(defaultDyn, brokerDyn Lookup, dynamic ...string) []Entry {
	l := levels{s, defaultDyn, brokerDyn}
	var entries []Entry
	for i := range brokerKeys {
		k := &brokerKeys[i]
		if (k.Internal || k.DynamicOnly) && !l.isSet(k.Name) {
			continue
		}
		text, set := l.broker(k.Name)
		e := k.entry(text, set, l.synonyms(k.Name))
		e.ReadOnly = k.Update == ReadOnly
		entries = append(entries, e)
	}
	return append(entries, l.unknown(merge(s.Names(), dynamic))...)
}

// DescribeBrokerDefaults gives the dynamic configs that hold for every broker of
// the cluster, sorted by name; only those set are shown. dynamic are the names
// that defaultDyn holds, sorted; those that are in the catalogue may be left out.
func (s *Static) DescribeBrokerDefaults(defaultDyn Lookup, dynamic ...string) []Entry {
	var entries []Entry
	for i := range brokerKeys {
		k := &brokerKeys[i]
		text, ok := defaultDyn.get(k.Name)
		if !ok {
			continue
		}
		synonym := Synonym{Name: k.Name, Source: SourceDynamicDefault}
		if !k.Sensitive() {
			synonym.Value = &text
		}
		e := k.entry(text, true, []Synonym{synonym})
		e.ReadOnly = k.Update == ReadOnly
		entries = append(entries, e)
	}
	l := levels{nil, defaultDyn, nil}
	return append(entries, l.unknown(dynamic)...)
}

func (l levels) isSet(name string) bool {
	_, broker := l.brokerDyn.get(name)
	_, cluster := l.defaultDyn.get(name)
	_, static := l.static.Set(name)
	return broker || cluster || static
}

func (l levels) unknown(names []string) []Entry {
	var entries []Entry
	for _, name := range names {
		if _, known := Find(BrokerScope, name); known {
			continue
		}
		e := unknownEntry(name, l.synonyms(name))
		e.ReadOnly = true
		entries = append(entries, e)
	}
	return entries
}

// unknownEntry is a config of unknown type, which counts as a secret.
func unknownEntry(name string, synonyms []Synonym) Entry {
	e := Entry{Name: name, Source: SourceDefault, Sensitive: true, Synonyms: synonyms}
	if len(synonyms) > 0 {
		e.Source = synonyms[0].Source
	}
	return e
}

// merge gives two sorted lists as one, without duplicates.
func merge(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case len(a) > 0 && a[0] == b[0]:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		default:
			out, b = append(out, b[0]), b[1:]
		}
	}
	return out
}
