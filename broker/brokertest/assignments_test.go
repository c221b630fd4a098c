package brokertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAssignmentsTooLarge: assignments that a record of __consumer_offsets cannot
// hold are refused as Kafka refuses them, with -1, and the group rebalances; smaller
// ones are taken then.
func TestAssignmentsTooLarge(t *testing.T) {
	bubble(t, map[string]string{"group.initial.rebalance.delay.ms": "0"}, func(t *testing.T, n *Node) {
		c := n.Client()
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		ask[*kmsg.FindCoordinatorResponse](t, n, c, find)
		member := ""
		join := func() *kmsg.JoinGroupResponse {
			t.Helper()
			req := kmsg.NewPtrJoinGroupRequest()
			req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "g", member, "consumer", 30000, 30000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
			got := ask[*kmsg.JoinGroupResponse](t, n, c, req)
			member = got.MemberID
			return got
		}
		if got := join(); got.ErrorCode != 79 {
			t.Fatalf("a first join: %d, not MEMBER_ID_REQUIRED", got.ErrorCode)
		}
		for size, want := range map[int]int16{1048588: -1, 1000000: 0} {
			joined := join()
			if joined.ErrorCode != 0 {
				t.Fatalf("joining: %d", joined.ErrorCode)
			}
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Group, sync.MemberID, sync.Generation, sync.ProtocolType, sync.Protocol = "g", member, joined.Generation, joined.ProtocolType, joined.Protocol
			sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: make([]byte, size)}}
			got := ask[*kmsg.SyncGroupResponse](t, n, c, sync)
			if got.ErrorCode != want {
				t.Errorf("an assignment of %d bytes: %d, not %d", size, got.ErrorCode, want)
			}
			describe := kmsg.NewPtrDescribeGroupsRequest()
			describe.Groups = []string{"g"}
			state := map[int16]string{0: "Stable", -1: "PreparingRebalance"}[want]
			if got := ask[*kmsg.DescribeGroupsResponse](t, n, c, describe).Groups[0].State; got != state {
				t.Errorf("after an assignment of %d bytes the group is %s, not %s", size, got, state)
			}
		}
	})
}
