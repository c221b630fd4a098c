//go:build compat

package adopt

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// commit has a broker hold committed offsets of every fate, and groups that have members, had some, and are gone.
func commit(t *testing.T, addr string) {
	t.Helper()
	ctx, adm := t.Context(), kadm.NewClient(client(t, addr))
	for i := range 3 {
		ok(t, adm.CommitAllOffsets(ctx, "readers", kadm.Offsets{"plain": {0: {Topic: "plain", At: int64(3 + i), LeaderEpoch: int32(i) - 1, Metadata: fmt.Sprint("m", i)}}}))
	}
	// Offsets that are deleted leave tombstones, one by one and with their group.
	two := kadm.Offsets{"plain": {0: {Topic: "plain", At: 7, LeaderEpoch: -1}}, "dense": {0: {Topic: "dense", At: 1, LeaderEpoch: 0}}}
	for _, group := range []string{"forgetful", "gone"} {
		ok(t, adm.CommitAllOffsets(ctx, group, two))
	}
	deleted, err := adm.DeleteOffsets(ctx, "forgetful", kadm.TopicsSet{"plain": {0: {}}})
	ok(t, cmp.Or(err, deleted.Error()))
	gone, err := adm.DeleteGroups(ctx, "gone")
	ok(t, cmp.Or(err, gone.Error()))
	c := conn(t, addr)
	// A group whose member stays, and one whose member has left.
	for _, group := range []string{"members", "left"} {
		id, generation := join(t, c, group)
		commitAs(t, c, 7, group, id, generation, 11)
		if group == "left" {
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Version, leave.Group, leave.MemberID = 2, group, id
			if r := ask[*kmsg.LeaveGroupResponse](t, c, leave); r.ErrorCode != 0 {
				t.Fatalf("LeaveGroup: error %d", r.ErrorCode)
			}
		}
	}
	// An offset that was to be kept for a moment only.
	commitAs(t, c, 4, "passing", "", -1, 13)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left, err := adm.FetchOffsets(ctx, "passing")
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("an offset does not expire: %v, %v", left, err)
		}
	}
}

// join makes a consumer the only member of a classic group.
func join(t *testing.T, c *frame.Conn, group string) (id string, generation int32) {
	t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 600_000, 60_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("a subscription")}}
	var joined *kmsg.JoinGroupResponse
	for n := 0; ; n++ {
		if joined = ask[*kmsg.JoinGroupResponse](t, c, req); joined.ErrorCode == 0 {
			break
		}
		if n == 200 {
			t.Fatalf("JoinGroup: error %d", joined.ErrorCode)
		}
		time.Sleep(50 * time.Millisecond) // the coordinator loads
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID = 2, group, joined.Generation, joined.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("an assignment")}}
	if r := ask[*kmsg.SyncGroupResponse](t, c, sync); r.ErrorCode != 0 {
		t.Fatalf("SyncGroup: error %d", r.ErrorCode)
	}
	return joined.MemberID, joined.Generation
}

// commitAs commits an offset of plain-0, for a member if there is one. In version 4 it is to be kept for a millisecond.
func commitAs(t *testing.T, c *frame.Conn, version int16, group, member string, generation int32, at int64) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.RetentionTimeMillis = version, group, member, generation, 1
	rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset, rp.Metadata = at, str("of "+group)
	rt.Topic, rt.Partitions = "plain", append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if r := ask[*kmsg.OffsetCommitResponse](t, c, req); r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("OffsetCommit: error %d", r.Topics[0].Partitions[0].ErrorCode)
	}
}
