// Package frames asks Millrace and Apache Kafka the same raw frames, one after
// another in sequences that change the servers' state, and compares the decoded
// answers field by field: per API and version at least one that succeeds and
// one that fails.
//
// Answers are normalised by what a field is, never by API: ids made at random,
// addresses, moments, metadata offsets, the words of messages. An array whose
// order Kafka leaves open is compared as a multiset; the table of those says
// why. How an answer came is compared too: decoded, connection closed, or none.
//
// A difference that is meant is in the table in explained.go, with its reason;
// any other fails.
package frames

import "millrace/compat-tests/normal"

// kinds says what a field is, by its name in kmsg's structs, where two servers may
// differ in its value. Epochs, other sizes and records are compared as they are:
// each case has its own topics, which nobody else touches.
var kinds = map[string]normal.Kind{
	"ClusterID": normal.ID, "TopicID": normal.ID, "MemberID": normal.ID, "ProducerID": normal.ID, "SessionID": normal.ID,
	"Host": normal.Address, "Port": normal.Address, "ClientHost": normal.Address, "Dir": normal.Address,
	"TotalBytes": normal.Disk, "UsableBytes": normal.Disk,
	"ThrottleMillis": normal.Moment, "LogAppendTime": normal.Moment,
	"FinalizedFeaturesEpoch": normal.MetadataOffset,
	"ErrorMessage":           normal.Words, "Documentation": normal.Words,
	// Compared by a test of their own.
	"ApiKeys": normal.Elsewhere, "SupportedFeatures": normal.Elsewhere, "FinalizedFeatures": normal.Elsewhere,
	"UnknownTags": normal.Elsewhere,
}
