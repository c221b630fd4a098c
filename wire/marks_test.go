package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNoStruct: any negative mark in a struct's place says that there is none, as
// Kafka's parser has it.
func TestNoStruct(t *testing.T) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 7
	topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
	topic.Topic = "a"
	req.Topics = append(req.Topics, topic)
	plain := req.AppendTo(nil)
	at := len(plain) - 2 // before the tags
	if plain[at] != 0xff {
		t.Fatalf("the mark is not at %d of %x", at, plain)
	}
	for _, mark := range []byte{0xff, 0xfe, 0xcd, 0x80} {
		body := append([]byte{}, plain...)
		body[at] = mark
		got, err := Decode(&Request{Key: int16(kmsg.DescribeTopicPartitions), Body: body})
		if err != nil {
			t.Errorf("mark %#x: %v", mark, err)
			continue
		}
		if r := got.(*kmsg.DescribeTopicPartitionsRequest); r.Cursor != nil || r.ResponsePartitionLimit != 7 || len(r.Topics) != 1 {
			t.Errorf("mark %#x: %+v", mark, r)
		}
	}
	if _, err := Decode(&Request{Key: int16(kmsg.DescribeTopicPartitions), Body: append(plain[:at:at], 1, 0)}); err == nil {
		t.Error("a struct that is not there is taken")
	}
}
