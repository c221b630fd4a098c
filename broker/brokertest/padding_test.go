package brokertest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestAskedOverAndOver: what is long to tell is told as often as it is asked, up
// to where a small request would make a huge answer; then the connection is
// closed, and the broker goes on.
func TestAskedOverAndOver(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		a := makeTopic(t, n, c, "a", 50)
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "long", 1800000, 1800000, "consumer"
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(strings.Repeat("m", 100_000))}}
		join.MemberID = ask[*kmsg.JoinGroupResponse](t, n, c, join).MemberID
		joined := ask[*kmsg.JoinGroupResponse](t, n, c, join)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = "long", join.MemberID, joined.Generation
		sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		if code := ask[*kmsg.SyncGroupResponse](t, n, c, sync).ErrorCode; code != 0 {
			t.Fatal(code)
		}
		var os kadm.Offsets
		for p := range int32(50) {
			os.Add(kadm.Offset{Topic: "a", Partition: p, At: 5, LeaderEpoch: -1, Metadata: strings.Repeat("m", 4000)})
		}
		if _, err := kadm.NewClient(c).CommitOffsets(t.Context(), "offsets", os); err != nil {
			t.Fatal(err)
		}
		for id := range int64(500) {
			if err := produceSequence(n, c, "a", 5000+id, 0); err != nil {
				t.Fatal(err)
			}
		}
		times := func(text string, n int) []string { return strings.Fields(strings.Repeat(text+" ", n)) }
		describe := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = times(name, n)
			return r
		}
		fetch := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			for _, g := range times(name, n) {
				r.Groups = append(r.Groups, kmsg.OffsetFetchRequestGroup{Group: g, MemberEpoch: -1})
			}
			return r
		}
		producers := func(_ string, n int) kmsg.Request {
			r := kmsg.NewPtrDescribeProducersRequest()
			r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: make([]int32, n)}}
			return r
		}
		commits := func(group string, n int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1}
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a", TopicID: a, Partitions: make([]int32, n)}}
			r.Groups = append(r.Groups, g)
			return r
		}
		groups := func(group string, n int) kmsg.Request {
			r := commits(group, 1).(*kmsg.OffsetFetchRequest)
			r.Groups = slices.Repeat(r.Groups, n)
			return r
		}
		elect := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrElectLeadersRequest()
			r.TimeoutMillis = 60000
			r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: make([]int32, n)}}
			return r
		}
		reassign := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			r.TimeoutMillis = 60000
			r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: make([]kmsg.AlterPartitionAssignmentsRequestTopicPartition, n)}}
			return r
		}
		indexes := func(n int) []int32 {
			list := make([]int32, n)
			for i := range list {
				list[i] = int32(i)
			}
			return list
		}
		place := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrAlterReplicaLogDirsRequest()
			t := kmsg.AlterReplicaLogDirsRequestDirTopic{Topic: name, Partitions: indexes(n)}
			r.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/nowhere", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{t}}}
			return r
		}
		lie := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrDescribeLogDirsRequest()
			r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: name, Partitions: indexes(n)}}
			return r
		}
		cut := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrDeleteRecordsRequest()
			t := kmsg.DeleteRecordsRequestTopic{Topic: name}
			for _, i := range indexes(n) {
				t.Partitions = append(t.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: i})
			}
			r.Topics = append(r.Topics, t)
			return r
		}
		configs := func(kind kmsg.ConfigResourceType, distinct bool) func(string, int) kmsg.Request {
			return func(name string, n int) kmsg.Request {
				r := kmsg.NewPtrDescribeConfigsRequest()
				r.IncludeDocumentation, r.IncludeSynonyms = true, true
				for i := range n {
					one := kmsg.DescribeConfigsRequestResource{ResourceType: kind, ResourceName: name}
					if distinct {
						one.ResourceName += strconv.Itoa(i)
					}
					r.Resources = append(r.Resources, one)
				}
				return r
			}
		}
		ends := func(name string, n int) kmsg.Request {
			r := kmsg.NewPtrListOffsetsRequest()
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Timestamp, one.MaxNumOffsets = -1, 1
			r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: slices.Repeat([]kmsg.ListOffsetsRequestTopicPartition{one}, n)}}
			return r
		}
		versions := kversion.Tip()
		versions.SetMaxKeyVersion(int16(kmsg.ListOffsets), 0) // the only one that repeats itself
		for _, q := range []struct {
			what      string
			make      func(string, int) kmsg.Request
			name      string
			few, many int
		}{
			{"a group", describe, "long", 200, 500},
			{"a group that is not there", describe, "none", 1000, 300_000},
			{"a group's offsets", fetch, "offsets", 100, 250},
			{"a partition's producers", producers, "", 100, 3000},
			{"an offset", commits, "offsets", 1000, 20_000},
			{"an offset, by group", groups, "offsets", 1000, 20_000},
			{"a leader of a topic that is not there", elect, strings.Repeat("n", 20_000), 100, 3000},
			{"to move a topic that is not there", reassign, strings.Repeat("n", 20_000), 100, 3000},
			{"to have partitions that are not there in a directory", place, "none", 1000, 300_000},
			{"where partitions lie that are not there", lie, "none", 1000, 300_000},
			{"to delete records that are not there", cut, "none", 1000, 300_000},
			{"a topic's configs", configs(kmsg.ConfigResourceTypeTopic, false), "a", 50, 20_000},
			{"a broker's configs", configs(kmsg.ConfigResourceTypeBroker, false), strconv.Itoa(int(n.Info.NodeID)), 50, 5000},
			{"configs of groups that are not there", configs(kmsg.ConfigResourceTypeGroupConfig, true), "g", 1000, 100_000},
			{"configs of subscriptions that are not there", configs(kmsg.ConfigResourceTypeClientMetrics, true), "m", 1000, 200_000},
			{"a leader of one partition", elect, "a", 1000, 300_000},
			{"to move one partition", reassign, "a", 1000, 300_000},
			{"where one partition ended, of old", ends, "a", 1000, 65_000},
		} {
			ctx := context.Background()
			try := n.Client(kgo.RetryTimeout(0), kgo.RequestRetries(0), kgo.MaxVersions(versions))
			if _, err := try.Broker(int(n.Info.NodeID)).Request(ctx, q.make(q.name, q.few)); err != nil {
				t.Errorf("%s, %d times: %v", q.what, q.few, err)
			}
			if got, err := try.Broker(int(n.Info.NodeID)).Request(ctx, q.make(q.name, q.many)); err == nil {
				t.Errorf("%s, %d times: an answer of %d bytes", q.what, q.many, len(got.AppendTo(nil)))
			}
			try.Close()
		}
	})
}
