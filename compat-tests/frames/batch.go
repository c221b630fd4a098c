package frames

import "millrace/compat-tests/batch"

// then is the time of the records that cases write.
var then = batch.Then

// plain is a batch of records with these values, all of one time.
func plain(values ...string) batch.Batch {
	var records []batch.Record
	for _, v := range values {
		records = append(records, batch.Valued(v))
	}
	return batch.Of(records...)
}
