package broker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/group"
	"millrace/broker/machine"
	"millrace/broker/metrics"
	"millrace/controller/config"
	"millrace/controller/image"
)

// scrape is what /metrics shows.
func scrape(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A fetch that waits when its topic is deleted is woken, reads once more, and is
// answered; the topic's metrics stay gone.
func TestMetricsOfADeletedTopic(t *testing.T) {
	address := make(chan string, 1)
	nc := servingWith(t, Options{Monitoring: Monitoring{Address: "127.0.0.1:0", Listening: func(a string) { address <- a }}})
	at := <-address
	buf := make([]byte, 1<<20)
	walkable(t, nc, 1024)
	waits := kmsg.NewPtrFetchRequest()
	waits.ReplicaID, waits.MinBytes, waits.MaxBytes, waits.MaxWaitMillis, waits.SessionEpoch = -1, 1, 1<<20, 60000, -1
	ft, fp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	ft.Topic, fp.CurrentLeaderEpoch, fp.LastFetchedEpoch, fp.LogStartOffset, fp.PartitionMaxBytes = "walk", -1, -1, -1, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	waits.Topics = append(waits.Topics, ft)
	fetched := make(chan error, 1)
	go func() {
		_, err := nc.Write(frameOf(waits, 11))
		if err == nil {
			_, err = io.ReadFull(nc, make([]byte, 4))
		}
		fetched <- err
	}()
	for i := 0; !strings.Contains(scrape(t, at), `kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"} 1`); i++ {
		if i == 500 {
			t.Fatalf("no fetch waits:\n%s", scrape(t, at))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if text := scrape(t, at); !strings.Contains(text, `topic="walk"`) {
		t.Fatalf("the topic has no metrics:\n%s", text)
	}
	other, err := net.Dial("tcp", nc.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.TopicNames, drop.TimeoutMillis = []string{"walk"}, 10000
	exchange(t, other, frameOf(drop, 3), buf)
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(scrape(t, at), "\n") {
		if strings.Contains(line, `topic="walk"`) {
			t.Errorf("a deleted topic is shown: %s", line)
		}
	}
}

// What requests count of a topic that is not there goes nowhere; in all it counts.
func TestCountsOfATopicThatIsGone(t *testing.T) {
	there := true
	o := newObservation(func(string) bool { return there })
	o.read("t", nil)
	there = false
	o.forget("t")
	o.read("t", nil)
	o.appended("t", 1, 10, nil)
	o.sent("t", 10, false)
	o.recompressed("t", 1)
	if len(o.topics) != 0 || o.all.fetches.Load() != 2 || o.all.bytesIn.Load() != 10 || o.all.bytesOut.Load() != 10 {
		t.Errorf("%d topics, in all %d fetches, %d bytes in, %d out", len(o.topics), o.all.fetches.Load(), o.all.bytesIn.Load(), o.all.bytesOut.Load())
	}
	there = true
	o.read("t", nil)
	if n := o.topic("t").fetches.Load(); n != 1 {
		t.Errorf("a topic made anew begins with %d fetches", n-1)
	}
}

// Listeners that are gone leave no counts.
func TestCountsOfAListenerThatIsGone(t *testing.T) {
	o := newObservation(nil)
	o.listener("GONE").in.Add(1)
	o.listener("STAYS").in.Add(1)
	o.keepListeners(map[string]int{"STAYS": 0})
	if len(o.listeners) != 1 || o.listener("STAYS").in.Load() != 1 {
		t.Errorf("%d listeners are left", len(o.listeners))
	}
}

// watched starts a broker that is counted, and is told to stop by the test.
func watched(t *testing.T) *Broker {
	t.Helper()
	static, _, err := config.ParseStatic(map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := start(context.Background(), Options{Config: static, Monitoring: Monitoring{Address: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whoever takes the values may be slow: no lock that requests want is held then.
func TestGatheringHoldsUpNoRequest(t *testing.T) {
	b := watched(t)
	b.seen.topics["t"] = &topicCounts{}
	b.seen.topic("t").fetches.Add(1)
	b.seen.software[softwareKey{"client", "1", "PLAINTEXT"}] = 1
	locks := []struct {
		name    string
		try     func() bool
		release func()
	}{
		{"topics", b.seen.topicsMu.TryLock, b.seen.topicsMu.Unlock},
		{"listeners", b.seen.listenersMu.TryLock, b.seen.listenersMu.Unlock},
		{"software", b.seen.softwareMu.TryLock, b.seen.softwareMu.Unlock},
		{"telemetry", b.telemetry.mu.TryLock, b.telemetry.mu.Unlock},
		{"replicas", b.replicas.mu.TryLock, b.replicas.mu.Unlock},
	}
	told := map[*metrics.Metric]bool{}
	b.Gather(context.Background(), func(m *metrics.Metric, _ float64, _ ...string) {
		told[m] = true
		for _, l := range locks {
			free := l.try()
			for i := 0; !free && i < 100; i++ { // others may hold it for a moment
				time.Sleep(time.Millisecond)
				free = l.try()
			}
			if !free {
				t.Errorf("the lock of %s is held while %s is told", l.name, m.Name)
				continue
			}
			l.release()
		}
	})
	for _, m := range []*metrics.Metric{metrics.TotalFetch, metrics.Software, metrics.Instances, metrics.Build} {
		if !told[m] {
			t.Errorf("%s was not told", m.Name)
		}
	}
	if err := b.stop(nil); err != nil {
		t.Error(err)
	}
}

// A directory that gets no new logs is told, and counted (KIP-1066).
func TestCordonedDirectories(t *testing.T) {
	b := watched(t)
	seen := func() (sum, of float64) {
		b.Gather(t.Context(), func(m *metrics.Metric, v float64, labels ...string) {
			switch {
			case m == metrics.CordonedDirs:
				sum += v
			case m == metrics.DirectoryCordoned && len(labels) == 1:
				of += v
			}
		})
		return sum, of
	}
	if sum, of := seen(); sum != 0 || of != 0 {
		t.Errorf("none is cordoned: %v, %v", sum, of)
	}
	b.store.Cordon([]string{"*"})
	if sum, of := seen(); sum != 1 || of != 1 {
		t.Errorf("one is cordoned: %v, %v", sum, of)
	}
	if err := b.stop(nil); err != nil {
		t.Error(err)
	}
}

// A broker that stops closes nothing under one who gathers, and tells him to end.
func TestStopAwaitsTheGatherer(t *testing.T) {
	b := watched(t)
	stopped, gathering, gathered := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gathered)
		b.Gather(context.Background(), func(m *metrics.Metric, _ float64, _ ...string) {
			if m != metrics.DirectoryDown {
				return
			}
			close(gathering)
			<-b.running.Done()
			select {
			case err := <-stopped:
				t.Error("the broker has stopped under a gatherer")
				stopped <- err
			case <-time.After(300 * time.Millisecond):
			}
		})
	}()
	<-gathering
	go func() { stopped <- b.stop(nil) }()
	<-gathered
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	b.Gather(context.Background(), func(m *metrics.Metric, _ float64, _ ...string) {
		if m == metrics.DirectoryDown {
			t.Error("a broker that has stopped is looked into")
		}
	})
}

// manyGroups answers as a coordinator with so many groups, each with as many
// offsets.
type manyGroups struct {
	groups, offsets     int
	fetches, describing int
}

func (m *manyGroups) Loaded() bool { return true }

func (m *manyGroups) Do(_ context.Context, q machine.Request) (any, error) {
	switch r := q.Body.(type) {
	case group.CountOffsets:
		return group.CountedOffsets(m.groups * m.offsets), nil
	case *kmsg.ListGroupsRequest:
		resp := kmsg.NewPtrListGroupsResponse()
		for i := range m.groups {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.GroupState, g.GroupType = fmt.Sprint("g", i), "Empty", "classic"
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	case *kmsg.OffsetFetchRequest:
		m.fetches++
		resp := kmsg.NewPtrOffsetFetchResponse()
		g, topic := kmsg.NewOffsetFetchResponseGroup(), kmsg.NewOffsetFetchResponseGroupTopic()
		g.Group, topic.Topic = r.Groups[0].Group, "t"
		for i := range m.offsets {
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.Offset = int32(i), 5
			topic.Partitions = append(topic.Partitions, p)
		}
		g.Topics = append(g.Topics, topic)
		resp.Groups = append(resp.Groups, g)
		return resp, nil
	case *kmsg.DescribeGroupsRequest:
		m.describing++
		resp := kmsg.NewPtrDescribeGroupsResponse()
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group = r.Groups[0]
		resp.Groups = append(resp.Groups, g)
		return resp, nil
	}
	return nil, fmt.Errorf("asked for %T", q.Body)
}

// Beyond the bounds, groups are counted and their offsets are, but they are not
// asked for one by one.
func TestGatheringManyGroups(t *testing.T) {
	b := &Broker{}
	b.publisher.current.Store(image.New())
	for _, c := range []struct{ groups, offsets, shown, cut int }{
		{3, 2, 3, 0}, {maxGroupSeries, 1, maxGroupSeries, 0}, {maxGroupSeries + 500, 1, maxGroupSeries, 0}, {10, maxOffsetSeries / 4, 4, 0},
		{2, maxOffsetSeries - 1, 2, 1}, {2, maxOffsetSeries * 3, 1, 1}, // one that is shown in part
	} {
		// Two coordinators, and one bound.
		shards := []*manyGroups{{groups: c.groups, offsets: c.offsets}, {groups: 1, offsets: c.offsets}}
		told := map[*metrics.Metric]float64{}
		gatherGroups(context.Background(), b, shards, func(m *metrics.Metric, v float64, labels ...string) {
			if len(labels) > 0 {
				v = told[m] + 1 // the series
			}
			told[m] = v
		})
		all, asked := c.groups+1, shards[0].fetches+shards[1].fetches
		shown := c.shown
		if c.shown == 3 {
			shown++ // the other coordinator's
		}
		if asked != shown || shards[0].describing+shards[1].describing != shown || told[metrics.GroupOffset] != float64(min(shown*c.offsets, maxOffsetSeries)) {
			t.Errorf("%+v: offsets of %d groups are asked for, %v series", c, asked, told[metrics.GroupOffset])
		}
		if told[metrics.Groups] != float64(all) || told[metrics.Offsets] != float64(all*c.offsets) || told[metrics.GroupsLeftOut] != float64(all-shown+c.cut) {
			t.Errorf("%+v: %v groups, %v offsets, %v left out", c, told[metrics.Groups], told[metrics.Offsets], told[metrics.GroupsLeftOut])
		}
	}
}
