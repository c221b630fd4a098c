package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"millrace/storage/codec"
)

// Message sets are what clients before KIP-98 send and understand: messages of magic 0 or 1, one behind the other, or
// one whose value is a compressed set. They are never stored here: Upgrade makes a batch of what such a client produces,
// a Downgrader sets of what it fetches. Kafka 4 has dropped both (KIP-896); 3.9 is the peer.

// Where a message's fields lie, from the start of its entry.
const (
	atMessageCRC   = LengthOverhead
	atMessageFlags = 17
	atMessageTime  = 18 // magic 1
	keyInMagic0    = 18
	keyInMagic1    = 26
	setCodecMask   = 0x07
	setAppendTime  = 0x08
)

// message is one entry of a set.
type message struct {
	offset     Offset
	magic      int8
	flags      byte
	timestamp  int64
	key, value []byte // nil is null
}

func (m *message) codec() codec.Kind { return codec.Kind(m.flags & setCodecMask) }

// magic0Overhead and magic1Overhead are what an entry of each magic has around key and value.
const (
	magic0Overhead = keyInMagic0 + 8
	magic1Overhead = keyInMagic1 + 8
)

// appendTime says that the message's time is that of its append, by its broker's clock.
func (m *message) appendTime() bool { return m.magic == 1 && m.flags&setAppendTime != 0 }

// messageCRC compares an entry's checksum with the one it stores; a message too short for any field has none.
func messageCRC(b []byte) *Error {
	stored, computed := binary.BigEndian.Uint32(b[atMessageCRC:]), crc32.ChecksumIEEE(b[atMagic:])
	if stored != computed {
		return &Error{Kind: Corrupt, Message: fmt.Sprintf("message is corrupt (stored crc = %d, computed crc = %d)", stored, computed)}
	}
	return nil
}

// parseMessage reads a whole entry, whose checksum is the caller's to check. Lengths that do not add up are an error of
// kind Undecompressable: there Kafka's reader fails outside its own checks.
func parseMessage(b []byte) (message, *Error) {
	m := message{offset: Offset(binary.BigEndian.Uint64(b)), magic: int8(b[atMagic]), flags: b[atMessageFlags], timestamp: NoTimestamp}
	at := keyInMagic0
	if m.magic == 1 {
		at = keyInMagic1
		if len(b) < at {
			return m, unreadable("message of %d bytes is too short for magic %d", len(b), m.magic)
		}
		m.timestamp = int64(binary.BigEndian.Uint64(b[atMessageTime:]))
	}
	field := func() ([]byte, bool) {
		if len(b)-at < 4 {
			return nil, false
		}
		n := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		if n < 0 {
			return nil, true
		}
		if int(n) > len(b)-at {
			return nil, false
		}
		f := b[at : at+int(n) : at+int(n)]
		at += int(n)
		return f, true
	}
	var ok bool
	if m.key, ok = field(); !ok {
		return m, unreadable("message key is longer than the message")
	}
	if m.value, ok = field(); !ok {
		return m, unreadable("message value is longer than the message")
	}
	return m, nil
}

func unreadable(format string, args ...any) *Error {
	return &Error{Kind: Undecompressable, Message: fmt.Sprintf(format, args...)}
}

// appendMessage appends an entry.
func appendMessage(dst []byte, m *message) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.offset))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(m.magic), m.flags)
	if m.magic == 1 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.timestamp))
	}
	for _, f := range [2][]byte{m.key, m.value} {
		if f == nil {
			dst = binary.BigEndian.AppendUint32(dst, 1<<32-1)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
		dst = append(dst, f...)
	}
	b := dst[start:]
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LengthOverhead))
	binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
	return dst
}
