package batch

// renumber is a batch of no codec with offset deltas that go up by one from 0. All of its records are of a good form.
//
// Kafka looks at the deltas of a plain batch nowhere and stores them as they come: records then have the offsets of
// others, or none that a reader can come to. Offsets are dense here before a log is compacted, so such a batch is numbered
// anew, as Kafka does where it compresses it.
func renumber(b []byte, h Header) []byte {
	out := append(make([]byte, 0, len(b)+8), b[:HeaderSize]...)
	left, body := b[HeaderSize:], []byte(nil)
	for i := range h.Count {
		size, at := varint(left, 0)
		rec := left[at : at+int(size)]
		left = left[at+int(size):]
		_, at = varlong(rec, 1)
		body = appendVarint(append(body[:0], rec[:at]...), i)
		_, at = varint(rec, at)
		body = append(body, rec[at:]...)
		out = append(appendVarint(out, int32(len(body))), body...)
	}
	h.Length = int32(len(out) - LengthOverhead)
	h.put(out)
	setCRC(out)
	return out
}
