package config

// clientMetricsKeys are the configs of a client metrics subscription (KIP-714),
// sorted by name.
var clientMetricsKeys = []Key{
	{Name: "interval.ms", Type: Int, Default: "300000", Rule: Rule{Kind: Between, Min: 100, Max: 3600000},
		Doc: "How often clients push the metrics of this subscription."},
	{Name: "match", Type: List, Rule: Rule{Kind: Matches},
		Doc: "Patterns that say which clients the subscription is for; all must match."},
	{Name: "metrics", Type: List, Rule: Rule{Kind: NoBlanks},
		Doc: "Prefixes of the metrics that the subscription asks for; * is all, none is none."},
}
