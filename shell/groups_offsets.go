package shell

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// What kafka-consumer-groups.sh changes of a group's committed offsets.

func deleteOffsets(sh *Shell, c *toolCall, k *client) error {
	for _, group := range c.values["group"] {
		parts, err := resetScope(c, k, kadm.OffsetResponses{})
		if err != nil {
			return err
		}
		set := kadm.TopicsSet{}
		for _, tp := range parts {
			set.Add(tp.Topic, tp.Partition)
		}
		got, err := k.admin.DeleteOffsets(k.ctx, group, set)
		if err != nil {
			return err
		}
		fmt.Fprintf(sh.Stdout, "\n%-30s %-15s %-15s\n", "TOPIC", "PARTITION", "STATUS")
		for _, tp := range parts {
			status := "Successful"
			if err, ok := got.Lookup(tp.Topic, tp.Partition); ok && err != nil {
				status = "Error: " + k.explain(err)
			}
			fmt.Fprintf(sh.Stdout, "%-30s %-15d %-15s\n", tp.Topic, tp.Partition, status)
		}
	}
	return nil
}

var resetScenarios = []string{"shift-by", "to-offset", "to-earliest", "to-current", "to-latest", "by-duration", "to-datetime"}

func checkReset(sh *Shell, c *toolCall) error {
	if c.has("execute") && c.has("dry-run") {
		return misuse("Option [execute] only takes one of these options: [dry-run]")
	}
	if !c.has("execute") && !c.has("dry-run") {
		fmt.Fprintln(sh.Stderr, "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. "+
			"You should add the --dry-run option explicitly if you are scripting this command and want to keep the current default behavior without prompting.")
	}
	if !c.has("all-topics") && !c.has("topic") {
		return misuse("One of the reset scopes should be defined: --all-topics, --topic.")
	}
	switch n := len(given(c, resetScenarios...)); {
	case n == 0:
		return misuse("Option '[reset-offsets]' requires one of the following scenarios: [[shift-by], [to-offset], [to-earliest], [to-current], [to-latest], [by-duration], [to-datetime], [from-file]]")
	case n > 1:
		return misuse("Option [%s] can't be used with option [%s]", given(c, resetScenarios...)[0], given(c, resetScenarios...)[1])
	}
	return nil
}

// topicPartition is one partition of a command line.
type topicPartition struct {
	Topic     string
	Partition int32
}

// resetScope lists the partitions that a command line means, sorted.
func resetScope(c *toolCall, k *client, committed kadm.OffsetResponses) ([]topicPartition, error) {
	var parts []topicPartition
	if c.has("all-topics") {
		for _, o := range committed.Sorted() {
			parts = append(parts, topicPartition{o.Topic, o.Partition})
		}
	}
	for _, text := range c.values["topic"] {
		name, numbers, some := strings.Cut(text, ":")
		if some {
			for _, one := range strings.Split(numbers, ",") {
				n, err := strconv.ParseInt(one, 10, 32)
				if err != nil {
					return nil, says("Invalid topic arg '%s', expected topic:partition,partition", text)
				}
				parts = append(parts, topicPartition{name, int32(n)})
			}
			continue
		}
		all, err := k.admin.ListTopicsWithInternal(k.ctx, name)
		if err != nil {
			return nil, err
		}
		t := all[name]
		if t.Err != nil || !all.Has(name) {
			return nil, kerr.UnknownTopicOrPartition
		}
		for _, one := range t.Partitions.Sorted() {
			parts = append(parts, topicPartition{name, one.Partition})
		}
	}
	sort.Slice(parts, func(i, j int) bool {
		return parts[i].Topic < parts[j].Topic || parts[i].Topic == parts[j].Topic && parts[i].Partition < parts[j].Partition
	})
	return slices.Compact(parts), nil
}

func resetOffsets(sh *Shell, c *toolCall, k *client) error {
	groups, err := meantGroups(c, k)
	if err != nil {
		return err
	}
	header := false
	for _, name := range groups {
		described, err := k.admin.DescribeGroups(k.ctx, name)
		if err != nil {
			return err
		}
		if g := described[name]; g.Err == nil && g.State != "Empty" && g.State != "Dead" {
			fmt.Fprintf(sh.Stdout, "\nError: Assignments can only be reset if the group '%s' is inactive, but the current state is %s.\n", name, g.State)
			continue
		}
		committed, err := k.admin.FetchOffsets(k.ctx, name)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return err
		}
		parts, err := resetScope(c, k, committed)
		if err != nil {
			return err
		}
		target, err := resetTargets(sh, c, k, parts, committed)
		if err != nil {
			return err
		}
		if c.has("execute") {
			offsets := kadm.Offsets{}
			for i, tp := range parts {
				offsets.AddOffset(tp.Topic, tp.Partition, target[i], -1)
			}
			got, err := k.admin.CommitOffsets(k.ctx, name, offsets)
			if err == nil {
				err = got.Error()
			}
			if err != nil {
				return err
			}
		}
		if c.has("export") {
			for i, tp := range parts {
				fmt.Fprintf(sh.Stdout, "%s,%d,%d\n", tp.Topic, tp.Partition, target[i])
			}
			fmt.Fprintln(sh.Stdout)
			continue
		}
		if !header {
			header = true
			fmt.Fprintf(sh.Stdout, "\n%-15s %-15s %-10s %s\n", "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
		}
		for i, tp := range parts {
			fmt.Fprintf(sh.Stdout, "%-15s %-15s %-10d %d\n", name, tp.Topic, tp.Partition, target[i])
		}
	}
	return nil
}

// resetTargets are the offsets that partitions are to be reset to, within what
// their logs hold.
func resetTargets(sh *Shell, c *toolCall, k *client, parts []topicPartition, committed kadm.OffsetResponses) ([]int64, error) {
	topics := map[string]bool{}
	for _, tp := range parts {
		topics[tp.Topic] = true
	}
	names := slices.Sorted(maps.Keys(topics))
	if len(names) == 0 {
		return nil, nil
	}
	starts, err := k.admin.ListStartOffsets(k.ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := k.admin.ListEndOffsets(k.ctx, names...)
	if err != nil {
		return nil, err
	}
	var at kadm.ListedOffsets
	if ms, asked, err := resetTime(c); err != nil {
		return nil, err
	} else if asked {
		if at, err = k.admin.ListOffsetsAfterMilli(k.ctx, ms, names...); err != nil {
			return nil, err
		}
	}
	out := make([]int64, len(parts))
	for i, tp := range parts {
		start, ok := starts.Lookup(tp.Topic, tp.Partition)
		end, okay := ends.Lookup(tp.Topic, tp.Partition)
		if !ok || !okay || start.Err != nil || end.Err != nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		current, has := int64(-1), false
		if o, found := committed.Lookup(tp.Topic, tp.Partition); found && o.Err == nil && o.At >= 0 {
			current, has = o.At, true
		}
		want := end.Offset
		switch {
		case c.has("to-earliest"):
			want = start.Offset
		case c.has("to-offset"):
			if want, err = strconv.ParseInt(c.get("to-offset"), 10, 64); err != nil {
				return nil, says("Cannot parse argument '%s' of option to-offset", c.get("to-offset"))
			}
		case c.has("shift-by"):
			by, err := strconv.ParseInt(c.get("shift-by"), 10, 64)
			if err != nil {
				return nil, says("Cannot parse argument '%s' of option shift-by", c.get("shift-by"))
			}
			if !has {
				return nil, says("Cannot shift offset for partition %s-%d since there is no current committed offset", tp.Topic, tp.Partition)
			}
			want = current + by
		case c.has("to-current") && has:
			want = current
		case at != nil:
			if o, found := at.Lookup(tp.Topic, tp.Partition); found && o.Err == nil && o.Offset >= 0 {
				want = o.Offset
			}
		}
		if within := min(max(want, start.Offset), end.Offset); within != want {
			fmt.Fprintf(sh.Stderr, "New offset (%d) is out of range for topic partition %s-%d. Value will be set to %d\n", want, tp.Topic, tp.Partition, within)
			want = within
		}
		out[i] = want
	}
	return out, nil
}

// resetTime is the time that a command line resets to, in milliseconds.
func resetTime(c *toolCall) (ms int64, asked bool, err error) {
	switch {
	case c.has("to-datetime"):
		for _, layout := range []string{"2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999-0700", "2006-01-02T15:04:05.999"} {
			if t, err := time.ParseInLocation(layout, c.get("to-datetime"), time.UTC); err == nil {
				return t.UnixMilli(), true, nil
			}
		}
		return 0, false, says("Error parsing timestamp %s: expected YYYY-MM-DDTHH:mm:SS.sss", c.get("to-datetime"))
	case c.has("by-duration"):
		d, err := isoDuration(c.get("by-duration"))
		if err != nil {
			return 0, false, err
		}
		return time.Now().Add(-d).UnixMilli(), true, nil
	}
	return 0, false, nil
}

// isoDuration reads PnDTnHnMnS.
func isoDuration(text string) (time.Duration, error) {
	bad := says("Text cannot be parsed to a Duration: %s", text)
	rest, ok := strings.CutPrefix(text, "P")
	if !ok || rest == "" {
		return 0, bad
	}
	days, clock, _ := strings.Cut(rest, "T")
	var total time.Duration
	if days != "" {
		n, err := strconv.ParseInt(strings.TrimSuffix(days, "D"), 10, 32)
		if err != nil || !strings.HasSuffix(days, "D") {
			return 0, bad
		}
		total = time.Duration(n) * 24 * time.Hour
	}
	if clock != "" {
		d, err := time.ParseDuration(strings.ToLower(clock))
		if err != nil {
			return 0, bad
		}
		total += d
	}
	return total, nil
}
