//go:build compat

package frames

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// unbuilt are the APIs that Kafka's brokers serve and Millrace does not yet:
// what is not built is not advertised.
var unbuilt = map[kmsg.Key]string{
	kmsg.SASLHandshake: "security", kmsg.SASLAuthenticate: "security",
	kmsg.CreateDelegationToken: "security", kmsg.RenewDelegationToken: "security", kmsg.ExpireDelegationToken: "security", kmsg.DescribeDelegationToken: "security",
	kmsg.DescribeUserSCRAMCredentials: "security", kmsg.AlterUserSCRAMCredentials: "security",
	kmsg.AddPartitionsToTxn: "transactions", kmsg.AddOffsetsToTxn: "transactions", kmsg.EndTxn: "transactions", kmsg.WriteTxnMarkers: "transactions",
	kmsg.TxnOffsetCommit: "transactions", kmsg.DescribeTransactions: "transactions", kmsg.ListTransactions: "transactions",
	kmsg.DescribeClientQuotas: "quotas", kmsg.AlterClientQuotas: "quotas",

	kmsg.AddRaftVoter: "the cluster", kmsg.RemoveRaftVoter: "the cluster", 94: "the cluster",
	kmsg.ConsumerGroupHeartbeat: "the next-generation group protocol", kmsg.ConsumerGroupDescribe: "the next-generation group protocol",
	kmsg.ShareGroupHeartbeat: "share groups", kmsg.ShareGroupDescribe: "share groups", kmsg.ShareFetch: "share groups", kmsg.ShareAcknowledge: "share groups",
	kmsg.InitializeShareGroupState: "share groups", kmsg.ReadShareGroupState: "share groups", kmsg.WriteShareGroupState: "share groups",
	kmsg.DeleteShareGroupState: "share groups", kmsg.ReadShareGroupStateSummary: "share groups", kmsg.DescribeShareGroupOffsets: "share groups",
	kmsg.AlterShareGroupOffsets: "share groups", kmsg.DeleteShareGroupOffsets: "share groups",
	kmsg.StreamsGroupHeartbeat: "streams groups", kmsg.StreamsGroupDescribe: "streams groups", 93: "streams groups",
}

// unadvertised are what both serve and tell nobody of: Kafka where no plugin takes
// the metrics, Millrace while nobody has subscribed to any (KIP-714).
var unadvertised = map[kmsg.Key]bool{kmsg.GetTelemetrySubscriptions: true, kmsg.PushTelemetry: true}

// tables asks a server for its versions and features.
func tables(t *testing.T, addr string, version int16) *kmsg.ApiVersionsResponse {
	t.Helper()
	c, err := frame.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "frames", "1"
	kind := req.ResponseKind()
	kind.SetVersion(version)
	o := c.Send(c.Encode(req), kind)
	resp, ok := o.Response.(*kmsg.ApiVersionsResponse)
	if !ok || resp.ErrorCode != 0 {
		t.Fatalf("%s, version %d: %v", addr, version, o)
	}
	return resp
}

// unbuiltThere are the APIs that Kafka serves on the controller listener alone.
var unbuiltThere = map[kmsg.Key]string{
	kmsg.Fetch: "raft's own messages", kmsg.Vote: "raft's own messages", kmsg.BeginQuorumEpoch: "raft's own messages", kmsg.EndQuorumEpoch: "raft's own messages",
	kmsg.FetchSnapshot: "raft's own messages", kmsg.UpdateRaftVoter: "raft's own messages",
	kmsg.AlterPartition: "the cluster", kmsg.Envelope: "the cluster", kmsg.BrokerRegistration: "the cluster", kmsg.BrokerHeartbeat: "the cluster",
	kmsg.AllocateProducerIDs: "the cluster", kmsg.ControllerRegistration: "the cluster", kmsg.AssignReplicasToDirs: "the cluster",
}

// checkVersions compares the table of versions: each key from the lowest version
// that 3.9 told to the highest that 4.4 tells, and no key that Kafka does not
// have.
func (p *peers) checkVersions(t *testing.T) {
	t.Run("broker", func(t *testing.T) { compareVersions(t, p.ours.Broker, p.newest.Broker, p.oldest.Broker, unbuilt) })
	there := maps.Clone(unbuilt)
	maps.Copy(there, unbuiltThere)
	t.Run("controller", func(t *testing.T) {
		compareVersions(t, p.ours.Controller, p.newest.Controller, p.oldest.Controller, there)
	})
}

func compareVersions(t *testing.T, ourAddr, newestAddr, oldestAddr string, unbuilt map[kmsg.Key]string) {
	ranges := func(addr string) map[kmsg.Key][2]int16 {
		m := map[kmsg.Key][2]int16{}
		for _, k := range tables(t, addr, 0).ApiKeys {
			m[kmsg.Key(k.ApiKey)] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return m
	}
	ours, newest, oldest := ranges(ourAddr), ranges(newestAddr), ranges(oldestAddr)
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		name := kmsg.NameForKey(int16(key))
		want := newest[key]
		if old, ok := oldest[key]; ok {
			want[0] = min(want[0], old[0])
		}
		have, served := ours[key]
		why, isUnbuilt := unbuilt[key]
		switch {
		case served && isUnbuilt:
			t.Errorf("%s is served: take it from the list of what is not built", name)
		case !served && !isUnbuilt:
			t.Errorf("%s is not served", name)
		case !served:
			t.Logf("%s waits for %s", name, why)
		case have != want:
			t.Errorf("%s: versions %d to %d, Kafka has %d to %d", name, have[0], have[1], want[0], want[1])
		}
	}
	for key := range ours {
		if _, ok := newest[key]; !ok {
			t.Errorf("%s is told and Kafka does not tell of it", kmsg.NameForKey(int16(key)))
		}
	}
}

// checkFeatures compares the features told in each version.
func (p *peers) checkFeatures(t *testing.T) {
	for v := int16(3); v <= 5; v++ {
		list := func(addr string) (supported, finalized []string) {
			r := tables(t, addr, v)
			for _, f := range r.SupportedFeatures {
				supported = append(supported, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersion, f.MaxVersion))
			}
			for _, f := range r.FinalizedFeatures {
				finalized = append(finalized, fmt.Sprintf("%s %d", f.Name, f.MaxVersionLevel))
			}
			slices.Sort(supported)
			slices.Sort(finalized)
			return supported, finalized
		}
		oursSupported, oursFinal := list(p.ours.Broker)
		theirSupported, theirFinal := list(p.newest.Broker)
		if there, final := list(p.ours.Controller); !slices.Equal(there, oursSupported) || !slices.Equal(final, oursFinal) {
			t.Errorf("version %d: the controller listener tells of %q and %q, the broker's of %q and %q", v, there, final, oursSupported, oursFinal)
		}
		for _, f := range oursSupported {
			if f == "kraft.version 0-0" {
				f = "kraft.version 0-1" // AddRaftVoter and its kin are not built
			}
			if !slices.Contains(theirSupported, f) {
				t.Errorf("version %d: supports %q, Kafka %q", v, f, theirSupported)
			}
		}
		for _, f := range oursFinal {
			if !slices.Contains(theirFinal, f) {
				t.Errorf("version %d: has finalized %q, Kafka %q", v, f, theirFinal)
			}
		}
		if v == 3 && len(oursSupported) != len(theirSupported) {
			t.Errorf("version 3 supports %q, Kafka %q", oursSupported, theirSupported)
		}
	}
}
