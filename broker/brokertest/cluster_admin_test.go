package brokertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// withController are the properties of a node that has a listener of each kind.
var withController = map[string]string{
	"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@broker:9093",
	"listeners": "PLAINTEXT://broker:9092,CONTROLLER://broker:9093", "controller.listener.names": "CONTROLLER",
}

// nobody may do anything.
type nobody struct{}

func (nobody) Allowed(auth.Subject, auth.Action) bool { return false }

// saidOf is what an answer of one of these APIs says: its error, then topics with
// the errors of their partitions, or whatever else it lists.
func saidOf(resp kmsg.Response) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch r := resp.(type) {
	case *kmsg.DescribeQuorumResponse:
		say("%s", word(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				say("%s-%d:%s leader %d, %d voters, %d observers", t.Topic, p.Partition, word(p.ErrorCode), p.LeaderID, len(p.CurrentVoters), len(p.Observers))
			}
		}
		for _, n := range r.Nodes {
			for _, l := range n.Listeners {
				say("node %d %s://%s:%d", n.NodeID, l.Name, l.Host, l.Port)
			}
		}
	case *kmsg.ElectLeadersResponse:
		say("%s", word(r.ErrorCode))
		for _, t := range r.Topics {
			say("%s", t.Topic)
			for _, p := range t.Partitions {
				say("%d:%s", p.Partition, word(p.ErrorCode))
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		say("%s", word(r.ErrorCode))
		for _, t := range r.Topics {
			say("%s", t.Topic)
			for _, p := range t.Partitions {
				say("%d:%s", p.Partition, word(p.ErrorCode))
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		say("%s, %d topics", word(r.ErrorCode), len(r.Topics))
	case *kmsg.UpdateFeaturesResponse:
		say("%s", word(r.ErrorCode))
		for _, f := range r.Results {
			say("%s:%s", f.Feature, word(f.ErrorCode))
		}
	case *kmsg.UnregisterBrokerResponse:
		say("%s", word(r.ErrorCode))
	default:
		panic(fmt.Sprintf("%T", resp))
	}
	return strings.Join(parts, " ")
}

// clusterQuestions ask what concerns the cluster as a whole of a node that is all
// of it. The answers are the same whichever listener is asked.
func clusterQuestions() []struct {
	what, want, refused string
	req                 kmsg.Request
} {
	quorum := func(topic string) kmsg.Request {
		r := kmsg.NewPtrDescribeQuorumRequest()
		r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}}}
		return r
	}
	elect := func(kind int8, timeout int32, topics ...string) kmsg.Request {
		r := kmsg.NewPtrElectLeadersRequest()
		r.ElectionType, r.TimeoutMillis = kind, timeout
		for _, t := range topics {
			r.Topics = append(r.Topics, kmsg.ElectLeadersRequestTopic{Topic: t, Partitions: []int32{0, 2}})
		}
		return r
	}
	move := func(timeout int32, topic string, replicas ...int32) kmsg.Request {
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis = timeout
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: 0, Replicas: replicas}}}}
		return r
	}
	level := func(name string, level int16) kmsg.Request {
		r := kmsg.NewPtrUpdateFeaturesRequest()
		r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: name, MaxVersionLevel: level, UpgradeType: 1}}
		return r
	}
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 7
	const no = "CLUSTER_AUTHORIZATION_FAILED"
	return []struct {
		what, want, refused string
		req                 kmsg.Request
	}{
		{"the quorum", "fine __cluster_metadata-0:fine leader 1, 1 voters, 0 observers node 1 CONTROLLER://broker:9093", no, quorum("__cluster_metadata")},
		{"another quorum", "fine a-0:UNKNOWN_TOPIC_OR_PARTITION leader 0, 0 voters, 0 observers", no, quorum("a")},
		{"all preferred leaders", "fine a", no, elect(0, 1000)},
		{"some preferred leaders", "fine a 0:ELECTION_NOT_NEEDED 2:UNKNOWN_TOPIC_OR_PARTITION none 0:UNKNOWN_TOPIC_OR_PARTITION 2:UNKNOWN_TOPIC_OR_PARTITION",
			no + " a 0:" + no + " 2:" + no + " none 0:" + no + " 2:" + no, elect(0, 1000, "a", "none")},
		{"unclean leaders", "fine a 0:ELECTION_NOT_NEEDED 2:UNKNOWN_TOPIC_OR_PARTITION", no + " a 0:" + no + " 2:" + no, elect(1, 1000, "a")},
		{"no kind of election", "INVALID_REQUEST a 0:INVALID_REQUEST 2:INVALID_REQUEST", no + " a 0:" + no + " 2:" + no, elect(2, 1000, "a")},
		{"an election in no time", "REQUEST_TIMED_OUT a 0:REQUEST_TIMED_OUT 2:REQUEST_TIMED_OUT", no + " a 0:" + no + " 2:" + no, elect(0, 0, "a")},
		{"a move to where it is", "fine a 0:fine", no + " a 0:" + no, move(1000, "a", 1)},
		{"a move to nobody", "fine a 0:INVALID_REPLICA_ASSIGNMENT", no + " a 0:" + no, move(1000, "a", 7)},
		{"a move of nothing", "fine none 0:UNKNOWN_TOPIC_OR_PARTITION", no + " none 0:" + no, move(1000, "none", 1)},
		{"to cancel no move", "fine a 0:NO_REASSIGNMENT_IN_PROGRESS", no + " a 0:" + no, move(1000, "a")},
		{"a move in no time", "REQUEST_TIMED_OUT a 0:REQUEST_TIMED_OUT", no + " a 0:" + no, move(0, "a", 1)},
		{"moves", "fine, 0 topics", no + ", 0 topics", kmsg.NewPtrListPartitionReassignmentsRequest()},
		{"the level there is", "fine", no, level("metadata.version", 33)},
		{"a level that is not there", "INVALID_UPDATE_VERSION", no, level("group.version", 1)},
		{"to unregister nobody", "BROKER_ID_NOT_REGISTERED", no, unregister},
	}
}

// TestClusterAdministration asks both kinds of listener, as somebody who may and
// as somebody who may not.
func TestClusterAdministration(t *testing.T) {
	bubble(t, withController, func(t *testing.T, n *Node) {
		makeTopic(t, n, n.Client(), "a", 2)
		for _, denied := range []bool{false, true} {
			if denied {
				n.Stop()
				n.Authorizer = nobody{}
				n.Start()
			}
			for _, address := range []string{"broker:9092", "broker:9093"} {
				c := n.Client(kgo.SeedBrokers(address))
				for _, q := range clusterQuestions() {
					want := q.want
					if denied {
						want = q.refused
					}
					resp, err := c.SeedBrokers()[0].Request(t.Context(), q.req)
					if err != nil {
						t.Errorf("%s asked for %s: %v", address, q.what, err)
					} else if got := saidOf(resp); got != want {
						t.Errorf("%s asked for %s (denied: %v):\n got %s\nwant %s", address, q.what, denied, got, want)
					}
				}
				c.Close()
			}
		}
	})
}

// A broker that unregisters itself is in nobody's metadata any more, its
// heartbeats do not bring it back, and its next start does, with what it has.
func TestUnregisterItself(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client(kgo.AllowAutoTopicCreation())
		Produce(t, c, "events", "v", 3)
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = n.Info.NodeID
		if got := ask[*kmsg.UnregisterBrokerResponse](t, n, c, req); got.ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(got.ErrorCode))
		}
		brokers := func(c *kgo.Client) int {
			got, err := c.SeedBrokers()[0].Request(t.Context(), kmsg.NewPtrMetadataRequest())
			if err != nil {
				t.Fatal(err)
			}
			return len(got.(*kmsg.MetadataResponse).Brokers)
		}
		for range 2 {
			if got := brokers(c); got != 0 {
				t.Errorf("%d brokers are there", got)
			}
			time.Sleep(time.Minute)
		}
		c.Close()
		n.Stop()
		n.Start()
		c = n.Client(kgo.ConsumeTopics("events"))
		if got := brokers(c); got != 1 {
			t.Errorf("after a start %d brokers are there", got)
		}
		Consume(t, c, 3)
	})
}
