package shell

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/storage"
)

// quorumTool is kafka-metadata-quorum.sh: its description.
func quorumTool() *tool {
	const single = "clusters of several nodes are not available"
	refused := func(_ *Shell, c *toolCall) error { return fmt.Errorf("%s is not supported: %s", c.action, single) }
	return &tool{name: "metadata-quorum", short: "Describe the controllers' quorum", options: []option{
		bootstrapOption, commandConfig, {name: "bootstrap-controller", letter: "C", value: "HOST:PORT", refuse: "ask a broker with --bootstrap-server"},
	}, actions: []action{
		{"describe", "describe it", []option{
			{name: "status", help: "the leader, the voters and how far they are"},
			{name: "replication", help: "each node and how far it is"},
			{name: "human-readable", help: "times as they have passed"},
		}, describeQuorum},
		{"add-controller", "not supported", nil, refused},
		{"remove-controller", "not supported", nil, refused},
	}}
}

func describeQuorum(sh *Shell, c *toolCall) error {
	if c.has("status") == c.has("replication") {
		return says("One of --status or --replication must be specified with describe sub-command")
	}
	if err := needBootstrap(c); err != nil {
		return err
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	one := kmsg.NewDescribeQuorumRequestTopicPartition()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, one)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return says("%s", k.explain(err))
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return brokerSays(err, resp.ErrorMessage)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return says("the broker described %d topics where one was asked for", len(resp.Topics))
	}
	q := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(q.ErrorCode); err != nil {
		return brokerSays(err, q.ErrorMessage)
	}
	if c.has("replication") {
		return quorumReplication(sh, c, q)
	}
	cluster, err := k.admin.BrokerMetadata(k.ctx)
	if err != nil {
		return says("%s", k.explain(err))
	}
	endpoints := map[int32][]string{}
	for _, n := range resp.Nodes {
		for _, l := range n.Listeners {
			endpoints[n.NodeID] = append(endpoints[n.NodeID], fmt.Sprintf("%q", fmt.Sprintf("%s://%s:%d", l.Name, l.Host, l.Port)))
		}
	}
	var leader kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	for _, v := range q.CurrentVoters {
		if v.ReplicaID == q.LeaderID {
			leader = v
		}
	}
	var lag, lagMs int64
	for _, n := range append(q.CurrentVoters[:len(q.CurrentVoters):len(q.CurrentVoters)], q.Observers...) {
		if n.ReplicaID == q.LeaderID {
			continue
		}
		lag = max(lag, leader.LogEndOffset-n.LogEndOffset)
		lagMs = max(lagMs, leader.LastCaughtUpTimestamp-n.LastCaughtUpTimestamp)
	}
	line := func(name, value string) { fmt.Fprintf(sh.Stdout, "%-23s %s\n", name+":", value) }
	line("ClusterId", cluster.Cluster)
	line("LeaderId", strconv.Itoa(int(q.LeaderID)))
	line("LeaderEpoch", strconv.Itoa(int(q.LeaderEpoch)))
	line("HighWatermark", strconv.FormatInt(q.HighWatermark, 10))
	line("MaxFollowerLag", strconv.FormatInt(lag, 10))
	line("MaxFollowerLagTimeMs", strconv.FormatInt(lagMs, 10))
	line("CurrentVoters", quorumNodes(q.CurrentVoters, endpoints))
	line("CurrentObservers", quorumNodes(q.Observers, nil))
	return nil
}

func quorumNodes(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, endpoints map[int32][]string) string {
	var parts []string
	for _, n := range list {
		text := fmt.Sprintf(`{"id": %d`, n.ReplicaID)
		if n.ReplicaDirectoryID != ([16]byte{}) {
			text += fmt.Sprintf(`, "directoryId": %q`, storage.FormatID(n.ReplicaDirectoryID))
		}
		if at := endpoints[n.ReplicaID]; len(at) > 0 {
			text += `, "endpoints": [` + strings.Join(at, ", ") + "]"
		}
		parts = append(parts, text+"}")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func quorumReplication(sh *Shell, c *toolCall, q kmsg.DescribeQuorumResponseTopicPartition) error {
	rows := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	var end int64
	for _, v := range q.CurrentVoters {
		if v.ReplicaID == q.LeaderID {
			end = v.LogEndOffset
		}
	}
	when := func(ms int64) string {
		if c.has("human-readable") && ms > 0 {
			return fmt.Sprintf("%d ms ago", max(0, time.Now().UnixMilli()-ms))
		}
		return strconv.FormatInt(ms, 10)
	}
	add := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string) {
		sort.Slice(list, func(i, j int) bool { return list[i].ReplicaID < list[j].ReplicaID })
		for _, n := range list {
			as := status
			if n.ReplicaID == q.LeaderID {
				as = "Leader"
			}
			rows = append(rows, []string{strconv.Itoa(int(n.ReplicaID)), storage.FormatID(n.ReplicaDirectoryID), strconv.FormatInt(n.LogEndOffset, 10),
				strconv.FormatInt(end-n.LogEndOffset, 10), when(n.LastFetchTimestamp), when(n.LastCaughtUpTimestamp), as})
		}
	}
	add(q.CurrentVoters, "Follower")
	add(q.Observers, "Observer")
	table(sh, rows, "\t")
	return nil
}

// table prints rows in columns as wide as their widest cell, each followed by
// the same separator.
func table(sh *Shell, rows [][]string, separator string) {
	if len(rows) == 0 {
		return
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(sh.Stdout, "%-*s%s", width[i], cell, separator)
		}
		fmt.Fprintln(sh.Stdout)
	}
}

// featuresTool is kafka-features.sh: what can be told.
func featuresTool() *tool {
	const fixed = "the levels are those that this broker founds a cluster with"
	refused := func(_ *Shell, c *toolCall) error { return fmt.Errorf("%s is not supported: %s", c.action, fixed) }
	release := option{name: "release-version", value: "RELEASE", help: "a release or a metadata.version, as 4.0 or 4.0-IV3"}
	return &tool{name: "features", short: "Describe the cluster's features", options: []option{
		bootstrapOption, commandConfig, {name: "bootstrap-controller", letter: "C", value: "HOST:PORT", refuse: "ask a broker with --bootstrap-server"},
	}, actions: []action{
		{"describe", "list the features and their levels", nil, describeFeatures},
		{"version-mapping", "tell the features of a release", []option{release}, versionMapping},
		{"feature-dependencies", "tell what a feature's level needs", []option{{name: "feature", value: "FEATURE=LEVEL", many: true, must: true, help: "the feature and its level"}}, featureDependencies},
		{"upgrade", "not supported", nil, refused}, {"downgrade", "not supported", nil, refused}, {"disable", "not supported", nil, refused},
	}}
}

func describeFeatures(sh *Shell, c *toolCall) error {
	if err := needBootstrap(c); err != nil {
		return err
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "millrace", sh.softwareVersion()
	resp, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return says("%s", k.explain(err))
	}
	finalized := map[string]int16{}
	for _, f := range resp.FinalizedFeatures {
		finalized[f.Name] = f.MaxVersionLevel
	}
	supported := resp.SupportedFeatures
	sort.Slice(supported, func(i, j int) bool { return supported[i].Name < supported[j].Name })
	epoch := "-"
	if resp.FinalizedFeaturesEpoch >= 0 {
		epoch = strconv.FormatInt(resp.FinalizedFeaturesEpoch, 10)
	}
	level := func(name string, n int16) string {
		if name == "metadata.version" {
			return metadataVersionName(int(n))
		}
		return strconv.Itoa(int(n))
	}
	for _, f := range supported {
		fmt.Fprintf(sh.Stdout, "Feature: %-42sSupportedMinVersion: %-17sSupportedMaxVersion: %-17sFinalizedVersionLevel: %-17sEpoch: %s\n",
			f.Name, level(f.Name, f.MinVersion), level(f.Name, f.MaxVersion), level(f.Name, finalized[f.Name]), epoch)
	}
	return nil
}
