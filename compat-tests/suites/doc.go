// Package suites runs what other projects test Kafka with against Millrace, and against Apache Kafka 4.4.0 in the same run:
// franz-go's own tests (kgo), librdkafka's test runner, and Kafka's ClientCompatibilityTest, VerifiableProducer and
// VerifiableConsumer.
//
// Nothing of them is copied into this repository: kgo's tests are compiled out of Go's module cache, librdkafka's sources
// come in the npm package of its JavaScript client, Kafka's programs are in its jars. What they say is read test by test.
// A test that passes on Kafka and fails here is a failure; one that fails on both is recorded; one that needs what is not
// built yet is listed with the API that it waits for, and runs from the day on which that API is advertised. The results go
// to the conformance ledger (see package ledger).
//
// A suite's tests race with their servers, some with themselves; and ten of them at once on two processors can starve each
// other. So a test that fails is run again by itself, up to twice: it has failed when it fails each time, on either server
// by the same rule.
//
// MILLRACE_SUITES chooses: unset the short run (a part of kgo's tests), "all" everything, else the suites that it names between
// commas (kgo, kgo-chaos, librdkafka, librdkafka-idempotent, kafka-clients). MILLRACE_SUITES_TESTS narrows librdkafka's and kgo's
// tests to those whose name contains one of its texts.
package suites
