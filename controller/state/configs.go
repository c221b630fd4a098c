package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire/records"
)

func configRecord(kind image.ResourceType, resource, key string, value *string) *records.ConfigRecord {
	return &records.ConfigRecord{ResourceType: int8(kind), ResourceName: resource, Name: key, Value: value}
}

// refused turns what the catalogue says of a value into an answer.
func refused(err error) *failure {
	if e, ok := err.(*config.Error); ok && e.Request {
		return fail(kerr.InvalidRequest, e.Message)
	}
	return fail(kerr.InvalidConfig, err.Error())
}

// resource is one resource's wanted change, of either request.
type resource struct {
	kind    image.ResourceType
	name    string
	changes []change
	replace bool // AlterConfigs: what is not named goes
}

type change struct {
	key   string
	op    config.Op
	value *string
}

func (d *Decider) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	all := make([]resource, len(req.Resources))
	for i, r := range req.Resources {
		all[i] = resource{kind: image.ResourceType(r.ResourceType), name: r.ResourceName}
		for _, c := range r.Configs {
			all[i].changes = append(all[i].changes, change{key: c.Name, op: config.Op(c.Op), value: c.Value})
		}
	}
	for i, f := range d.alterAll(all, req.ValidateOnly) {
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		if f != nil {
			r.ErrorCode, r.ErrorMessage = f.code, f.message
		}
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

func (d *Decider) alterConfigs(req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	all := make([]resource, len(req.Resources))
	for i, r := range req.Resources {
		all[i] = resource{kind: image.ResourceType(r.ResourceType), name: r.ResourceName, replace: true}
		for _, c := range r.Configs {
			all[i].changes = append(all[i].changes, change{key: c.Name, value: c.Value})
		}
	}
	for i, f := range d.alterAll(all, req.ValidateOnly) {
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		if f != nil {
			r.ErrorCode, r.ErrorMessage = f.code, f.message
		}
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

// alterAll decides each resource by itself; one that is refused changes nothing.
func (d *Decider) alterAll(all []resource, validateOnly bool) []*failure {
	times := map[image.Resource]int{}
	for _, r := range all {
		times[image.Resource{Type: r.kind, Name: r.name}]++
	}
	out := make([]*failure, len(all))
	var recs []records.Metadata
	for i, r := range all {
		if times[image.Resource{Type: r.kind, Name: r.name}] > 1 {
			out[i] = fail(kerr.InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		more, f := d.alter(r)
		if f != nil && f.code == kerr.UnknownServerError.Code {
			// An operation that there is not: Kafka's controller falls over it, and
			// with it over all that its broker has not refused before.
			for j, other := range all {
				if out[j] = d.refusedBefore(other, times); out[j] == nil {
					out[j] = f
				}
			}
			return out
		}
		if out[i] = f; f == nil {
			recs = append(recs, more...)
		}
	}
	if !validateOnly {
		d.write(recs...)
	}
	return out
}

// refusedBefore is what Kafka's broker answers itself, without asking the controller.
func (d *Decider) refusedBefore(r resource, times map[image.Resource]int) *failure {
	if times[image.Resource{Type: r.kind, Name: r.name}] > 1 {
		return fail(kerr.InvalidRequest, "Each resource must appear at most once.")
	}
	if f := wellFormed(r); f != nil {
		return f
	}
	if _, known := scopeOf(r.kind); known && r.kind != image.BrokerResource {
		return nil
	}
	_, f := d.alter(r)
	return f
}

func (d *Decider) alter(r resource) ([]records.Metadata, *failure) {
	if f := wellFormed(r); f != nil {
		return nil, f
	}
	scope, ok := scopeOf(r.kind)
	if !ok {
		return nil, fail(kerr.InvalidRequest, fmt.Sprintf("Unknown resource type %d", r.kind))
	}
	if r.kind == image.BrokerResource && r.name != "" {
		if _, err := strconv.ParseInt(r.name, 10, 32); err != nil {
			return nil, fail(kerr.InvalidRequest, "Node id must be an integer, but it is: "+r.name)
		}
	}
	current := d.working.Configs(r.kind, r.name)
	after := map[string]string{}
	var keys []string
	for _, pair := range current.All() {
		after[pair.Key] = pair.Value
		keys = append(keys, pair.Key)
	}
	var recs []records.Metadata
	named := map[string]bool{}
	for _, c := range r.changes {
		named[c.key] = true
		value, f := changed(scope, r.kind, c, current)
		if f != nil {
			return nil, f
		}
		old, had := current.Get(c.key)
		if value == nil {
			delete(after, c.key)
		} else {
			after[c.key] = *value
			if !had {
				keys = append(keys, c.key)
			}
		}
		// A broker takes a repeated value as the wish to reload (KAFKA-14136).
		if r.kind == image.BrokerResource || had != (value != nil) || had && old != *value {
			recs = append(recs, configRecord(r.kind, r.name, c.key, value))
		}
	}
	if r.replace {
		for _, pair := range current.All() {
			if !named[pair.Key] {
				delete(after, pair.Key)
				recs = append(recs, configRecord(r.kind, r.name, pair.Key, nil))
			}
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { _, stays := after[key]; return !stays })
	slices.Sort(keys)
	configs := make([]image.Config, 0, len(keys))
	for _, key := range keys {
		configs = append(configs, image.Config{Key: key, Value: after[key]})
	}
	// A broker's changes are judged before they come to Kafka's controller.
	checks := []func() *failure{func() *failure { return shortEnough(recs) }, func() *failure { return d.checkAll(r, configs) }}
	if r.kind == image.BrokerResource {
		slices.Reverse(checks)
	}
	for _, check := range checks {
		if f := check(); f != nil {
			return nil, f
		}
	}
	return recs, nil
}

// shortEnough judges how long the values are that would be stored.
func shortEnough(recs []records.Metadata) *failure {
	for _, r := range recs {
		if c, ok := r.(*records.ConfigRecord); ok && c.Value != nil {
			if err := config.CheckLength(*c.Value); err != nil {
				return refused(err)
			}
		}
	}
	return nil
}

// wellFormed makes the checks that come before a resource is looked at.
func wellFormed(r resource) *failure {
	seen := map[string]bool{}
	var nulls []string
	for _, c := range r.changes {
		if seen[c.key] {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[c.key] = true
		if c.value == nil && c.op != config.OpDelete {
			nulls = append(nulls, c.key)
		}
	}
	if len(nulls) > 0 {
		return fail(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	return nil
}

func scopeOf(kind image.ResourceType) (config.Scope, bool) {
	switch kind {
	case image.TopicResource:
		return config.TopicScope, true
	case image.BrokerResource:
		return config.BrokerScope, true
	case image.GroupResource:
		return config.GroupScope, true
	case image.ClientMetricsResource:
		return config.ClientMetricsScope, true
	}
	return 0, false
}

// changed is a key's value after a change, nil for none.
func changed(scope config.Scope, kind image.ResourceType, c change, current *image.Configs) (*string, *failure) {
	switch c.op {
	case config.OpSet:
		return c.value, nil
	case config.OpDelete:
		return nil, nil
	case config.OpAppend, config.OpSubtract:
		k, _ := config.Find(scope, c.key)
		if kind == image.ClientMetricsResource || kind == image.GroupResource {
			k = nil // Kafka knows lists of topics and brokers only here
		}
		base, set := current.Get(c.key)
		if !set && k != nil && !k.Null && !k.Required {
			base = k.Default
		}
		value, err := config.ListOp(k, c.key, c.op, base, *c.value)
		if err != nil {
			return nil, refused(err)
		}
		return &value, nil
	}
	if kind == image.BrokerResource {
		return nil, fail(kerr.InvalidRequest, fmt.Sprintf("Unknown operations type %d", c.op))
	}
	return nil, plain(kerr.UnknownServerError)
}

// checkAll judges a resource with the configs it would have.
func (d *Decider) checkAll(r resource, configs []image.Config) *failure {
	switch r.kind {
	case image.TopicResource:
		if r.name == "" {
			return fail(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		if why := CheckTopicName(r.name); why != "" {
			return fail(kerr.InvalidTopicException, why)
		}
		if f := d.checkTopicConfigs(configs); f != nil {
			return f
		}
		if d.working.TopicByName(r.name) == nil {
			return fail(kerr.UnknownTopicOrPartition, "The topic '"+r.name+"' does not exist.")
		}
	case image.BrokerResource:
		return d.checkBroker(r, configs)
	case image.GroupResource:
		if r.name == "" {
			return fail(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		get, keys := lookup(configs)
		if err := config.CheckGroup(d.static, d.clusterDefaults(), d.ownDynamic(), get, keys); err != nil {
			return refused(err)
		}
	case image.ClientMetricsResource:
		if r.name == "" {
			return fail(kerr.InvalidRequest, "Subscription name can't be empty")
		}
		get, keys := lookup(configs)
		if err := config.CheckClientMetrics(get, keys); err != nil {
			return refused(err)
		}
	}
	return nil
}

func lookup(configs []image.Config) (config.Lookup, []string) {
	keys := make([]string, len(configs))
	for i, pair := range configs {
		keys[i] = pair.Key
	}
	return func(key string) (string, bool) {
		i, found := slices.BinarySearch(keys, key)
		if !found {
			return "", false
		}
		return configs[i].Value, true
	}, keys
}

func (d *Decider) clusterDefaults() config.Lookup {
	return d.working.Configs(image.BrokerResource, "").Get
}

func (d *Decider) ownDynamic() config.Lookup {
	return d.working.Configs(image.BrokerResource, strconv.Itoa(int(d.node))).Get
}

// checkTopicConfigs judges all that a topic sets, sorted by key.
func (d *Decider) checkTopicConfigs(configs []image.Config) *failure {
	if len(configs) == 0 {
		return nil
	}
	get, keys := lookup(configs)
	if err := config.CheckTopic(d.static, d.clusterDefaults(), d.ownDynamic(), get, keys); err != nil {
		return refused(err)
	}
	return nil
}

// checkBroker judges the changes themselves: Kafka lets a broker that holds an
// unknown or outdated config be changed.
func (d *Decider) checkBroker(r resource, after []image.Config) *failure {
	current := d.working.Configs(r.kind, r.name)
	values := make([]*string, len(r.changes))
	for i, c := range r.changes {
		var f *failure
		if values[i], f = changed(config.BrokerScope, r.kind, c, current); f != nil {
			return f
		}
	}
	for i, c := range r.changes {
		if err := d.static.CheckBroker(c.key, values[i], r.name == ""); err != nil {
			return refused(err)
		}
	}
	for _, check := range []func(resource, []image.Config) *failure{d.checkThreads, d.checkPerIP, d.checkIntervals, d.checkRetention} {
		if f := check(r, after); f != nil {
			return f
		}
	}
	if r.name == "" {
		return nil
	}
	id, err := strconv.ParseInt(r.name, 10, 32)
	switch {
	case err != nil:
		return fail(kerr.InvalidRequest, "Unable to parse broker name as a base 10 number.")
	case id < 0:
		return fail(kerr.InvalidRequest, "Invalid negative broker ID.")
	case d.working.Broker(int32(id)) == nil:
		return fail(kerr.BrokerIDNotRegistered, fmt.Sprintf("No broker with id %d found.", id))
	}
	return nil
}
