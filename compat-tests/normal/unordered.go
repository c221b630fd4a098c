package normal

// Unordered names the arrays whose order Kafka leaves open, and why.
var Unordered = map[string]string{
	"MetadataResponse.Topics":                                 "a Java hash map",
	"MetadataResponse.Brokers":                                "a Java hash map",
	"CreateTopicsResponse.Topics":                             "a Java hash map of names",
	"DeleteTopicsResponse.Topics":                             "shuffled on purpose (KafkaApis.deleteTopics)",
	"CreatePartitionsResponse.Topics":                         "a Java hash map",
	"ListOffsetsResponse.Topics":                              "a Java hash map",
	"ListOffsetsResponseTopic.Partitions":                     "a Java hash map",
	"ProduceResponse.Topics":                                  "a Scala map",
	"ProduceResponseTopic.Partitions":                         "a Scala map",
	"DescribeConfigsResponse.Resources":                       "a Java hash map",
	"ListGroupsResponse.Groups":                               "groups of several coordinators",
	"DescribeGroupsResponse.Groups":                           "joined futures",
	"DescribeGroupsResponseGroup.Members":                     "a Java hash map",
	"JoinGroupResponse.Members":                               "a Java hash map",
	"DeleteGroupsResponse.Groups":                             "joined futures",
	"OffsetFetchResponseGroup.Topics":                         "a Java hash map",
	"OffsetFetchResponse.Topics":                              "a Java hash map",
	"OffsetFetchResponseTopic.Partitions":                     "a Java hash map, where all are asked for",
	"OffsetFetchResponseGroupTopic.Partitions":                "a Java hash map, where all are asked for",
	"OffsetFetchResponse.Groups":                              "joined futures",
	"OffsetCommitResponse.Topics":                             "valid topics first",
	"IncrementalAlterConfigsResponse.Resources":               "a Java hash map",
	"AlterConfigsResponse.Resources":                          "a Java hash map",
	"ListConfigResourcesResponse.ConfigResources":             "Java sets of names",
	"OffsetForLeaderEpochResponse.Topics":                     "a Scala map",
	"ElectLeadersResponse.Topics":                             "a Java hash map, where all are asked for",
	"AlterReplicaLogDirsResponse.Topics":                      "a Scala map",
	"AlterReplicaLogDirsResponseTopic.Partitions":             "a Scala map",
	"DeleteRecordsResponse.Topics":                            "a Scala map",
	"DeleteRecordsResponseTopic.Partitions":                   "a Scala map",
	"DescribeLogDirsResponse.Dirs":                            "a Scala set",
	"DescribeLogDirsResponseDir.Topics":                       "a Scala map",
	"DescribeLogDirsResponseDirTopic.Partitions":              "a Scala map",
	"DescribeProducersResponseTopicPartition.ActiveProducers": "a Java hash map",
}

// oldUnordered are arrays whose order Kafka 3.9 leaves open beside those of 4.
var oldUnordered = map[string]string{
	"MetadataResponseTopic.Partitions":     "a Java hash map",
	"OffsetCommitResponseTopic.Partitions": "a Scala map",
}
