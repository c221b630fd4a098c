package brokertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zapcore"

	"millrace/broker"
	"millrace/controller/config"
	"millrace/controller/raftlog"
)

var errFull = errors.New("no space left")

// A broker whose metadata can not be written any more ends by itself, and says why
// once, however many were waiting for the controller.
func TestGivesUpWhenTheMetadataDiskIsFull(t *testing.T) {
	for _, when := range []string{"from the start", "later"} {
		t.Run(when, func(t *testing.T) {
			static, _, err := config.ParseStatic(map[string]string{
				"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir(), "broker.heartbeat.interval.ms": "50",
			})
			if err != nil {
				t.Fatal(err)
			}
			l := raftlog.NewMemory()
			if when == "from the start" {
				l.FailSync(errFull)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = broker.Run(ctx, broker.Options{Config: static, RaftLog: l, Ready: func(i broker.Info) {
				if when != "later" {
					t.Error("it got ready")
				}
				l.FailSync(errFull)
				go func() {
					c, err := kgo.NewClient(kgo.SeedBrokers(i.Bootstrap...))
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					_, _ = kadm.NewClient(c).CreateTopic(ctx, 1, 1, nil, "too-much") // the broker goes
				}()
			}})
			switch {
			case ctx.Err() != nil:
				t.Fatal("it did not end by itself")
			case !errors.Is(err, errFull):
				t.Fatalf("it ended with %v", err)
			case strings.Count(err.Error(), errFull.Error()) != 1 || strings.Contains(err.Error(), "\n"):
				t.Errorf("it does not say why in one line:\n%v", err)
			}
		})
	}
}

// Topics without records are known to the metadata alone: a node that has been stopped
// in order does not found its cluster anew when that is gone, however often it is
// started; and that it was put back as it was earlier is told.
func TestMetadataOfAnEarlierTime(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		n.Stop()
		earlier := n.Metadata()
		n.Start()
		if _, err := kadm.NewClient(n.Client()).CreateTopic(t.Context(), 3, 1, nil, "without-records"); err != nil {
			t.Fatal(err)
		}
		n.Stop()
		back := n.Metadata()
		for range 2 {
			n.raft = raftlog.NewMemory()
			if err := n.StartError(); !errors.Is(err, broker.ErrNoMetadata) || !strings.Contains(err.Error(), "broker epoch") || strings.Contains(err.Error(), "\n") {
				t.Errorf("without metadata the start ends with %v", err)
			}
		}
		back()
		lines := n.Observe(zapcore.WarnLevel)
		n.Start()
		if got, err := kadm.NewClient(n.Client()).ListTopics(t.Context()); err != nil || !got.Has("without-records") || lines.Len() > 0 {
			t.Errorf("%v, %v, %v", got.Names(), err, lines.All())
		}
		n.Stop()
		earlier()
		n.Start()
		if lines.FilterMessageSnippet("the metadata are older than the last stop").Len() != 1 {
			t.Errorf("an earlier time's metadata: %v", lines.All())
		}
	})
}

// A directory that holds partitions is not founded anew when its metadata is gone:
// the new cluster would know none of them and put them all aside.
func TestLostMetadataIsNoNewCluster(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		Produce(t, n.Client(kgo.AllowAutoTopicCreation()), "kept", "v", 3)
		n.Stop()
		metadata := n.raft
		n.raft = raftlog.NewMemory()
		err := n.StartError()
		if !errors.Is(err, broker.ErrNoMetadata) || !strings.Contains(err.Error(), "kept-0") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the start ends with %v", err)
		}
		if _, err := n.Disk.Stat("/data/.kafka_cleanshutdown"); err != nil {
			t.Errorf("the start that was refused took the mark of a clean stop: %v", err)
		}
		n.raft = metadata
		n.Start()
		if got := Consume(t, n.Client(kgo.ConsumeTopics("kept"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 3); len(got) != 3 {
			t.Errorf("%d records are left", len(got))
		}
	})
}
