// Package brokertest runs whole brokers in one process and in virtual time: a
// network, a disk and a raft log in memory under the real broker, and a real
// client of another project (kgo) against it, all within one testing/synctest
// bubble. A day of expiry passes in the time it takes to compute it.
//
// It is not a mock: everything above the three twins is what the binary runs.
// What the twins leave out (sendfile, bbolt, signals) is covered by tests of
// the binary itself.
package brokertest

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"millrace/broker"
	"millrace/broker/auth"
	"millrace/controller/config"
	"millrace/controller/raftlog"
	"millrace/storage/disktest"
	"millrace/wire/wiretest"
)

// Node is one broker and what it stands on. It may be stopped, killed and
// started again; disk and metadata stay.
type Node struct {
	t     testing.TB
	Net   *wiretest.Network
	Disk  *disktest.FS
	raft  *raftlog.Memory
	props map[string]string

	Authorizer auth.Authorizer // from the next start; nil: everything is allowed
	Logger     *zap.Logger     // from the next start; nil: silent

	Info   broker.Info
	cancel context.CancelFunc
	done   chan error

	clients []*kgo.Client
}

// Observe has the broker log, from its next start, to what it gives back.
func (n *Node) Observe(level zapcore.Level) *observer.ObservedLogs {
	core, lines := observer.New(level)
	n.Logger = zap.New(core)
	return lines
}

// New makes a node, not yet running. Call it inside the bubble. props are
// Kafka's server properties over the defaults of a test.
func New(t testing.TB, props map[string]string) *Node {
	all := map[string]string{
		"listeners": "PLAINTEXT://broker:9092", "log.dirs": "/data",
		"offsets.topic.num.partitions": "4",
	}
	for k, v := range props {
		all[k] = v
	}
	return &Node{t: t, Net: wiretest.New(), Disk: disktest.New(), raft: raftlog.NewMemory(), props: all}
}

// Configure changes a server property for the next start; "" takes it away.
func (n *Node) Configure(key, value string) {
	if n.props[key] = value; value == "" {
		delete(n.props, key)
	}
}

// Start runs the broker and returns when it is ready.
func (n *Node) Start() {
	n.t.Helper()
	if err := n.start(); err != nil {
		n.t.Fatalf("the broker does not start: %v", err)
	}
}

// StartError starts a broker that is not to come up, and returns why.
func (n *Node) StartError() error {
	n.t.Helper()
	err := n.start()
	if err == nil {
		n.t.Fatal("the broker starts")
	}
	return err
}

func (n *Node) start() error {
	static, _, err := config.ParseStatic(n.props)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan broker.Info, 1), make(chan error, 1)
	go func() {
		done <- broker.Run(ctx, broker.Options{
			Config: static, FS: n.Disk, RaftLog: n.raft,
			Listen:     func(_ context.Context, address string) (net.Listener, error) { return n.Net.Listen(address) },
			Authorizer: n.Authorizer, Logger: n.Logger,
			Ready: func(i broker.Info) { ready <- i },
		})
	}()
	select {
	case n.Info = <-ready:
		n.cancel, n.done = cancel, done
		return nil
	case err := <-done:
		cancel()
		return err
	}
}

// Stop stops the broker in order.
func (n *Node) Stop() {
	n.t.Helper()
	n.cancel()
	err := <-n.done
	n.cancel = nil
	if err != nil {
		n.t.Fatalf("the broker does not stop in order: %v", err)
	}
	n.raft = n.raft.Crash() // closed in order, everything in it was synced
}

// Metadata copies what a stopped broker has of its cluster's metadata, and returns
// what puts the copy back in the place of newer ones.
func (n *Node) Metadata() (back func()) {
	kept := n.raft.Crash()
	return func() { n.raft = kept }
}

// Kill ends the process: whatever it does after this moment reaches neither
// disk nor client. What was written before stays, synced or not.
func (n *Node) Kill() {
	n.lose()
	n.Disk.Kill()
}

// PowerCut ends the machine: what was not synced is gone.
func (n *Node) PowerCut() {
	n.lose()
	n.Disk.Crash(nil)
}

func (n *Node) lose() {
	n.Disk.Halt() // what it does on its way down reaches nothing either
	crashed := n.raft.Crash()
	n.Net.Reset("broker", "client")
	n.cancel()
	<-n.done // it cannot stop in order any more, and says so
	n.cancel = nil
	n.raft = crashed
}

// End closes what is still open, so that a bubble can end whatever became of its
// test.
func (n *Node) End() {
	for _, c := range n.clients {
		c.CloseAllowingRebalance()
	}
	if n.cancel != nil {
		n.cancel()
		<-n.done
	}
}

// Client is a kgo client of the node. Whoever does not close it leaves that to
// End.
func (n *Node) Client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Info.Bootstrap...), kgo.Dialer(n.Net.Dial)}, opts...)...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.clients = append(n.clients, c)
	return c
}

// Produce sends records named "<prefix><i>" to a topic and fails the test
// unless all are acknowledged.
func Produce(t testing.TB, c *kgo.Client, topic, prefix string, count int) {
	t.Helper()
	var rs []*kgo.Record
	for i := range count {
		rs = append(rs, &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte(prefix + strconv.Itoa(i))})
	}
	if err := c.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
		t.Fatalf("producing: %v", err)
	}
}

// Consume polls until count records have come, or a minute of virtual time has
// passed without one.
func Consume(t testing.TB, c *kgo.Client, count int) []*kgo.Record {
	t.Helper()
	var got []*kgo.Record
	for len(got) < count {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		fs := c.PollFetches(ctx)
		cancel()
		if err := fs.Err(); err != nil {
			t.Fatalf("consuming: %v after %d of %d records", err, len(got), count)
		}
		got = append(got, fs.Records()...)
	}
	return got
}
