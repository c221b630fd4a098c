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
	"millrace/controller/place"
	"millrace/wire/records"
)

// maxPartitionsPerRequest bounds what one request may create.
const maxPartitionsPerRequest = 10000

const metadataTopic = "__cluster_metadata"

// CheckTopicName says in Kafka's words what is wrong with a topic's name; ""
// for nothing.
func CheckTopicName(name string) string {
	why := ""
	switch {
	case name == "":
		why = "the empty string is not allowed"
	case name == "." || name == "..":
		why = "'" + name + "' is not allowed"
	case len(name) > 249:
		why = "the length of '" + name + "' is longer than the max allowed length 249"
	default:
		for i := range len(name) {
			c := name[i]
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
				continue
			}
			why = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
			break
		}
	}
	if why == "" {
		return ""
	}
	return "Topic name is invalid: " + why
}

// unified is the name under which topics collide: metrics used to write dots as
// underscores. Names with neither do not take part.
func unified(name string) (string, bool) {
	return strings.ReplaceAll(name, ".", "_"), strings.ContainsAny(name, "._")
}

// collides gives an existing topic that the name collides with.
func (d *Decider) collides(name string) (string, bool) {
	key, may := unified(name)
	if !may {
		return "", false
	}
	if d.alike == nil {
		d.alike = map[string][]string{}
		for t := range d.working.Topics() {
			if k, may := unified(t.Name); may {
				d.alike[k] = append(d.alike[k], t.Name)
			}
		}
	}
	for _, other := range d.alike[key] {
		if other != name {
			return other, true
		}
	}
	return "", false
}

func (d *Decider) learnName(name string) {
	if k, may := unified(name); may && d.alike != nil {
		d.alike[k] = append(d.alike[k], name)
	}
}

func (d *Decider) forgetName(name string) {
	if k, may := unified(name); may && d.alike != nil {
		d.alike[k] = slices.DeleteFunc(d.alike[k], func(other string) bool { return other == name })
	}
}

func (d *Decider) createTopics(req *kmsg.CreateTopicsRequest, c *chance) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	refuse := func(name string, f *failure) {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = name, f.code, f.message
		t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
		resp.Topics = append(resp.Topics, t)
	}
	times := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	effective := func(t *kmsg.CreateTopicsRequestTopic) bool { return times[t.Topic] == 1 && t.Topic != metadataTopic }

	if d.tooMany(req, effective) {
		f := fail(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		for i := range req.Topics {
			refuse(req.Topics[i].Topic, f)
		}
		return resp
	}
	var created []string
	var recs []records.Metadata
	for i := range req.Topics {
		t := &req.Topics[i]
		if !effective(t) {
			continue
		}
		made, f := d.createTopic(t, c)
		if f != nil {
			refuse(t.Topic, f)
			continue
		}
		resp.Topics = append(resp.Topics, made.answer)
		recs = append(recs, made.records...)
		created = append(created, t.Topic)
	}
	for i := range req.Topics {
		switch name := req.Topics[i].Topic; {
		case times[name] > 1:
			refuse(name, fail(kerr.InvalidRequest, "Duplicate topic name."))
			times[name] = -1
		case times[name] == 1 && name == metadataTopic:
			refuse(name, fail(kerr.InvalidRequest, "Creation of internal topic "+metadataTopic+" is prohibited."))
		}
	}
	if !req.ValidateOnly {
		d.write(recs...)
		// Only now: names that collide within one request do not.
		for _, name := range created {
			d.learnName(name)
		}
	}
	return resp
}

func (d *Decider) tooMany(req *kmsg.CreateTopicsRequest, effective func(*kmsg.CreateTopicsRequestTopic) bool) bool {
	var total int64
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case !effective(t):
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += int64(d.settings.partitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	return total > maxPartitionsPerRequest
}

// made is a topic that may be created.
type made struct {
	answer  kmsg.CreateTopicsResponseTopic
	records []records.Metadata
}

func (d *Decider) createTopic(t *kmsg.CreateTopicsRequestTopic, c *chance) (*made, *failure) {
	if why := CheckTopicName(t.Topic); why != "" {
		return nil, fail(kerr.InvalidTopicException, why)
	}
	// An existing topic is told as such, whatever it collides with.
	if d.working.TopicByName(t.Topic) != nil {
		return nil, fail(kerr.TopicAlreadyExists, "Topic '"+t.Topic+"' already exists.")
	}
	if other, yes := d.collides(t.Topic); yes {
		return nil, fail(kerr.InvalidTopicException, "Topic '"+t.Topic+"' collides with existing topic: "+other)
	}
	configs, f := d.creationConfigs(t)
	if f != nil {
		return nil, f
	}
	lists, f := d.assign(t, c)
	if f != nil {
		return nil, f
	}
	m := &made{answer: kmsg.NewCreateTopicsResponseTopic()}
	id := c.uuid()
	m.answer.Topic, m.answer.TopicID = t.Topic, id
	m.answer.NumPartitions, m.answer.ReplicationFactor = int32(len(lists)), int16(len(lists[0].replicas))
	m.answer.Configs = d.describeNew(configs)

	m.records = append(m.records, &records.TopicRecord{Name: t.Topic, TopicId: id})
	for _, pair := range configs {
		m.records = append(m.records, configRecord(image.TopicResource, t.Topic, pair.Key, &pair.Value))
	}
	for i, list := range lists {
		m.records = append(m.records, list.record(id, int32(i)))
	}
	return m, nil
}

// creationConfigs are a new topic's configs by key, checked.
func (d *Decider) creationConfigs(t *kmsg.CreateTopicsRequestTopic) ([]image.Config, *failure) {
	var nulls []string
	values := map[string]string{}
	var keys []string
	for _, pair := range t.Configs {
		if pair.Value == nil {
			nulls = append(nulls, pair.Name)
			continue
		}
		if _, again := values[pair.Name]; !again {
			keys = append(keys, pair.Name)
		}
		values[pair.Name] = *pair.Value // the last one wins
	}
	if len(nulls) > 0 {
		return nil, fail(kerr.InvalidConfig, "Null value not supported for topic configs: "+strings.Join(nulls, ","))
	}
	slices.Sort(keys)
	configs := make([]image.Config, 0, len(keys))
	for _, key := range keys {
		configs = append(configs, image.Config{Key: key, Value: values[key]})
	}
	for _, c := range configs {
		if err := config.CheckLength(c.Value); err != nil {
			return nil, refused(err)
		}
	}
	if f := d.checkTopicConfigs(configs); f != nil {
		return nil, f
	}
	return configs, nil
}

// described is the effective configuration of a topic that sets nothing itself:
// most do not, and it only changes with the brokers' dynamic configs.
type described struct {
	cluster, own *image.Configs
	answer       []kmsg.CreateTopicsResponseTopicConfig
}

// describeNew is the effective configuration of a topic that has these configs.
// The answers of several topics may share it.
func (d *Decider) describeNew(configs []image.Config) []kmsg.CreateTopicsResponseTopicConfig {
	cluster, own := d.working.Configs(image.BrokerResource, ""), d.working.Configs(image.BrokerResource, strconv.Itoa(int(d.node)))
	if len(configs) == 0 && d.plain.answer != nil && d.plain.cluster == cluster && d.plain.own == own {
		return d.plain.answer
	}
	get, _ := lookup(configs)
	entries := d.static.DescribeTopic(cluster.Get, own.Get, get)
	out := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(entries))
	for _, e := range entries {
		one := kmsg.NewCreateTopicsResponseTopicConfig()
		one.Name, one.Value, one.ReadOnly, one.Source, one.IsSensitive = e.Name, e.Given, e.ReadOnly, e.Source, e.Sensitive
		out = append(out, one)
	}
	if len(configs) == 0 {
		d.plain = described{cluster: cluster, own: own, answer: out}
	}
	return out
}

// assignment is where one new partition lies.
type assignment struct {
	replicas    []int32
	isr         []int32
	directories [][16]byte
}

func (a assignment) record(topic [16]byte, index int32) *records.PartitionRecord {
	r := records.NewPartitionRecord()
	r.PartitionId, r.TopicId, r.Replicas, r.Isr, r.Directories = index, topic, a.replicas, a.isr, a.directories
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = a.isr[0], 0, 0
	return r
}

// located completes a replica list: the living are in sync, and each replica
// lies in its broker's directory if there is only one to choose from.
func (d *Decider) located(replicas []int32) assignment {
	a := assignment{replicas: replicas, isr: d.active(replicas)}
	for _, id := range replicas {
		var dir [16]byte // zero: the broker is to choose
		if b := d.working.Broker(id); b != nil && len(b.Directories) == 1 {
			dir = b.Directories[0]
		}
		a.directories = append(a.directories, dir)
	}
	return a
}

func (d *Decider) active(brokers []int32) []int32 {
	var out []int32
	for _, id := range brokers {
		if d.working.Broker(id).Active() {
			out = append(out, id)
		}
	}
	return out
}

// assign decides where a new topic's partitions lie.
func (d *Decider) assign(t *kmsg.CreateTopicsRequestTopic, c *chance) ([]assignment, *failure) {
	if len(t.ReplicaAssignment) > 0 {
		return d.assignByHand(t)
	}
	if t.ReplicationFactor < -1 || t.ReplicationFactor == 0 {
		return nil, fail(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if t.NumPartitions < -1 || t.NumPartitions == 0 {
		return nil, fail(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	partitions, factor := t.NumPartitions, t.ReplicationFactor
	if partitions == -1 {
		partitions = d.settings.partitions
	}
	if factor == -1 {
		factor = d.defaultFactor()
	}
	prefix := fmt.Sprintf("Unable to replicate the partition %d time(s): ", factor)
	lists, err := d.place(int(partitions), int(factor), c)
	if err != nil {
		return nil, fail(kerr.InvalidReplicationFactor, prefix+err.Error())
	}
	out := make([]assignment, 0, len(lists))
	for _, list := range lists {
		a := d.located(list)
		if len(a.isr) == 0 {
			return nil, fail(kerr.InvalidReplicationFactor, prefix+"All brokers are currently fenced or in controlled shutdown.")
		}
		out = append(out, a)
	}
	return out, nil
}

// defaultFactor is the replication factor of a topic that names none. Where
// there is one broker it is 1, whatever default.replication.factor says: Kafka
// would refuse every such topic.
func (d *Decider) defaultFactor() int16 {
	living, all := 0, 0
	for b := range d.working.Brokers() {
		all++
		if b.Active() {
			living++
		}
	}
	if d.settings.factor > 0 && all != 1 {
		return d.settings.factor
	}
	return int16(max(1, min(living, largestDefaultFactor)))
}

func (d *Decider) place(partitions, factor int, c *chance) ([][]int32, error) {
	var brokers []place.Broker
	for b := range d.working.Brokers() {
		if b.InControlledShutdown {
			continue
		}
		rack := ""
		if b.Rack != nil {
			rack = *b.Rack
		}
		brokers = append(brokers, place.Broker{ID: b.ID, Rack: rack, Fenced: b.Fenced || cordoned(b)})
	}
	return place.Place(brokers, partitions, factor, c.number())
}

func (d *Decider) assignByHand(t *kmsg.CreateTopicsRequestTopic) ([]assignment, *failure) {
	if t.ReplicationFactor != -1 {
		return nil, fail(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, fail(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byIndex := make(map[int32]assignment, len(t.ReplicaAssignment))
	factor := 0
	for _, one := range t.ReplicaAssignment {
		if _, again := byIndex[one.Partition]; again {
			return nil, fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", one.Partition))
		}
		a, f := d.byHand(one.Replicas, factor, one.Partition)
		if f != nil {
			return nil, f
		}
		byIndex[one.Partition], factor = a, len(one.Replicas)
	}
	out := make([]assignment, len(byIndex))
	for i := range out {
		a, there := byIndex[int32(i)]
		if !there {
			return nil, fail(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		out[i] = a
	}
	return out, nil
}

// checkReplicas checks a replica list that a client chose. A factor of 0 is any.
func (d *Decider) checkReplicas(replicas []int32, factor int) *failure {
	refuse := func(format string, args ...any) *failure {
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes "+fmt.Sprintf(format, args...))
	}
	if len(replicas) == 0 {
		return refuse("an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if d.working.Broker(id) == nil {
			return refuse("broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return refuse("the broker %d more than once.", id)
		}
	}
	if factor != 0 && len(replicas) != factor {
		return refuse("a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor)
	}
	return nil
}

// byHand is a new partition on replicas that a client chose.
func (d *Decider) byHand(replicas []int32, factor int, partition int32) (assignment, *failure) {
	if f := d.checkReplicas(replicas, factor); f != nil {
		return assignment{}, f
	}
	a := d.located(slices.Clone(replicas))
	if len(a.isr) == 0 {
		return assignment{}, fail(kerr.InvalidReplicaAssignment,
			fmt.Sprintf("All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition))
	}
	return a, nil
}

func (d *Decider) createPartitions(req *kmsg.CreatePartitionsRequest, c *chance) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	answer := func(name string, f *failure) {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = name
		if f != nil {
			t.ErrorCode, t.ErrorMessage = f.code, f.message
		}
		resp.Topics = append(resp.Topics, t)
	}
	times := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		if name := req.Topics[i].Topic; times[name] > 1 {
			answer(name, fail(kerr.InvalidRequest, "Duplicate topic name."))
			times[name] = -1
		}
	}
	more := 0
	for i := range req.Topics {
		if t := d.working.TopicByName(req.Topics[i].Topic); t != nil && times[t.Name] == 1 {
			more += max(0, int(req.Topics[i].Count)-len(t.Partitions))
		}
	}
	if more > maxPartitionsPerRequest {
		resp.Topics = nil
		for i := range req.Topics {
			if name := req.Topics[i].Topic; times[name] != 0 {
				answer(name, fail(kerr.PolicyViolation, "Excessively large number of additional partitions per request."))
				times[name] = 0
			}
		}
		return resp
	}
	var recs []records.Metadata
	for i := range req.Topics {
		t := &req.Topics[i]
		if times[t.Topic] != 1 {
			continue
		}
		added, f := d.addPartitions(t, c)
		answer(t.Topic, f)
		recs = append(recs, added...)
	}
	if !req.ValidateOnly {
		d.write(recs...)
	}
	return resp
}

func (d *Decider) addPartitions(req *kmsg.CreatePartitionsRequestTopic, c *chance) ([]records.Metadata, *failure) {
	t := d.working.TopicByName(req.Topic)
	if t == nil {
		return nil, plain(kerr.UnknownTopicOrPartition)
	}
	have := len(t.Partitions)
	added := int(req.Count) - have
	switch {
	case added == 0:
		return nil, fail(kerr.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", have))
	case added < 0:
		return nil, fail(kerr.InvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", req.Topic, have, req.Count))
	case req.Assignment != nil && len(req.Assignment) != added:
		return nil, fail(kerr.InvalidReplicaAssignment,
			fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", added, len(req.Assignment)))
	}
	factor := len(t.Partitions[0].Replicas)
	var out []records.Metadata
	if req.Assignment != nil {
		for i, one := range req.Assignment {
			a, f := d.byHand(one.Replicas, factor, int32(have+i))
			if f != nil {
				return nil, f
			}
			out = append(out, a.record(t.ID, int32(have+i)))
		}
		return out, nil
	}
	lists, err := d.place(added, factor, c)
	if err != nil {
		return nil, fail(kerr.InvalidReplicationFactor, err.Error())
	}
	for i, list := range lists {
		a := d.located(list)
		if len(a.isr) == 0 {
			return nil, fail(kerr.InvalidReplicationFactor,
				fmt.Sprintf("Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor))
		}
		out = append(out, a.record(t.ID, int32(have+i)))
	}
	return out, nil
}
