package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consoleProducerTool is kafka-console-producer.sh.
func consoleProducerTool() *tool {
	return &tool{name: "console-producer", short: "Produce the lines of standard input", run: runConsoleProducer, options: []option{
		bootstrapOption,
		{name: "command-config", value: "FILE", help: "properties of the client"},
		{name: "producer.config", value: "FILE", help: "the older name of --command-config"},
		{name: "topic", value: "NAME", help: "the topic"},
		{name: "reader-property", value: "K=V", many: true, help: "parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator, ignore.error, null.marker"},
		{name: "property", value: "K=V", many: true, help: "the older name of --reader-property"},
		{name: "compression-codec", value: stateValue, help: "none, gzip (the default), snappy, lz4 or zstd"},
		{name: "request-required-acks", value: "N", help: "0, 1, or all (the default)"},
		{name: "sync", help: "one record at a time"},
		{name: "batch-size", value: "BYTES", help: "of a batch; left to the client"},
		{name: "timeout", value: "MS", help: "how long to gather; left to the client"},
		{name: "command-property", value: "K=V", many: true, refuse: "put the client's properties into --command-config"},
		{name: "producer-property", value: "K=V", many: true, refuse: "put the client's properties into --command-config"},
		{name: "line-reader", value: "CLASS", refuse: "it names a Java class"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

// settings reads flags of the form K=V.
func settings(c *toolCall, names ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		for _, text := range c.values[name] {
			k, v, ok := strings.Cut(text, "=")
			if !ok {
				return nil, misuse("Invalid command line properties: %s", text)
			}
			out[k] = v
		}
	}
	return out, nil
}

func runConsoleProducer(sh *Shell, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	if !c.has("topic") {
		return misuse("Missing required argument \"[topic]\"")
	}
	if !c.has("bootstrap-server") {
		return misuse("Missing required argument \"[bootstrap-server]\"")
	}
	if c.has("producer.config") && !c.has("command-config") {
		c.values["command-config"] = c.values["producer.config"]
	}
	reader, err := newLineReader(c)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(c.get("topic")), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression())}
	if c.has("compression-codec") {
		codec, ok := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "": kgo.GzipCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[c.get("compression-codec")]
		if !ok {
			return says("Unknown compression name: %s", c.get("compression-codec"))
		}
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	}
	switch acks := c.get("request-required-acks"); acks {
	case "", "-1", "all":
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	default:
		return says("Invalid value %s for configuration acks: String must be one of: all, -1, 0, 1", acks)
	}
	k, done, err := sh.connect(c, opts...)
	if err != nil {
		return err
	}
	defer done()
	ctx := sh.running() // standard input may take longer than an API's time
	lines := bufio.NewScanner(sh.Stdin)
	lines.Buffer(nil, 64<<20)
	failed := make(chan error, 1)
	for n := 1; lines.Scan(); n++ {
		r, err := reader.record(lines.Text(), n)
		if err != nil {
			k.Flush(ctx)
			return err
		}
		k.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err == nil {
				return
			}
			fmt.Fprintf(sh.Stderr, "Error when sending message to topic %s: %s\n", c.get("topic"), k.explain(err))
			select {
			case failed <- err:
			default:
			}
		})
		if c.has("sync") {
			if err := k.Flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading standard input: %w", err)
	}
	if err := k.Flush(ctx); err != nil {
		return err
	}
	select {
	case <-failed:
		return ErrTold
	default:
		return nil
	}
}

// lineReader makes records of lines.
type lineReader struct {
	parseKey, parseHeaders               bool
	keySeparator, headersDelimiter       string
	headersSeparator, headerKeySeparator string
	null                                 *string
	lenient                              bool
}

func newLineReader(c *toolCall) (*lineReader, error) {
	set, err := settings(c, "property", "reader-property")
	if err != nil {
		return nil, err
	}
	r := &lineReader{keySeparator: "\t", headersDelimiter: "\t", headersSeparator: ",", headerKeySeparator: ":"}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		switch key {
		case "parse.key":
			r.parseKey = strings.EqualFold(value, "true")
		case "parse.headers":
			r.parseHeaders = strings.EqualFold(value, "true")
		case "key.separator":
			r.keySeparator = value
		case "headers.delimiter":
			r.headersDelimiter = value
		case "headers.separator":
			r.headersSeparator = value
		case "headers.key.separator":
			r.headerKeySeparator = value
		case "null.marker":
			r.null = &value
		case "ignore.error":
			r.lenient = strings.EqualFold(value, "true")
		default:
			return nil, fmt.Errorf("--reader-property %s is not supported", key)
		}
	}
	return r, nil
}

func (l *lineReader) bytes(text string) []byte {
	if l.null != nil && text == *l.null {
		return nil
	}
	return []byte(text)
}

func (l *lineReader) record(line string, number int) (*kgo.Record, error) {
	r := &kgo.Record{}
	cut := func(text, separator, what string) (before, after string, ok bool, err error) {
		before, after, ok = strings.Cut(text, separator)
		if !ok && !l.lenient {
			err = says("No %s found on line number %d: '%s'", what, number, line)
		}
		return before, after, ok, err
	}
	rest := line
	if l.parseHeaders {
		headers, after, ok, err := cut(rest, l.headersDelimiter, "header delimiter")
		if err != nil {
			return nil, err
		}
		if ok {
			rest = after
			if l.null == nil || headers != *l.null {
				for _, one := range strings.Split(headers, l.headersSeparator) {
					key, value, _, err := cut(one, l.headerKeySeparator, "header key separator")
					if err != nil {
						return nil, err
					}
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: l.bytes(value)})
				}
			}
		}
	}
	if l.parseKey {
		key, after, ok, err := cut(rest, l.keySeparator, "key separator")
		if err != nil {
			return nil, err
		}
		if ok {
			r.Key, rest = l.bytes(key), after
		}
	}
	r.Value = l.bytes(rest)
	return r, nil
}

// consoleConsumerTool is kafka-console-consumer.sh.
func consoleConsumerTool() *tool {
	return &tool{name: "console-consumer", short: "Print records", run: runConsoleConsumer, options: []option{
		bootstrapOption,
		{name: "command-config", value: "FILE", help: "properties of the client"},
		{name: "consumer.config", value: "FILE", help: "the older name of --command-config"},
		{name: "topic", value: "NAME", help: "the topic"},
		{name: "include", value: "PATTERN", help: "topics of a regular expression"},
		{name: "group", value: "NAME", help: "the consumer group"},
		{name: "partition", value: "N", help: "one partition, without a group"},
		{name: "offset", value: "N", help: "where to begin in it: a number, earliest, or latest (the default)"},
		{name: "from-beginning", help: "begin with the first record where nothing is committed"},
		{name: "max-messages", value: "N", help: "stop after so many"},
		{name: "timeout-ms", value: "MS", help: "stop when no record comes for so long"},
		{name: "isolation-level", value: "LEVEL", help: "read_committed or read_uncommitted (the default)"},
		{name: "formatter-property", value: "K=V", many: true, help: "print.timestamp, print.partition, print.offset, print.epoch, print.headers, print.key, print.value, key.separator, line.separator, headers.separator, null.literal"},
		{name: "property", value: "K=V", many: true, help: "the older name of --formatter-property"},
		{name: "skip-message-on-error", help: "has no meaning here: every record can be printed"},
		{name: "enable-systest-events", refuse: "it is for Kafka's own tests"},
		{name: "formatter", value: "CLASS", refuse: "it names a Java class"},
		{name: "formatter-config", value: "FILE", refuse: "use --formatter-property"},
		{name: "key-deserializer", value: "CLASS", refuse: "it names a Java class"},
		{name: "value-deserializer", value: "CLASS", refuse: "it names a Java class"},
		{name: "command-property", value: "K=V", many: true, refuse: "put the client's properties into --command-config"},
		{name: "consumer-property", value: "K=V", many: true, refuse: "put the client's properties into --command-config"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

func runConsoleConsumer(sh *Shell, c *toolCall) error {
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	if c.has("topic") == c.has("include") {
		return misuse("Exactly one of the following arguments is required: [topic], [include]")
	}
	if !c.has("bootstrap-server") {
		return misuse("Missing required argument \"[bootstrap-server]\"")
	}
	if c.has("consumer.config") && !c.has("command-config") {
		c.values["command-config"] = c.values["consumer.config"]
	}
	format, err := newRecordFormat(c)
	if err != nil {
		return err
	}
	opts, err := consumerOptions(c)
	if err != nil {
		return err
	}
	limit, idle := int64(-1), time.Duration(-1)
	for name, into := range map[string]func(int64){"max-messages": func(n int64) { limit = n }, "timeout-ms": func(n int64) { idle = time.Duration(n) * time.Millisecond }} { // any order: they are apart
		if c.has(name) {
			n, err := strconv.ParseInt(c.get(name), 10, 64)
			if err != nil {
				return misuse("Cannot parse argument '%s' of option %s", c.get(name), name)
			}
			into(n)
		}
	}
	k, done, err := sh.connect(c, opts...)
	if err != nil {
		return err
	}
	defer done()
	at := newPositions(c)
	out := bufio.NewWriter(sh.Stdout)
	printed := int64(0)
	for limit < 0 || printed < limit {
		ctx, cancel := sh.running(), context.CancelFunc(func() {})
		if idle >= 0 {
			ctx, cancel = context.WithTimeout(ctx, idle)
		}
		var fetched kgo.Fetches
		if limit < 0 {
			fetched = k.PollFetches(ctx)
		} else {
			fetched = k.PollRecords(ctx, int(min(limit-printed, 1000)))
		}
		cancel()
		// What came before a batch that cannot be read is printed, as Kafka's does.
		fetched.EachRecord(func(r *kgo.Record) {
			printed++
			format.print(out, r)
			at.printed(r)
		})
		out.Flush()
		for _, failure := range fetched.Errors() {
			if errors.Is(failure.Err, context.DeadlineExceeded) || errors.Is(failure.Err, context.Canceled) {
				continue
			}
			if reason, ok := unreadable(failure.Err); ok {
				return says("Record batch for partition %s-%d%s is invalid, cause: %s", failure.Topic, failure.Partition, at.offset(k, fetched, failure.Topic, failure.Partition), reason)
			}
			return says("%s", k.explain(failure.Err))
		}
		if fetched.NumRecords() == 0 && (ctx.Err() != nil || sh.running().Err() != nil) {
			break
		}
	}
	if _, group := k.GroupMetadata(); group >= 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := k.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Fprintf(sh.Stderr, "committing offsets: %s\n", k.explain(err))
		}
		cancel()
	}
	fmt.Fprintf(sh.Stderr, "Processed a total of %d messages\n", printed)
	return nil
}

func consumerOptions(c *toolCall) ([]kgo.Opt, error) {
	reset := kgo.NewOffset().AtEnd()
	if c.has("from-beginning") {
		reset = kgo.NewOffset().AtStart()
	}
	opts := []kgo.Opt{kgo.ConsumeResetOffset(reset), kgo.AllowAutoTopicCreation(), kgo.FetchMaxWait(500 * time.Millisecond)}
	switch level := c.get("isolation-level"); level {
	case "", "read_uncommitted":
	case "read_committed":
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	default:
		return nil, misuse("Invalid value %s for configuration isolation.level: String must be one of: read_committed, read_uncommitted", level)
	}
	if !c.has("partition") {
		if c.has("offset") {
			return nil, misuse("The partition is required when offset is specified.")
		}
		group := c.get("group")
		if group == "" {
			group = "console-consumer-" + strconv.Itoa(rand.IntN(100000))
		}
		opts = append(opts, kgo.ConsumerGroup(group), kgo.DisableAutoCommit())
		if c.has("include") {
			match, err := pattern([]string{c.get("include")})
			if err != nil {
				return nil, err
			}
			return append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(match.String())), nil
		}
		return append(opts, kgo.ConsumeTopics(c.get("topic"))), nil
	}
	if c.has("group") {
		return nil, misuse("Options group and partition cannot be specified together.")
	}
	if c.has("include") {
		return nil, misuse("The topic is required when partition is specified.")
	}
	n, err := number(c, "partition")
	if err != nil {
		return nil, err
	}
	at := reset
	switch text := c.get("offset"); text {
	case "":
	case "earliest":
		at = kgo.NewOffset().AtStart()
	case "latest":
		at = kgo.NewOffset().AtEnd()
	default:
		o, err := strconv.ParseInt(text, 10, 64)
		if err != nil || o < 0 {
			return nil, misuse("The provided offset value '%s' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.", text)
		}
		at = kgo.NewOffset().At(o)
	}
	return append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.get("topic"): {n: at}})), nil
}

// recordFormat is how records are printed.
type recordFormat struct {
	timestamp, partition, offset, epoch, headers, key, value bool
	keySeparator, lineSeparator, headersSeparator, null      string
}

func newRecordFormat(c *toolCall) (*recordFormat, error) {
	set, err := settings(c, "property", "formatter-property")
	if err != nil {
		return nil, err
	}
	f := &recordFormat{value: true, keySeparator: "\t", lineSeparator: "\n", headersSeparator: ",", null: "null"}
	flags := map[string]*bool{"print.timestamp": &f.timestamp, "print.partition": &f.partition, "print.offset": &f.offset, "print.epoch": &f.epoch,
		"print.headers": &f.headers, "print.key": &f.key, "print.value": &f.value}
	texts := map[string]*string{"key.separator": &f.keySeparator, "line.separator": &f.lineSeparator, "headers.separator": &f.headersSeparator, "null.literal": &f.null}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if into, ok := flags[key]; ok {
			*into = strings.EqualFold(strings.TrimSpace(set[key]), "true")
			continue
		}
		into, ok := texts[key]
		if !ok {
			return nil, fmt.Errorf("--formatter-property %s is not supported", key)
		}
		*into = set[key]
	}
	return f, nil
}

func (f *recordFormat) text(b []byte) string {
	if b == nil {
		return f.null
	}
	return string(b)
}

func (f *recordFormat) print(out *bufio.Writer, r *kgo.Record) {
	var parts []string
	if f.timestamp {
		kind := "CreateTime"
		switch r.Attrs.TimestampType() {
		case 1:
			kind = "LogAppendTime"
		case -1:
			kind = "NO_TIMESTAMP"
		}
		if kind != "NO_TIMESTAMP" {
			kind += ":" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
		}
		parts = append(parts, kind)
	}
	if f.partition {
		parts = append(parts, "Partition:"+strconv.Itoa(int(r.Partition)))
	}
	if f.offset {
		parts = append(parts, "Offset:"+strconv.FormatInt(r.Offset, 10))
	}
	if f.epoch {
		parts = append(parts, "LeaderEpoch:"+strconv.Itoa(int(r.LeaderEpoch)))
	}
	if f.headers {
		headers := make([]string, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = h.Key + ":" + f.text(h.Value)
		}
		if len(headers) == 0 {
			headers = []string{"NO_HEADERS"}
		}
		parts = append(parts, strings.Join(headers, f.headersSeparator))
	}
	if f.key {
		parts = append(parts, f.text(r.Key))
	}
	if f.value {
		parts = append(parts, f.text(r.Value))
	}
	out.WriteString(strings.Join(parts, f.keySeparator))
	out.WriteString(f.lineSeparator)
}
