package config

// clientMetricsKeys are the configs of a client metrics subscription (KIP-714),
// sorted by name.
var clientMetricsKeys = []Key{
	{Name: "interval.ms", Type: Int, Default: "300000", Rule: Rule{Kind: Between, Min: 100, Max: 3600000}, Effect: Waiting, Reason: "client telemetry"},
	{Name: "match", Type: List, Rule: Rule{Kind: Matches}, Effect: Waiting, Reason: "client telemetry"},
	{Name: "metrics", Type: List, Effect: Waiting, Reason: "client telemetry"},
}
