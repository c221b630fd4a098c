package controller

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/controller/config"
)

// errMustJoin says that a node with an empty log may not found a cluster.
var errMustJoin = errors.New("this node has no metadata and is to join a cluster, not to found one")

// founders are the nodes whose cluster a node with an empty log helps to found:
// itself if no quorum is configured, or if the bootstrap servers name nothing but
// itself; the configured voters if it is one of them. Any other node has to be
// admitted to a cluster that is there.
func founders(node int32, voters []config.Voter, bootstrap []config.Address, itself func(config.Address) bool) ([]int32, error) {
	if len(voters) > 0 {
		var ids []int32
		for _, v := range voters {
			ids = append(ids, v.ID)
		}
		if !slices.Contains(ids, node) {
			return nil, fmt.Errorf("node %d is not in controller.quorum.voters: %w", node, errMustJoin)
		}
		slices.Sort(ids)
		return ids, nil
	}
	for _, a := range bootstrap {
		if !itself(a) {
			return nil, fmt.Errorf("controller.quorum.bootstrap.servers names %s:%d: %w", a.Host, a.Port, errMustJoin)
		}
	}
	return []int32{node}, nil
}

// confOf is the raft group of founders, each in its first incarnation.
func confOf(nodes []int32) *pb.ConfState {
	c := &pb.ConfState{}
	for _, n := range nodes {
		c.Voters = append(c.Voters, RaftID(n, 0))
	}
	return pb.EnsureConfState(c)
}

// newClusterID makes a cluster id as Kafka does: a random UUID in URL-safe
// base64, not beginning with a dash.
func newClusterID(seed [32]byte) string {
	for {
		seed = sha256.Sum256(seed[:])
		id := seed[:16]
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if text := base64.RawURLEncoding.EncodeToString(id); text[0] != '-' {
			return text
		}
	}
}
