// Package records holds the codecs of Kafka's internal records: the cluster's
// metadata (what __cluster_metadata holds) and the group coordinator's state
// (what __consumer_offsets holds).
//
// It is a pure room: bytes in, structs out, and back. It knows neither the
// batches that records travel in nor what a record means; controller/state and
// the coordinators' machines do.
//
// One table drives everything: for every record its id, its versions, and its
// fields with type, versions, tag and default. Encoding, decoding and the
// NewXxx constructors read that table, so they cannot disagree.
//
// Promises: a decoder never panics, allocates no memory on the word of a length
// field, returns structs that share no bytes with its input, and refuses what
// follows the last field. Tagged fields that the table does not name are
// skipped (KIP-482). An encoder drops a field that the asked-for version does
// not have.
package records
