package frames

// What differs on purpose in the group APIs.
func init() {
	explained = append(explained,
		explain(`^FindCoordinator/transactions/v\d: .*(ErrorCode: 35 against (0|15)|ErrorMessage: .* against|NodeID: -1 against 1|(Host|Port): false against true)`,
			"transactions are not built yet, so no coordinator is named"),
		explain(`^FindCoordinator/types/v6: share.*(ErrorCode: 35 against (0|15)|NodeID: -1 against 1|(Host|Port): false against true)`,
			"share groups are not built yet, so no coordinator is named"),
		explain(`^\w+/malformed/v\d+: a name that is not UTF-8`,
			"Java puts U+FFFD in place of bytes that are not UTF-8; here they stay as they are"),
		explain(`^Offset(Commit|Fetch)/\w+ ZooKeeper/v0: `,
			"version 0 kept offsets in ZooKeeper, so Kafka 3.9 without it refuses; here they are kept as in version 1"),
		explain(`^OffsetCommit/.*/v1: .*AuthorizedOperations: 3400 against 328`,
			"Kafka 3.9, which is asked here, has no configs of groups yet"),
		explain(`^OffsetCommit/without members/v1: a (partition|topic) twice .*: 2 elements against 1`,
			"Kafka 3.9, which is asked here, answers a partition once; 4.4 as often as it was asked"),
		explain(`^JoinGroup/a second join while the first waits/v5: b: join \(JoinGroup v5\) waits: false against true`,
			"Kafka never answers a join that another of the same member replaced; here it is told of the rebalance"),
		explain(`^JoinGroup/a protocol twice/v9: a: join \(JoinGroup v9\) waits: false against true`,
			"Kafka counts a protocol that a member names twice as two votes of support, then finds none that all support, and the rebalance never ends; here it counts once"),
		explain(`^LeaveGroup/what waits when its member leaves/v\d: b: follower syncs \(SyncGroup v5\) waits: false against true`,
			"Kafka never answers the sync of a member that left; here it is told that it is unknown"),
	)
}
