package batch

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"millrace/storage/codec"
)

// Upgrade checks the records of a partition in a Produce request of a version below 3 as the leader does before it
// appends, and makes of them the one batch that the log stores: messages of magic 0 or 1, one behind the other or packed
// in one; a single batch of magic 2 is what Validate makes of it. Where there is no whole message, Batch is nil: Kafka
// answers such a request without appending anything.
//
// What a compressed message unpacks to goes through a window of fixed size, and the batch is kept no further than
// Rules.MaxBytes: a message that unpacks to something vast costs time, not memory.
//
// Offsets within a set say nothing: clients disagreed about them, and the log gives out its own.
func Upgrade(set []byte, r Rules) (Checked, error) {
	if r.Scratch == nil {
		r.Scratch = &Scratch{}
	}
	first, packed, entries, err := survey(set, &r)
	switch {
	case err != nil:
		return Checked{}, err
	case entries == 0:
		return Checked{}, nil
	case entries > 1 && (packed != codec.None || int8(set[atMagic]) == Magic):
		return Checked{}, invalid("more than one batch where one is compressed or of magic 2")
	case int8(set[atMagic]) == Magic:
		return Validate(set[:first:first], r)
	}
	u, err := newUpgrade(packed, len(set), &r)
	if err != nil {
		return Checked{}, err
	}
	magic := set[atMagic]
	for range entries {
		size, err := entry(set)
		if err != nil {
			return Checked{}, err
		}
		if set[atMagic] != magic {
			return Checked{}, invalid("message magic %d is not the same as the first one's magic %d", set[atMagic], magic)
		}
		if err := u.entry(set[:size]); err != nil {
			return Checked{}, err
		}
		set = set[size:]
	}
	return u.finish()
}

// ShapeOld refuses what Kafka refuses of a whole Produce request of a version below 3 before it looks at the topic: what
// is no message where the first one should begin.
func ShapeOld(records []byte) error {
	if _, err := entry(records); err != nil {
		err.Request = true
		return err
	}
	return nil
}

// throughProducerID is how much of a batch is read to see whose it is.
const throughProducerID = atProducerID + 8

// ShapeOldSet refuses what Kafka refuses of a whole such request as it looks for transactional batches in the partitions
// that are there, before it looks at acks: what is no message where a later one should begin, and what says that it is a
// batch and ends before its producer's id.
func ShapeOldSet(records []byte) error {
	for {
		size, err := entry(records)
		if err == nil && size > 0 && size < throughProducerID && int8(records[atMagic]) == Magic {
			err = unreadable("a batch of %d bytes", size)
		}
		if err != nil {
			err.Request = true
			return err
		}
		if size == 0 {
			return nil
		}
		records = records[size:]
	}
}

// survey does what needs no more than each entry's own bytes: its size, its checksum and its codec. packed is the codec
// of the last compressed one.
func survey(set []byte, r *Rules) (first int, packed codec.Kind, entries int, err *Error) {
	for {
		size, err := entry(set)
		if err != nil || size == 0 {
			return first, packed, entries, err
		}
		b := set[:size]
		kind := codec.None
		if int8(b[atMagic]) == Magic {
			h, bad := ParseHeader(b)
			if size < atBaseTimestamp {
				return 0, 0, 0, unreadable("a batch of %d bytes", size) // Kafka's reader runs over its end
			}
			if bad != nil {
				return 0, 0, 0, &Error{Kind: Corrupt, Message: bad.Error()}
			}
			if err := arriving(b, h, r); err != nil {
				return 0, 0, 0, err
			}
			kind = h.Attributes.Codec()
		} else {
			if r.MaxBytes > 0 && size > r.MaxBytes {
				return 0, 0, 0, tooLarge(size, r)
			}
			if err := messageCRC(b); err != nil {
				return 0, 0, 0, err
			}
			kind = codec.Kind(b[atMessageFlags] & setCodecMask)
		}
		if !kind.Valid() {
			return 0, 0, 0, undecompressable(&codec.UnknownKindError{Kind: kind})
		}
		if kind != codec.None {
			packed = kind
		}
		if entries == 0 {
			first = size
		}
		entries++
		set = set[size:]
	}
}

// arriving is what survey asks of a batch of magic 2.
func arriving(b []byte, h Header, r *Rules) *Error {
	switch {
	case h.BaseOffset != 0:
		return invalid("the baseOffset of the record batch in the append to %s-%d should be 0, but it is %d", r.Topic, r.Partition, h.BaseOffset)
	case r.MaxBytes > 0 && len(b) > r.MaxBytes:
		return tooLarge(len(b), r)
	}
	if err := CheckCRC(b); err != nil {
		return &Error{Kind: Corrupt, Message: err.Error()}
	}
	return nil
}

// upgrade is a set on its way into a batch.
type upgrade struct {
	r    *Rules
	kind codec.Kind // of the batch
	out  sink
	enc  io.WriteCloser

	n            int32
	base         int64 // the first message's timestamp
	largest      int64
	atLargest    int32
	head         []byte // of the record being written
	fault        *Error // the first thing wrong within an entry that is no fault of its form
	badTimestamp bool   // the entry has a message with a bad timestamp,
	badKey       bool   // or without a key that it needs
}

func newUpgrade(packed codec.Kind, size int, r *Rules) (*upgrade, *Error) {
	if r.MaxBytes > 0 {
		size = min(size, r.MaxBytes)
	}
	u := &upgrade{r: r, kind: packed, largest: NoTimestamp, out: sink{b: make([]byte, HeaderSize, HeaderSize+size), max: r.MaxBytes}}
	if r.Recompress {
		u.kind = r.Codec
	}
	enc, err := r.Scratch.encoders.Open(u.kind, r.Level, &u.out)
	if err != nil {
		return nil, undecompressable(err)
	}
	u.enc = enc
	return u, nil
}

// entry adds one message, or those packed in it. Kafka refuses a set at its first bad entry.
func (u *upgrade) entry(b []byte) *Error {
	m, err := parseMessage(b)
	if err != nil {
		return err
	}
	if m.codec() != codec.None {
		if err := u.unpack(&m); err != nil {
			return err
		}
	} else if err := u.add(&m, m.appendTime()); err != nil {
		return err
	}
	switch {
	case u.fault != nil:
		return u.fault
	case u.badTimestamp:
		return &Error{Kind: InvalidTimestamp, Message: "One or more records have been rejected due to invalid timestamp"}
	case u.badKey:
		return invalid("%s%s-%d", noKey, u.r.Topic, u.r.Partition)
	}
	return nil
}

// passes says whether a message is to be written: it is good, and so was everything before it in its entry.
func (u *upgrade) passes(timestamp int64, keyLen int32, flagged bool) bool {
	if f, bad := wrong(u.r, flagged, timestamp, keyLen); bad {
		if f == faultNoKey {
			u.badKey = true
		} else {
			u.badTimestamp = true
		}
	}
	if u.badKey || u.badTimestamp || u.fault != nil {
		return false
	}
	if timestamp < NoTimestamp {
		// The rules allow it and Kafka's builder fails on it.
		u.blame(unreadable("invalid negative timestamp %d", timestamp))
		return false
	}
	return true
}

// add writes a message as the batch's next record.
func (u *upgrade) add(m *message, flagged bool) *Error {
	keyLen, valueLen := int32(len(m.key)), int32(len(m.value))
	if m.key == nil {
		keyLen = -1
	}
	if m.value == nil {
		valueLen = -1
	}
	if !u.passes(m.timestamp, keyLen, flagged) {
		return nil
	}
	if err := u.begin(m.timestamp, keyLen, valueLen); err != nil {
		return err
	}
	if err := u.write(m.key); err != nil {
		return err
	}
	return u.end(m.value, valueLen)
}

// begin writes a record up to its key. A negative length is null.
func (u *upgrade) begin(timestamp int64, keyLen, valueLen int32) *Error {
	if u.n == math.MaxInt32 {
		return &Error{Kind: TooLarge, Message: "a set of more messages than a batch can hold"}
	}
	if u.n == 0 {
		u.base = timestamp
	}
	if timestamp > u.largest {
		u.largest, u.atLargest = timestamp, u.n
	}
	delta := timestamp - u.base
	size := 1 + sizeVarlong(delta) + sizeVarint(u.n) + sizeVarint(keyLen) + max(0, int(keyLen)) + sizeVarint(valueLen) + max(0, int(valueLen)) + 1
	if size > math.MaxInt32 {
		return &Error{Kind: TooLarge, Message: "a message that is longer than a record can be"}
	}
	u.head = appendVarint(u.head[:0], int32(size))
	u.head = append(u.head, 0)
	u.head = appendVarlong(u.head, delta)
	u.head = appendVarint(u.head, u.n)
	u.head = appendVarint(u.head, keyLen)
	u.n++
	return u.write(u.head)
}

// end writes the value, as far as it is at hand, and what follows it.
func (u *upgrade) end(value []byte, valueLen int32) *Error {
	if err := u.write(appendVarint(u.head[:0], valueLen)); err != nil {
		return err
	}
	if err := u.write(value); err != nil {
		return err
	}
	return u.write(noHeaders)
}

var noHeaders = []byte{0}

func (u *upgrade) write(p []byte) *Error {
	if len(p) == 0 {
		return nil
	}
	if _, err := u.enc.Write(p); err != nil {
		return unreadable("compress records with %v: %v", u.kind, err)
	}
	return nil
}

// finish makes the batch.
func (u *upgrade) finish() (Checked, error) {
	if err := u.enc.Close(); err != nil {
		return Checked{}, unreadable("compress records with %v: %v", u.kind, err)
	}
	if u.out.max > 0 && u.out.n > u.out.max-HeaderSize {
		return Checked{}, tooLarge(HeaderSize+u.out.n, u.r)
	}
	h := Header{
		Length: int32(len(u.out.b) - LengthOverhead), LeaderEpoch: NoLeaderEpoch, Magic: Magic, Attributes: Attributes(u.kind), LastOffsetDelta: u.n - 1,
		BaseTimestamp: u.base, MaxTimestamp: u.largest, ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence, Count: u.n,
	}
	c := Checked{Batch: u.out.b, MaxTimestamp: u.largest, OffsetOfMaxTimestamp: u.atLargest, AppendTime: NoTimestamp}
	if u.r.Timestamps == LogAppendTime {
		h.Attributes |= logAppendTimeBit
		h.MaxTimestamp = u.r.Now
		c.MaxTimestamp, c.OffsetOfMaxTimestamp, c.AppendTime = u.r.Now, 0, u.r.Now
	}
	h.put(c.Batch)
	h.CRC = setCRC(c.Batch)
	c.Header = h
	if err := fitsSegment(c.Batch, u.r); err != nil {
		return Checked{}, err
	}
	return c, nil
}

// unpack adds the messages packed in one. An error is a fault of its form, which Kafka meets first, as it unpacks all of
// them before it looks at any; what is wrong with a message itself is left in fault.
func (u *upgrade) unpack(outer *message) *Error {
	if outer.codec() == codec.Zstd {
		return invalid("messages of magic %d cannot be compressed with zstd", outer.magic)
	}
	if outer.value == nil {
		return invalid("found invalid compressed record set with null value (magic = %d)", outer.magic)
	}
	sc := u.r.Scratch
	var src io.Reader
	var err error
	if outer.magic == 0 && outer.codec() == codec.LZ4 {
		src, err = sc.decoders.OpenLegacyLZ4(outer.value)
	} else {
		src, err = sc.decoders.Open(outer.codec(), outer.value)
	}
	if err != nil {
		return undecompressable(err)
	}
	if sc.window == nil {
		sc.window = make([]byte, windowSize)
	}
	w := walk{src: src, buf: sc.window[:0]}
	last := NoOffset
	for n := 0; ; n++ {
		offset, more, err := u.next(&w, outer)
		if err != nil {
			return err
		}
		if !more {
			if n == 0 {
				return invalid("found invalid compressed record set without records")
			}
			break
		}
		last = offset
	}
	// The outer offset is that of the last message; 0 is from librdkafka, which did not set it.
	if outer.magic == 1 && outer.offset != 0 && outer.offset < last {
		return invalid("found invalid wrapper offset in compressed v1 message set: %d is less than the last inner offset %d", outer.offset, last)
	}
	return nil
}

// next adds the next packed message. A set that ends within one ends before it, as in Kafka.
func (u *upgrade) next(w *walk, outer *message) (offset Offset, more bool, err *Error) {
	have := func(n int) bool {
		w.fill(n)
		return len(w.buf)-w.at >= n
	}
	if !have(LengthOverhead) {
		return 0, false, w.broken()
	}
	size := int(int32(binary.BigEndian.Uint32(w.buf[w.at+atLength:])))
	if size < minLength {
		return 0, false, &Error{Kind: Corrupt, Message: "a packed message's size is less than the minimum record overhead"}
	}
	if u.r.MaxRecordBytes > 0 && size > u.r.MaxRecordBytes {
		return 0, false, invalid("record of %d bytes exceeds the limit of %d bytes for a decompressed record", size, u.r.MaxRecordBytes)
	}
	// As much of the message as fits is brought to hand.
	whole := LengthOverhead + size
	if !have(min(whole, cap(w.buf))) {
		return 0, false, w.broken()
	}
	b := w.buf[w.at:]
	offset = Offset(binary.BigEndian.Uint64(b))
	switch kind := codec.Kind(b[atMessageFlags] & setCodecMask); {
	case !kind.Valid():
		u.blame(undecompressable(&codec.UnknownKindError{Kind: kind}))
	case kind != codec.None:
		u.blame(invalid("compressed outer record should not have an inner record with a compression attribute set"))
	case int8(b[atMagic]) != outer.magic:
		u.blame(invalid("inner message magic %d does not match the outer one's magic %d", b[atMagic], outer.magic))
	}
	if whole > cap(w.buf) {
		return offset, true, u.pass(w, whole, outer)
	}
	w.at += whole
	b = b[:whole:whole]
	if err := messageCRC(b); err != nil {
		u.blame(err)
		return offset, true, nil
	}
	m, bad := parseMessage(b)
	if bad != nil {
		u.blame(bad)
		return offset, true, nil
	}
	if outer.appendTime() {
		m.timestamp = outer.timestamp
	}
	return offset, true, u.add(&m, outer.appendTime())
}

// blame notes what is wrong with a message, for when all of the entry has been seen to be well formed.
func (u *upgrade) blame(err *Error) {
	if u.fault == nil {
		u.fault = err
	}
}

// broken says why the stream has ended, nil where that is its end.
func (w *walk) broken() *Error {
	if w.srcErr == nil || w.srcErr == io.EOF {
		return nil
	}
	return undecompressable(w.srcErr)
}

// pass is next for a message that is larger than the window. Its value has to fill it to the end, and it has to be there
// whole: Kafka ignores what is behind a value, and drops the last message of a set that is cut within it.
func (u *upgrade) pass(w *walk, whole int, outer *message) *Error {
	b := w.buf[w.at:]
	stored := binary.BigEndian.Uint32(b[atMessageCRC:])
	at, timestamp := keyInMagic0, NoTimestamp
	if outer.magic == 1 {
		at, timestamp = keyInMagic1, int64(binary.BigEndian.Uint64(b[atMessageTime:]))
	}
	if outer.appendTime() {
		timestamp = outer.timestamp
	}
	keyLen := max(-1, int32(binary.BigEndian.Uint32(b[at:])))
	at += 4
	crc := crc32.ChecksumIEEE(b[atMagic:at])
	w.at += at
	left := whole - at
	valueLen := left - max(0, int(keyLen)) - 4
	if valueLen < 0 {
		return unreadable("message key is longer than the message")
	}
	// Whether a value of no bytes is null shows behind the key, and takes no more room in the record: any negative length
	// is null here, but there it is -1.
	passes := u.passes(timestamp, keyLen, outer.appendTime())
	if passes {
		if err := u.begin(timestamp, keyLen, int32(valueLen)); err != nil {
			return err
		}
	}
	through := func(n int) *Error {
		for n > 0 {
			w.fill(1)
			m := min(n, len(w.buf)-w.at)
			if m == 0 {
				if err := w.broken(); err != nil {
					return err
				}
				return invalid("compressed set ends within a message")
			}
			p := w.buf[w.at : w.at+m]
			crc = crc32.Update(crc, crc32.IEEETable, p)
			w.at += m
			n -= m
			if passes {
				if err := u.write(p); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := through(max(0, int(keyLen))); err != nil {
		return err
	}
	w.fill(4)
	if len(w.buf)-w.at < 4 {
		if err := w.broken(); err != nil {
			return err
		}
		return invalid("compressed set ends within a message")
	}
	crc = crc32.Update(crc, crc32.IEEETable, w.buf[w.at:w.at+4])
	told := max(-1, int32(binary.BigEndian.Uint32(w.buf[w.at:])))
	w.at += 4
	if told != int32(valueLen) && !(told < 0 && valueLen == 0) {
		return unreadable("message value of %d bytes where %d are left", told, valueLen)
	}
	if passes {
		if err := u.write(appendVarint(u.head[:0], told)); err != nil {
			return err
		}
	}
	if err := through(valueLen); err != nil {
		return err
	}
	if passes {
		if err := u.write(noHeaders); err != nil {
			return err
		}
	}
	if crc != stored {
		u.blame(&Error{Kind: Corrupt, Message: "message is corrupt: its checksum is another"})
	}
	return nil
}
