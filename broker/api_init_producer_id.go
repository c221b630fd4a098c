package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
)

// InitProducerId (22), versions 0-5. KIP-98, KIP-360 (id and epoch in the
// request, v3).
//
// Without a transactional id: a new producer id at epoch 0, from a block that
// the controller has allotted to this broker (KIP-730). With one:
// UNSUPPORTED_VERSION and a log line until transactions are built.

func (b *Broker) initProducerID(c *call, req *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if c.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	if req.TransactionalID != nil {
		switch {
		case !c.allowed(auth.Write, auth.TransactionalID, *req.TransactionalID):
			resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		case *req.TransactionalID == "":
			resp.ErrorCode = kerr.InvalidRequest.Code
		default:
			b.refused.Warn("transactions are not built yet: InitProducerId with a transactional id is refused", zap.String("transactional.id", *req.TransactionalID))
			resp.ErrorCode = kerr.UnsupportedVersion.Code
		}
		return resp
	}
	if !c.allowed(auth.IdempotentWrite, auth.Cluster, auth.ClusterName) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp
	}
	c.Waiting()
	id, err := b.producerIDs.next(c.ctx)
	if err != nil {
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}

// producerIDs hands out producer ids from blocks that the controller allots;
// each id is given once in the life of a cluster (KIP-730). The next block is
// asked for when the present one is used up.
type producerIDs struct {
	allot func(ctx context.Context) (first int64, count int32, err error)

	turn      chan struct{} // holds one token: the right to what follows
	from, end int64         // the unused part of the block: [from, end)
}

// producerIDTimeout is how long a producer waits for a block; then it is told
// COORDINATOR_LOAD_IN_PROGRESS and asks again.
const producerIDTimeout = 5 * time.Second

func newProducerIDs(allot func(context.Context) (int64, int32, error)) *producerIDs {
	return &producerIDs{allot: allot, turn: make(chan struct{}, 1)}
}

// next gives an id. Those who wait while another asks for a block have the same
// time as that one, and do not take theirs one after the other.
func (p *producerIDs) next(ctx context.Context) (id int64, err error) {
	err = p.filled(ctx, func() {
		id = p.from
		p.from++
	})
	return id, err
}

// fill sees to it that the next id is at hand.
func (p *producerIDs) fill(ctx context.Context) error { return p.filled(ctx, func() {}) }

// filled calls take when there is an id to be taken.
func (p *producerIDs) filled(ctx context.Context, take func()) error {
	ctx, cancel := context.WithTimeout(ctx, producerIDTimeout)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.from == p.end {
		first, count, err := p.allot(ctx)
		if err != nil {
			return err
		}
		p.from, p.end = first, first+int64(count)
	}
	take()
	return nil
}

// allotProducerIDs asks the controller for a block (AllocateProducerIds).
func (b *Broker) allotProducerIDs(ctx context.Context) (int64, int32, error) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = b.nodeID, b.brokerEpoch.Load()
	got, err := b.change(ctx, "", req, producerIDTimeout)
	if err != nil {
		return 0, 0, err
	}
	resp := got.(*kmsg.AllocateProducerIDsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, 0, err
	}
	return resp.ProducerIDStart, resp.ProducerIDLen, nil
}
