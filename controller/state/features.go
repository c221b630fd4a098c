package state

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
	"millrace/wire/records"
)

// Feature levels (KIP-584, KIP-778, KIP-1022): which levels the cluster may be
// at, and how it gets from one to another.

const (
	metadataVersion = "metadata.version"
	// foundingLevel is the metadata.version that Kafka 4.4 formats with (4.4-IV2).
	foundingLevel = 33
)

// supported are the ranges of levels that this software stands for, by name. A
// feature that is not built has none, and stays at level 0. The quorum is one of
// the configured voters (kraft.version 0); the level at which AddRaftVoter and
// its kin change it comes with them.
var supported = []image.FeatureRange{
	{Name: "kraft.version", Min: 0, Max: 0},
	{Name: metadataVersion, Min: 7, Max: foundingLevel},
}

// SupportedFeatures lists the levels that this software supports, by name.
func SupportedFeatures() []image.FeatureRange { return slices.Clone(supported) }

// named are all features that Kafka 4.4 has. At level 0 each of them is off,
// which is where those that are not built already are.
var named = []string{"eligible.leader.replicas.version", "group.version", "kraft.version", metadataVersion, "share.version", "streams.version", "transaction.version"}

// changedMetadata are the levels of metadata.version whose records the level
// before cannot hold: nothing goes back across one of them.
var changedMetadata = []int16{8, 11, 13, 14, 15, 17, 23, 30, 32, 33}

// Ways to change a level, as UpdateFeatures numbers them.
const (
	upgrade         int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

func (d *Decider) updateFeatures(req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	// A feature that is named twice goes to where the last entry wants it.
	last := map[string]int{}
	for i := range req.FeatureUpdates {
		last[req.FeatureUpdates[i].Feature] = i
	}
	var recs []records.Metadata
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		if last[u.Feature] != i {
			continue
		}
		how := u.UpgradeType
		if req.Version == 0 {
			how = upgrade // AllowDowngrade of version 0 has no effect in Kafka 4.4
		}
		if why := d.refuseLevel(u.Feature, u.MaxVersionLevel, how); why != "" {
			message := "The update failed for all features since the following feature had an error: " + why
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidUpdateVersion.Code, &message
			return resp
		}
		if d.working.Feature(u.Feature) != u.MaxVersionLevel {
			recs = append(recs, &records.FeatureLevelRecord{Name: u.Feature, FeatureLevel: u.MaxVersionLevel})
		}
	}
	if req.Version < 2 {
		for i := range req.FeatureUpdates {
			out := kmsg.NewUpdateFeaturesResponseResult()
			out.Feature, out.ErrorMessage = req.FeatureUpdates[i].Feature, kmsg.StringPtr("NONE") // Kafka's word for none
			resp.Results = append(resp.Results, out)
		}
	}
	if req.Version == 0 || !req.ValidateOnly {
		d.write(recs...)
	}
	return resp
}

// refuseLevel says in words why a feature cannot go to a level; "" if it can.
func (d *Decider) refuseLevel(name string, level int16, how int8) string {
	invalid := func(why string) string {
		return fmt.Sprintf("Invalid update version %d for feature %s. %s", level, name, why)
	}
	if how < upgrade || how > unsafeDowngrade {
		return invalid("The controller does not support the given upgrade type.")
	}
	if level < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	if why := unsupported(fmt.Sprintf("Local controller %d", d.node), supported, name, level); why != "" {
		return invalid(why)
	}
	for b := range d.working.Brokers() {
		if why := unsupported(fmt.Sprintf("Broker %d", b.ID), b.Features, name, level); why != "" {
			return invalid(why)
		}
	}
	if !slices.Contains(named, name) {
		return invalid("Feature " + name + " not found.")
	}
	now := d.working.Feature(name)
	switch {
	case level < now && how == upgrade:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > now && how != upgrade:
		return invalid("Can't downgrade to a newer version.")
	case level < now && name == metadataVersion && loses(now, level):
		why := fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. ", now, level)
		if how == unsafeDowngrade {
			return why + "Unsafe metadata downgrade is not supported in this version."
		}
		return why + "Refusing to perform the requested downgrade because it might delete metadata information."
	}
	return ""
}

// loses says whether metadata written at one level may not be readable at
// another, lower one.
func loses(from, to int16) bool {
	return slices.ContainsFunc(changedMetadata, func(l int16) bool { return l > to && l <= from })
}

// unsupported says why somebody with these ranges does not support a level; ""
// if it does. A feature without a range is one that is always off.
func unsupported(who string, ranges []image.FeatureRange, name string, level int16) string {
	var r image.FeatureRange
	for _, f := range ranges {
		if f.Name == name {
			r = f
		}
	}
	switch {
	case level >= r.Min && level <= r.Max:
		return ""
	case r.Max == 0:
		return who + " does not support this feature."
	}
	return fmt.Sprintf("%s only supports versions %d-%d", who, r.Min, r.Max)
}
