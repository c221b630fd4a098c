package frames

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/batch"
)

// These are of what old clients are given of logs that were cleaned, where
// offsets are missing, and batches have no record left.

// aged is a batch that is so many times ten seconds younger than the first ones,
// so that a log whose segments last a second begins one with it.
func aged(n int, b batch.Batch) batch.Batch {
	b.First += int64(n) * 10_000
	return b
}

// by is a batch of an idempotent producer.
func by(producer int64, sequence int32, records ...batch.Record) batch.Batch {
	return batchOf(records...).From(producer, 0, sequence)
}

// toClean are batches of which cleaning leaves some as they are, some with gaps at
// their begin, within and at their end, and some without a record: the last of
// an idempotent producer stays, and what is a tombstone goes in the second cleaning.
var toClean = []batch.Batch{
	batchOf(of("a", "1"), of("b", "1"), of("c", "1")), // 0: c alone stays
	batchOf(of("a", "2")),                             // 3: goes
	batchOf(of("b"), of("d", "1")),                    // 4: a tombstone stays
	by(900001, 0, of("e", "1"), of("f", "1")),         // 6: goes
	by(900001, 2, of("e", "2"), of("f", "2")),         // 8: is left empty
	by(900002, 0, of("g"), of("e")),                   // 10: two tombstones
	batchOf(of("f", "3"), of("d", "2")),               // 12
	batchOf(of("", "an empty key"), of("a", "")),      // 14
	batchOf(of("h", "1"), of("i", "1"), of("h", "2")), // 16: a gap before, or within
	batchOf(of("k", "1"), of("l", "1"), of("m", "1")), // 19: l alone stays
	batchOf(of("m", "2"), of("k", "2"), of("n", "1")), // 22
	by(900003, 0, of("o")),                            // 25: is left empty by the second cleaning
	batchOf(of("z", "not cleaned")),                   // 26
}

// toCleanLater are those of the second cleaning.
var toCleanLater = []batch.Batch{
	batchOf(of("a", "3"), of("n", "2")), // 27
	by(900002, 2, of("p", "1")),         // 29: is left empty
	batchOf(of("p", "2")),               // 30
	batchOf(of("z", "nor is this")),     // 31
}

// fetchOldCompacted gives cleaned logs to clients that know message sets only: of
// many segments, one for each batch, where nothing but an empty one is what there is
// to read, and of few, where batches stand together.
func fetchOldCompacted(s *Side) {
	s.Patience = 3 * time.Second
	s.washable("apart", "delete.retention.ms", "1")
	s.createTopic("together", 1, "cleanup.policy", "delete", "retention.ms", "-1", "segment.ms", "1000", "min.cleanable.dirty.ratio", "0", "delete.retention.ms", "1")
	end := int64(0)
	for n, batches := range [][]batch.Batch{toClean, toCleanLater} {
		for i, b := range batches {
			b = aged(n*len(toClean)+i, b)
			s.write("apart", b)
			s.write("together", b)
			end += int64(len(b.Records))
		}
		for _, topic := range []string{"apart", "together"} {
			what := fmt.Sprintf("%s, cleaned %d", topic, n+1)
			s.clean(what, topic, 0)
			gives := map[int64]string{}
			for from := range end + 2 {
				gives[from] = s.givesNothing(topic, from, end)
				o := s.fetch(fmt.Sprintf("%s, from %d%s", what, from, gives[from]), read{topic: topic, offset: from})
				if r, ok := o.Response.(*kmsg.FetchResponse); ok && gives[from] != "" {
					set := batch.Sets(r.Topics[0].Partitions[0].RecordBatches)
					s.Check(fmt.Sprintf("%s, from %d, the first message", what, from), set[:min(1, len(set))])
				}
			}
			for _, max := range []int32{none, 1, 11, 12, 60, 61, 62, 100, 130, 200} {
				for _, from := range []int64{0, 2, 3, 8, 10, 16, 19, 21, 25} {
					s.fetch(fmt.Sprintf("%s, from %d, max %d%s", what, from, max, gives[from]), read{topic: topic, offset: from, max: max})
				}
			}
		}
		s.fetch("both", read{topic: "apart", offset: 8}, read{topic: "together", offset: 10}, read{topic: "apart", offset: 26})
	}
}

// givesNothing says so where of the batch that is read first no record is left from the
// offset on, and others follow it.
func (s *Side) givesNothing(topic string, from, end int64) string {
	if from >= end {
		return ""
	}
	list := s.remains(topic, from)
	if len(list) < 2 {
		return ""
	}
	for _, r := range list[0].(map[string]any)["records"].([]string) {
		at, _, _ := strings.Cut(r, " ")
		if n, err := strconv.ParseInt(at, 10, 64); err != nil || n >= from {
			return ""
		}
	}
	return firstGivesNothing
}

const firstGivesNothing = ", the first batch gives nothing"

// fetchOldCompactedCodecs is the same where batches are compressed: what is given of
// those is made anew from what cleaning has left.
func fetchOldCompactedCodecs(s *Side) {
	for _, name := range []string{"gzip", "snappy", "lz4"} {
		s.washable(name, "delete.retention.ms", "1", segmentBytes, "170")
		for _, b := range toClean {
			b.Codec = oldCodecs[name]
			s.write(name, b)
		}
		s.clean(name, name, 0)
		for from := range int64(28) {
			s.give(fmt.Sprintf("%s from %d", name, from), read{topic: name, offset: from})
		}
	}
}
