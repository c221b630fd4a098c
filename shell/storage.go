package shell

import (
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"millrace/controller/config"
	"millrace/storage"
)

// storageTool is kafka-storage.sh: every start script of a KRaft broker formats
// its directories first. Formatting is not needed here (an empty directory is
// founded at the first start), but done as Kafka does it: a directory that this
// has formatted is taken by Kafka's own tool for formatted, and the other way
// round.
func storageTool() *tool {
	file := option{name: "config", letter: "c", value: "FILE", must: true, help: "the broker's server.properties"}
	release := option{name: "release-version", letter: "r", value: "RELEASE", help: "a release or a metadata.version, as 4.0 or 4.0-IV3"}
	return &tool{name: "storage", short: "Format data directories, or tell what they are", actions: []action{
		{"info", "tell what the data directories are", []option{file}, storageInfo},
		{"format", "format the data directories", []option{
			file,
			{name: "cluster-id", letter: "t", value: "ID", must: true, help: "the cluster's id"},
			{name: "ignore-formatted", letter: "g", help: "leave directories alone that are formatted"},
			release,
			{name: "feature", letter: "f", value: "FEATURE=LEVEL", many: true, help: "a level to found the cluster with"},
			{name: "standalone", letter: "s", help: "this controller is its own quorum; needs controller.quorum.bootstrap.servers"},
			{name: "no-initial-controllers", letter: "N", help: "this node joins a quorum"},
			{name: "initial-controllers", letter: "I", value: "ID@HOST:PORT:DIRECTORY", help: "the quorum's first voters: this node alone"},
			{name: "add-scram", letter: "S", value: "CREDENTIAL", many: true,
				refuse: "SASL is not available, and a user who is left out silently would not be able to log in"},
		}, storageFormat},
		{"version-mapping", "tell the features of a release", []option{release}, versionMapping},
		{"feature-dependencies", "tell what a feature's level needs", []option{{name: "feature", letter: "f", value: "FEATURE=LEVEL", many: true, must: true, help: "the feature and its level"}}, featureDependencies},
		{"random-uuid", "print a random id, as for a cluster", nil, func(sh *Shell, _ *toolCall) error {
			_, err := fmt.Fprintln(sh.Stdout, storage.RandomID())
			return err
		}},
	}}
}

// directories are those of the configuration, the metadata's among them, sorted.
func directories(static *config.Static) []string {
	list := append(slices.Clone(static.LogDirs()), static.MetadataLogDir())
	sort.Strings(list)
	return slices.Compact(list)
}

func storageInfo(sh *Shell, c *toolCall) error {
	static, err := sh.Configuration(c.get("config"))
	if err != nil {
		return err
	}
	var found, problems []string
	var first *storage.Identity
	for _, dir := range directories(static) {
		s := storage.Inspect(nil, dir)
		switch {
		case !s.Exists && s.Err == nil:
			problems = append(problems, dir+" does not exist")
			continue
		case !s.Exists:
			problems = append(problems, fmt.Sprintf("Unable to look at %s: %v", dir, s.Err))
			continue
		}
		found = append(found, dir)
		switch {
		case s.Err != nil:
			problems = append(problems, fmt.Sprintf("Error loading %s/meta.properties: %v", dir, s.Err))
		case !s.Formatted:
			problems = append(problems, dir+" is not formatted.")
		case first == nil:
			first = &s.Identity
		case s.Identity.ClusterID != first.ClusterID:
			problems = append(problems, "Mismatched cluster IDs between storage directories.")
		case s.Identity.NodeID != first.NodeID:
			problems = append(problems, "Mismatched node IDs between storage directories.")
		}
	}
	sh.section("Found log director", "y", "ies", found)
	if first != nil {
		fmt.Fprintf(sh.Stdout, "Found metadata: %s\n\n", described(*first))
	}
	sh.section("Found problem", "", "s", problems)
	if len(problems) > 0 {
		return ErrTold
	}
	return nil
}

func described(id storage.Identity) string {
	directory := ""
	if id.Directory != ([16]byte{}) {
		directory = "directory.id=" + storage.FormatID(id.Directory) + ", "
	}
	return fmt.Sprintf("{cluster.id=%s, %snode.id=%d, version=1}", id.ClusterID, directory, id.NodeID)
}

func (sh *Shell) section(title, one, many string, list []string) {
	switch len(list) {
	case 0:
		return
	case 1:
		title += one
	default:
		title += many
	}
	fmt.Fprintf(sh.Stdout, "%s:\n", title)
	for _, line := range list {
		fmt.Fprintf(sh.Stdout, "  %s\n", line)
	}
	fmt.Fprintln(sh.Stdout)
}

func storageFormat(sh *Shell, c *toolCall) error {
	if c.has("standalone") && c.has("initial-controllers") || c.has("standalone") && c.has("no-initial-controllers") || c.has("initial-controllers") && c.has("no-initial-controllers") {
		return misuse("--standalone/-s, --no-initial-controllers/-N and --initial-controllers/-I exclude one another")
	}
	static, err := sh.Configuration(c.get("config"))
	if err != nil {
		return err
	}
	level, plain, err := foundingLevel(c)
	if err != nil {
		return err
	}
	directory, err := quorum(c, static)
	if err != nil {
		return err
	}
	dirs := directories(static)
	var blank []string
	for _, dir := range dirs {
		s := storage.Inspect(nil, dir)
		switch {
		case s.Err != nil:
			return s.Err
		case !s.Formatted:
			blank = append(blank, dir)
		case !c.has("ignore-formatted") && s.Identity.ClusterID == c.get("cluster-id"):
			return says("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", dir)
		case s.Identity.ClusterID != c.get("cluster-id"):
			return says("Invalid cluster.id in: %s/meta.properties. Expected %s, but read %s", dir, c.get("cluster-id"), s.Identity.ClusterID)
		case s.Identity.NodeID != static.NodeID():
			return says("Stored node id %d doesn't match previous node id %d in %s/meta.properties. If you moved your data, make sure your configured node id matches. "+
				"If you intend to create a new node, you should remove all data in your data directories.", s.Identity.NodeID, static.NodeID(), dir)
		}
	}
	if len(blank) == 0 {
		fmt.Fprintln(sh.Stdout, "All of the log directories are already formatted.")
		return nil
	}
	if !plain {
		fmt.Fprintf(sh.Stderr, "A cluster is founded with metadata.version %s here, whatever --release-version and --feature say.\n", metadataVersionName(metadataVersion))
	}
	for _, dir := range blank {
		kind := "data directory"
		id := storage.Identity{ClusterID: c.get("cluster-id"), NodeID: static.NodeID()}
		if dir == static.MetadataLogDir() {
			kind, id.Directory = "metadata directory", directory
			if c.has("standalone") || c.has("initial-controllers") {
				kind = "dynamic metadata voter directory"
			}
		}
		fmt.Fprintf(sh.Stdout, "Formatting %s %s with metadata.version %s.\n", kind, dir, metadataVersionName(level))
		if err := storage.Format(nil, dir, id, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// foundingLevel checks the levels that were asked for. plain says whether they
// are those that a cluster has here anyway.
func foundingLevel(c *toolCall) (level int, plain bool, err error) {
	level = metadataVersion
	if c.has("release-version") {
		if level, err = metadataVersionOf(c.get("release-version"), false); err != nil {
			return 0, false, err
		}
	}
	plain = level == metadataVersion
	for _, text := range c.values["feature"] {
		name, n, ok := featureLevel(text)
		switch {
		case !strings.Contains(text, "="):
			return 0, false, says("Can't parse feature=level string %s: equals sign not found.", text)
		case !ok:
			return 0, false, says("Can't parse feature=level string %s: the level is not a number.", text)
		case name == "metadata.version":
			if c.has("release-version") {
				return 0, false, says("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
			}
			if n < metadataVersionMin || n > metadataVersion {
				return 0, false, says("No feature:metadata.version with feature level %d", n)
			}
			level, plain = n, plain && n == metadataVersion
			continue
		}
		f, known := featureNamed(name)
		if !known {
			names := make([]string, len(features))
			for i := range features {
				names[i] = features[i].name
			}
			sort.Strings(names)
			return 0, false, says("Unsupported feature: %s. Supported features are: %s", name, strings.Join(names, ", "))
		}
		if n < 0 || n >= len(f.from) {
			return 0, false, says("No feature:%s with feature level %d", name, n)
		}
		plain = plain && n == f.levelFor(metadataVersion)
	}
	return level, plain, nil
}

// quorum checks what the command line says of the controllers, and gives the
// directory id that it names for this node.
func quorum(c *toolCall, static *config.Static) (directory [16]byte, err error) {
	_, voters := static.Set("controller.quorum.voters")
	_, servers := static.Set("controller.quorum.bootstrap.servers")
	dynamic := c.has("standalone") || c.has("initial-controllers")
	switch {
	case dynamic && voters:
		return directory, says("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. " +
			"If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.")
	case servers && !voters && !dynamic && !c.has("no-initial-controllers"):
		return directory, says("Because controller.quorum.voters is not set on this controller, you must specify one of the following: " +
			"--standalone, --initial-controllers, or --no-initial-controllers.")
	}
	if !c.has("initial-controllers") {
		return directory, nil
	}
	list := strings.Split(c.get("initial-controllers"), ",")
	if len(list) > 1 {
		return directory, fmt.Errorf("--initial-controllers names %d controllers: a quorum of several nodes is not available", len(list))
	}
	id, rest, ok := strings.Cut(strings.TrimSpace(list[0]), "@")
	if !ok {
		return directory, says("--initial-controllers %s: No @ found in dynamic voter string.", list[0])
	}
	end := strings.LastIndexByte(rest, ':')
	if end < 0 {
		return directory, fmt.Errorf("--initial-controllers %s: expected ID@HOST:PORT:DIRECTORY", list[0])
	}
	node, err := strconv.ParseInt(id, 10, 32)
	if err != nil || node < 0 {
		return directory, fmt.Errorf("--initial-controllers %s: %q is not a node id", list[0], id)
	}
	if _, _, err := net.SplitHostPort(rest[:end]); err != nil {
		return directory, fmt.Errorf("--initial-controllers %s: %w", list[0], err)
	}
	if int32(node) != static.NodeID() {
		return directory, fmt.Errorf("--initial-controllers names node %d, and this is node %d: a quorum of other nodes is not available", node, static.NodeID())
	}
	if directory, err = storage.ParseID(rest[end+1:]); err != nil {
		return directory, fmt.Errorf("--initial-controllers %s: %w", list[0], err)
	}
	return directory, nil
}

func versionMapping(sh *Shell, c *toolCall) error {
	level, name := metadataVersion, metadataVersionName(metadataVersion)
	if c.has("release-version") {
		var err error
		if level, err = metadataVersionOf(c.get("release-version"), true); err != nil {
			return err
		}
		name = c.get("release-version")
	}
	fmt.Fprintf(sh.Stdout, "metadata.version=%d (%s)\n", level, name)
	for _, f := range features {
		fmt.Fprintf(sh.Stdout, "%s=%d\n", f.name, f.levelFor(level))
	}
	return nil
}

func featureDependencies(sh *Shell, c *toolCall) error {
	for _, text := range c.values["feature"] {
		name, level, ok := featureLevel(text)
		if name, version, cut := strings.Cut(text, "="); cut && !ok {
			return says("Invalid version format: %s for feature %s", version, name)
		}
		if !ok {
			return says("Invalid feature format: %s. Expected format: 'feature=version' (e.g. 'group.version=1')", text)
		}
		if name == "metadata.version" {
			if level < metadataVersionMin || level >= metadataVersionMin+len(metadataVersions) {
				return says("Unknown metadata.version %d", level)
			}
			fmt.Fprintf(sh.Stdout, "metadata.version=%d (%s) has no dependencies.\n", level, metadataVersionName(level))
			continue
		}
		f, known := featureNamed(name)
		switch {
		case !known:
			return says("Unknown feature: %s", name)
		case level < 0 || level >= len(f.from):
			return says("Feature level %d is not supported for feature %s", level, name)
		case name == "eligible.leader.replicas.version" && level == 1:
			fmt.Fprintf(sh.Stdout, "%s=%d requires:\n    metadata.version=23 (4.0-IV1)\n", name, level)
		default:
			fmt.Fprintf(sh.Stdout, "%s=%d has no dependencies.\n", name, level)
		}
	}
	return nil
}
