package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// DeleteAcls (31), versions 0-3. KIP-140, KIP-290 (pattern types, v1), KIP-373
// (the user resource type, v3).
//
// There is no authorizer: SECURITY_DISABLED for each filter.

func (b *Broker) deleteACLs(c *call, req *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range req.Filters {
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = c.withoutAuthorizer()
		resp.Results = append(resp.Results, r)
	}
	return resp
}
