package batch

import (
	"crypto/sha256"
	"fmt"

	"millrace/storage/codec"
)

// KeyDigest stands for a key: two keys are the same if their digests are. It is the first half of SHA-256: among five
// million keys, which is what Kafka's default buffer holds, two random ones share it with a chance of 10^-25, and nobody
// knows how to make two that do. (Kafka takes MD5, for which two such keys can be had in seconds: whoever may write to a
// topic could make one record delete another's.)
type KeyDigest [16]byte

// Key is a record's key as far as a cleaning needs it, which tells keys apart: the key itself may be longer than what there
// is memory for. It is good during the call it is given to. The zero value is no key, Kafka's null.
type Key struct {
	there  bool
	whole  []byte // nil where the key went by
	digest KeyDigest
}

// KeyOf is the key of these bytes; nil is none.
func KeyOf(b []byte) Key {
	if b == nil {
		return Key{}
	}
	return Key{there: true, whole: b[:len(b):len(b)]}
}

// Null says that there is no key.
func (k Key) Null() bool { return !k.there }

// Digest stands for the key.
func (k Key) Digest() KeyDigest {
	if k.whole == nil {
		return k.digest
	}
	sum := sha256.Sum256(k.whole)
	return KeyDigest(sum[:])
}

// keyed is next, and takes note of the record's key.
func (w *walk) keyed(s *seen, k *Key) *Error {
	size, err := w.size()
	if err != nil {
		return err
	}
	*k = Key{}
	if w.src != nil {
		if size > cap(w.buf) {
			w.digest.Reset()
			if err := w.pass(size, s); err != nil {
				return err
			}
			if s.keyLen >= 0 {
				k.there = true
				copy(k.digest[:], w.digest.Sum(w.sum[:0]))
			}
			return nil
		}
		if w.fill(size); len(w.buf)-w.at < size {
			return w.short()
		}
	}
	body := w.buf[w.at : w.at+size]
	w.at += size
	if err := parse(body, s); err != nil {
		return err
	}
	if s.keyLen >= 0 {
		_, at := varint(body, behindOffset(body))
		*k = KeyOf(body[at : at+int(s.keyLen)])
	}
	return nil
}

// behindOffset is where a record's key length begins; its form is known to be good.
func behindOffset(body []byte) int {
	_, at := varlong(body, 1)
	_, at = varint(body, at)
	return at
}

// WalkKeys calls f with the offset and key of each record of the batch b. It ends early, without an error, where f says
// false. It takes no more memory than a window, whatever the records come to; sc may be nil.
func WalkKeys(b []byte, sc *Scratch, f func(offset Offset, key Key) bool) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	if h.Size() != len(b) {
		return ErrShort
	}
	w := walk{h: h}
	if err := w.openKeyed(b[HeaderSize:], sc); err != nil {
		return fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	var s seen
	var k Key
	for i := range h.Count {
		if err := w.keyed(&s, &k); err != nil {
			return fmt.Errorf("batch at %d: record %d: %w", h.BaseOffset, i, err)
		}
		if !f(h.BaseOffset+Offset(s.offsetDelta), k) {
			return nil
		}
	}
	if err := w.end(); err != nil {
		return fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	return nil
}

// openKeyed is open for a walk that keyed makes.
func (w *walk) openKeyed(records []byte, sc *Scratch) error {
	if w.h.Attributes.Codec() == codec.None {
		w.buf = records
		return nil
	}
	if sc == nil {
		sc = &Scratch{}
	}
	if sc.digest == nil {
		sc.digest = sha256.New()
	}
	w.digest = sc.digest
	return w.open(records, sc)
}
