package metrics

// Every name, grouped as Kafka's MBeans are. Helps are ours.

var (
	topicToo     = [][]string{nil, labels("topic")}
	ofPartition  = [][]string{labels("topic", "partition")}
	ofRequest    = [][]string{labels("request")}
	ofListener   = [][]string{labels("listener", "networkProcessor")}
	ofQuantile   = [][]string{labels("quantile")}
	ofDirectory  = [][]string{labels("logDirectory")}
	ofOperation  = [][]string{labels("delayedOperation")}
	onlyTotal    = [][]string{nil}
	topicMeter   = func(name string) string { return "kafka.server:type=BrokerTopicMetrics,name=" + name }
	replicaBean  = func(name string) string { return "kafka.server:type=ReplicaManager,name=" + name }
	cellBean     = func(name string) string { return "kafka.cluster:type=Partition,name=" + name }
	logBean      = func(name string) string { return "kafka.log:type=Log,name=" + name }
	requestBean  = func(name string) string { return "kafka.network:type=RequestMetrics,name=" + name }
	controlBean  = func(name string) string { return "kafka.controller:type=KafkaController,name=" + name }
	groupBean    = func(name string) string { return "kafka.coordinator.group:type=GroupMetadataManager,name=" + name }
	raftBean     = func(name string) string { return "kafka.server:type=raft-metrics " + name }
	socketBean   = func(name string) string { return "kafka.server:type=socket-server-metrics " + name }
	metadataBean = func(name string) string { return "kafka.server:type=broker-metadata-metrics " + name }
)

// Topics: the whole broker without a label, and each topic that had any.
var (
	MessagesIn     = define(Counter, "kafka_server_brokertopicmetrics_messagesin_total", topicMeter("MessagesInPerSec"), "Records appended.", topicToo...)
	BytesIn        = define(Counter, "kafka_server_brokertopicmetrics_bytesin_total", topicMeter("BytesInPerSec"), "Bytes of batches appended for clients.", topicToo...)
	BytesOut       = define(Counter, "kafka_server_brokertopicmetrics_bytesout_total", topicMeter("BytesOutPerSec"), "Bytes of batches given to consumers.", topicToo...)
	BytesRejected  = define(Counter, "kafka_server_brokertopicmetrics_bytesrejected_total", topicMeter("BytesRejectedPerSec"), "Bytes of batches refused for being larger than max.message.bytes.", topicToo...)
	TotalProduce   = define(Counter, "kafka_server_brokertopicmetrics_totalproducerequests_total", topicMeter("TotalProduceRequestsPerSec"), "Appends asked for, by partition.", topicToo...)
	TotalFetch     = define(Counter, "kafka_server_brokertopicmetrics_totalfetchrequests_total", topicMeter("TotalFetchRequestsPerSec"), "Reads asked for, by partition; a fetch that waited reads again.", topicToo...)
	FailedProduce  = define(Counter, "kafka_server_brokertopicmetrics_failedproducerequests_total", topicMeter("FailedProduceRequestsPerSec"), "Appends that failed for a reason that clients do not expect.", topicToo...)
	FailedFetch    = define(Counter, "kafka_server_brokertopicmetrics_failedfetchrequests_total", topicMeter("FailedFetchRequestsPerSec"), "Reads that failed for a reason that clients do not expect.", topicToo...)
	ProduceConv    = define(Counter, "kafka_server_brokertopicmetrics_producemessageconversions_total", topicMeter("ProduceMessageConversionsPerSec"), "Records that were recompressed or converted before they were appended.", topicToo...)
	FetchConv      = define(Counter, "kafka_server_brokertopicmetrics_fetchmessageconversions_total", topicMeter("FetchMessageConversionsPerSec"), "Records that were converted for clients that know message sets only.", topicToo...)
	InvalidMagic   = define(Counter, "kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total", topicMeter("InvalidMagicNumberRecordsPerSec"), "Batches refused for their magic.", onlyTotal...)
	InvalidCRC     = define(Counter, "kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total", topicMeter("InvalidMessageCrcRecordsPerSec"), "Batches refused because they are corrupt.", onlyTotal...)
	InvalidOffset  = define(Counter, "kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords_total", topicMeter("InvalidOffsetOrSequenceRecordsPerSec"), "Batches refused for their sequence number.", onlyTotal...)
	ReplicationIn  = define(Counter, "kafka_server_brokertopicmetrics_replicationbytesin_total", topicMeter("ReplicationBytesInPerSec"), "Bytes copied from leaders.", onlyTotal...)
	ReplicationOut = define(Counter, "kafka_server_brokertopicmetrics_replicationbytesout_total", topicMeter("ReplicationBytesOutPerSec"), "Bytes given to followers.", onlyTotal...)
)

// Requests. Fetch is counted three times: as Fetch, and as FetchConsumer or
// FetchFollower.
var (
	Requests = define(Counter, "kafka_network_requestmetrics_requests_total", requestBean("RequestsPerSec"), "Requests answered.", labels("request", "version"))
	Errors   = define(Counter, "kafka_network_requestmetrics_errors_total", requestBean("ErrorsPerSec"), "Error codes in answers, NONE included.", labels("request", "error"))

	TotalTime         = histogram("totaltimems", "TotalTimeMs", "Milliseconds from a request's last byte read to its answer's last byte written.")
	QueueTime         = histogram("requestqueuetimems", "RequestQueueTimeMs", "Milliseconds a request waited for a place among those that run.")
	LocalTime         = histogram("localtimems", "LocalTimeMs", "Milliseconds a request was worked on.")
	RemoteTime        = histogram("remotetimems", "RemoteTimeMs", "Milliseconds a request waited for replicas, data, members or the controller.")
	ResponseQueueTime = histogram("responsequeuetimems", "ResponseQueueTimeMs", "Milliseconds an answer waited for earlier ones of its connection.")
	SendTime          = histogram("responsesendtimems", "ResponseSendTimeMs", "Milliseconds of writing an answer.")
	ThrottleTime      = histogram("throttletimems", "ThrottleTimeMs", "Milliseconds a client was muted for.")
	RequestBytes      = histogram("requestbytes", "RequestBytes", "Bytes of requests.")
)

// Histo is a histogram's two names.
type Histo struct {
	Quantile, Count *Metric
	// Scale is what a value is multiplied with to be shown.
	Scale float64
}

func histogram(name, bean, help string) Histo {
	h := Histo{Scale: 1}
	if bean != "RequestBytes" {
		h.Scale = 0.001
	}
	h.Quantile = define(Gauge, "kafka_network_requestmetrics_"+name, requestBean(bean)+" (percentiles)", help, labels("request", "quantile"))
	h.Count = define(Counter, "kafka_network_requestmetrics_"+name+"_count_total", requestBean(bean)+" Count", "How many values the percentiles are of.", ofRequest...)
	return h
}

// Connections, by listener. Kafka tells them apart by network thread; here there
// are none, and networkProcessor is 0.
var (
	ConnectionCount    = define(Gauge, "kafka_server_socket_server_metrics_connection_count", socketBean("connection-count"), "Connections that are open.", ofListener...)
	ConnectionCreation = define(Counter, "kafka_server_socket_server_metrics_connection_creation_total", socketBean("connection-creation-total"), "Connections accepted.", ofListener...)
	ConnectionClose    = define(Counter, "kafka_server_socket_server_metrics_connection_close_total", socketBean("connection-close-total"), "Connections that have ended.", ofListener...)
	ConnectionsExpired = define(Gauge, "kafka_server_socket_server_metrics_expired_connections_killed_count", socketBean("expired-connections-killed-count"), "Connections closed for being idle.", ofListener...)
	IncomingBytes      = define(Counter, "kafka_server_socket_server_metrics_incoming_byte_total", socketBean("incoming-byte-total"), "Bytes of requests read.", ofListener...)
	OutgoingBytes      = define(Counter, "kafka_server_socket_server_metrics_outgoing_byte_total", socketBean("outgoing-byte-total"), "Bytes of answers written.", ofListener...)
	SocketRequests     = define(Counter, "kafka_server_socket_server_metrics_request_total", socketBean("request-total"), "Answers sent (Kafka's name: requests that it sends).", ofListener...)
	SocketResponses    = define(Counter, "kafka_server_socket_server_metrics_response_total", socketBean("response-total"), "Requests received (Kafka's name: responses that it receives).", ofListener...)
	Software           = define(Gauge, "kafka_server_socket_server_metrics_connections_software", socketBean("connections (by clientSoftwareName)"), "Open connections by what clients call themselves (KIP-511).", labels("clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor"))
	ExpiredKilled      = define(Gauge, "kafka_network_socketserver_expiredconnectionskilledcount", "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount", "Connections closed for being idle, on all listeners.")
	MemoryUsed         = define(Gauge, "kafka_network_socketserver_memorypoolused", "kafka.network:type=SocketServer,name=MemoryPoolUsed", "Bytes of queued.max.request.bytes in use.")
	MemoryAvailable    = define(Gauge, "kafka_network_socketserver_memorypoolavailable", "kafka.network:type=SocketServer,name=MemoryPoolAvailable", "Bytes of queued.max.request.bytes that are free.")
)

// Replicas.
var (
	PartitionCount  = define(Gauge, "kafka_server_replicamanager_partitioncount", replicaBean("PartitionCount"), "Replicas on this broker.")
	LeaderCount     = define(Gauge, "kafka_server_replicamanager_leadercount", replicaBean("LeaderCount"), "Partitions this broker leads.")
	UnderReplicated = define(Gauge, "kafka_server_replicamanager_underreplicatedpartitions", replicaBean("UnderReplicatedPartitions"), "Partitions led here whose ISR lacks a replica.")
	UnderMinISR     = define(Gauge, "kafka_server_replicamanager_underminisrpartitioncount", replicaBean("UnderMinIsrPartitionCount"), "Partitions led here whose ISR is smaller than min.insync.replicas.")
	AtMinISR        = define(Gauge, "kafka_server_replicamanager_atminisrpartitioncount", replicaBean("AtMinIsrPartitionCount"), "Partitions led here whose ISR is exactly min.insync.replicas.")
	OfflineReplicas = define(Gauge, "kafka_server_replicamanager_offlinereplicacount", replicaBean("OfflineReplicaCount"), "Replicas here whose log or directory has failed.")
	Reassigning     = define(Gauge, "kafka_server_replicamanager_reassigningpartitions", replicaBean("ReassigningPartitions"), "Partitions led here that are being moved.")
	ProducerIDs     = define(Gauge, "kafka_server_replicamanager_produceridcount", replicaBean("ProducerIdCount"), "Producer ids remembered, summed over partitions.")
	ISRShrinks      = define(Counter, "kafka_server_replicamanager_isrshrinks_total", replicaBean("IsrShrinksPerSec"), "Times an ISR led here has lost a replica.")
	ISRExpands      = define(Counter, "kafka_server_replicamanager_isrexpands_total", replicaBean("IsrExpandsPerSec"), "Times an ISR led here has gained a replica.")

	CellUnderReplicated = define(Gauge, "kafka_cluster_partition_underreplicated", cellBean("UnderReplicated"), "1 where the ISR lacks a replica.", ofPartition...)
	CellInSync          = define(Gauge, "kafka_cluster_partition_insyncreplicascount", cellBean("InSyncReplicasCount"), "Size of the ISR; 0 where another broker leads.", ofPartition...)
	CellReplicas        = define(Gauge, "kafka_cluster_partition_replicascount", cellBean("ReplicasCount"), "Number of replicas; 0 where another broker leads.", ofPartition...)
	CellUnderMinISR     = define(Gauge, "kafka_cluster_partition_underminisr", cellBean("UnderMinIsr"), "1 where the ISR is smaller than min.insync.replicas.", ofPartition...)
	CellAtMinISR        = define(Gauge, "kafka_cluster_partition_atminisr", cellBean("AtMinIsr"), "1 where the ISR is exactly min.insync.replicas.", ofPartition...)
	CellStableLag       = define(Gauge, "kafka_cluster_partition_laststableoffsetlag", cellBean("LastStableOffsetLag"), "High watermark less last stable offset.", ofPartition...)
)

// Logs.
var (
	LogSize           = define(Gauge, "kafka_log_log_size", logBean("Size"), "Bytes of a partition's segments.", ofPartition...)
	LogStart          = define(Gauge, "kafka_log_log_logstartoffset", logBean("LogStartOffset"), "First offset of a log.", ofPartition...)
	LogEnd            = define(Gauge, "kafka_log_log_logendoffset", logBean("LogEndOffset"), "Offset of a log's next record.", ofPartition...)
	LogSegments       = define(Gauge, "kafka_log_log_numlogsegments", logBean("NumLogSegments"), "Segments of a log; 0 before the first append.", ofPartition...)
	FlushTime         = define(Gauge, "kafka_log_logflushstats_logflushrateandtimems", "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs (percentiles)", "Milliseconds of a flush.", ofQuantile...)
	FlushCount        = define(Counter, "kafka_log_logflushstats_logflushrateandtimems_count_total", "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs Count", "Flushes.")
	OfflineDirs       = define(Gauge, "kafka_log_logmanager_offlinelogdirectorycount", "kafka.log:type=LogManager,name=OfflineLogDirectoryCount", "Data directories that were given up.")
	CleanerRecopy     = define(Gauge, "kafka_log_logcleaner_cleaner_recopy_percent", "kafka.log:type=LogCleaner,name=cleaner-recopy-percent", "How much of what the last cleanings read they wrote again.")
	CleanerDead       = define(Gauge, "kafka_log_logcleaner_deadthreadcount", "kafka.log:type=LogCleaner,name=DeadThreadCount", "Threads of the cleaner that have ended; always 0.")
	CleanerFull       = define(Gauge, "kafka_log_logcleaner_max_buffer_utilization_percent", "kafka.log:type=LogCleaner,name=max-buffer-utilization-percent", "How much of the room for keys the last cleaning of a thread took, at most.")
	CleanerTime       = define(Gauge, "kafka_log_logcleaner_max_clean_time_secs", "kafka.log:type=LogCleaner,name=max-clean-time-secs", "Seconds that the last cleaning of a thread took, at most.")
	CleanerDelay      = define(Gauge, "kafka_log_logcleaner_max_compaction_delay_secs", "kafka.log:type=LogCleaner,name=max-compaction-delay-secs", "For how many seconds max.compaction.lag.ms has been over for a log, at most.")
	MaxDirty          = define(Gauge, "kafka_log_logcleanermanager_max_dirty_percent", "kafka.log:type=LogCleanerManager,name=max-dirty-percent", "How much of the dirtiest log is dirty.")
	CleanerLast       = define(Gauge, "kafka_log_logcleanermanager_time_since_last_run_ms", "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms", "Milliseconds since the cleaner last looked for work.")
	DirtyForEver      = define(Gauge, "kafka_log_logcleanermanager_uncleanable_bytes", "kafka.log:type=LogCleanerManager,name=uncleanable-bytes", "Dirty bytes of logs that cannot be cleaned.", ofDirectory...)
	Uncleanable       = define(Gauge, "kafka_log_logcleanermanager_uncleanable_partitions_count", "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count", "Logs that cannot be cleaned.", ofDirectory...)
	CordonedDirs      = define(Gauge, "kafka_log_logmanager_cordonedlogdirectorycount", "kafka.log:type=LogManager,name=CordonedLogDirectoryCount", "Data directories that get no new replicas (cordoned.log.dirs).")
	DirectoryCordoned = define(Gauge, "kafka_log_logmanager_logdirectorycordoned", "kafka.log:type=LogManager,name=LogDirectoryCordoned", "1 for a data directory that gets no new replicas.", ofDirectory...)
	DirectoryDown     = define(Gauge, "kafka_log_logmanager_logdirectoryoffline", "kafka.log:type=LogManager,name=LogDirectoryOffline", "1 for a data directory that was given up.", ofDirectory...)
)

// The broker.
var (
	BrokerState       = define(Gauge, "kafka_server_kafkaserver_brokerstate", "kafka.server:type=KafkaServer,name=BrokerState", "1 starting, 3 running, 6 shutting down.")
	FetchSessions     = define(Gauge, "kafka_server_fetchsessioncache_numincrementalfetchsessions", "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", "Fetch sessions (KIP-227).")
	FetchPartitions   = define(Gauge, "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached", "Partitions in fetch sessions.")
	FetchEvictions    = define(Counter, "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec", "Fetch sessions that had to make room.")
	PurgatorySize     = define(Gauge, "kafka_server_delayedoperationpurgatory_purgatorysize", "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize", "Fetches and acks=all appends that wait.", ofOperation...)
	DelayedOperations = define(Gauge, "kafka_server_delayedoperationpurgatory_numdelayedoperations", "kafka.server:type=DelayedOperationPurgatory,name=NumDelayedOperations", "The same: what waits here is watched until it is over.", ofOperation...)
	ExpiredFetches    = define(Counter, "kafka_server_delayedfetchmetrics_expires_total", "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec", "Fetches whose time ran out.", labels("fetcherType"))
	ExpiredProduces   = define(Counter, "kafka_server_delayedproducemetrics_expires_total", "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec", "Appends that were not replicated in time, by partition.")
)

// Groups. The last five are not Kafka's: they have the names that exporters of
// group lag use.
var (
	Groups        = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroups", groupBean("NumGroups"), "Classic groups coordinated here.")
	GroupsPrep    = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", groupBean("NumGroupsPreparingRebalance"), "Groups that wait for members to join.")
	GroupsCompl   = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", groupBean("NumGroupsCompletingRebalance"), "Groups that wait for the leader's assignment.")
	GroupsStable  = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroupsstable", groupBean("NumGroupsStable"), "Groups that are stable.")
	GroupsEmpty   = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroupsempty", groupBean("NumGroupsEmpty"), "Groups without members.")
	GroupsDead    = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numgroupsdead", groupBean("NumGroupsDead"), "Groups that are going away.")
	Offsets       = define(Gauge, "kafka_coordinator_group_groupmetadatamanager_numoffsets", groupBean("NumOffsets"), "Committed offsets held here.")
	GroupOffset   = define(Gauge, "kafka_consumergroup_current_offset", "", "Offset a group has committed.", labels("consumergroup", "topic", "partition"))
	GroupLag      = define(Gauge, "kafka_consumergroup_lag", "", "High watermark less the committed offset, of partitions led here.", labels("consumergroup", "topic", "partition"))
	GroupMembers  = define(Gauge, "kafka_consumergroup_members", "", "Members of a group.", labels("consumergroup"))
	GroupsLeftOut = define(Gauge, "millrace_groups_without_series", "", "Groups that are left out of the three above, or shown in part, because there are too many, or too many of their offsets.")
)

// The controller. Counts of the cluster are this node's image's.
var (
	ActiveController   = define(Gauge, "kafka_controller_kafkacontroller_activecontrollercount", controlBean("ActiveControllerCount"), "1 at the active controller.")
	ActiveBrokers      = define(Gauge, "kafka_controller_kafkacontroller_activebrokercount", controlBean("ActiveBrokerCount"), "Brokers that are registered and not fenced.")
	FencedBrokers      = define(Gauge, "kafka_controller_kafkacontroller_fencedbrokercount", controlBean("FencedBrokerCount"), "Brokers that are fenced.")
	ShuttingBrokers    = define(Gauge, "kafka_controller_kafkacontroller_controlledshutdownbrokercount", controlBean("ControlledShutdownBrokerCount"), "Brokers in controlled shutdown.")
	GlobalTopics       = define(Gauge, "kafka_controller_kafkacontroller_globaltopiccount", controlBean("GlobalTopicCount"), "Topics of the cluster.")
	GlobalPartitions   = define(Gauge, "kafka_controller_kafkacontroller_globalpartitioncount", controlBean("GlobalPartitionCount"), "Partitions of the cluster.")
	OfflinePartitions  = define(Gauge, "kafka_controller_kafkacontroller_offlinepartitionscount", controlBean("OfflinePartitionsCount"), "Partitions without a leader.")
	PreferredImbalance = define(Gauge, "kafka_controller_kafkacontroller_preferredreplicaimbalancecount", controlBean("PreferredReplicaImbalanceCount"), "Partitions whose leader is not their first replica.")
	LastApplied        = define(Gauge, "kafka_controller_kafkacontroller_lastappliedrecordoffset", controlBean("LastAppliedRecordOffset"), "Metadata offset of the image that this broker has applied.")
	LastCommitted      = define(Gauge, "kafka_controller_kafkacontroller_lastcommittedrecordoffset", controlBean("LastCommittedRecordOffset"), "Metadata offset that is known to be committed.")
	NewActive          = define(Gauge, "kafka_controller_kafkacontroller_newactivecontrollerscount", controlBean("NewActiveControllersCount"), "Times this node has seen another node become the active controller.")
	EventsStarted      = define(Gauge, "kafka_controller_kafkacontroller_eventqueueoperationsstartedcount", controlBean("EventQueueOperationsStartedCount"), "Turns of the controller.")
	CurrentController  = define(Gauge, "kafka_server_metadataloader_currentcontrollerid", "kafka.server:type=MetadataLoader,name=CurrentControllerId", "Node id of the active controller, -1 where none is known.")
	MetadataVersion    = define(Gauge, "kafka_server_metadataloader_currentmetadataversion", "kafka.server:type=MetadataLoader,name=CurrentMetadataVersion", "Finalized metadata.version.")
)

// Raft: in the spelling that dashboards for Kubernetes expect, and in the one
// that comes from the MBean's own name.
var (
	RaftLeader      = raft("current_leader", "current-leader", "Node id of the leader, -1 where none is known.")
	RaftVote        = raft("current_vote", "current-vote", "Node id that this node's vote went to, -1 for none.")
	RaftEpoch       = raft("current_epoch", "current-epoch", "Raft's term.")
	RaftHW          = raft("high_watermark", "high-watermark", "Metadata offset that is committed.")
	RaftEnd         = raft("log_end_offset", "log-end-offset", "Offset of the next metadata entry.")
	RaftEndEpoch    = raft("log_end_epoch", "log-end-epoch", "Term of the last metadata entry.")
	RaftVoters      = raft("number_of_voters", "number-of-voters", "Controllers that vote.")
	RaftObservers   = raft("number_of_observers", "number-of-observers", "Members that do not vote.")
	RaftCommitAvg   = raft("commit_latency_avg", "commit-latency-avg", "Mean milliseconds from a proposal to its commit, of the last minutes.")
	RaftCommitMax   = raftOf(Counter, "commit_latency_max_total", "commit-latency-max", "The longest of the last minutes (the rules give it a counter's name).")
	RaftState       = raftOf(Gauge, "current_state", "current-state", "1 for the state that this node is in.", labels("current_state"))
	MetadataApplied = define(Gauge, "kafka_server_brokermetadatametrics_last_applied_record_offset", metadataBean("last-applied-record-offset"), "Metadata offset of the image that this broker has applied.")
)

// Both is a metric under two names.
type Both [2]*Metric

func raft(name, attribute, help string) Both { return raftOf(Gauge, name, attribute, help, nil) }

func raftOf(kind Kind, name, attribute, help string, set ...[]string) Both {
	if len(set) == 0 {
		set = onlyTotal
	}
	plain := name
	if kind == Counter {
		plain = name[:len(name)-len("_total")]
	}
	return Both{
		define(kind, "kafka_server_raftmetrics_"+name, raftBean(attribute), help, set...),
		define(Gauge, "kafka_server_raft_metrics_"+plain, raftBean(attribute), help, set...),
	}
}

// Millrace's own.
var (
	Build        = define(Gauge, "millrace_build_info", "", "Always 1; the labels say what runs.", labels("version", "node_id", "cluster_id"))
	SendfileSent = define(Counter, "millrace_sendfile_bytes_total", "", "Bytes that went from page cache to socket.")
	RepliesHeld  = define(Gauge, "millrace_replies_bytes", "", "Bytes of answers that peers have not taken yet.")
	RefusedIP    = define(Counter, "millrace_connections_refused_per_ip_total", "", "Connections closed because their address has too many.")
	Instances    = define(Gauge, "millrace_client_instances", "", "Clients whose telemetry is known (KIP-714).")
	SeriesLost   = define(Gauge, "millrace_client_series_left_out", "", "Series pushed by clients that are not shown, because there are too many.")
)
