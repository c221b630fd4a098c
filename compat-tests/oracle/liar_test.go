//go:build compat

package oracle

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lies are faults that the oracle has to find: in which family of sequences,
// and what of the answer shows it.
var lies = []struct {
	name, family, shows string
	lie                 Lie
}{
	{"a wrong code in one old version", "groups", "Heartbeat", Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.HeartbeatResponse); ok && r.Version == 1 && r.ErrorCode == 25 {
			r.ErrorCode = 22
		}
	}}},
	{"two checks in the wrong order", "records", "Produce", Lie{Answer: func(req kmsg.Request, resp kmsg.Response) {
		r, ok := resp.(*kmsg.ProduceResponse)
		if !ok || req.(*kmsg.ProduceRequest).Acks >= -1 && req.(*kmsg.ProduceRequest).Acks <= 1 {
			return
		}
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				if p := &r.Topics[i].Partitions[j]; p.ErrorCode == 3 {
					p.ErrorCode = 21 // the acks value before the partition
				}
			}
		}
	}}},
	{"a high watermark off by one", "records", "HighWatermark", Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.FetchResponse); ok {
			for i := range r.Topics {
				for j := range r.Topics[i].Partitions {
					if p := &r.Topics[i].Partitions[j]; p.HighWatermark > 0 {
						p.HighWatermark--
					}
				}
			}
		}
	}}},
	{"a group that skips its fourth generation", "groups", "Generation", Lie{
		Answer: func(_ kmsg.Request, resp kmsg.Response) {
			if r, ok := resp.(*kmsg.JoinGroupResponse); ok && r.Generation >= 4 {
				r.Generation++
			}
		},
		Request: func(req kmsg.Request) {
			back := func(g *int32) {
				if *g >= 5 {
					*g--
				}
			}
			switch r := req.(type) {
			case *kmsg.SyncGroupRequest:
				back(&r.Generation)
			case *kmsg.HeartbeatRequest:
				back(&r.Generation)
			case *kmsg.OffsetCommitRequest:
				back(&r.Generation)
			}
		},
	}},
	{"a tagged field left out", "records", "DivergingEpoch", Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.FetchResponse); ok {
			for i := range r.Topics {
				for j := range r.Topics[i].Partitions {
					r.Topics[i].Partitions[j].DivergingEpoch.Default()
				}
			}
		}
	}}},
	{"a fetch that does not wait", "records", "came", Lie{Request: func(req kmsg.Request) {
		if r, ok := req.(*kmsg.FetchRequest); ok {
			r.MaxWaitMillis = 0
		}
	}}},
	{"topics in another order", "topics", "Topics", Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.DescribeTopicPartitionsResponse); ok && len(r.Topics) > 1 {
			r.Topics[0], r.Topics[1] = r.Topics[1], r.Topics[0]
		}
	}}},
	{"a member that forgets its metadata", "groups", "Members", Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.JoinGroupResponse); ok && len(r.Members) > 1 {
			r.Members[0].ProtocolMetadata = nil
		}
	}}},
}

// TestFindsLies holds one Millrace against another with a lie before it: each
// lie has to be found, and none without one.
func TestFindsLies(t *testing.T) {
	a, b := millrace(t), millrace(t)
	meet := func(t *testing.T, first string) *Servers {
		random := make([]byte, 3)
		rand.Read(random)
		s := &Servers{Names: "orc-" + hex.EncodeToString(random), Addr: [2]string{first, b}}
		s.ready(t)
		return s
	}
	t.Run("none", func(t *testing.T) {
		r := meet(t, a).Run(Options{From: 1, Seeds: 150, Parallel: 16, Log: t.Logf})
		for _, f := range r.Findings {
			t.Error(f)
		}
		for _, err := range r.Errors {
			t.Error(err)
		}
	})
	for _, l := range lies {
		t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
			x, err := NewLiar(a, l.lie)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			s := meet(t, x.Addr)
			// Seeds go on until one shows it.
			for from := uint64(1); from < 600; from += 40 {
				r := s.Run(Options{From: from, Seeds: 40, Only: l.family, Parallel: 16, First: true, Log: func(string, ...any) {}})
				for _, f := range r.Findings {
					if strings.Contains(f.Text, l.shows) {
						t.Logf("found in %d steps: %s", len(f.Steps), f)
						return
					}
				}
			}
			t.Error("not found")
		})
	}
}
