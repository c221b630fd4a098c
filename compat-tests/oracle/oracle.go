// Package oracle holds Millrace against Apache Kafka: both get the same seeded
// sequences of requests as raw frames, step by step, and every answer is
// compared field by field.
//
// A seed makes a sequence (Make): one family of APIs leads, and others mix in.
// Its steps are drawn when it is made; what a step says follows from what the
// servers have told by then (ids of topics and members, generations, sessions,
// offsets, epochs), for each server from its own answers. So a sequence goes
// deep, a seed replays, and steps can be left out: a difference is played anew,
// alone, and shortened to the fewest steps that show it.
//
// Compared is what was answered and how: at once or after waiting, a closed
// connection, no answer. Answers are normalised by what a field is (kinds),
// never by API or sequence; lists whose order Kafka leaves open stand in one
// table (normal.Unordered). A difference that is meant stands in one table with
// its reason (explained).
//
// Some sequences go on through restarts of both servers, in order and by kill -9:
// they are played in rounds, all at once, and each restart comes when the last
// has arrived at it. After it everything is looked at that a server has to keep.
//
// Versions that Kafka 4 has dropped are compared with Apache Kafka 3.9, by
// families of their own (Servers.Old).
//
// Adding an API's sequences is adding a file with a family: steps with weights.
//
// The summary that a run writes, for other programs:
//
//	{"commit": "0123abc", "seeds": [1, 1001], "sequences": 1000, "again": 0, "once": 2,
//	 "apis": {"3": {"12": {"compared": 9, "equal": 8, "explained": 1, "unexplained": 0,
//	                       "why": ["..."]}}},
//	 "codes": {"3": [0, 3, 17]}}
//
// seeds are the first, and the one behind the last; again are the sequences that
// differ in a way that was seen again when one was played alone, once those that
// differed in a way that was not; apis are by key and version;
// compared are answers; codes are the error codes that Apache Kafka answered
// with, by API key. Beside them stands "peer" where dropped versions were compared
// with an older Kafka.
//
// It needs what running Apache Kafka needs (package kafka), and is run by make
// oracle. A Liar shows that it finds faults.
package oracle
