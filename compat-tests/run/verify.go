package run

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"millrace/compat-tests/recfile"
)

// A stream is what has an order: the records of one key, or the records without a key that were sent to one partition.
type stream struct {
	name      string
	sent      []pos // in the order they were sent
	next      int   // how many of them have been matched
	partition int32 // where its records are; -1 until the first one is seen
}

// pos is where a record lies: a file of the comparison, and the place in it.
type pos struct {
	file int32
	at   int64
}

// comparison holds what was sent and is told what was read.
type comparison struct {
	sentFiles []mapped
	readFiles []mapped
	readNames []string
	streams   map[string]*stream
	sent      int
	notBefore int64 // no timestamp that the client chose itself may lie before this one
	timeless  bool  // no record has a timestamp
	// repeats allows a record to be read more than once, as it happens around a rebalance with clients that cannot commit
	// when partitions are taken away.
	repeats  bool
	problems []string
	omitted  int
}

const maxProblems = 12

func newComparison(notBefore int64, repeats bool) *comparison {
	return &comparison{streams: make(map[string]*stream), notBefore: notBefore, repeats: repeats}
}

func (c *comparison) close() {
	for _, m := range append(c.sentFiles, c.readFiles...) {
		m.close()
	}
	c.sentFiles, c.readFiles = nil, nil
}

func (c *comparison) problem(format string, args ...any) {
	if len(c.problems) == maxProblems {
		c.omitted++
		return
	}
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// addSent adds an input file, sent after those added before.
func (c *comparison) addSent(path string) error {
	data, err := mapFile(path)
	if err != nil {
		return err
	}
	file := int32(len(c.sentFiles))
	c.sentFiles = append(c.sentFiles, data)
	var name []byte
	for rest := []byte(data); len(rest) > 0; {
		at := int64(len(data) - len(rest))
		var s recfile.Span
		if s, rest, err = recfile.Next(rest, false); err != nil {
			return fmt.Errorf("%s at byte %d: %w", path, at, err)
		}
		if s.Key == nil && s.Partition < 0 {
			return fmt.Errorf("%s at byte %d: a record without key and partition has no order to check", path, at)
		}
		name = appendStreamName(name[:0], s)
		st := c.streams[string(name)]
		if st == nil {
			st = &stream{name: describe(s), partition: -1}
			c.streams[string(name)] = st
		}
		st.sent = append(st.sent, pos{file, at})
		c.sent++
	}
	return nil
}

func appendStreamName(dst []byte, s recfile.Span) []byte {
	if s.Key == nil {
		return fmt.Appendf(dst, "p%d", s.Partition)
	}
	return append(append(dst, 'k'), s.Key...)
}

func describe(s recfile.Span) string {
	if s.Key == nil {
		return fmt.Sprintf("the records without key in partition %d", s.Partition)
	}
	return fmt.Sprintf("key %q", s.Key)
}

// addRead adds the output file of one consumer.
func (c *comparison) addRead(path string) error {
	data, err := mapFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it read nothing
		}
		return err
	}
	c.readFiles = append(c.readFiles, data)
	c.readNames = append(c.readNames, path[strings.LastIndexByte(path, '/')+1:])
	return nil
}

// readAt is one record that was read.
type readAt struct {
	offset int64
	pos    pos
}

// positions sorts what was read by partition and offset. Within one file a partition's offsets must rise.
func (c *comparison) positions() (map[int32][]readAt, error) {
	parts := make(map[int32][]readAt)
	for file, data := range c.readFiles {
		last := make(map[int32]int64)
		for rest := []byte(data); len(rest) > 0; {
			at := int64(len(data) - len(rest))
			s, r, err := recfile.Next(rest, true)
			if err != nil {
				return nil, fmt.Errorf("%s at byte %d: %w", c.readNames[file], at, err)
			}
			rest = r
			if before, ok := last[s.Partition]; ok && s.Offset <= before && !c.repeats {
				c.problem("partition %d: %s read offset %d after %d", s.Partition, c.readNames[file], s.Offset, before)
			}
			last[s.Partition] = s.Offset
			parts[s.Partition] = append(parts[s.Partition], readAt{s.Offset, pos{int32(file), at}})
		}
	}
	for _, list := range parts {
		byOffset := func(a, b readAt) int { return cmp.Compare(a.offset, b.offset) }
		if !slices.IsSortedFunc(list, byOffset) {
			slices.SortStableFunc(list, byOffset)
		}
	}
	return parts, nil
}

func (c *comparison) read(p pos) recfile.Span {
	s, _, err := recfile.Next(c.readFiles[p.file][p.at:], true)
	if err != nil {
		panic(fmt.Sprintf("a record that was split before cannot be split again: %v", err))
	}
	return s
}

func (c *comparison) sentAt(p pos) recfile.Span {
	s, _, err := recfile.Next(c.sentFiles[p.file][p.at:], false)
	if err != nil {
		panic(fmt.Sprintf("a record that was split before cannot be split again: %v", err))
	}
	return s
}

// check compares what was read with what was sent: in every partition the offsets are dense from 0 and each comes once;
// every stream's records are all there, in one partition, in order, and byte for byte what was sent.
func (c *comparison) check() error {
	parts, err := c.positions()
	if err != nil {
		return err
	}
	ids := make([]int32, 0, len(parts))
	for p := range parts {
		ids = append(ids, p)
	}
	slices.Sort(ids)
	var name []byte
	for _, p := range ids {
		expect := int64(0)
		var previous recfile.Span
		for _, r := range parts[p] {
			s := c.read(r.pos)
			if r.offset < expect {
				if !c.repeats {
					c.problem("partition %d: offset %d was read more than once (%s)", p, r.offset, c.readNames[r.pos.file])
				} else if s.Timestamp != previous.Timestamp || !bytes.Equal(s.Content, previous.Content) {
					c.problem("partition %d: offset %d was read twice, with different content", p, r.offset)
				}
				continue
			}
			if r.offset > expect {
				c.problem("partition %d: offsets %d to %d were never read", p, expect, r.offset-1)
			}
			expect = r.offset + 1
			previous = s
			name = appendStreamName(name[:0], s)
			st := c.streams[string(name)]
			if st == nil {
				c.problem("partition %d offset %d: a record of %s, which was never sent", p, r.offset, describe(s))
				continue
			}
			c.match(st, s)
		}
	}
	for _, st := range c.streams {
		if st.next < len(st.sent) {
			c.problem("%s: %d of %d records were never read", st.name, len(st.sent)-st.next, len(st.sent))
		}
	}
	return c.err()
}

func (c *comparison) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	text := strings.Join(c.problems, "\n")
	if c.omitted > 0 {
		text += fmt.Sprintf("\nand %d more", c.omitted)
	}
	return errors.New(text)
}

// match compares the next record of a stream with one that was read. When they differ it looks around in the stream, to
// say what happened and to go on at the right place.
func (c *comparison) match(st *stream, got recfile.Span) {
	switch {
	case st.partition == -1:
		st.partition = got.Partition
	case st.partition != got.Partition:
		c.problem("%s: records in partitions %d and %d", st.name, st.partition, got.Partition)
		return
	}
	if st.next == len(st.sent) {
		c.problem("%s: more records than the %d sent (partition %d offset %d)", st.name, len(st.sent), got.Partition, got.Offset)
		return
	}
	diff := c.differs(c.sentAt(st.sent[st.next]), got)
	if diff == "" {
		st.next++
		return
	}
	at, kind, next := st.next, "altered", st.next+1
	for i := max(0, at-50); i < min(len(st.sent), at+50); i++ {
		if c.differs(c.sentAt(st.sent[i]), got) != "" {
			continue
		}
		kind, next = "an earlier one again", at
		if i > at {
			kind, next = "a later one", i+1
		}
		break
	}
	c.problem("%s: record %d of %d (partition %d offset %d) is %s: %s", st.name, at, len(st.sent), got.Partition, got.Offset, kind, diff)
	st.next = next
}

// differs says in words how a record that was read is not the one that was sent, or "".
func (c *comparison) differs(want, got recfile.Span) string {
	switch {
	case want.Partition >= 0 && want.Partition != got.Partition:
		return fmt.Sprintf("sent to partition %d, read from %d", want.Partition, got.Partition)
	case want.Timestamp >= 0 && want.Timestamp != got.Timestamp:
		return fmt.Sprintf("timestamp %d sent, %d read", want.Timestamp, got.Timestamp)
	case c.timeless && got.Timestamp != -1:
		return fmt.Sprintf("timestamp %d read, and the client's records have none", got.Timestamp)
	case want.Timestamp < 0 && got.Timestamp < c.notBefore && !c.timeless:
		return fmt.Sprintf("timestamp %d read, which lies before the run", got.Timestamp)
	case !bytes.Equal(want.Content, got.Content):
		return fmt.Sprintf("%s sent, %s read", short(want.Content), short(got.Content))
	}
	return ""
}

func short(b []byte) string {
	if len(b) > 120 {
		return fmt.Sprintf("%q... (%d bytes)", b[:120], len(b))
	}
	return fmt.Sprintf("%q", b)
}
