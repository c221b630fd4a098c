package check

import (
	"errors"
	"fmt"
	"strings"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/epoch"
	"millrace/storage/producer"
)

// Field is one value of an Item, under a name in Kafka's words.
type Field struct {
	Name  string
	Value any // an integer, a bool, a string, []byte, or []Item
}

// Item is one thing that stands in a file: a batch, a record, an entry.
type Item struct {
	File     string
	Position int64 // -1: the file is text, or the item stands inside a compressed batch
	Kind     string
	Fields   []Field
}

// DumpOptions say what Dump shows.
type DumpOptions struct {
	// Records shows the records of batches.
	Records bool
}

// Dump shows everything that stands in the files of a data directory, or of one partition's, in the order of their names:
// also in those that are on their way, of a log to this directory (-future), and of a segment to its place or away (.cleaned,
// .swap, .deleted). It stops where show gives an error.
func Dump(fsys disk.FS, dir string, o DumpOptions, show func(Item) error) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if err := dumpEntry(fsys, dir+"/"+e.Name, e, o, show); err != nil {
			return err
		}
	}
	return nil
}

func dumpEntry(fsys disk.FS, path string, e disk.Entry, o DumpOptions, show func(Item) error) error {
	if ofPartition(e.Name) || strings.HasSuffix(e.Name, "-offset-checkpoint") || e.Name == metaFile || e.Name == cleanFile {
		reason, err := notFile(fsys, path, e)
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if reason != nil {
			return showBroken(path, -1, reason, show)
		}
		return dumpFile(fsys, path, e.Name, o, show)
	}
	if _, future := futureOf(e.Name); e.Dir && (future || isPartition(e.Name) && e.Name != ClusterMetadata) {
		return Dump(fsys, path, o, show)
	}
	return nil
}

func dumpFile(fsys disk.FS, path, name string, o DumpOptions, show func(Item) error) error {
	base, suffix, ok := parseSegmentName(name)
	for _, way := range []string{deletedSuffix, cleanedSuffix, swapSuffix} {
		suffix = strings.TrimSuffix(suffix, way)
	}
	switch {
	case ok && suffix == ".log":
		return dumpLog(fsys, path, o, show)
	case ok && suffix == ".index":
		return dumpEntries(fsys, path, offsetEntrySize, show, func(b []byte) Item {
			e := offsetEntries(b, base)[0]
			return Item{Kind: "offset index entry", Fields: []Field{{"offset", int64(e.Offset)}, {"position", e.Position}}}
		})
	case ok && suffix == ".timeindex":
		return dumpEntries(fsys, path, timeEntrySize, show, func(b []byte) Item {
			e := timeEntries(b, base)[0]
			return Item{Kind: "time index entry", Fields: []Field{{"timestamp", e.Timestamp}, {"offset", int64(e.Offset)}}}
		})
	case ok && suffix == ".txnindex":
		return dumpEntries(fsys, path, abortedEntrySize, show, func(b []byte) Item {
			e := abortedEntries(b)[0]
			return Item{Kind: "aborted transaction", Fields: []Field{{"version", int64(e.Version)}, {"producerId", int64(e.ProducerID)},
				{"firstOffset", int64(e.First)}, {"lastOffset", int64(e.Last)}, {"lastStableOffset", int64(e.LastStable)}}}
		})
	case ok && suffix == ".snapshot":
		return dumpSnapshot(fsys, path, show)
	case name == epoch.FileName:
		return dumpEpochs(fsys, path, show)
	case name == partitionMetadata:
		id, err := readTopicID(fsys, path[:len(path)-len(name)-1])
		if err != nil {
			return showBroken(path, -1, err, show)
		}
		return show(Item{File: path, Position: -1, Kind: "partition metadata", Fields: []Field{{"topicId", id}}})
	case strings.HasSuffix(name, "-offset-checkpoint"):
		c, err := ReadCheckpoint(fsys, path)
		if err != nil {
			return showBroken(path, -1, err, show)
		}
		for _, e := range c {
			if err := show(Item{File: path, Position: -1, Kind: "checkpoint", Fields: []Field{{"topic", e.Topic}, {"partition", int64(e.Partition)}, {"offset", int64(e.Offset)}}}); err != nil {
				return err
			}
		}
		return nil
	case name == metaFile, name == cleanFile:
		b, err := disk.ReadFile(fsys, path, 1<<20)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for line := range strings.Lines(string(b)) {
			if err := show(Item{File: path, Position: -1, Kind: "line", Fields: []Field{{"text", strings.TrimRight(line, "\n")}}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// showBroken shows that a place cannot be read, which ends the dump of its file and of nothing else.
func showBroken(path string, pos int64, err error, show func(Item) error) error {
	return show(Item{File: path, Position: pos, Kind: "unreadable", Fields: []Field{{"reason", err.Error()}}})
}

func dumpEntries(fsys disk.FS, path string, size int, show func(Item) error, item func(b []byte) Item) error {
	b, partial, err := readEntries(fsys, path, size, true)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for at := 0; at < len(b); at += size {
		x := item(b[at : at+size])
		x.File, x.Position = path, int64(at)
		if err := show(x); err != nil {
			return err
		}
	}
	if partial > 0 {
		return showBroken(path, int64(len(b)), fmt.Errorf("%d bytes are no whole entry", partial), show)
	}
	return nil
}

func dumpSnapshot(fsys disk.FS, path string, show func(Item) error) error {
	b, err := disk.ReadFile(fsys, path, maxText)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	entries, err := producer.DecodeSnapshot(b)
	if err != nil {
		return showBroken(path, -1, err, show)
	}
	const header, size = 10, 46
	for i, e := range entries {
		if err := show(Item{File: path, Position: int64(header + i*size), Kind: "producer", Fields: []Field{
			{"producerId", int64(e.ProducerID)}, {"producerEpoch", int64(e.Epoch)}, {"lastSequence", int64(e.LastSequence)}, {"lastOffset", int64(e.LastOffset)},
			{"offsetDelta", int64(e.OffsetDelta)}, {"timestamp", e.Timestamp}, {"coordinatorEpoch", int64(e.CoordinatorEpoch)}, {"currentTxnFirstOffset", int64(e.TxnFirstOffset)},
		}}); err != nil {
			return err
		}
	}
	return nil
}

func dumpEpochs(fsys disk.FS, path string, show func(Item) error) error {
	b, err := disk.ReadFile(fsys, path, maxText)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	c, err := epoch.Decode(b)
	if err != nil {
		return showBroken(path, -1, err, show)
	}
	for _, e := range c.Entries() {
		if err := show(Item{File: path, Position: -1, Kind: "leader epoch", Fields: []Field{{"leaderEpoch", int64(e.Epoch)}, {"startOffset", int64(e.Start)}}}); err != nil {
			return err
		}
	}
	return nil
}

var codecs = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func dumpLog(fsys disk.FS, path string, o DumpOptions, show func(Item) error) error {
	var sc batch.Scratch
	err := walk(fsys, path, func(fr frame, bad error) error {
		h := fr.h
		codec := fmt.Sprint(int(h.Attributes.Codec()))
		if k := int(h.Attributes.Codec()); k < len(codecs) {
			codec = codecs[k]
		}
		x := Item{File: path, Position: fr.pos, Kind: "batch", Fields: []Field{
			{"baseOffset", int64(h.BaseOffset)}, {"lastOffset", int64(h.LastOffset())}, {"count", int64(h.Count)}, {"size", int64(h.Size())},
			{"partitionLeaderEpoch", int64(h.LeaderEpoch)}, {"magic", int64(h.Magic)}, {"compression", codec},
			{"isTransactional", h.Attributes.Transactional()}, {"isControl", h.Attributes.Control()}, {"logAppendTime", h.Attributes.LogAppendTime()}, {"deleteHorizon", h.Attributes.DeleteHorizon()},
			{"baseTimestamp", h.BaseTimestamp}, {"maxTimestamp", h.MaxTimestamp},
			{"producerId", int64(h.ProducerID)}, {"producerEpoch", int64(h.ProducerEpoch)}, {"baseSequence", int64(h.BaseSequence)},
			{"crc", int64(h.CRC)}, {"isvalid", bad == nil},
		}}
		if err := show(x); err != nil {
			return err
		}
		if bad != nil || !o.Records || fr.bytes == nil {
			return nil
		}
		return dumpRecords(path, fr, &sc, show)
	})
	var b *broken
	if errors.As(err, &b) {
		return showBroken(path, b.pos, b, show)
	}
	return err
}

// A record is shown whole up to so many bytes and headers. Of a longer one only its place is: a small batch can unpack to
// more than there is memory for, and what is shown takes several times the memory of what stands in a file.
const (
	mostShown        = 16 << 20
	mostHeadersShown = 4096
)

func dumpRecords(path string, fr frame, sc *batch.Scratch, show func(Item) error) error {
	for r, err := range batch.RecordsWith(fr.bytes, mostShown, sc) {
		long := (*batch.LongError)(nil)
		if err != nil && !errors.As(err, &long) {
			return showBroken(path, fr.pos, err, show)
		}
		x := Item{File: path, Position: -1, Kind: "record", Fields: []Field{{"offset", int64(r.Offset)}, {"timestamp", r.Timestamp}}}
		if n := len(r.Key) + len(r.Value); long == nil && n > mostShown {
			long = &batch.LongError{Length: n}
		}
		if long != nil {
			x.Fields = append(x.Fields, Field{"notShown", fmt.Sprintf("%d bytes are more than are shown", long.Length)})
			if err := show(x); err != nil {
				return err
			}
			continue
		}
		x.Fields = append(x.Fields, Field{"key", r.Key}, Field{"value", r.Value})
		if fr.h.Attributes.Control() {
			x.Kind = "control record"
			if m, ok, err := batch.ParseMarker(fr.bytes); err == nil && ok {
				kind := "COMMIT"
				if m.Type == batch.Abort {
					kind = "ABORT"
				}
				x.Fields = append(x.Fields, Field{"endTxnMarker", kind}, Field{"coordinatorEpoch", int64(m.CoordinatorEpoch)})
			}
		}
		x.Fields = appendHeaders(x.Fields, r.Headers)
		if err := show(x); err != nil {
			return err
		}
	}
	return nil
}

func appendHeaders(fields []Field, of batch.Headers) []Field {
	if of.Len() == 0 {
		return fields
	}
	var headers []Item
	for h := range of.All() {
		if len(headers) == mostHeadersShown {
			return append(fields, Field{"headers", headers}, Field{"headersNotShown", int64(of.Len() - mostHeadersShown)})
		}
		headers = append(headers, Item{Fields: []Field{{"key", h.Key}, {"value", h.Value}}})
	}
	return append(fields, Field{"headers", headers})
}
