// Package adopt has real Apache Kafka write data directories and Millrace take
// them over: after a stop in order and after kill -9 every record, offset,
// timestamp, header and leader epoch reads as it did at Kafka, and so do committed
// offsets, producers, log starts and topic configs.
//
// It has Kafka go on with directories that Millrace has written, too, and
// compares what both write when they are sent the same.
package adopt
