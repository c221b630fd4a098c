package brokertest

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker"
	"millrace/storage"
)

var errDisk = errors.New("input/output error")

// failing makes writes below a directory fail; "/": all.
func failing(n *Node, below string) {
	n.Disk.Refuse(func(op, name string) error {
		if strings.HasPrefix(name, below) && op == "write" {
			return errDisk
		}
		return nil
	})
}

// TestNothingIsAnsweredOnceGivenUp: a broker that has lost its metadata, or its last directory, answers no request that
// comes afterwards, over an old connection or a new one, however long it takes to end, and whatever its housekeeping
// waits for.
func TestNothingIsAnsweredOnceGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		props map[string]string
		lose  func(n *Node)
		why   error
	}{
		"the metadata's directory": {threeDirs, func(n *Node) { failing(n, "/a/") }, broker.ErrMetadataDirectory},
		"the last directory":       {map[string]string{"log.dirs": "/a"}, func(n *Node) { failing(n, "/") }, storage.ErrNoDirectory},
		"the metadata":             {threeDirs, func(n *Node) { n.raft.FailSync(errDisk) }, errDisk},
		"the metadata's directory, while housekeeping waits for another": {threeDirs, func(n *Node) {
			waits := make(chan struct{}, 1)
			n.Disk.Slow(func(name string) time.Duration {
				if !strings.HasPrefix(name, "/b/") || !strings.Contains(name, "checkpoint") {
					return 0
				}
				select {
				case waits <- struct{}{}:
				default:
				}
				return 10 * time.Second
			})
			<-waits
			failing(n, "/a/")
		}, broker.ErrMetadataDirectory},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				props := maps.Clone(c.props)
				props["log.flush.offset.checkpoint.interval.ms"] = "1000"
				n := New(t, props)
				defer n.End()
				n.Net.SetBuffer(16 << 10)
				n.Start()
				admin := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.RecordDeliveryTimeout(5*time.Second))
				makeTopic(t, n, admin, "t", 3)
				for p := range int32(3) {
					if err := admin.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: make([]byte, 100<<10)}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				old, deaf := speak(t, n), speak(t, n)
				for _, req := range questions() {
					if old.ask(req); !old.answered(time.Second) {
						t.Fatalf("%T is not answered by a broker that is well", req)
					}
				}
				// Who does not take what was asked for holds up the end, so that there is time to ask.
				deaf.ask(everything())

				c.lose(n)
				// Whoever asks now makes it notice.
				notice := questions()[3]
				if c.why == errDisk {
					create := kmsg.NewPtrCreateTopicsRequest()
					rt := kmsg.NewCreateTopicsRequestTopic()
					rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "late", 1, 1
					create.Topics = append(create.Topics, rt)
					notice = create
				}
				speak(t, n).ask(notice)
				synctest.Wait() // what the broker does without waiting for time to pass, it has done
				select {
				case err := <-n.done:
					n.cancel = nil
					t.Fatalf("it has ended before it could be asked: %v", err)
				default:
				}
				for i, req := range questions() {
					for where, s := range map[string]*speaker{"an old connection": old, "a new connection": speak(t, n)} {
						if s.ask(req); s.answered(50 * time.Millisecond) {
							t.Errorf("question %d, %T over %s, is answered after the broker has failed", i, req, where)
						}
					}
				}
				select {
				case err := <-n.done:
					if n.cancel = nil; !errors.Is(err, c.why) || !errors.Is(err, errDisk) && !strings.Contains(err.Error(), errDisk.Error()) || strings.Contains(err.Error(), "\n") {
						t.Errorf("it gives up because of %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("it runs on")
				}
			})
		})
	}
}

// questions are requests that a broker which is well answers at once.
func questions() []kmsg.Request {
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, 1000
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "t"
	for p := range int32(3) {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p, oneRecord(-1, -1)
		pt.Partitions = append(pt.Partitions, rp)
	}
	produce.Topics = append(produce.Topics, pt)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = "t"
	for p := range int32(3) {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, -1
		lt.Partitions = append(lt.Partitions, rp)
	}
	list.Topics = append(list.Topics, lt)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	return []kmsg.Request{kmsg.NewPtrApiVersionsRequest(), metadata, list, produce}
}

// everything asks for more records than a connection holds.
func everything() kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch = 12, 1<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "t"
	for p := range int32(3) {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes = p, 1<<20
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// speaker is a connection that frames are written to as they are.
type speaker struct {
	nc interface {
		io.ReadWriteCloser
		SetDeadline(time.Time) error
	}
	format *kmsg.RequestFormatter
	last   int32 // correlation id
}

// speak opens a connection; to a broker that takes none, asking comes to nothing.
func speak(t *testing.T, n *Node) *speaker {
	s := &speaker{format: kmsg.NewRequestFormatter()}
	if nc, err := n.Net.Dial(t.Context(), "tcp", "broker:9092"); err == nil {
		t.Cleanup(func() { nc.Close() })
		s.nc = nc
	}
	return s
}

func (s *speaker) ask(req kmsg.Request) {
	s.last++
	if s.nc != nil {
		s.nc.SetDeadline(time.Now().Add(time.Second))
		_, _ = s.nc.Write(s.format.AppendRequest(nil, req, s.last)) // to a closed one it may fail
	}
}

// answered says whether the last request is answered within a time.
func (s *speaker) answered(within time.Duration) bool {
	if s.nc == nil {
		return false
	}
	s.nc.SetDeadline(time.Now().Add(within))
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(s.nc, head); err != nil {
			return false
		}
		if _, err := io.CopyN(io.Discard, s.nc, int64(binary.BigEndian.Uint32(head))-4); err != nil {
			return false
		}
		if int32(binary.BigEndian.Uint32(head[4:])) == s.last {
			return true
		}
	}
}
