package shell

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
)

// configsTool is kafka-configs.sh for topics, brokers, groups and client
// metrics.
func configsTool() *tool {
	const quotas = "users, clients and ips have quotas, which are not available"
	return &tool{name: "configs", short: "Describe or alter configs of topics, brokers, groups and client metrics", run: runConfigs, options: []option{
		bootstrapOption, commandConfig,
		{name: "bootstrap-controller", value: "HOST:PORT", refuse: "ask a broker with --bootstrap-server"},
		{name: "describe", help: "list configs"},
		{name: "alter", help: "change configs"},
		{name: "all", help: "describe those that are not set too"},
		{name: "entity-type", value: "TYPE", many: true, help: "topics, brokers, groups or client-metrics"},
		{name: "entity-name", value: "NAME", many: true, help: "the topic, broker id, group or subscription"},
		{name: "entity-default", help: "the default of all brokers"},
		{name: "topic", value: "NAME", help: "the topic"},
		{name: "broker", value: "ID", help: "the broker"},
		{name: "broker-defaults", help: "the default of all brokers"},
		{name: "group", value: "NAME", help: "the group"},
		{name: "client-metrics", value: "NAME", help: "the subscription"},
		{name: "add-config", value: "K=V,K=[A,B]", help: "configs to set"},
		{name: "add-config-file", value: "FILE", help: "configs to set, from a properties file"},
		{name: "delete-config", value: "K,K", help: "configs to remove"},
		{name: "force", help: "has no meaning left"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
		{name: "user", value: "NAME", refuse: quotas}, {name: "user-defaults", refuse: quotas}, {name: "client", value: "NAME", refuse: quotas},
		{name: "client-defaults", refuse: quotas}, {name: "ip", value: "IP", refuse: quotas}, {name: "ip-defaults", refuse: quotas},
		{name: "broker-logger", value: "ID", refuse: "levels of loggers are those of --log-level"},
	}}
}

// entity is what configs belong to.
type entity struct {
	kind string // topics, brokers, groups, client-metrics
	name string // "" with all false: the default of all brokers
	all  bool   // every one of the kind
}

var entityTypes = map[string]kmsg.ConfigResourceType{
	"topics": kmsg.ConfigResourceTypeTopic, "brokers": kmsg.ConfigResourceTypeBroker,
	"groups": kmsg.ConfigResourceTypeGroupConfig, "client-metrics": kmsg.ConfigResourceTypeClientMetrics,
}

// said names an entity in Kafka's sentences.
func (e entity) said() string {
	if e.name == "" {
		return "default config for " + e.kind + " in the cluster"
	}
	return "config for " + strings.TrimSuffix(e.kind, "s") + " " + e.name
}

func entityOf(c *toolCall) (entity, error) {
	var found []entity
	for flag, kind := range map[string]string{"topic": "topics", "broker": "brokers", "group": "groups", "client-metrics": "client-metrics"} { // any order: more than one is refused
		if c.has(flag) {
			found = append(found, entity{kind: kind, name: c.get(flag)})
		}
	}
	if c.has("broker-defaults") {
		found = append(found, entity{kind: "brokers"})
	}
	if len(found) == 0 && !c.has("entity-type") {
		return entity{}, says("At least one entity type must be specified")
	}
	if c.has("entity-type") {
		if len(c.values["entity-type"]) > 1 || len(c.values["entity-name"]) > 1 {
			return entity{}, errors.New("several entities at once are not supported: they are for quotas, which are not available")
		}
		e := entity{kind: c.get("entity-type"), name: c.get("entity-name"), all: !c.has("entity-name") && !c.has("entity-default")}
		if _, known := entityTypes[e.kind]; !known {
			return entity{}, fmt.Errorf("--entity-type %s is not supported: expected topics, brokers, groups or client-metrics", e.kind)
		}
		if c.has("entity-default") && e.kind != "brokers" {
			return entity{}, says("--entity-default must not be specified with --entity-type %s", e.kind)
		}
		found = append(found, e)
	}
	if len(found) != 1 {
		return entity{}, says("Exactly one entity type must be specified with a name")
	}
	return found[0], nil
}

func runConfigs(sh *Shell, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	actions := given(c, "describe", "alter")
	if len(actions) != 1 {
		return misuse("Command must include exactly one action: --describe, --alter")
	}
	e, err := entityOf(c)
	if err != nil {
		return err
	}
	if !c.has("bootstrap-server") {
		return says("argument --bootstrap-server is required")
	}
	run := describeConfigs
	if actions[0] == "alter" {
		if !c.has("add-config") && !c.has("add-config-file") && !c.has("delete-config") {
			return says("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
		}
		if e.all {
			return says("an entity name must be specified with --alter of %s", e.kind)
		}
		run = alterConfigs
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	if err := run(sh, c, k, e); err != nil {
		fmt.Fprintf(sh.Stderr, "Error while executing config command with args '%s'\n%s\n", strings.Join(c.args, " "), k.explain(err))
		return ErrTold
	}
	return nil
}

// configPairs reads K=V,K=[A,B].
func configPairs(text string) ([][2]string, error) {
	parts, err := config.SplitOutsideBrackets(text, ',')
	if err != nil {
		return nil, err
	}
	var pairs [][2]string
	for _, part := range parts {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, says("requirement failed: Invalid entity config: all configs to be added must be in the format \"key=val\" or \"key=[val1,val2]\" to group values which contain commas.")
		}
		pairs = append(pairs, [2]string{strings.TrimSpace(key), strings.TrimSpace(unbracketed(value))})
	}
	return pairs, nil
}

func unbracketed(value string) string {
	if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		return value[1 : len(value)-1]
	}
	return value
}

func alterConfigs(sh *Shell, c *toolCall, k *client, e entity) error {
	pairs, err := configPairs(c.get("add-config"))
	if err != nil {
		return err
	}
	if c.has("add-config-file") {
		list, err := propertiesOf(c.get("add-config-file"))
		if err != nil {
			return err
		}
		for _, property := range list {
			pairs = append(pairs, [2]string{property.Key, unbracketed(property.Value)})
		}
	}
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = entityTypes[e.kind], e.name
	for _, pair := range pairs {
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Op, one.Value = pair[0], kmsg.IncrementalAlterConfigOpSet, &pair[1]
		r.Configs = append(r.Configs, one)
	}
	for _, key := range strings.Split(c.get("delete-config"), ",") {
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Op = key, kmsg.IncrementalAlterConfigOpDelete
		r.Configs = append(r.Configs, one)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	for _, shard := range k.RequestSharded(k.ctx, req) {
		if shard.Err != nil {
			return shard.Err
		}
		for _, got := range shard.Resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
				return brokerSays(err, got.ErrorMessage)
			}
		}
	}
	fmt.Fprintf(sh.Stdout, "Completed updating %s.\n", e.said())
	return nil
}

func describeConfigs(sh *Shell, c *toolCall, k *client, e entity) error {
	list := []entity{e}
	if e.all {
		var err error
		if list, err = entitiesOf(k, e.kind); err != nil {
			return err
		}
	} else if e.kind == "topics" {
		all, err := k.admin.ListTopicsWithInternal(k.ctx)
		if err != nil {
			return err
		}
		if !all.Has(e.name) {
			fmt.Fprintf(sh.Stdout, "The topic '%s' doesn't exist and doesn't have dynamic config.\n", e.name)
			return nil
		}
	}
	for _, one := range list {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = entityTypes[one.kind], one.name
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms = true
		req.Resources = append(req.Resources, r)
		var got []kmsg.DescribeConfigsResponseResource
		for _, shard := range k.RequestSharded(k.ctx, req) {
			if shard.Err != nil {
				return shard.Err
			}
			got = append(got, shard.Resp.(*kmsg.DescribeConfigsResponse).Resources...)
		}
		switch {
		case c.has("all"):
			fmt.Fprintf(sh.Stdout, "All configs for %s are:\n", strings.TrimPrefix(one.said(), "config for "))
		case one.name == "":
			fmt.Fprintf(sh.Stdout, "Default configs for %s in the cluster are:\n", one.kind)
		default:
			fmt.Fprintf(sh.Stdout, "Dynamic configs for %s are:\n", strings.TrimPrefix(one.said(), "config for "))
		}
		for _, res := range got {
			if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
				return brokerSays(err, res.ErrorMessage)
			}
			printConfigs(sh, one, res.Configs, c.has("all"))
		}
	}
	return nil
}

// entitiesOf lists every entity of a kind; brokers and then their default.
func entitiesOf(k *client, kind string) ([]entity, error) {
	var names []string
	switch kind {
	case "topics":
		all, err := k.admin.ListTopicsWithInternal(k.ctx)
		if err != nil {
			return nil, err
		}
		names = all.Names()
	case "brokers":
		m, err := k.admin.BrokerMetadata(k.ctx)
		if err != nil {
			return nil, err
		}
		for _, b := range m.Brokers {
			names = append(names, fmt.Sprint(b.NodeID))
		}
	default:
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = []int8{int8(entityTypes[kind])}
		resp, err := req.RequestWith(k.ctx, k)
		if err != nil {
			return nil, err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return nil, err
		}
		for _, r := range resp.ConfigResources {
			names = append(names, r.Name)
		}
		if kind == "groups" {
			groups, err := k.admin.ListGroups(k.ctx)
			if err != nil {
				return nil, err
			}
			names = append(names, groups.Groups()...)
		}
	}
	sort.Strings(names)
	var list []entity
	for _, name := range slices.Compact(names) {
		list = append(list, entity{kind: kind, name: name})
	}
	if kind == "brokers" {
		list = append(list, entity{kind: kind})
	}
	return list, nil
}

// configSources are the names of where a value comes from.
var configSources = map[kmsg.ConfigSource]string{
	1: "DYNAMIC_TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG", 4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG",
	6: "DYNAMIC_BROKER_LOGGER_CONFIG", 7: "DYNAMIC_CLIENT_METRICS_CONFIG", 8: "DYNAMIC_GROUP_CONFIG",
}

// dynamicSource is the source of what is set on an entity itself.
func (e entity) dynamicSource() kmsg.ConfigSource {
	switch e.kind {
	case "topics":
		return 1
	case "groups":
		return 8
	case "client-metrics":
		return 7
	}
	if e.name == "" {
		return 3
	}
	return 2
}

func printConfigs(sh *Shell, e entity, configs []kmsg.DescribeConfigsResponseResourceConfig, all bool) {
	sort.Slice(configs, func(i, j int) bool { return configs[i].Name < configs[j].Name })
	for _, one := range configs {
		if !all && one.Source != e.dynamicSource() {
			continue
		}
		var synonyms []string
		for _, s := range one.ConfigSynonyms {
			synonyms = append(synonyms, configSources[s.Source]+":"+s.Name+"="+orNull(s.Value))
		}
		fmt.Fprintf(sh.Stdout, "  %s=%s sensitive=%t synonyms={%s}\n", one.Name, orNull(one.Value), one.IsSensitive, strings.Join(synonyms, ", "))
	}
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
