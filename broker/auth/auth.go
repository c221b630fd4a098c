// Package auth decides who may do what. It holds the words of Kafka's
// authorization (operations, resource types) and the Authorizer interface that
// every handler asks before it acts. The only authorizer so far lets everyone
// do everything, as a Kafka broker without authorizer.class.name does; a
// configuration that asks for another one stops the start.
//
// It is not authentication: the principal comes in with the connection.
package auth

import "net/netip"

// Operation is an ACL operation by Kafka's code (KIP-11).
type Operation int8

// The operations, by the bit number they have in authorized-operations fields
// (KIP-430).
const (
	All             Operation = 2
	Read            Operation = 3
	Write           Operation = 4
	Create          Operation = 5
	Delete          Operation = 6
	Alter           Operation = 7
	Describe        Operation = 8
	ClusterAction   Operation = 9
	DescribeConfigs Operation = 10
	AlterConfigs    Operation = 11
	IdempotentWrite Operation = 12
)

// ResourceType is the kind of thing an operation acts on, by Kafka's code.
type ResourceType int8

// The resource types that served APIs ask about.
const (
	Topic           ResourceType = 2
	Group           ResourceType = 3
	Cluster         ResourceType = 4
	TransactionalID ResourceType = 5
)

// ClusterName is the name of the one cluster resource.
const ClusterName = "kafka-cluster"

// Action is one operation on one resource.
type Action struct {
	Operation Operation
	Type      ResourceType
	Name      string
}

// Subject is who asks: the principal of the connection and the host it comes
// from.
type Subject struct {
	Principal string // "User:ANONYMOUS" where nothing authenticated it
	Host      netip.Addr
}

// Authorizer says whether a subject may act. It is called on the request path
// and must not block.
type Authorizer interface {
	Allowed(s Subject, a Action) bool
}

// AllowAll is the authorizer of a broker that has none.
type AllowAll struct{}

// Allowed says yes.
func (AllowAll) Allowed(Subject, Action) bool { return true }

// operations lists what may be done to each type of resource (AclEntry), in
// code order.
var operations = map[ResourceType][]Operation{
	Topic:           {Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs},
	Group:           {Read, Delete, Describe, DescribeConfigs, AlterConfigs},
	Cluster:         {Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite},
	TransactionalID: {Write, Describe},
}

// NotAsked is the authorized-operations field of an answer whose request did
// not ask for it (KIP-430).
const NotAsked int32 = -2147483648

// Operations gives the bit field of what a subject may do to a resource: bit n
// is set for operation code n (KIP-430).
func Operations(a Authorizer, s Subject, t ResourceType, name string) int32 {
	var bits int32
	for _, op := range operations[t] {
		if a.Allowed(s, Action{Operation: op, Type: t, Name: name}) {
			bits |= 1 << op
		}
	}
	return bits
}
