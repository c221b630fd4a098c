package records

// The table of the __consumer_offsets records. Versions, tags and defaults are
// those of Kafka 4.4.

var legacyOffsetCommitKey = &schema[LegacyOffsetCommitKey]{
	name: "LegacyOffsetCommitKey", id: 0, lowest: 0, highest: 0, flexible: never,
	fields: fields[LegacyOffsetCommitKey]{
		f("Group", texts, func(r *LegacyOffsetCommitKey) *string { return &r.Group }),
		f("Topic", texts, func(r *LegacyOffsetCommitKey) *string { return &r.Topic }),
		f("Partition", int32s, func(r *LegacyOffsetCommitKey) *int32 { return &r.Partition }),
	},
}

var legacyOffsetCommitValue = &schema[LegacyOffsetCommitValue]{
	name: "LegacyOffsetCommitValue", id: 0, lowest: 0, highest: 0, flexible: never,
	fields: fields[LegacyOffsetCommitValue]{
		f("Offset", int64s, func(r *LegacyOffsetCommitValue) *int64 { return &r.Offset }),
		f("Metadata", texts, func(r *LegacyOffsetCommitValue) *string { return &r.Metadata }),
		f("CommitTimestamp", int64s, func(r *LegacyOffsetCommitValue) *int64 { return &r.CommitTimestamp }),
	},
}

var offsetCommitKey = &schema[OffsetCommitKey]{
	name: "OffsetCommitKey", id: 1, lowest: 0, highest: 0, flexible: never,
	fields: fields[OffsetCommitKey]{
		f("Group", texts, func(r *OffsetCommitKey) *string { return &r.Group }),
		f("Topic", texts, func(r *OffsetCommitKey) *string { return &r.Topic }),
		f("Partition", int32s, func(r *OffsetCommitKey) *int32 { return &r.Partition }),
	},
}

var offsetCommitValue = &schema[OffsetCommitValue]{
	name: "OffsetCommitValue", id: 1, lowest: 0, highest: 4, flexible: 4,
	fields: fields[OffsetCommitValue]{
		f("Offset", int64s, func(r *OffsetCommitValue) *int64 { return &r.Offset }),
		f("LeaderEpoch", int32s, func(r *OffsetCommitValue) *int32 { return &r.LeaderEpoch }, -1).since(3),
		f("Metadata", texts, func(r *OffsetCommitValue) *string { return &r.Metadata }),
		f("CommitTimestamp", int64s, func(r *OffsetCommitValue) *int64 { return &r.CommitTimestamp }),
		f("ExpireTimestamp", int64s, func(r *OffsetCommitValue) *int64 { return &r.ExpireTimestamp }, -1).since(1).until(1),
		f("TopicId", uuids, func(r *OffsetCommitValue) *[16]byte { return &r.TopicId }).since(4).tagged(0),
	},
}

var groupMetadataKey = &schema[GroupMetadataKey]{
	name: "GroupMetadataKey", id: 2, lowest: 0, highest: 0, flexible: never,
	fields: fields[GroupMetadataKey]{
		f("Group", texts, func(r *GroupMetadataKey) *string { return &r.Group }),
	},
}

var memberMetadataFields = fields[MemberMetadata]{
	f("MemberId", texts, func(r *MemberMetadata) *string { return &r.MemberId }),
	f("GroupInstanceId", nullableTexts, func(r *MemberMetadata) **string { return &r.GroupInstanceId }).since(3),
	f("ClientId", texts, func(r *MemberMetadata) *string { return &r.ClientId }),
	f("ClientHost", texts, func(r *MemberMetadata) *string { return &r.ClientHost }),
	f("RebalanceTimeout", int32s, func(r *MemberMetadata) *int32 { return &r.RebalanceTimeout }, -1).since(1),
	f("SessionTimeout", int32s, func(r *MemberMetadata) *int32 { return &r.SessionTimeout }),
	f("Subscription", blobs, func(r *MemberMetadata) *[]byte { return &r.Subscription }),
	f("Assignment", blobs, func(r *MemberMetadata) *[]byte { return &r.Assignment }),
}

var groupMetadataValue = &schema[GroupMetadataValue]{
	name: "GroupMetadataValue", id: 2, lowest: 0, highest: 4, flexible: 4,
	fields: fields[GroupMetadataValue]{
		f("ProtocolType", texts, func(r *GroupMetadataValue) *string { return &r.ProtocolType }),
		f("Generation", int32s, func(r *GroupMetadataValue) *int32 { return &r.Generation }),
		f("Protocol", nullableTexts, func(r *GroupMetadataValue) **string { return &r.Protocol }),
		f("Leader", nullableTexts, func(r *GroupMetadataValue) **string { return &r.Leader }),
		f("CurrentStateTimestamp", int64s, func(r *GroupMetadataValue) *int64 { return &r.CurrentStateTimestamp }, -1).since(2),
		f("Members", listOf(structs(memberMetadataFields)), func(r *GroupMetadataValue) *[]MemberMetadata { return &r.Members }),
	},
}
