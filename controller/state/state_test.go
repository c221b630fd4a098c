package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire/records"
)

// play runs transcripts: each command is a request or a passing of time, and its
// output is the answer and the records. Every command is an entry of its own
// unless it says +together.
type play struct {
	t      *testing.T
	d      *Decider
	now    time.Time
	offset int64
	seed   byte
	static *config.Static
	// committed is what the records alone make of the cluster; it must stay what
	// the working image is.
	committed *image.Image
}

func parseStatic(t *testing.T, lines string) *config.Static {
	props := map[string]string{"node.id": "1"}
	for line := range strings.Lines(lines) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			props[key] = value
		}
	}
	s, _, err := config.ParseStatic(props)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		p := &play{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), committed: image.New(), static: parseStatic(t, "")}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.t = t
			return p.command(d)
		})
	})
}

func (p *play) begin() {
	if p.d == nil {
		p.d = New(Options{NodeID: 1, Static: p.static}, p.committed, p.now)
		p.offset = max(p.offset, p.committed.Offset())
	}
}

func (p *play) command(d *datadriven.TestData) string {
	if d.Cmd == "static" {
		p.static = parseStatic(p.t, d.Input)
		p.d = nil
		return ""
	}
	p.begin()
	together := d.HasArg("together")
	if !together {
		p.offset++
		p.d.Begin(p.offset)
	}
	at := 0
	if e, _, _ := p.d.Batch(); e != nil {
		at = len(e.Records)
	}
	var out strings.Builder
	switch d.Cmd {
	case "found":
		p.d.Found("cluster", []image.Node{{ID: 1, Directory: [16]byte{1}}})
	case "new-leader":
		p.d = nil
		p.offset--
		return ""
	case "pass":
		var ms int
		d.ScanArgs(p.t, "ms", &ms)
		p.now = p.now.Add(time.Duration(ms) * time.Millisecond)
		p.d.Expire(p.now)
	case "deadline":
		p.offset--
		if at := p.d.Deadline(); !at.IsZero() {
			return at.Sub(p.now).String() + "\n"
		}
		return "never\n"
	case "show":
		p.offset--
		return p.show(d)
	default:
		req := p.request(d)
		p.seed++
		o := p.d.Decide(p.now, &Request{Body: req, Seed: [32]byte{p.seed}})
		if o.Again {
			out.WriteString("again, in a later entry\n")
		} else {
			p.answer(&out, o.Response)
		}
	}
	e, working, _ := p.d.Batch()
	if e != nil {
		for _, r := range e.Records[at:] {
			out.WriteString("  " + p.record(r) + "\n")
		}
		p.committed, _ = p.committed.ApplyEntry(p.offset, &image.Entry{ClusterID: e.ClusterID, Nodes: e.Nodes, Records: e.Records[at:]})
		if !image.Equal(p.committed, working) {
			p.t.Fatalf("the records make another image than the working one")
		}
	} else if !together {
		p.offset-- // nothing was written
	}
	return out.String()
}

// list reads the arguments a command has under one name.
func args(d *datadriven.TestData, name string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals
		}
	}
	return nil
}

func arg(d *datadriven.TestData, name, otherwise string) string {
	if v := args(d, name); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (p *play) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *play) ids(list string, sep string) []int32 {
	out := []int32{}
	if list == "" {
		return out
	}
	for s := range strings.SplitSeq(list, sep) {
		out = append(out, int32(p.number(s)))
	}
	return out
}

func (p *play) epoch(id int32) int64 {
	if b := p.d.Working().Broker(id); b != nil {
		return b.Epoch
	}
	return -1
}

func ptr(s string) *string { return &s }

// value reads a config value: "null" is null.
func value(s string) *string {
	if s == "null" {
		return nil
	}
	if times, ok := strings.CutPrefix(s, "x*"); ok {
		n, _ := strconv.Atoi(times)
		s = strings.Repeat("x", n)
	}
	return &s
}

func code(c int16, message *string) string {
	name := "NONE"
	if err := kerr.TypedErrorForCode(c); err != nil {
		name = err.Message
	}
	if message != nil {
		name += ": " + *message
	}
	return name
}

func (p *play) answer(out *strings.Builder, resp kmsg.Response) {
	clusterAnswer(out, resp)
	switch r := resp.(type) {
	case *kmsg.BrokerRegistrationResponse:
		fmt.Fprintf(out, "%s broker epoch %d\n", code(r.ErrorCode, nil), r.BrokerEpoch)
	case *kmsg.BrokerHeartbeatResponse:
		fmt.Fprintf(out, "%s caught up %t, fenced %t, shut down %t\n", code(r.ErrorCode, nil), r.IsCaughtUp, r.IsFenced, r.ShouldShutdown)
	case *kmsg.AssignReplicasToDirsResponse:
		fmt.Fprintf(out, "%s\n", code(r.ErrorCode, nil))
	case *kmsg.UnregisterBrokerResponse:
		fmt.Fprintf(out, "%s\n", code(r.ErrorCode, r.ErrorMessage))
	case *kmsg.AllocateProducerIDsResponse:
		fmt.Fprintf(out, "%s from %d, %d ids\n", code(r.ErrorCode, nil), r.ProducerIDStart, r.ProducerIDLen)
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			set := ""
			for _, c := range t.Configs {
				if c.Source == 1 {
					set += fmt.Sprintf(" %s=%s", c.Name, *c.Value)
				}
			}
			if t.ErrorCode != 0 && (t.Configs == nil || t.TopicID != [16]byte{}) {
				p.t.Fatalf("a refused topic has an id or null configs: %+v", t)
			}
			name := t.Topic
			if len(name) > 60 {
				name = fmt.Sprintf("%s... (%d)", name[:10], len(name))
			}
			fmt.Fprintf(out, "%q %s partitions=%d factor=%d%s\n", name, strings.ReplaceAll(code(t.ErrorCode, t.ErrorMessage), strings.Repeat("x", 250), "(250 x)"), t.NumPartitions, t.ReplicationFactor, set)
		}
	case *kmsg.DeleteTopicsResponse:
		// In no order.
		var lines []string
		for _, t := range r.Topics {
			name := "null"
			if t.Topic != nil {
				name = *t.Topic
			}
			id := ""
			if t.TopicID != [16]byte{} {
				id = " with id"
			}
			lines = append(lines, fmt.Sprintf("%s%s %s\n", name, id, code(t.ErrorCode, t.ErrorMessage)))
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			fmt.Fprintf(out, "%s %s\n", t.Topic, code(t.ErrorCode, t.ErrorMessage))
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, one := range r.Resources {
			fmt.Fprintf(out, "%d:%s %s\n", one.ResourceType, one.ResourceName, code(one.ErrorCode, one.ErrorMessage))
		}
	case *kmsg.AlterConfigsResponse:
		for _, one := range r.Resources {
			fmt.Fprintf(out, "%d:%s %s\n", one.ResourceType, one.ResourceName, code(one.ErrorCode, one.ErrorMessage))
		}
	case *kmsg.AlterPartitionResponse:
		if r.ErrorCode != 0 {
			fmt.Fprintf(out, "%s\n", code(r.ErrorCode, nil))
		}
		for _, t := range r.Topics {
			for _, one := range t.Partitions {
				fmt.Fprintf(out, "%d: %s", one.Partition, code(one.ErrorCode, nil))
				if one.ErrorCode == 0 {
					fmt.Fprintf(out, " leader %d/%d isr %v partition epoch %d recovery %d", one.LeaderID, one.LeaderEpoch, one.ISR, one.PartitionEpoch, one.LeaderRecoveryState)
				}
				out.WriteString("\n")
			}
		}
	}
}

// name is the topic behind an id, before or after the command.
func (p *play) name(id [16]byte) string {
	for _, i := range []*image.Image{p.d.Working(), p.committed} {
		if t := i.TopicByID(id); t != nil {
			return t.Name
		}
	}
	return "?"
}

func (p *play) record(r records.Metadata) string {
	switch r := r.(type) {
	case *records.TopicRecord:
		return "Topic " + r.Name
	case *records.PartitionRecord:
		dirs := ""
		for _, d := range r.Directories {
			if d != [16]byte{} {
				dirs = " placed"
			}
		}
		return fmt.Sprintf("Partition %s-%d replicas %v isr %v leader %d%s", p.name(r.TopicId), r.PartitionId, r.Replicas, r.Isr, r.Leader, dirs)
	case *records.PartitionChangeRecord:
		s := fmt.Sprintf("PartitionChange %s-%d", p.name(r.TopicId), r.PartitionId) + moves(r)
		if r.Isr != nil {
			s += fmt.Sprintf(" isr %v", r.Isr)
		}
		if r.Leader != -2 {
			s += fmt.Sprintf(" leader %d", r.Leader)
		}
		if r.LeaderRecoveryState != -1 {
			s += fmt.Sprintf(" recovery %d", r.LeaderRecoveryState)
		}
		return s
	case *records.RemoveTopicRecord:
		return "RemoveTopic " + p.name(r.TopicId)
	case *records.ConfigRecord:
		v := "null"
		if r.Value != nil {
			v = strconv.Quote(*r.Value)
		}
		return fmt.Sprintf("Config %d:%s %s=%s", r.ResourceType, r.ResourceName, r.Name, v)
	case *records.RegisterBrokerRecord:
		return fmt.Sprintf("RegisterBroker %d epoch %d fenced %t", r.BrokerId, r.BrokerEpoch, r.Fenced)
	case *records.BrokerRegistrationChangeRecord:
		s := fmt.Sprintf("BrokerRegistrationChange %d epoch %d", r.BrokerId, r.BrokerEpoch)
		if len(r.LogDirs) > 0 {
			s += fmt.Sprintf(" directories %d", len(r.LogDirs))
		}
		switch {
		case r.Fenced > 0:
			s += " fenced"
		case r.Fenced < 0:
			s += " unfenced"
		}
		if r.InControlledShutdown > 0 {
			s += " in controlled shutdown"
		}
		return s
	case *records.UnregisterBrokerRecord:
		return fmt.Sprintf("UnregisterBroker %d epoch %d", r.BrokerId, r.BrokerEpoch)
	case *records.FeatureLevelRecord:
		return fmt.Sprintf("FeatureLevel %s %d", r.Name, r.FeatureLevel)
	case *records.ProducerIdsRecord:
		return fmt.Sprintf("ProducerIds broker %d next %d", r.BrokerId, r.NextProducerId)
	}
	return records.Name(r)
}

func (p *play) show(d *datadriven.TestData) string {
	var out strings.Builder
	i := p.d.Working()
	if d.HasArg("brokers") {
		for b := range i.Brokers() {
			fmt.Fprintf(&out, "broker %d epoch %d fenced %t in controlled shutdown %t\n", b.ID, b.Epoch, b.Fenced, b.InControlledShutdown)
		}
	}
	for _, name := range args(d, "topic") {
		t := i.TopicByName(name)
		if t == nil {
			fmt.Fprintf(&out, "no topic %s\n", name)
			continue
		}
		for _, part := range t.Partitions {
			if len(part.Adding)+len(part.Removing) > 0 {
				fmt.Fprintf(&out, "%s-%d adding %v removing %v\n", name, part.Index, part.Adding, part.Removing)
			}
			fmt.Fprintf(&out, "%s-%d replicas %v isr %v leader %d/%d partition epoch %d recovery %d\n", name, part.Index, part.Replicas, part.ISR,
				part.Leader, part.LeaderEpoch, part.PartitionEpoch, part.LeaderRecoveryState)
		}
	}
	return out.String()
}

// TestIdsDiffer: ids come from the seed, each is another one, and none begins
// with a dash in text.
func TestIdsDiffer(t *testing.T) {
	seen := map[[16]byte]bool{}
	for s := range 2000 {
		c := chance{seed: [32]byte{byte(s), byte(s >> 8)}}
		for range 3 {
			id := c.uuid()
			if seen[id] {
				t.Fatalf("id %x twice", id)
			}
			seen[id] = true
			if id[0]>>2 == 62 {
				t.Fatalf("id %x begins with a dash", id)
			}
		}
	}
	a, b := chance{seed: [32]byte{1}}, chance{seed: [32]byte{1}}
	if a.uuid() != b.uuid() || a.number() != b.number() {
		t.Fatal("one seed gave two ids")
	}
}

// TestStandstill: a controller that was stopped for long does not fence the
// brokers whose heartbeats it could not hear.
func TestStandstill(t *testing.T) {
	p := &play{t: t, now: time.Unix(1000, 0), committed: image.New(), static: parseStatic(t, "")}
	p.begin()
	p.d.Begin(1)
	p.d.Found("cluster", nil)
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.LogDirs = 1, "cluster", [][16]byte{{1}}
	p.d.Decide(p.now, &Request{Body: req})
	hb := kmsg.NewPtrBrokerHeartbeatRequest()
	hb.BrokerID, hb.BrokerEpoch, hb.CurrentMetadataOffset = 1, 1, 1
	p.d.Decide(p.now, &Request{Body: hb})
	now := p.now.Add(time.Hour)
	p.d.Begin(2)
	p.d.Expire(now)
	if p.d.Working().Broker(1).Fenced {
		t.Fatal("fenced for the controller's own absence")
	}
	// Once it runs again, silence counts.
	for range 20 {
		now = now.Add(time.Second)
		p.d.Expire(now)
	}
	if !p.d.Working().Broker(1).Fenced {
		t.Fatal("a silent broker was not fenced")
	}
}

// TestDescribesWhatHolds: the answer to a creation follows the brokers' dynamic
// configs, and the topic's own.
func TestDescribesWhatHolds(t *testing.T) {
	p := &play{t: t, now: time.Unix(1000, 0), committed: image.New(), static: parseStatic(t, "")}
	p.begin()
	p.d.Begin(1)
	p.d.Found("cluster", nil)
	p.d.write(&records.RegisterBrokerRecord{BrokerId: 1, BrokerEpoch: 1})
	retention := func(topic string) string {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly, req.Topics = 7, true, []kmsg.CreateTopicsRequestTopic{p.newTopic(topic)}
		resp := p.d.Decide(p.now, &Request{Body: req}).Response.(*kmsg.CreateTopicsResponse)
		for _, c := range resp.Topics[0].Configs {
			if c.Name == "retention.ms" {
				return fmt.Sprintf("%s from %d", *c.Value, c.Source)
			}
		}
		return "not there"
	}
	set := func(resource, value string) {
		v := &value
		if value == "" {
			v = nil
		}
		p.d.write(configRecord(image.BrokerResource, resource, "log.retention.ms", v))
	}
	for _, step := range []struct{ do, topic, want string }{
		{"", "a", "604800000 from 5"}, {"", "a", "604800000 from 5"}, {"", "a retention.ms=7", "7 from 1"}, {"", "a retention.ms=+7", "+7 from 1"},
		{":5000", "a", "5000 from 3"}, {"1:6000", "a", "6000 from 2"}, {"1:", "a", "5000 from 3"}, {":", "a", "604800000 from 5"},
	} {
		if resource, value, ok := strings.Cut(step.do, ":"); ok {
			set(resource, value)
		}
		if got := retention(step.topic); got != step.want {
			t.Errorf("after %q, %q: retention.ms is %s, want %s", step.do, step.topic, got, step.want)
		}
	}
}
