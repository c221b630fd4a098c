package main

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupsTool is kafka-groups.sh.
func groupsTool() *tool {
	return &tool{name: "groups", short: "List groups of all types", run: runGroups, options: []option{
		bootstrapOption, commandConfig,
		{name: "list", help: "list the groups"},
		{name: "group-type", value: "TYPE", help: "only groups of this type"},
		{name: "protocol", value: "NAME", help: "only groups of this protocol"},
		{name: "consumer", help: "only consumer groups"},
		{name: "share", help: "only share groups"},
		{name: "streams", help: "only streams groups"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

// groupTypes are Kafka's names of group types; a broker that tells none has
// classic groups only.
func groupType(g kadm.ListedGroup) string {
	switch strings.ToLower(g.GroupType) {
	case "", "classic":
		return "Classic"
	case "consumer":
		return "Consumer"
	case "share":
		return "Share"
	case "streams":
		return "Streams"
	}
	return g.GroupType
}

// consumers says whether a group's members are consumers.
func consumers(g kadm.ListedGroup) bool {
	kind := groupType(g)
	return kind == "Consumer" || kind == "Classic" && (g.ProtocolType == "consumer" || g.ProtocolType == "")
}

func runGroups(p *program, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(p.stdout, kafkaVersion)
		return nil
	}
	if !c.has("list") {
		return misuse("Command must include exactly one action: --list.")
	}
	if len(given(c, "consumer", "share", "streams")) > 1 {
		return misuse("Option \"[consumer]\" can't be used with option \"[share]\"")
	}
	k, done, err := p.connect(c)
	if err != nil {
		return err
	}
	defer done()
	all, err := k.admin.ListGroups(k.ctx)
	if err != nil {
		return says("%s", k.explain(err))
	}
	rows := [][]string{}
	for _, g := range all.Sorted() {
		kind := groupType(g)
		switch {
		case c.has("consumer") && !consumers(g), c.has("share") && kind != "Share", c.has("streams") && kind != "Streams",
			c.has("group-type") && !strings.EqualFold(kind, c.get("group-type")), c.has("protocol") && g.ProtocolType != c.get("protocol"):
			continue
		}
		rows = append(rows, []string{g.Group, kind, g.ProtocolType})
	}
	if len(rows) == 0 {
		return nil
	}
	width := 20
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range append([][]string{{"GROUP", "TYPE", "PROTOCOL"}}, rows...) {
		fmt.Fprintf(p.stdout, "%-*s %-21s %-21s\n", width, row[0], row[1], row[2])
	}
	return nil
}

// consumerGroupsTool is kafka-consumer-groups.sh.
func consumerGroupsTool() *tool {
	return &tool{name: "consumer-groups", short: "List, describe, reset or delete consumer groups", run: runConsumerGroups, options: []option{
		bootstrapOption, commandConfig,
		{name: "list", help: "list the groups"},
		{name: "describe", help: "describe groups"},
		{name: "delete", help: "delete groups"},
		{name: "reset-offsets", help: "move a group's committed offsets"},
		{name: "delete-offsets", help: "delete a group's offsets of topics"},
		{name: "group", value: "NAME", many: true, help: "the group"},
		{name: "all-groups", help: "all groups"},
		{name: "state", value: stateValue, help: "with --describe: the groups' states; with --list: with their states, or only some"},
		{name: "type", value: stateValue, help: "with --list: with their types, or only some"},
		{name: "offsets", help: "describe offsets; the default"},
		{name: "members", help: "describe members"},
		{name: "verbose", help: "more about members"},
		{name: "topic", value: "T, T:N,M", many: true, help: "the topic, or its partitions"},
		{name: "all-topics", help: "all topics the group has offsets of"},
		{name: "execute", help: "do it"},
		{name: "dry-run", help: "only show what would be done"},
		{name: "export", help: "show it as CSV"},
		{name: "to-earliest", help: "to the first record"},
		{name: "to-latest", help: "behind the last record"},
		{name: "to-current", help: "to where it is"},
		{name: "to-offset", value: "N", help: "to an offset"},
		{name: "shift-by", value: "N", help: "by so many records"},
		{name: "to-datetime", value: "YYYY-MM-DDTHH:mm:SS.sss", help: "to the first record of a time"},
		{name: "by-duration", value: "DURATION", help: "to the first record of a time ago"},
		{name: "from-file", value: "FILE", refuse: "name the partitions with --topic"},
		{name: "regex", value: "REGEX", refuse: "use --all-groups"},
		{name: "validate-regex", value: "REGEX", refuse: "regular expressions of groups are not evaluated here"},
		{name: "timeout", value: "MS", help: "how long to wait"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

// stateValue marks flags whose value may be left out.
const stateValue = "[NAME]"

func runConsumerGroups(p *program, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(p.stdout, kafkaVersion)
		return nil
	}
	actions := given(c, "list", "describe", "delete", "reset-offsets", "delete-offsets")
	if len(actions) != 1 {
		return misuse("Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex")
	}
	action := actions[0]
	if action != "list" && !c.has("group") && !c.has("all-groups") {
		return misuse("Option [%s] takes one of these options: [all-groups], [group]", action)
	}
	if !c.has("bootstrap-server") {
		return misuse("Missing required argument \"[bootstrap-server]\"")
	}
	if action == "reset-offsets" {
		if err := checkReset(p, c); err != nil {
			return err
		}
	}
	if action == "delete-offsets" && !c.has("topic") {
		return misuse("Option [delete-offsets] takes the following option: [topic]")
	}
	k, done, err := p.connect(c)
	if err != nil {
		return err
	}
	defer done()
	err = map[string]func(*program, *toolCall, *client) error{
		"list": listConsumerGroups, "describe": describeConsumerGroups, "delete": deleteConsumerGroups, "reset-offsets": resetOffsets, "delete-offsets": deleteOffsets,
	}[action](p, c, k)
	if err != nil && !errors.Is(err, errTold) {
		// Kafka's tool tells failures on standard output, and ends with 0.
		fmt.Fprintf(p.stdout, "\nError: Executing consumer group command failed due to %s\n", k.explain(err))
		return nil
	}
	return err
}

func listConsumerGroups(p *program, c *toolCall, k *client) error {
	all, err := k.admin.ListGroups(k.ctx)
	if err != nil {
		return err
	}
	only := func(flag, have string) bool {
		v := c.get(flag)
		return v == "" || slices.ContainsFunc(strings.Split(v, ","), func(one string) bool {
			return strings.EqualFold(strings.TrimSpace(one), have)
		})
	}
	columns := []string{"GROUP"}
	for _, flag := range given(c, "type", "state") {
		columns = append(columns, strings.ToUpper(flag))
	}
	rows := [][]string{columns}
	width := 15
	for _, g := range all.Sorted() {
		if !consumers(g) || !only("state", g.State) || !only("type", groupType(g)) {
			continue
		}
		row := []string{g.Group}
		if c.has("type") {
			row = append(row, groupType(g))
		}
		if c.has("state") {
			row = append(row, g.State)
		}
		rows, width = append(rows, row), max(width, len(g.Group)+10)
	}
	if len(columns) == 1 {
		for _, row := range rows[1:] {
			fmt.Fprintln(p.stdout, row[0])
		}
		return nil
	}
	for _, row := range rows {
		fmt.Fprintf(p.stdout, "%-*s", width, row[0])
		for _, cell := range row[1:] {
			fmt.Fprintf(p.stdout, " %-20s", cell)
		}
		fmt.Fprintln(p.stdout)
	}
	return nil
}

// meantGroups are the groups of a command line.
func meantGroups(c *toolCall, k *client) ([]string, error) {
	if !c.has("all-groups") {
		return c.values["group"], nil
	}
	all, err := k.admin.ListGroups(k.ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range all.Sorted() {
		if consumers(g) {
			names = append(names, g.Group)
		}
	}
	return names, nil
}

func describeConsumerGroups(p *program, c *toolCall, k *client) error {
	names, err := meantGroups(c, k)
	if err != nil {
		return err
	}
	for _, name := range names {
		described, err := k.admin.DescribeGroups(k.ctx, name)
		if err != nil {
			return err
		}
		g := described[name]
		if g.Err != nil || g.State == "Dead" {
			return says("GroupIdNotFoundException: Group %s not found.", name)
		}
		if len(g.Members) == 0 {
			fmt.Fprintf(p.stderr, "\nConsumer group '%s' has no active members.\n", name)
		}
		switch {
		case c.has("state"):
			describeState(p, g)
		case c.has("members"):
			describeMembers(p, g, c.has("verbose"))
		default:
			if err := describeLag(p, k, g); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeState(p *program, g kadm.DescribedGroup) {
	width := max(15, len(g.Group))
	at := fmt.Sprintf("%s:%d  (%d)", g.Coordinator.Host, g.Coordinator.Port, g.Coordinator.NodeID)
	strategy := g.Protocol
	if strategy == "" {
		strategy = "-"
	}
	fmt.Fprintf(p.stdout, "\n%-*s %-25s %-20s %-20s %s\n", width, "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
	fmt.Fprintf(p.stdout, "%-*s %-25s %-20s %-20s %d\n", width, g.Group, at, strategy, g.State, len(g.Members))
}

func describeMembers(p *program, g kadm.DescribedGroup, verbose bool) {
	width, id, host, clientID := max(15, len(g.Group)), 15, 15, 15
	for _, m := range g.Members {
		id, host, clientID = max(id, len(m.MemberID)), max(host, len(m.ClientHost)), max(clientID, len(m.ClientID))
	}
	line := func(more string, cells ...any) {
		fmt.Fprintf(p.stdout, "%-*s %-*s %-*s %-*s %-15s %s\n", width, cells[0], id, cells[1], host, cells[2], clientID, cells[3], cells[4], more)
	}
	fmt.Fprintln(p.stdout)
	header := ""
	if verbose {
		header = "ASSIGNMENT"
	}
	line(header, "GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
	for _, m := range g.Members {
		n, assigned := 0, ""
		if a, ok := m.Assigned.AsConsumer(); ok {
			var parts []string
			for _, t := range a.Topics {
				n += len(t.Partitions)
				parts = append(parts, t.Topic+"("+joined(t.Partitions)+")")
			}
			sort.Strings(parts)
			if assigned = strings.Join(parts, ", "); assigned == "" {
				assigned = "-"
			}
		}
		if !verbose {
			assigned = ""
		}
		line(assigned, g.Group, m.MemberID, m.ClientHost, m.ClientID, strconv.Itoa(n))
	}
}

// describeLag tells how far a group is in each partition.
func describeLag(p *program, k *client, g kadm.DescribedGroup) error {
	committed, err := k.admin.FetchOffsets(k.ctx, g.Group)
	if err != nil {
		return err
	}
	type row struct {
		topic                        string
		partition                    int32
		current                      int64
		consumerID, host, clientName string
	}
	owner := map[string]row{}
	var rows []row
	key := func(t string, n int32) string { return t + "/" + strconv.Itoa(int(n)) }
	for _, m := range g.Members {
		a, ok := m.Assigned.AsConsumer()
		if !ok {
			continue
		}
		for _, t := range a.Topics {
			for _, n := range t.Partitions {
				r := row{t.Topic, n, -1, m.MemberID, m.ClientHost, m.ClientID}
				if o, ok := committed.Lookup(t.Topic, n); ok {
					r.current = o.At
				}
				owner[key(t.Topic, n)] = r
				rows = append(rows, r)
			}
		}
	}
	for _, o := range committed.Sorted() {
		if _, owned := owner[key(o.Topic, o.Partition)]; !owned {
			rows = append(rows, row{o.Topic, o.Partition, o.At, "-", "-", "-"})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		return a.topic < b.topic || a.topic == b.topic && a.partition < b.partition
	})
	var topics []string
	group, topic, id, host := max(15, len(g.Group)), 15, 15, 15
	for _, r := range rows {
		topics = append(topics, r.topic)
		topic, id, host = max(topic, len(r.topic)), max(id, len(r.consumerID)), max(host, len(r.host))
	}
	slices.Sort(topics)
	ends, err := k.admin.ListEndOffsets(k.ctx, slices.Compact(topics)...)
	if err != nil {
		return err
	}
	line := func(cells ...string) {
		fmt.Fprintf(p.stdout, "%-*s %-*s %-10s %-15s %-15s %-15s %-*s %-*s %s\n", group, cells[0], topic, cells[1], cells[2], cells[3], cells[4], cells[5], id, cells[6], host, cells[7], cells[8])
	}
	fmt.Fprintln(p.stdout)
	line("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
	for _, r := range rows {
		current, end, lag := "-", "-", "-"
		if r.current >= 0 {
			current = strconv.FormatInt(r.current, 10)
		}
		if o, ok := ends.Lookup(r.topic, r.partition); ok && o.Err == nil {
			end = strconv.FormatInt(o.Offset, 10)
			if r.current >= 0 {
				lag = strconv.FormatInt(o.Offset-r.current, 10)
			}
		}
		line(g.Group, r.topic, strconv.Itoa(int(r.partition)), current, end, lag, r.consumerID, r.host, r.clientName)
	}
	return nil
}

func deleteConsumerGroups(p *program, c *toolCall, k *client) error {
	names, err := meantGroups(c, k)
	if err != nil || len(names) == 0 {
		return err
	}
	results, err := k.admin.DeleteGroups(k.ctx, names...)
	if err != nil && len(results) == 0 {
		return err
	}
	var done []string
	var failed []string
	for _, name := range names {
		if r, ok := results[name]; !ok || r.Err != nil {
			why := "no answer"
			if ok {
				why = k.explain(r.Err)
			}
			failed = append(failed, fmt.Sprintf("* Group '%s' could not be deleted due to: %s", name, why))
			continue
		}
		done = append(done, "'"+name+"'")
	}
	if len(failed) == 0 {
		fmt.Fprintf(p.stdout, "Deletion of requested consumer groups (%s) was successful.\n", strings.Join(done, ", "))
		return nil
	}
	fmt.Fprintf(p.stdout, "\nError: Deletion of some consumer groups failed:\n%s\n", strings.Join(failed, "\n"))
	if len(done) > 0 {
		fmt.Fprintf(p.stdout, "\nThese consumer groups were deleted successfully: %s\n", strings.Join(done, ", "))
	}
	return nil
}

func deleteOffsets(p *program, c *toolCall, k *client) error {
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
		fmt.Fprintf(p.stdout, "\n%-30s %-15s %-15s\n", "TOPIC", "PARTITION", "STATUS")
		for _, tp := range parts {
			status := "Successful"
			if err, ok := got.Lookup(tp.Topic, tp.Partition); ok && err != nil {
				status = "Error: " + k.explain(err)
			}
			fmt.Fprintf(p.stdout, "%-30s %-15d %-15s\n", tp.Topic, tp.Partition, status)
		}
	}
	return nil
}

var resetScenarios = []string{"shift-by", "to-offset", "to-earliest", "to-current", "to-latest", "by-duration", "to-datetime"}

func checkReset(p *program, c *toolCall) error {
	if c.has("execute") && c.has("dry-run") {
		return misuse("Option [execute] only takes one of these options: [dry-run]")
	}
	if !c.has("execute") && !c.has("dry-run") {
		fmt.Fprintln(p.stderr, "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. "+
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

func resetOffsets(p *program, c *toolCall, k *client) error {
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
			fmt.Fprintf(p.stdout, "\nError: Assignments can only be reset if the group '%s' is inactive, but the current state is %s.\n", name, g.State)
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
		target, err := resetTargets(p, c, k, parts, committed)
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
				fmt.Fprintf(p.stdout, "%s,%d,%d\n", tp.Topic, tp.Partition, target[i])
			}
			fmt.Fprintln(p.stdout)
			continue
		}
		if !header {
			header = true
			fmt.Fprintf(p.stdout, "\n%-15s %-15s %-10s %s\n", "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
		}
		for i, tp := range parts {
			fmt.Fprintf(p.stdout, "%-15s %-15s %-10d %d\n", name, tp.Topic, tp.Partition, target[i])
		}
	}
	return nil
}

// resetTargets are the offsets that partitions are to be reset to, within what
// their logs hold.
func resetTargets(p *program, c *toolCall, k *client, parts []topicPartition, committed kadm.OffsetResponses) ([]int64, error) {
	topics := map[string]bool{}
	for _, tp := range parts {
		topics[tp.Topic] = true
	}
	names := sorted(topics)
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
			fmt.Fprintf(p.stderr, "New offset (%d) is out of range for topic partition %s-%d. Value will be set to %d\n", want, tp.Topic, tp.Partition, within)
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
