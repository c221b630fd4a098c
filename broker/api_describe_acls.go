package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// DescribeAcls (29), versions 0-3. KIP-140, KIP-290 (pattern types, v1), KIP-373
// (the user resource type, v3).
//
// There is no authorizer: SECURITY_DISABLED, as Kafka answers without
// authorizer.class.name. Consoles ask, and show then that there are no ACLs. A
// filter with an UNKNOWN enum closes the connection (package wire).

func (b *Broker) describeACLs(c *call, _ *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr("No Authorizer is configured on the broker")
	if !c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, kmsg.StringPtr(errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	return resp
}

// withoutAuthorizer is what every change of ACLs comes to.
func (c *call) withoutAuthorizer() (int16, *string) {
	if !c.allowed(auth.Alter, auth.Cluster, auth.ClusterName) {
		return kerr.ClusterAuthorizationFailed.Code, kmsg.StringPtr(errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	return kerr.SecurityDisabled.Code, kmsg.StringPtr("No Authorizer is configured.")
}
