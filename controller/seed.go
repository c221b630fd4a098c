package controller

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/controller/image"
	"millrace/controller/raftlog"
)

// Seed makes an empty raft log that of a group of one node, whose metadata is an
// image that came from elsewhere. It is durable when this returns; the log stays
// open.
func Seed(log raftlog.Log, nodeID int32, img *image.Image) error {
	conf := confOf([]int32{nodeID})
	if err := log.Found(RaftID(nodeID, 0), conf); err != nil {
		return fmt.Errorf("founding a cluster: %w", err)
	}
	index := uint64(img.Offset())
	if index <= raftlog.FoundingIndex {
		return fmt.Errorf("founding a cluster: its image is of offset %d", index)
	}
	err := log.Install(&pb.Snapshot{Data: img.Snapshot().Append(nil), Metadata: pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{
		ConfState: conf, Index: new(index), Term: new(uint64(raftlog.FoundingTerm)),
	})})
	if err != nil {
		return fmt.Errorf("founding a cluster: %w", err)
	}
	return nil
}
