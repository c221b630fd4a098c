// Package controller keeps the cluster's metadata: it agrees on it through raft,
// decides changes while it leads, and hands every committed image on.
//
// It is the thin part. What to write is decided in controller/state, what it
// means in controller/image; raft itself is go.etcd.io/raft. A member (member.go)
// joins the three and has no goroutine, no clock and no channel, so that a whole
// group can be run in one test, step by step. Controller is the one goroutine
// that owns a member, and the timer and transport around it. A single node is a
// raft group of one: the same code.
//
// It promises:
//   - The metadata offset is the raft index. An entry holds the records of all
//     requests that were decided together, and applies whole or not at all.
//   - Nothing is let out (an answer, an image, a message to a peer) before all
//     that it rests on is durable here. Inside one turn of the loop the member
//     runs ahead of the disk; one sync ends the turn.
//   - A request is decided only by the leader of a term that has applied the
//     first entry of its own term, on an image that holds all it proposed since.
//     Losing the leadership drops that image and answers what was pending with
//     "not the active controller", upon which the client asks again.
package controller
