package shell

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
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

func runGroups(sh *Shell, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	if !c.has("list") {
		return misuse("Command must include exactly one action: --list.")
	}
	if len(given(c, "consumer", "share", "streams")) > 1 {
		return misuse("Option \"[consumer]\" can't be used with option \"[share]\"")
	}
	k, done, err := sh.connect(c)
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
		fmt.Fprintf(sh.Stdout, "%-*s %-21s %-21s\n", width, row[0], row[1], row[2])
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

func runConsumerGroups(sh *Shell, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
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
		if err := checkReset(sh, c); err != nil {
			return err
		}
	}
	if action == "delete-offsets" && !c.has("topic") {
		return misuse("Option [delete-offsets] takes the following option: [topic]")
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	err = map[string]func(*Shell, *toolCall, *client) error{
		"list": listConsumerGroups, "describe": describeConsumerGroups, "delete": deleteConsumerGroups, "reset-offsets": resetOffsets, "delete-offsets": deleteOffsets,
	}[action](sh, c, k)
	if err != nil && !errors.Is(err, ErrTold) {
		// Kafka's tool tells failures on standard output, and ends with 0.
		fmt.Fprintf(sh.Stdout, "\nError: Executing consumer group command failed due to %s\n", k.explain(err))
		return nil
	}
	return err
}

func listConsumerGroups(sh *Shell, c *toolCall, k *client) error {
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
			fmt.Fprintln(sh.Stdout, row[0])
		}
		return nil
	}
	for _, row := range rows {
		fmt.Fprintf(sh.Stdout, "%-*s", width, row[0])
		for _, cell := range row[1:] {
			fmt.Fprintf(sh.Stdout, " %-20s", cell)
		}
		fmt.Fprintln(sh.Stdout)
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

func describeConsumerGroups(sh *Shell, c *toolCall, k *client) error {
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
			fmt.Fprintf(sh.Stderr, "\nConsumer group '%s' has no active members.\n", name)
		}
		switch {
		case c.has("state"):
			describeState(sh, g)
		case c.has("members"):
			describeMembers(sh, g, c.has("verbose"))
		default:
			if err := describeLag(sh, k, g); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeState(sh *Shell, g kadm.DescribedGroup) {
	width := max(15, len(g.Group))
	at := fmt.Sprintf("%s:%d  (%d)", g.Coordinator.Host, g.Coordinator.Port, g.Coordinator.NodeID)
	strategy := g.Protocol
	if strategy == "" {
		strategy = "-"
	}
	fmt.Fprintf(sh.Stdout, "\n%-*s %-25s %-20s %-20s %s\n", width, "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
	fmt.Fprintf(sh.Stdout, "%-*s %-25s %-20s %-20s %d\n", width, g.Group, at, strategy, g.State, len(g.Members))
}

func describeMembers(sh *Shell, g kadm.DescribedGroup, verbose bool) {
	width, id, host, clientID := max(15, len(g.Group)), 15, 15, 15
	for _, m := range g.Members {
		id, host, clientID = max(id, len(m.MemberID)), max(host, len(m.ClientHost)), max(clientID, len(m.ClientID))
	}
	line := func(more string, cells ...any) {
		fmt.Fprintf(sh.Stdout, "%-*s %-*s %-*s %-*s %-15s %s\n", width, cells[0], id, cells[1], host, cells[2], clientID, cells[3], cells[4], more)
	}
	fmt.Fprintln(sh.Stdout)
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
func describeLag(sh *Shell, k *client, g kadm.DescribedGroup) error {
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
		fmt.Fprintf(sh.Stdout, "%-*s %-*s %-10s %-15s %-15s %-15s %-*s %-*s %s\n", group, cells[0], topic, cells[1], cells[2], cells[3], cells[4], cells[5], id, cells[6], host, cells[7], cells[8])
	}
	fmt.Fprintln(sh.Stdout)
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

func deleteConsumerGroups(sh *Shell, c *toolCall, k *client) error {
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
		fmt.Fprintf(sh.Stdout, "Deletion of requested consumer groups (%s) was successful.\n", strings.Join(done, ", "))
		return nil
	}
	fmt.Fprintf(sh.Stdout, "\nError: Deletion of some consumer groups failed:\n%s\n", strings.Join(failed, "\n"))
	if len(done) > 0 {
		fmt.Fprintf(sh.Stdout, "\nThese consumer groups were deleted successfully: %s\n", strings.Join(done, ", "))
	}
	return nil
}
