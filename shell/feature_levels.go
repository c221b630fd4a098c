package shell

import (
	"strconv"
	"strings"
)

// metadataVersions are the levels of metadata.version from metadataVersionMin
// on, by name. The last one is of a release to come.
var metadataVersions = []string{
	"3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4",
	"3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
	"4.5-IV0",
}

const (
	metadataVersionMin = 7
	metadataVersion    = 33 // with which a cluster is founded
)

// feature is one of Kafka's features beside metadata.version (KIP-584), and
// from which metadata.version on each of its levels is a new cluster's default
// (KIP-1022).
type feature struct {
	name string
	from []int // by level, from 0
}

var features = []feature{
	{"kraft.version", []int{0, 21}},
	{"transaction.version", []int{0, 24, 24}},
	{"group.version", []int{0, 22}},
	{"eligible.leader.replicas.version", []int{0, 26}},
	{"share.version", []int{0, 28, 31}},
	{"streams.version", []int{0, 29}},
}

// levelFor is a feature's level in a cluster founded with a metadata.version.
func (f feature) levelFor(version int) int {
	level := 0
	for i, from := range f.from {
		if version >= from {
			level = i
		}
	}
	return level
}

func featureNamed(name string) (feature, bool) {
	for _, f := range features {
		if f.name == name {
			return f, true
		}
	}
	return feature{}, false
}

// metadataVersionOf is the metadata.version that a release (4.0) or a version
// (4.0-IV3) stands for; unstable ones only if asked for.
func metadataVersionOf(release string, unstable bool) (int, error) {
	known := metadataVersions
	if !unstable {
		known = known[:metadataVersion-metadataVersionMin+1]
	}
	found := 0
	for i, name := range known {
		// A release that is not out yet has versions, and no version of its own.
		if name == release || metadataVersionMin+i <= metadataVersion && strings.HasPrefix(name, release+"-IV") {
			found = metadataVersionMin + i
		}
	}
	if found == 0 {
		return 0, says("Unknown metadata.version '%s'. Supported metadata.version are: %s", release, strings.Join(known, ", "))
	}
	return found, nil
}

func metadataVersionName(version int) string {
	if i := version - metadataVersionMin; i >= 0 && i < len(metadataVersions) {
		return metadataVersions[i]
	}
	return "unknown"
}

// featureLevel reads feature=level.
func featureLevel(text string) (name string, level int, ok bool) {
	name, number, ok := strings.Cut(text, "=")
	if !ok {
		return "", 0, false
	}
	level, err := strconv.Atoi(strings.TrimSpace(number))
	return strings.TrimSpace(name), level, err == nil
}
