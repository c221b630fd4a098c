package state

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/wire/records"
)

// producerIDBlock is how many producer ids a broker gets at a time.
const producerIDBlock = 1000

func (d *Decider) allocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	if !d.knows(req.BrokerID, req.BrokerEpoch) {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	first := d.working.NextProducerID()
	if first > math.MaxInt64-producerIDBlock {
		resp.ErrorCode = kerr.UnknownServerError.Code
		return resp
	}
	d.write(&records.ProducerIdsRecord{BrokerId: req.BrokerID, BrokerEpoch: req.BrokerEpoch, NextProducerId: first + producerIDBlock})
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlock
	return resp
}
