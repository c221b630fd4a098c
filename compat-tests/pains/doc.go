// Package pains holds a test for each thing that hurts people who run Kafka for development or tests, and shows on the
// built binary that it does not hurt here. Some are shown elsewhere:
//
//   - A client is told an address that it cannot reach (advertised.listeners): TestLocalhostIsBothLoopbacks here, with
//     each address of a wildcard in broker's TestEndpointSeenFromOutside and brokertest's listeners.
//   - A broker says that it is up and is not: TestReadyMeansReady.
//   - Files written for three brokers fail late on one: TestReplicationFactorsOnOneBroker.
//   - The first member of a group waits three seconds: TestGroupsBeginAtOnce.
//   - Topics have to be created by a second process: TestDeclaredTopics.
//   - localhost is ::1 for some clients: TestLocalhostIsBothLoopbacks.
//   - A wrong cluster id stops the start with a stack trace: TestClusterIDConflict, TestBrokenMetaProperties.
//   - One environment variable drops all defaults: TestOneVariableKeepsTheDefaults.
//   - Health checks and init containers need a JVM: TestToolsWithoutJVM.
//   - A deleted topic is not gone when that is answered: TestDeleteThenCreate.
//   - The first request for a topic that is created on demand fails: TestAutoCreatedTopicIsThereAtOnce.
//   - Directories have to be formatted: TestFormatting, and TestFormattedByKafka with Apache Kafka's own tool.
package pains
