package floor

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRelay: what franz-go produces through a relay is what another client reads, those
// who wait and those who come later, each topic's own.
func TestRelay(t *testing.T) {
	addr := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := func(opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.ProducerLinger(0), kgo.FetchMaxWait(100*time.Millisecond))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	read := func(topic string, n int) {
		t.Helper()
		c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		for got := 0; got < n; {
			fetches := c.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Error(err)
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if want := fmt.Sprint(topic, got); string(r.Value) != want || r.Offset != int64(got) {
					t.Errorf("%q at %d, want %q at %d", r.Value, r.Offset, want, got)
				}
				got++
			})
		}
	}
	const n = 200
	read1 := make(chan struct{})
	go func() { defer close(read1); read("one", n) }()
	p := client()
	for i := range n {
		for _, topic := range []string{"one", "two"} {
			if err := p.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(topic, i))}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 10 {
			time.Sleep(250 * time.Millisecond) // a Fetch waits in vain
		}
	}
	<-read1
	read("two", n)

	// What is no request ends the connection.
	for _, bad := range [][]byte{make([]byte, 13), {0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 0, 255, 255}, {0, 0, 0, 10, 0, 3, 0, 4, 0, 0, 0, 0, 0, 99}} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write(bad); err != nil {
			t.Fatal(err)
		}
		nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := nc.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("%x: %v", bad, err)
		}
		nc.Close()
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
