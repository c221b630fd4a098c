//go:build compat

package oracle

import (
	"encoding/binary"
	"errors"
	"math"
	"millrace/compat-tests/batch"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// restartLies are faults of what a server keeps over a restart.
var restartLies = []struct {
	name, shows string
	lie         func() Lie
}{
	{"a log start that moves back", "offsets at -2 after a restart", func() Lie {
		return Lie{Down: func(dir string) error { return os.RemoveAll(filepath.Join(dir, "log-start-offset-checkpoint")) }}
	}},
	{"commits that are lost", "after a restart", func() Lie {
		return Lie{Down: func(dir string) error { return cut(filepath.Join(dir, "__consumer_offsets-*", "*.log"), 0) }}
	}},
	{"a record that kill -9 loses although it was acknowledged", "after a restart", func() Lie {
		return Lie{Down: func(dir string) error {
			if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err == nil {
				return nil
			}
			return cut(filepath.Join(dir, "orc-*", "*.log"), -7)
		}}
	}},
	{"a producer's sequence that is forgotten", "roduce", func() Lie {
		var restarted atomic.Bool
		return Lie{
			Down: func(string) error { restarted.Store(true); return nil },
			Request: func(req kmsg.Request) {
				r, ok := req.(*kmsg.ProduceRequest)
				if !ok || !restarted.Load() {
					return
				}
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						// Without a producer no batch has a sequence to check.
						if b := r.Topics[i].Partitions[j].Records; len(b) > 61 && b[16] == 2 {
							binary.BigEndian.PutUint64(b[43:], math.MaxUint64)
							binary.BigEndian.PutUint16(b[51:], math.MaxUint16)
							binary.BigEndian.PutUint32(b[53:], math.MaxUint32)
							batch.Resum(b)
						}
					}
				}
			},
		}
	}},
	{"an epoch that stays", "LeaderEpoch", func() Lie {
		return Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
			if r, ok := resp.(*kmsg.MetadataResponse); ok {
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						r.Topics[i].Partitions[j].LeaderEpoch = min(r.Topics[i].Partitions[j].LeaderEpoch, 0)
					}
				}
			}
		}}
	}},
}

// cut shortens files: to a size, or by so many bytes if that is negative.
func cut(pattern string, size int64) error {
	list, err := filepath.Glob(pattern)
	for _, path := range list {
		to := size
		if size < 0 {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if to += info.Size(); to < 0 {
				continue
			}
		}
		err = errors.Join(err, os.Truncate(path, to))
	}
	return err
}

// TestFindsLies holds one Millrace against another with a lie before it: each
// lie has to be found, and none without one.
func TestFindsLies(t *testing.T) {
	a, b := millrace(t), millrace(t)
	meet := func(t *testing.T, first string) *Servers {
		s := &Servers{Names: runNames(), Addr: [2]string{first, b.addr()}}
		s.ready(t)
		s.Restart = func(how Restart) error { return restartAll(how, a, b) }
		return s
	}
	inOld := func(t *testing.T, first string) *Servers {
		s := &Servers{Names: runNames(), Addr: [2]string{first, b.addr()}, Old: true}
		s.ready(t)
		return s
	}
	none := func(t *testing.T, s *Servers, o Options) {
		o.From, o.Parallel, o.Log = 1, 16, t.Logf
		r := s.Run(o)
		for _, f := range r.Findings {
			t.Error(f)
		}
		for _, err := range r.Errors {
			t.Error(err)
		}
	}
	t.Run("none", func(t *testing.T) { none(t, meet(t, a.addr()), Options{Seeds: 150}) })
	t.Run("none-in-old-versions", func(t *testing.T) { none(t, inOld(t, a.addr()), Options{Seeds: 40, Only: "old"}) })
	// Those that restart nothing wait most of the time: several are looked for at once.
	t.Run("running", func(t *testing.T) {
		for _, l := range lies {
			t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				x, err := NewLiar(a.addr(), l.lie)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				find(t, meet(t, x.Addr), l.family, l.shows, 1, 40)
			})
		}
		for _, l := range storeLies {
			t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				x, err := NewLiar(a.addr(), l.lie())
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				s := meet
				if l.old {
					s = inOld
				}
				find(t, s(t, x.Addr), l.family, l.shows, l.from, 16)
			})
		}
	})
	for _, l := range restartLies {
		t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
			own := millrace(t)
			lie := l.lie()
			own.down = lie.Down
			defer func() { own.down = nil }()
			x, err := NewLiar(own.addr(), lie)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			s := meet(t, x.Addr)
			s.Restart = func(how Restart) error { return restartAll(how, own, b) }
			find(t, s, theRestarts, l.shows, 1, roundSize)
		})
	}
}

// find plays seeds, from the first on, until one shows a difference.
func find(t *testing.T, s *Servers, family, shows string, first, step uint64) {
	for from := first; from < first+600; from += step {
		r := s.Run(Options{From: from, Seeds: step, Only: family, Parallel: 16, First: true, Log: func(string, ...any) {}})
		for _, f := range r.Findings {
			if strings.Contains(f.Text, shows) {
				t.Logf("found in %d steps: %s", len(f.Steps), f)
				return
			}
		}
		for _, err := range r.Errors {
			t.Error(err)
		}
	}
	t.Error("not found")
}
