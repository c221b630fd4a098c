package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

// group is one group of the scenario while it lives.
type group struct {
	flavour Flavour
	name    string
	label   string
	tag     string             // of a second or third attempt
	members []string           // the members opened and not closed
	owners  map[string][]int32 // partitions by member, as last heard
	outs    []string           // output files, in the order the members came
}

func (s *scenario) groupName(f Flavour) string {
	return s.topic + "-" + strings.ReplaceAll(f.String(), "/", "-")
}

func (s *scenario) out(g *group, member string) string {
	return s.path(fmt.Sprintf("%s%s-%s.out", strings.ReplaceAll(g.label, "/", "-"), g.tag, member))
}

// consumer is how the agent knows a member.
func (g *group) consumer(member string) string { return g.label + g.tag + member }

func (s *scenario) open(g *group, member string) error {
	g.members = append(g.members, member)
	_, err := s.call(agent.Request{Step: "consumer-open", Consumer: g.consumer(member), Group: g.name, Topic: s.topic,
		Strategy: g.flavour.Strategy, Protocol: g.flavour.Protocol})
	if err == nil {
		g.outs = append(g.outs, s.out(g, member))
	}
	return err
}

// consume reads count records with one member; it is an error if fewer come.
func (s *scenario) consume(g *group, member string, count int) error {
	ans, err := s.call(agent.Request{Step: "consume", Consumer: g.consumer(member), Count: count, Out: s.out(g, member), TimeoutMS: s.ReadLimit.Milliseconds()})
	if err != nil {
		return fmt.Errorf("member %s: %w", member, err)
	}
	g.owners[member] = ans.Assignment
	if ans.Count < count {
		return fmt.Errorf("member %s read %d of %d records in %v", member, ans.Count, count, s.ReadLimit)
	}
	return nil
}

// settle waits until the members own all partitions, each of them some and no partition twice.
func (s *scenario) settle(g *group, members ...string) error {
	var failed error
	ask := func() (bool, error) {
		var all []int32
		for _, m := range members {
			ans, err := s.call(agent.Request{Step: "consume", Consumer: g.consumer(m), Count: 0, Out: s.out(g, m), TimeoutMS: 1000})
			if err != nil {
				failed = err
				return true, nil
			}
			g.owners[m] = ans.Assignment
			all = append(all, ans.Assignment...)
			if len(ans.Assignment) == 0 {
				return false, nil
			}
		}
		slices.Sort(all)
		return slices.Equal(all, []int32{0, 1, 2, 3, 4, 5}), nil
	}
	err := eventually(s.ctx, 60*time.Second, fmt.Sprintf("members %v share all partitions", members), ask)
	if err != nil {
		return fmt.Errorf("%w (they own %v)", err, g.owners)
	}
	return failed
}

func (s *scenario) closeMember(g *group, member string) error {
	_, err := s.call(agent.Request{Step: "consumer-close", Consumer: g.consumer(member)})
	g.members = slices.DeleteFunc(g.members, func(m string) bool { return m == member })
	return err
}

// groups walks a group of each flavour through its steps. The first one may have been formed already.
func (s *scenario) groups(flavours []Flavour, early *group) {
	for i, f := range flavours {
		g := early
		if i > 0 || g == nil {
			g = s.attempts(f)
		} else {
			s.group(g)
		}
		if i > 0 {
			continue
		}
		s.firstGroup = g.name
		if last := s.results[len(s.results)-1]; last.Step == "group of two" && last.Outcome == Unsupported {
			s.noGroups = last.Detail
			s.withoutGroups()
			return
		}
	}
}

// attempts forms a group and walks it through its steps. A client with a fault of its own that spoils some groups is given
// up to three, and the last one counts.
func (s *scenario) attempts(f Flavour) *group {
	limit := 1
	if s.Client.Flaky != "" {
		limit = 3
	}
	for n := 1; ; n++ {
		before := len(s.results)
		g, ok := s.form(f, n)
		if ok {
			s.group(g)
		}
		bad := slices.IndexFunc(s.results[before:], func(r Result) bool { return r.Outcome == Failed })
		if bad < 0 || n == limit || s.ctx.Err() != nil {
			return g
		}
		s.results = s.results[:before]
		for _, m := range g.members {
			// It may be stuck; its answer is not waited for.
			s.agent.Start(s.ctx, agent.Request{Step: "consumer-close", Consumer: g.consumer(m)})
		}
	}
}

// form opens member A, lets it have all partitions, then opens B and waits until they share them: each group rebalances
// while it lives. It says whether that went well.
func (s *scenario) form(f Flavour, attempt int) (*group, bool) {
	g := &group{flavour: f, name: s.groupName(f), label: f.String(), owners: make(map[string][]int32)}
	if attempt > 1 {
		g.tag = fmt.Sprintf("-attempt%d", attempt)
		g.name += g.tag
	}
	good := s.step("group of two", g.label, func() error {
		if err := s.open(g, "A"); err != nil {
			return err
		}
		if err := s.settle(g, "A"); err != nil {
			return err
		}
		if err := s.open(g, "B"); err != nil {
			return err
		}
		if err := s.settle(g, "A", "B"); err != nil {
			return err
		}
		return s.checkType(g)
	})
	return g, good
}

// checkType wants the group to be of the type that was asked for: some clients quietly fall back to the classic protocol.
func (s *scenario) checkType(g *group) error {
	if g.flavour.Protocol != "consumer" {
		return nil
	}
	is, err := s.helper.groupType(s.ctx, g.name)
	if err == nil && is != "consumer" {
		err = fmt.Errorf("the consumer protocol was asked for, the group is of type %q", is)
	}
	return err
}

// group walks a formed group through leaving, restarting and reading to the end, and compares what it read.
func (s *scenario) group(g *group) {
	if !s.step("describe group", g.label, func() error { return s.describeGroup(g) }) && s.ctx.Err() != nil {
		return
	}
	if !s.step("member leaves", g.label, func() error { return s.memberLeaves(g) }) {
		return
	}
	if s.step("commit, restart", g.label, func() error { return s.restart(g) }) {
		s.step("read lag", g.label, func() error { return s.lagIsZero(g) })
	}
	// Also when something went wrong before: it says what is missing.
	if s.step("compare", g.label, func() error { return s.compare(g) }) {
		s.outputs = g.outs
	}
}

// withoutGroups stands in for the steps of groups when a client has none: what it sent is read by partitions, from the first
// record on, and compared.
func (s *scenario) withoutGroups() {
	for _, name := range []string{"describe group", "member leaves", "commit, restart", "read lag"} {
		s.step(name, "", func() error { return UnsupportedError(s.noGroups) })
	}
	g := &group{outs: []string{s.path("all.out")}}
	if s.step("compare", "", func() error {
		if err := s.readAll(s.topic, s.total, g.outs[0], s.ReadLimit); err != nil {
			return err
		}
		return s.compare(g)
	}) {
		s.outputs = g.outs
	}
}

// readAll reads a whole topic without a group.
func (s *scenario) readAll(topic string, count int, out string, limit time.Duration) error {
	_, err := s.call(agent.Request{Step: "seek-time", Topic: topic, Timestamp: 0, Count: count, Out: out, TimeoutMS: limit.Milliseconds()})
	return err
}

func (s *scenario) describeGroup(g *group) error {
	var last Answer
	err := eventually(s.ctx, 15*time.Second, "the group is Stable with two members", func() (bool, error) {
		ans, err := s.call(agent.Request{Step: "describe-group", Group: g.name})
		last = ans
		return strings.EqualFold(ans.State, "Stable") && ans.Members == 2, err
	})
	var unsupported UnsupportedError
	if err != nil && !errors.As(err, &unsupported) {
		return fmt.Errorf("%w (it is %q with %d)", err, last.State, last.Members)
	}
	return err
}

// memberLeaves reads about half of what each member has, lets A commit and go, and waits until B has it all.
func (s *scenario) memberLeaves(g *group) error {
	ends, err := s.helper.ends(s.ctx, s.topic)
	if err != nil {
		return err
	}
	have := func(member string) (n int) {
		for _, p := range g.owners[member] {
			n += int(ends[p])
		}
		return n
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, m := range []string{"A", "B"} {
		n := have(m) / 2
		if n == 0 {
			return fmt.Errorf("member %s owns %v, where nothing is", m, g.owners[m])
		}
		wg.Go(func() { errs[i] = s.consumeBeside(g, m, n) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.commit(g, "A"); err != nil {
		return err
	}
	if err := s.closeMember(g, "A"); err != nil {
		return err
	}
	return s.settle(g, "B")
}

// consumeBeside is consume for two members at once: it leaves the owners alone.
func (s *scenario) consumeBeside(g *group, member string, count int) error {
	alone := &group{flavour: g.flavour, name: g.name, label: g.label, tag: g.tag, owners: make(map[string][]int32)}
	return s.consume(alone, member, count)
}

// commit commits. A client that has no call for it commits by itself when it closes, or says so in no step at all.
func (s *scenario) commit(g *group, member string) error {
	_, err := s.call(agent.Request{Step: "commit", Consumer: g.consumer(member)})
	var unsupported UnsupportedError
	if errors.As(err, &unsupported) {
		return nil
	}
	return err
}

// left is how many records lie after the offsets.
func (s *scenario) left(offsets map[int32]int64) int {
	n := s.total
	for _, o := range offsets {
		n -= int(o)
	}
	return n
}

// readUpTo returns for each partition the offset after the record that was read last, going by the order of the files.
func (s *scenario) readUpTo(files []string) (map[int32]int64, error) {
	next := make(map[int32]int64)
	for _, f := range files {
		if err := eachRead(f, func(r recfile.Span) { next[r.Partition] = r.Offset + 1 }); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func eachRead(path string, f func(recfile.Span)) error {
	data, err := mapFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer data.close()
	for rest := []byte(data); len(rest) > 0; {
		var r recfile.Span
		if r, rest, err = recfile.Next(rest, true); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		f(r)
	}
	return nil
}

// restart lets B read half of the rest, commit and close; C must go on exactly there and read the rest.
func (s *scenario) restart(g *group) error {
	read, err := s.readUpTo(g.outs)
	if err != nil {
		return err
	}
	if left := s.left(read); left > 1 {
		if err := s.consume(g, "B", left/2); err != nil {
			return err
		}
	}
	if err := s.commit(g, "B"); err != nil {
		return err
	}
	lag, lagErr := s.call(agent.Request{Step: "lag", Group: g.name, Topic: s.topic})
	var unsupported UnsupportedError
	switch {
	case lagErr == nil:
		if err := s.checkLag(g, lag.Lag); err != nil {
			return err
		}
	case !errors.As(lagErr, &unsupported):
		return lagErr
	}
	if err := s.closeMember(g, "B"); err != nil {
		return err
	}
	committed, err := s.helper.committed(s.ctx, g.name, s.topic)
	if err != nil {
		return err
	}
	if read, err = s.readUpTo(g.outs); err != nil {
		return err
	}
	for p, n := range read {
		// A partition may have been taken from a client that could not commit then: it is read again.
		if committed[p] != n && s.agent.Hello.NoCommitOnRevoke == "" {
			return fmt.Errorf("partition %d: read up to %d and committed, the broker has %d", p, n, committed[p])
		}
	}
	if err := s.open(g, "C"); err != nil {
		return err
	}
	if err := s.settle(g, "C"); err != nil {
		return err
	}
	if left := s.left(committed); left > 0 {
		if err := s.consume(g, "C", left); err != nil {
			return err
		}
	}
	first := make(map[int32]int64)
	if err := eachRead(s.out(g, "C"), func(r recfile.Span) {
		if _, ok := first[r.Partition]; !ok {
			first[r.Partition] = r.Offset
		}
	}); err != nil {
		return err
	}
	for p, o := range first {
		if o != committed[p] {
			return fmt.Errorf("partition %d: C began at %d, committed was %d", p, o, committed[p])
		}
	}
	return s.commit(g, "C")
}

// checkLag compares the lag that the client reads with what the broker has: log ends and committed offsets.
func (s *scenario) checkLag(g *group, lag map[int32]int64) error {
	committed, err := s.helper.committed(s.ctx, g.name, s.topic)
	if err != nil {
		return err
	}
	ends, err := s.helper.ends(s.ctx, s.topic)
	if err != nil {
		return err
	}
	for p, n := range committed {
		if got, ok := lag[p]; !ok || got != ends[p]-n {
			return fmt.Errorf("lag of partition %d is %d (told: %t), %d are left to read", p, got, ok, ends[p]-n)
		}
	}
	return nil
}

// lagIsZero ends the group: nothing more comes, the lag is 0 everywhere, and C closes.
func (s *scenario) lagIsZero(g *group) error {
	ans, lagErr := s.call(agent.Request{Step: "lag", Group: g.name, Topic: s.topic})
	if lagErr == nil {
		if len(ans.Lag) == 0 {
			lagErr = errors.New("no lag was told")
		}
		for p, n := range ans.Lag {
			if n != 0 {
				lagErr = fmt.Errorf("lag of partition %d is %d after everything was read and committed", p, n)
			}
		}
		if lagErr == nil {
			lagErr = s.checkLag(g, ans.Lag)
		}
	}
	more, err := s.call(agent.Request{Step: "consume", Consumer: g.consumer("C"), Count: 1, Out: s.out(g, "C"), TimeoutMS: 300})
	if err == nil && more.Count > 0 {
		err = fmt.Errorf("%d more records came after the last one", more.Count)
	}
	closeErr := s.closeMember(g, "C")
	if err := errors.Join(err, closeErr); err != nil {
		return err
	}
	return lagErr
}

func (s *scenario) compare(g *group) error {
	c := newComparison(s.started.Add(-time.Minute).UnixMilli(), s.agent.Hello.NoCommitOnRevoke != "")
	c.timeless = !s.can.anyTimestamp
	defer c.close()
	for _, f := range s.inputs {
		if err := c.addSent(f); err != nil {
			return err
		}
	}
	for _, f := range g.outs {
		if err := c.addRead(f); err != nil {
			return err
		}
	}
	return c.check()
}

// seek asks for a time in the middle and compares with what the groups have read.
func (s *scenario) seek() error {
	if s.outputs == nil {
		return errors.New("no group has read the topic faultlessly, so there is nothing to compare with")
	}
	type at struct {
		partition int32
		offset    int64
	}
	records := make(map[at][]byte)
	times := make(map[at]int64)
	var sorted []int64
	for _, f := range s.outputs {
		if err := eachRead(f, func(r recfile.Span) {
			k := at{r.Partition, r.Offset}
			records[k] = bytes.Clone(r.Content)
			times[k] = r.Timestamp
			sorted = append(sorted, r.Timestamp)
		}); err != nil {
			return err
		}
	}
	slices.Sort(sorted)
	when := sorted[len(sorted)/2] | 1
	want := make(map[int32]int64)
	for p := range int32(partitions) {
		want[p] = -1
	}
	for k, t := range times {
		if t >= when && (want[k.partition] == -1 || k.offset < want[k.partition]) {
			want[k.partition] = k.offset
		}
	}
	available := 0
	for k := range times {
		if o := want[k.partition]; o >= 0 && k.offset >= o {
			available++
		}
	}
	count := min(2000, available)
	out := s.path("seek.out")
	defer removeFile(out)
	ans, err := s.call(agent.Request{Step: "seek-time", Topic: s.topic, Timestamp: when, Count: count, Out: out, TimeoutMS: 60_000})
	if err != nil {
		return err
	}
	for p, o := range want {
		if got, ok := ans.Offsets[p]; !ok || got != o {
			return fmt.Errorf("time %d, partition %d: answered %d (told: %t), the first record at or after it is at %d", when, p, got, ok, o)
		}
	}
	n, next := 0, want
	var wrong error
	if err := eachRead(out, func(r recfile.Span) {
		n++
		k := at{r.Partition, r.Offset}
		switch {
		case wrong != nil:
		case r.Offset != next[r.Partition]:
			wrong = fmt.Errorf("partition %d: offset %d came where %d was due", r.Partition, r.Offset, next[r.Partition])
		case !bytes.Equal(records[k], r.Content) || times[k] != r.Timestamp:
			wrong = fmt.Errorf("partition %d offset %d: not what the group has read there", r.Partition, r.Offset)
		}
		next[r.Partition] = r.Offset + 1
	}); err != nil {
		return err
	}
	if wrong == nil && n < count {
		wrong = fmt.Errorf("%d of %d records were read", n, count)
	}
	return wrong
}

// realInput sends the big input and reads it back: with one member of a group, if the client has groups.
func (s *scenario) realInput() error {
	topic := s.topic + "-big"
	err := s.create(topic, topicConfigs)
	var unsupported UnsupportedError
	if err != nil && !errors.As(err, &unsupported) {
		return err
	}
	codec := "lz4"
	if has := s.agent.Hello.Codecs; has != nil && !contains(has, codec) {
		codec = has[0]
	}
	const limit = 5 * time.Minute
	req := agent.Request{Step: "produce", Topic: topic, File: s.BigInput, Codec: codec, Idempotent: true, Acks: "all", TimeoutMS: limit.Milliseconds()}
	ans, err := s.call(req)
	if errors.As(err, &unsupported) {
		req.Idempotent = false
		ans, err = s.call(req)
	}
	if err != nil {
		return err
	}
	if ans.Count != s.BigCount {
		return fmt.Errorf("%d of %d records were acknowledged", ans.Count, s.BigCount)
	}
	out := s.path("big.out")
	defer removeFile(out)
	if s.noGroups != "" {
		err = s.readAll(topic, s.BigCount, out, limit)
	} else {
		err = s.readBig(topic, out, limit)
	}
	if err != nil {
		return err
	}
	c := newComparison(s.started.Add(-time.Minute).UnixMilli(), false)
	c.timeless = !s.can.anyTimestamp
	defer c.close()
	if err := c.addSent(s.BigInput); err != nil {
		return err
	}
	if err := c.addRead(out); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := s.deleteTopic(topic); err != nil && !errors.As(err, &unsupported) {
		return err
	}
	return nil
}

// readBig reads the big input back with one member of a group.
func (s *scenario) readBig(topic, out string, limit time.Duration) error {
	if _, err := s.call(agent.Request{Step: "consumer-open", Consumer: "big", Group: topic + "-group", Topic: topic}); err != nil {
		return err
	}
	ans, err := s.call(agent.Request{Step: "consume", Consumer: "big", Count: s.BigCount, Out: out, TimeoutMS: limit.Milliseconds()})
	if err != nil {
		return err
	}
	if ans.Count != s.BigCount {
		return fmt.Errorf("%d of %d records were read", ans.Count, s.BigCount)
	}
	_, err = s.call(agent.Request{Step: "consumer-close", Consumer: "big"})
	return err
}

func removeFile(path string) { os.Remove(path) }
