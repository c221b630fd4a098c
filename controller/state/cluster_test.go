package state

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/wire/records"
)

// Commands of transcripts about elections, reassignments and feature levels.

// clusterRequest reads one of them; nil for another command.
//
//	elect type=1 [all]   lines "topic 0 1"; without all and lines: an empty list
//	reassign [fixed]     lines "topic 0:1/2 1:cancel 2:"; fixed: the factor may not change
//	list-reassignments   lines "topic 0 1"; without lines: all
//	features [validate-only] [version=n]   lines "name level type"
func (p *play) clusterRequest(d *datadriven.TestData) kmsg.Request {
	lines := func(each func(topic string, rest []string)) {
		for line := range strings.Lines(d.Input) {
			f := strings.Fields(line)
			each(f[0], f[1:])
		}
	}
	numbers := func(list []string) []int32 {
		out := []int32{}
		for _, s := range list {
			out = append(out, int32(p.number(s)))
		}
		return out
	}
	switch d.Cmd {
	case "elect":
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = int16(p.number(arg(d, "version", "2"))), int8(p.number(arg(d, "type", "0")))
		if !d.HasArg("all") {
			req.Topics = []kmsg.ElectLeadersRequestTopic{}
		}
		lines(func(topic string, rest []string) {
			req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: numbers(rest)})
		})
		return req
	case "reassign":
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version, req.AllowReplicationFactorChange = 1, !d.HasArg("fixed")
		lines(func(topic string, rest []string) {
			t := kmsg.AlterPartitionAssignmentsRequestTopic{Topic: topic}
			for _, s := range rest {
				at, list, _ := strings.Cut(s, ":")
				one := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: int32(p.number(at))}
				if list != "cancel" {
					one.Replicas = p.ids(list, "/")
				}
				t.Partitions = append(t.Partitions, one)
			}
			req.Topics = append(req.Topics, t)
		})
		return req
	case "list-reassignments":
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		lines(func(topic string, rest []string) {
			req.Topics = append(req.Topics, kmsg.ListPartitionReassignmentsRequestTopic{Topic: topic, Partitions: numbers(rest)})
		})
		return req
	case "features":
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version, req.ValidateOnly = int16(p.number(arg(d, "version", "2"))), d.HasArg("validate-only")
		lines(func(name string, rest []string) {
			req.FeatureUpdates = append(req.FeatureUpdates, kmsg.UpdateFeaturesRequestFeatureUpdate{
				Feature: name, MaxVersionLevel: int16(p.number(rest[0])), UpgradeType: int8(p.number(rest[1])),
			})
		})
		return req
	}
	return nil
}

func clusterAnswer(out *strings.Builder, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.ElectLeadersResponse:
		if r.ErrorCode != 0 {
			fmt.Fprintf(out, "%s\n", code(r.ErrorCode, nil))
		}
		for _, t := range r.Topics {
			if len(t.Partitions) == 0 {
				fmt.Fprintf(out, "%s: none\n", t.Topic)
			}
			for _, one := range t.Partitions {
				fmt.Fprintf(out, "%s-%d %s\n", t.Topic, one.Partition, code(one.ErrorCode, one.ErrorMessage))
			}
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		if r.ErrorCode != 0 || len(r.Topics) == 0 {
			fmt.Fprintf(out, "%s\n", code(r.ErrorCode, nil))
		}
		for _, t := range r.Topics {
			for _, one := range t.Partitions {
				fmt.Fprintf(out, "%s-%d %s\n", t.Topic, one.Partition, code(one.ErrorCode, one.ErrorMessage))
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		if len(r.Topics) == 0 {
			out.WriteString("none\n")
		}
		for _, t := range r.Topics {
			for _, one := range t.Partitions {
				fmt.Fprintf(out, "%s-%d replicas %v adding %v removing %v\n", t.Topic, one.Partition, one.Replicas, one.AddingReplicas, one.RemovingReplicas)
			}
		}
	case *kmsg.UpdateFeaturesResponse:
		fmt.Fprintf(out, "%s\n", code(r.ErrorCode, r.ErrorMessage))
		for _, one := range r.Results {
			fmt.Fprintf(out, "  %s %s\n", one.Feature, code(one.ErrorCode, nil))
		}
	}
}

// moves says what a change of a partition does to its replicas.
func moves(r *records.PartitionChangeRecord) string {
	s := ""
	for _, list := range []struct {
		name string
		ids  []int32
	}{{"replicas", r.Replicas}, {"adding", r.AddingReplicas}, {"removing", r.RemovingReplicas}} {
		if list.ids != nil {
			s += fmt.Sprintf(" %s %v", list.name, list.ids)
		}
	}
	if r.Replicas != nil && len(r.Replicas) != len(r.Directories) {
		s += fmt.Sprintf(" in %d directories", len(r.Directories))
	}
	return s
}
