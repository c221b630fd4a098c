package broker

import (
	"context"
	"math"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/session"
	"millrace/wire"
)

// fetched asks for so many partitions of a topic, of which all but the first are not there.
func fetched(t *testing.T, b *Broker, ctx context.Context, id, epoch int32, partitions int, wait int32) *kmsg.FetchResponse {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, id, epoch, wait, 1, 1<<20
	if partitions > 0 {
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = "t"
		for i := range int32(partitions) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.PartitionMaxBytes = i, 1000
			ft.Partitions = append(ft.Partitions, p)
		}
		req.Topics = append(req.Topics, ft)
	}
	reply := dispatcher{b}.Handle(ctx, &wire.Request{Key: int16(kmsg.Fetch), Version: 12, Body: req.AppendTo(nil), Conn: &wire.Conn{}})
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	body, err := reply.Body.Bytes()
	if err == nil {
		err = resp.ReadFrom(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Release()
	return resp
}

// What a few bytes can ask for in a session is bounded as the sessions are.
func TestSessionsOfManyPartitionsAreFew(t *testing.T) {
	if raceAllocations > 0 {
		t.Skip("the race detector allocates by itself")
	}
	b, _ := standing(t)
	b.sessions = newFetchSessions(session.DefaultSlots)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	ctx := context.Background()
	if r := fetched(t, b, ctx, 0, 0, 40_000, 0); r.ErrorCode != 0 || r.SessionID != session.None || len(r.Topics[0].Partitions) != 40_000 {
		t.Errorf("error %d, session %d, %d rows", r.ErrorCode, r.SessionID, len(r.Topics[0].Partitions))
	}
	const each = 30_000
	var ids []int32
	for range session.Shards + 2 {
		if id := fetched(t, b, ctx, 0, 0, each, 0).SessionID; id != session.None {
			ids = append(ids, id)
		}
	}
	if n := len(ids); n != session.Shards {
		t.Errorf("%d sessions of %d partitions", n, each)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if r := fetched(t, b, ctx, ids[0], 1, 0, 0); r.ErrorCode != 0 || r.SessionID != ids[0] {
		t.Errorf("error %d, session %d", r.ErrorCode, r.SessionID)
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / each; took > 1200 {
		t.Errorf("an incremental fetch took %d bytes a partition", took)
	}
}

// Of a session of many partitions one fetch is executed at a time, and one that waits
// does so for no longer than until the next one comes, or the session ends. A small
// session's waits.
func TestFetchesOfALargeSessionTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int
		ended      bool
	}{{"large", largeSession + 1, true}, {"small", largeSession, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := standing(t)
				b.sessions = newFetchSessions(session.DefaultSlots)
				see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				id := fetched(t, b, ctx, 0, 0, c.partitions, 0).SessionID
				if id == session.None {
					t.Fatal("no session")
				}
				answers := make(chan *kmsg.FetchResponse, 10)
				epoch := int32(0)
				next := func() {
					epoch++
					epoch := epoch
					go func() { answers <- fetched(t, b, ctx, id, epoch, 0, math.MaxInt32) }()
					synctest.Wait()
				}
				came := func(when string, want int) {
					t.Helper()
					synctest.Wait()
					if !c.ended {
						want = 0
					}
					if n := len(answers); n != want {
						t.Fatalf("%s: %d are answered, want %d", when, n, want)
					}
					for range want {
						if r := <-answers; r.ErrorCode != 0 {
							t.Errorf("%s: error %d", when, r.ErrorCode)
						}
					}
				}
				next()
				came("the first waits", 0)
				if r := fetched(t, b, ctx, id, 1, 0, 0); r.ErrorCode != kerr.InvalidFetchSessionEpoch.Code {
					t.Errorf("one out of turn: error %d", r.ErrorCode)
				}
				came("one out of turn", 0)
				next()
				came("the second", 1)
				next()
				came("the third", 1)
				if r := fetched(t, b, ctx, id, session.Final, 0, 0); r.ErrorCode != 0 {
					t.Errorf("the last: error %d", r.ErrorCode)
				}
				came("the end of the session", 1)
				cancel()
				synctest.Wait()
				for i := range b.sessions.turns {
					if n := len(b.sessions.turns[i]); n != 0 {
						t.Errorf("%d turns are left", n)
					}
				}
			})
		})
	}
}
