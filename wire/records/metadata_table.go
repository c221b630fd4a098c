package records

// The table of the metadata records. Versions, tags and defaults are those of
// Kafka 4.4.

var brokerEndpointFields = fields[BrokerEndpoint]{
	f("Name", texts, func(r *BrokerEndpoint) *string { return &r.Name }),
	f("Host", texts, func(r *BrokerEndpoint) *string { return &r.Host }),
	f("Port", uint16s, func(r *BrokerEndpoint) *uint16 { return &r.Port }),
	f("SecurityProtocol", int16s, func(r *BrokerEndpoint) *int16 { return &r.SecurityProtocol }),
}

var brokerFeatureFields = fields[BrokerFeature]{
	f("Name", texts, func(r *BrokerFeature) *string { return &r.Name }),
	f("MinSupportedVersion", int16s, func(r *BrokerFeature) *int16 { return &r.MinSupportedVersion }),
	f("MaxSupportedVersion", int16s, func(r *BrokerFeature) *int16 { return &r.MaxSupportedVersion }),
}

var registerBrokerRecord = &schema[RegisterBrokerRecord]{
	name: "RegisterBrokerRecord", id: 0, lowest: 0, highest: 4, flexible: 0,
	fields: fields[RegisterBrokerRecord]{
		f("BrokerId", int32s, func(r *RegisterBrokerRecord) *int32 { return &r.BrokerId }),
		f("IsMigratingZkBroker", bools, func(r *RegisterBrokerRecord) *bool { return &r.IsMigratingZkBroker }).since(2),
		f("IncarnationId", uuids, func(r *RegisterBrokerRecord) *[16]byte { return &r.IncarnationId }),
		f("BrokerEpoch", int64s, func(r *RegisterBrokerRecord) *int64 { return &r.BrokerEpoch }),
		f("EndPoints", listOf(structs(brokerEndpointFields)), func(r *RegisterBrokerRecord) *[]BrokerEndpoint { return &r.EndPoints }),
		f("Features", listOf(structs(brokerFeatureFields)), func(r *RegisterBrokerRecord) *[]BrokerFeature { return &r.Features }),
		f("Rack", nullableTexts, func(r *RegisterBrokerRecord) **string { return &r.Rack }),
		f("Fenced", bools, func(r *RegisterBrokerRecord) *bool { return &r.Fenced }, true),
		f("InControlledShutdown", bools, func(r *RegisterBrokerRecord) *bool { return &r.InControlledShutdown }).since(1),
		f("LogDirs", listOf(uuids), func(r *RegisterBrokerRecord) *[][16]byte { return &r.LogDirs }).since(3).tagged(0),
		f("CordonedLogDirs", nullableListOf(uuids), func(r *RegisterBrokerRecord) *[][16]byte { return &r.CordonedLogDirs }).since(4).tagged(1),
	},
}

var unregisterBrokerRecord = &schema[UnregisterBrokerRecord]{
	name: "UnregisterBrokerRecord", id: 1, lowest: 0, highest: 0, flexible: 0,
	fields: fields[UnregisterBrokerRecord]{
		f("BrokerId", int32s, func(r *UnregisterBrokerRecord) *int32 { return &r.BrokerId }),
		f("BrokerEpoch", int64s, func(r *UnregisterBrokerRecord) *int64 { return &r.BrokerEpoch }),
	},
}

var topicRecord = &schema[TopicRecord]{
	name: "TopicRecord", id: 2, lowest: 0, highest: 0, flexible: 0,
	fields: fields[TopicRecord]{
		f("Name", texts, func(r *TopicRecord) *string { return &r.Name }),
		f("TopicId", uuids, func(r *TopicRecord) *[16]byte { return &r.TopicId }),
	},
}

var partitionRecord = &schema[PartitionRecord]{
	name: "PartitionRecord", id: 3, lowest: 0, highest: 2, flexible: 0,
	fields: fields[PartitionRecord]{
		f("PartitionId", int32s, func(r *PartitionRecord) *int32 { return &r.PartitionId }, -1),
		f("TopicId", uuids, func(r *PartitionRecord) *[16]byte { return &r.TopicId }),
		f("Replicas", listOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.Replicas }),
		f("Isr", listOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.Isr }),
		f("RemovingReplicas", listOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.RemovingReplicas }),
		f("AddingReplicas", listOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.AddingReplicas }),
		f("Leader", int32s, func(r *PartitionRecord) *int32 { return &r.Leader }, -1),
		f("LeaderRecoveryState", int8s, func(r *PartitionRecord) *int8 { return &r.LeaderRecoveryState }).tagged(0),
		f("LeaderEpoch", int32s, func(r *PartitionRecord) *int32 { return &r.LeaderEpoch }, -1),
		f("PartitionEpoch", int32s, func(r *PartitionRecord) *int32 { return &r.PartitionEpoch }, -1),
		f("Directories", listOf(uuids), func(r *PartitionRecord) *[][16]byte { return &r.Directories }).since(1),
		f("EligibleLeaderReplicas", nullableListOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.EligibleLeaderReplicas }).since(2).tagged(1),
		f("LastKnownElr", nullableListOf(int32s), func(r *PartitionRecord) *[]int32 { return &r.LastKnownElr }).since(2).tagged(2),
	},
}

var configRecord = &schema[ConfigRecord]{
	name: "ConfigRecord", id: 4, lowest: 0, highest: 0, flexible: 0,
	fields: fields[ConfigRecord]{
		f("ResourceType", int8s, func(r *ConfigRecord) *int8 { return &r.ResourceType }),
		f("ResourceName", texts, func(r *ConfigRecord) *string { return &r.ResourceName }),
		f("Name", texts, func(r *ConfigRecord) *string { return &r.Name }),
		f("Value", nullableTexts, func(r *ConfigRecord) **string { return &r.Value }),
	},
}

var partitionChangeRecord = &schema[PartitionChangeRecord]{
	name: "PartitionChangeRecord", id: 5, lowest: 0, highest: 2, flexible: 0,
	fields: fields[PartitionChangeRecord]{
		f("PartitionId", int32s, func(r *PartitionChangeRecord) *int32 { return &r.PartitionId }, -1),
		f("TopicId", uuids, func(r *PartitionChangeRecord) *[16]byte { return &r.TopicId }),
		f("Isr", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.Isr }).tagged(0),
		f("Leader", int32s, func(r *PartitionChangeRecord) *int32 { return &r.Leader }, -2).tagged(1),
		f("Replicas", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.Replicas }).tagged(2),
		f("RemovingReplicas", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.RemovingReplicas }).tagged(3),
		f("AddingReplicas", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.AddingReplicas }).tagged(4),
		f("LeaderRecoveryState", int8s, func(r *PartitionChangeRecord) *int8 { return &r.LeaderRecoveryState }, -1).tagged(5),
		f("Directories", nullableListOf(uuids), func(r *PartitionChangeRecord) *[][16]byte { return &r.Directories }).since(1).tagged(8),
		f("EligibleLeaderReplicas", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.EligibleLeaderReplicas }).since(2).tagged(6),
		f("LastKnownElr", nullableListOf(int32s), func(r *PartitionChangeRecord) *[]int32 { return &r.LastKnownElr }).since(2).tagged(7),
	},
}

var fenceBrokerRecord = &schema[FenceBrokerRecord]{
	name: "FenceBrokerRecord", id: 7, lowest: 0, highest: 0, flexible: 0,
	fields: fields[FenceBrokerRecord]{
		f("Id", int32s, func(r *FenceBrokerRecord) *int32 { return &r.Id }),
		f("Epoch", int64s, func(r *FenceBrokerRecord) *int64 { return &r.Epoch }),
	},
}

var unfenceBrokerRecord = &schema[UnfenceBrokerRecord]{
	name: "UnfenceBrokerRecord", id: 8, lowest: 0, highest: 0, flexible: 0,
	fields: fields[UnfenceBrokerRecord]{
		f("Id", int32s, func(r *UnfenceBrokerRecord) *int32 { return &r.Id }),
		f("Epoch", int64s, func(r *UnfenceBrokerRecord) *int64 { return &r.Epoch }),
	},
}

var removeTopicRecord = &schema[RemoveTopicRecord]{
	name: "RemoveTopicRecord", id: 9, lowest: 0, highest: 0, flexible: 0,
	fields: fields[RemoveTopicRecord]{
		f("TopicId", uuids, func(r *RemoveTopicRecord) *[16]byte { return &r.TopicId }),
	},
}

var delegationTokenRecord = &schema[DelegationTokenRecord]{
	name: "DelegationTokenRecord", id: 10, lowest: 0, highest: 0, flexible: 0,
	fields: fields[DelegationTokenRecord]{
		f("Owner", texts, func(r *DelegationTokenRecord) *string { return &r.Owner }),
		f("Requester", texts, func(r *DelegationTokenRecord) *string { return &r.Requester }),
		f("Renewers", listOf(texts), func(r *DelegationTokenRecord) *[]string { return &r.Renewers }),
		f("IssueTimestamp", int64s, func(r *DelegationTokenRecord) *int64 { return &r.IssueTimestamp }),
		f("MaxTimestamp", int64s, func(r *DelegationTokenRecord) *int64 { return &r.MaxTimestamp }),
		f("ExpirationTimestamp", int64s, func(r *DelegationTokenRecord) *int64 { return &r.ExpirationTimestamp }),
		f("TokenId", texts, func(r *DelegationTokenRecord) *string { return &r.TokenId }),
	},
}

var userScramCredentialRecord = &schema[UserScramCredentialRecord]{
	name: "UserScramCredentialRecord", id: 11, lowest: 0, highest: 0, flexible: 0,
	fields: fields[UserScramCredentialRecord]{
		f("Name", texts, func(r *UserScramCredentialRecord) *string { return &r.Name }),
		f("Mechanism", int8s, func(r *UserScramCredentialRecord) *int8 { return &r.Mechanism }),
		f("Salt", blobs, func(r *UserScramCredentialRecord) *[]byte { return &r.Salt }),
		f("StoredKey", blobs, func(r *UserScramCredentialRecord) *[]byte { return &r.StoredKey }),
		f("ServerKey", blobs, func(r *UserScramCredentialRecord) *[]byte { return &r.ServerKey }),
		f("Iterations", int32s, func(r *UserScramCredentialRecord) *int32 { return &r.Iterations }),
	},
}

var featureLevelRecord = &schema[FeatureLevelRecord]{
	name: "FeatureLevelRecord", id: 12, lowest: 0, highest: 0, flexible: 0,
	fields: fields[FeatureLevelRecord]{
		f("Name", texts, func(r *FeatureLevelRecord) *string { return &r.Name }),
		f("FeatureLevel", int16s, func(r *FeatureLevelRecord) *int16 { return &r.FeatureLevel }),
	},
}

var entityDataFields = fields[EntityData]{
	f("EntityType", texts, func(r *EntityData) *string { return &r.EntityType }),
	f("EntityName", nullableTexts, func(r *EntityData) **string { return &r.EntityName }),
}

var clientQuotaRecord = &schema[ClientQuotaRecord]{
	name: "ClientQuotaRecord", id: 14, lowest: 0, highest: 0, flexible: 0,
	fields: fields[ClientQuotaRecord]{
		f("Entity", listOf(structs(entityDataFields)), func(r *ClientQuotaRecord) *[]EntityData { return &r.Entity }),
		f("Key", texts, func(r *ClientQuotaRecord) *string { return &r.Key }),
		f("Value", float64s, func(r *ClientQuotaRecord) *float64 { return &r.Value }),
		f("Remove", bools, func(r *ClientQuotaRecord) *bool { return &r.Remove }),
	},
}

var producerIdsRecord = &schema[ProducerIdsRecord]{
	name: "ProducerIdsRecord", id: 15, lowest: 0, highest: 0, flexible: 0,
	fields: fields[ProducerIdsRecord]{
		f("BrokerId", int32s, func(r *ProducerIdsRecord) *int32 { return &r.BrokerId }),
		f("BrokerEpoch", int64s, func(r *ProducerIdsRecord) *int64 { return &r.BrokerEpoch }, -1),
		f("NextProducerId", int64s, func(r *ProducerIdsRecord) *int64 { return &r.NextProducerId }),
	},
}

var brokerRegistrationChangeRecord = &schema[BrokerRegistrationChangeRecord]{
	name: "BrokerRegistrationChangeRecord", id: 17, lowest: 0, highest: 3, flexible: 0,
	fields: fields[BrokerRegistrationChangeRecord]{
		f("BrokerId", int32s, func(r *BrokerRegistrationChangeRecord) *int32 { return &r.BrokerId }),
		f("BrokerEpoch", int64s, func(r *BrokerRegistrationChangeRecord) *int64 { return &r.BrokerEpoch }),
		f("Fenced", int8s, func(r *BrokerRegistrationChangeRecord) *int8 { return &r.Fenced }).tagged(0),
		f("InControlledShutdown", int8s, func(r *BrokerRegistrationChangeRecord) *int8 { return &r.InControlledShutdown }).since(1).tagged(1),
		f("LogDirs", listOf(uuids), func(r *BrokerRegistrationChangeRecord) *[][16]byte { return &r.LogDirs }).since(2).tagged(2),
		f("CordonedLogDirs", nullableListOf(uuids), func(r *BrokerRegistrationChangeRecord) *[][16]byte { return &r.CordonedLogDirs }).since(3).tagged(3),
	},
}

var accessControlEntryRecord = &schema[AccessControlEntryRecord]{
	name: "AccessControlEntryRecord", id: 18, lowest: 0, highest: 0, flexible: 0,
	fields: fields[AccessControlEntryRecord]{
		f("Id", uuids, func(r *AccessControlEntryRecord) *[16]byte { return &r.Id }),
		f("ResourceType", int8s, func(r *AccessControlEntryRecord) *int8 { return &r.ResourceType }),
		f("ResourceName", texts, func(r *AccessControlEntryRecord) *string { return &r.ResourceName }),
		f("PatternType", int8s, func(r *AccessControlEntryRecord) *int8 { return &r.PatternType }),
		f("Principal", texts, func(r *AccessControlEntryRecord) *string { return &r.Principal }),
		f("Host", texts, func(r *AccessControlEntryRecord) *string { return &r.Host }),
		f("Operation", int8s, func(r *AccessControlEntryRecord) *int8 { return &r.Operation }),
		f("PermissionType", int8s, func(r *AccessControlEntryRecord) *int8 { return &r.PermissionType }),
	},
}

var removeAccessControlEntryRecord = &schema[RemoveAccessControlEntryRecord]{
	name: "RemoveAccessControlEntryRecord", id: 19, lowest: 0, highest: 0, flexible: 0,
	fields: fields[RemoveAccessControlEntryRecord]{
		f("Id", uuids, func(r *RemoveAccessControlEntryRecord) *[16]byte { return &r.Id }),
	},
}

var noOpRecord = &schema[NoOpRecord]{
	name: "NoOpRecord", id: 20, lowest: 0, highest: 0, flexible: 0,
	fields: fields[NoOpRecord]{},
}

var zkMigrationStateRecord = &schema[ZkMigrationStateRecord]{
	name: "ZkMigrationStateRecord", id: 21, lowest: 0, highest: 0, flexible: 0,
	fields: fields[ZkMigrationStateRecord]{
		f("ZkMigrationState", int8s, func(r *ZkMigrationStateRecord) *int8 { return &r.ZkMigrationState }),
	},
}

var removeUserScramCredentialRecord = &schema[RemoveUserScramCredentialRecord]{
	name: "RemoveUserScramCredentialRecord", id: 22, lowest: 0, highest: 0, flexible: 0,
	fields: fields[RemoveUserScramCredentialRecord]{
		f("Name", texts, func(r *RemoveUserScramCredentialRecord) *string { return &r.Name }),
		f("Mechanism", int8s, func(r *RemoveUserScramCredentialRecord) *int8 { return &r.Mechanism }),
	},
}

var beginTransactionRecord = &schema[BeginTransactionRecord]{
	name: "BeginTransactionRecord", id: 23, lowest: 0, highest: 0, flexible: 0,
	fields: fields[BeginTransactionRecord]{
		f("Name", nullableTexts, func(r *BeginTransactionRecord) **string { return &r.Name }).tagged(0),
	},
}

var endTransactionRecord = &schema[EndTransactionRecord]{
	name: "EndTransactionRecord", id: 24, lowest: 0, highest: 0, flexible: 0,
	fields: fields[EndTransactionRecord]{},
}

var abortTransactionRecord = &schema[AbortTransactionRecord]{
	name: "AbortTransactionRecord", id: 25, lowest: 0, highest: 0, flexible: 0,
	fields: fields[AbortTransactionRecord]{
		f("Reason", nullableTexts, func(r *AbortTransactionRecord) **string { return &r.Reason }).tagged(0),
	},
}

var removeDelegationTokenRecord = &schema[RemoveDelegationTokenRecord]{
	name: "RemoveDelegationTokenRecord", id: 26, lowest: 0, highest: 0, flexible: 0,
	fields: fields[RemoveDelegationTokenRecord]{
		f("TokenId", texts, func(r *RemoveDelegationTokenRecord) *string { return &r.TokenId }),
	},
}

var controllerEndpointFields = fields[ControllerEndpoint]{
	f("Name", texts, func(r *ControllerEndpoint) *string { return &r.Name }),
	f("Host", texts, func(r *ControllerEndpoint) *string { return &r.Host }),
	f("Port", uint16s, func(r *ControllerEndpoint) *uint16 { return &r.Port }),
	f("SecurityProtocol", int16s, func(r *ControllerEndpoint) *int16 { return &r.SecurityProtocol }),
}

var controllerFeatureFields = fields[ControllerFeature]{
	f("Name", texts, func(r *ControllerFeature) *string { return &r.Name }),
	f("MinSupportedVersion", int16s, func(r *ControllerFeature) *int16 { return &r.MinSupportedVersion }),
	f("MaxSupportedVersion", int16s, func(r *ControllerFeature) *int16 { return &r.MaxSupportedVersion }),
}

var registerControllerRecord = &schema[RegisterControllerRecord]{
	name: "RegisterControllerRecord", id: 27, lowest: 0, highest: 0, flexible: 0,
	fields: fields[RegisterControllerRecord]{
		f("ControllerId", int32s, func(r *RegisterControllerRecord) *int32 { return &r.ControllerId }),
		f("IncarnationId", uuids, func(r *RegisterControllerRecord) *[16]byte { return &r.IncarnationId }),
		f("ZkMigrationReady", bools, func(r *RegisterControllerRecord) *bool { return &r.ZkMigrationReady }),
		f("EndPoints", listOf(structs(controllerEndpointFields)), func(r *RegisterControllerRecord) *[]ControllerEndpoint { return &r.EndPoints }),
		f("Features", listOf(structs(controllerFeatureFields)), func(r *RegisterControllerRecord) *[]ControllerFeature { return &r.Features }),
	},
}

var clearElrRecord = &schema[ClearElrRecord]{
	name: "ClearElrRecord", id: 28, lowest: 0, highest: 0, flexible: 0,
	fields: fields[ClearElrRecord]{
		f("TopicName", texts, func(r *ClearElrRecord) *string { return &r.TopicName }),
	},
}

var unregisterControllerRecord = &schema[UnregisterControllerRecord]{
	name: "UnregisterControllerRecord", id: 29, lowest: 0, highest: 0, flexible: 0,
	fields: fields[UnregisterControllerRecord]{
		f("ControllerId", int32s, func(r *UnregisterControllerRecord) *int32 { return &r.ControllerId }),
	},
}

// metadataRows finds a row by its id.
var metadataRows = [...]row{
	0:  registerBrokerRecord,
	1:  unregisterBrokerRecord,
	2:  topicRecord,
	3:  partitionRecord,
	4:  configRecord,
	5:  partitionChangeRecord,
	7:  fenceBrokerRecord,
	8:  unfenceBrokerRecord,
	9:  removeTopicRecord,
	10: delegationTokenRecord,
	11: userScramCredentialRecord,
	12: featureLevelRecord,
	14: clientQuotaRecord,
	15: producerIdsRecord,
	17: brokerRegistrationChangeRecord,
	18: accessControlEntryRecord,
	19: removeAccessControlEntryRecord,
	20: noOpRecord,
	21: zkMigrationStateRecord,
	22: removeUserScramCredentialRecord,
	23: beginTransactionRecord,
	24: endTransactionRecord,
	25: abortTransactionRecord,
	26: removeDelegationTokenRecord,
	27: registerControllerRecord,
	28: clearElrRecord,
	29: unregisterControllerRecord,
}
