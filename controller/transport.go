package controller

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Transport carries raft messages between controllers. A group of one has none.
// Raft bears loss, repetition and reordering; a transport need not be better
// than that, but must not alter a message.
type Transport interface {
	// Send takes messages to peers, each addressed by its raft id, and never
	// blocks: what does not fit is dropped.
	Send(messages []*pb.Message)
	// Receive gives the messages that came for this controller.
	Receive() <-chan *pb.Message
	// Failed gives the peers that a message could not be delivered to.
	Failed() <-chan Undelivered
}

// Undelivered says what did not reach a peer.
type Undelivered struct {
	To       uint64
	Snapshot bool
}

// raftLog hands raft's own log lines to ours. Elections are news of raft, not of
// the broker: the controller itself logs who leads.
type raftLog struct{ log *zap.Logger }

func (r raftLog) Debug(v ...any)                   {}
func (r raftLog) Debugf(format string, v ...any)   {}
func (r raftLog) Info(v ...any)                    { r.log.Debug(fmt.Sprint(v...)) }
func (r raftLog) Infof(format string, v ...any)    { r.debugf(format, v...) }
func (r raftLog) Warning(v ...any)                 { r.log.Warn(fmt.Sprint(v...)) }
func (r raftLog) Warningf(format string, v ...any) { r.log.Warn(fmt.Sprintf(format, v...)) }
func (r raftLog) Error(v ...any)                   { r.log.Error(fmt.Sprint(v...)) }
func (r raftLog) Errorf(format string, v ...any)   { r.log.Error(fmt.Sprintf(format, v...)) }
func (r raftLog) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (r raftLog) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (r raftLog) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (r raftLog) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }

// debugf spares the formatting when nobody reads it.
func (r raftLog) debugf(format string, v ...any) {
	if r.log.Core().Enabled(zap.DebugLevel) {
		r.log.Debug(fmt.Sprintf(format, v...))
	}
}
