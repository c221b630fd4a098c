// Package applications runs what Apache Kafka itself builds on its clients against Millrace: Kafka Streams, Kafka Connect
// and MirrorMaker 2, each a program of its own with topics, groups and configs that it makes by itself; and, beside them, a
// program around the AdminClient of 1.0.2, whose requests Kafka 4 refuses.
//
// It judges by what comes out: records, lines, counts, offsets and configs are compared with what went in. It does not look
// into the programs. Each comparison is shown to catch a record that was dropped, changed or repeated.
//
// The programs come from Maven, by version, into .cache/applications. The tests that run them are behind the build tag
// `compat`; the comparisons and their own tests are not.
package applications
