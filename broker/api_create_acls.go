package broker

import "github.com/twmb/franz-go/pkg/kmsg"

// CreateAcls (30), versions 0-3. KIP-140, KIP-290 (pattern types, v1), KIP-373
// (the user resource type, v3).
//
// There is no authorizer: SECURITY_DISABLED for each, whatever it is.

func (b *Broker) createACLs(c *call, req *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	resp := kmsg.NewPtrCreateACLsResponse()
	for range req.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = c.withoutAuthorizer()
		resp.Results = append(resp.Results, r)
	}
	return resp
}
