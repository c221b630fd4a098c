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
	kmsg.DescribeACLs: "security", kmsg.CreateACLs: "security", kmsg.DeleteACLs: "security",
	kmsg.CreateDelegationToken: "security", kmsg.RenewDelegationToken: "security", kmsg.ExpireDelegationToken: "security", kmsg.DescribeDelegationToken: "security",
	kmsg.DescribeUserSCRAMCredentials: "security", kmsg.AlterUserSCRAMCredentials: "security",
	kmsg.AddPartitionsToTxn: "transactions", kmsg.AddOffsetsToTxn: "transactions", kmsg.EndTxn: "transactions", kmsg.WriteTxnMarkers: "transactions",
	kmsg.TxnOffsetCommit: "transactions", kmsg.DescribeTransactions: "transactions", kmsg.ListTransactions: "transactions",
	kmsg.AlterReplicaLogDirs: "administration",
	kmsg.ElectLeaders:        "administration", kmsg.AlterPartitionAssignments: "administration",
	kmsg.ListPartitionReassignments: "administration", kmsg.DescribeClientQuotas: "quotas", kmsg.AlterClientQuotas: "quotas",
	kmsg.DescribeQuorum: "administration", kmsg.UpdateFeatures: "administration", kmsg.UnregisterBroker: "administration",
	kmsg.AddRaftVoter: "administration", kmsg.RemoveRaftVoter: "administration", 94: "administration",
	kmsg.ConsumerGroupHeartbeat: "the next-generation group protocol", kmsg.ConsumerGroupDescribe: "the next-generation group protocol",
	kmsg.ShareGroupHeartbeat: "share groups", kmsg.ShareGroupDescribe: "share groups", kmsg.ShareFetch: "share groups", kmsg.ShareAcknowledge: "share groups",
	kmsg.InitializeShareGroupState: "share groups", kmsg.ReadShareGroupState: "share groups", kmsg.WriteShareGroupState: "share groups",
	kmsg.DeleteShareGroupState: "share groups", kmsg.ReadShareGroupStateSummary: "share groups", kmsg.DescribeShareGroupOffsets: "share groups",
	kmsg.AlterShareGroupOffsets: "share groups", kmsg.DeleteShareGroupOffsets: "share groups",
	kmsg.StreamsGroupHeartbeat: "streams groups", kmsg.StreamsGroupDescribe: "streams groups", 93: "streams groups",
}

// dropped are versions that 3.9 served and Millrace does not.
var dropped = map[kmsg.Key]string{
	kmsg.Produce: "versions 0 to 2 carry message sets; they are named, as 4.x names them, and refused",
	kmsg.Fetch:   "versions 0 to 3 want stored records converted to message sets",
}

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

// checkVersions compares the table of versions: each key from the lowest version
// that 3.9 told to the highest that 4.4 tells, and no key that Kafka does not
// have.
func (p *peers) checkVersions(t *testing.T) {
	ranges := func(addr string) map[kmsg.Key][2]int16 {
		m := map[kmsg.Key][2]int16{}
		for _, k := range tables(t, addr, 0).ApiKeys {
			m[kmsg.Key(k.ApiKey)] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return m
	}
	ours, newest, oldest := ranges(p.ours), ranges(p.newest), ranges(p.oldest)
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
		case have == want && dropped[key] != "" && key != kmsg.Produce:
			t.Errorf("%s is served whole: take it from the list of what is dropped", name)
		case have[1] != want[1] || have[0] != want[0] && dropped[key] == "":
			t.Errorf("%s: versions %d to %d, Kafka has %d to %d", name, have[0], have[1], want[0], want[1])
		}
	}
	for key := range ours {
		if _, ok := newest[key]; !ok {
			t.Errorf("%s is told and Kafka has no such API", kmsg.NameForKey(int16(key)))
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
		oursSupported, oursFinal := list(p.ours)
		theirSupported, theirFinal := list(p.newest)
		for _, f := range oursSupported {
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
