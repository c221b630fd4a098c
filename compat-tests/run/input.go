package run

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"millrace/compat-tests/recfile"
)

// abilities is what a client's records can have: everything, less what its agent says it cannot.
type abilities struct {
	partition, timestamp, anyTimestamp, headers, nullValue, emptyValue, nullKey, binary, nullHeaderValue, emptyHeaderValue, binaryHeaderValue, repeatedHeader bool
}

func abilitiesOf(cannot []string) (abilities, error) {
	a := abilities{true, true, true, true, true, true, true, true, true, true, true, true}
	words := map[string]*bool{
		"partition": &a.partition, "timestamp": &a.timestamp, "any-timestamp": &a.anyTimestamp, "headers": &a.headers, "null-value": &a.nullValue,
		"empty-value": &a.emptyValue, "null-key": &a.nullKey, "binary": &a.binary,
		"null-header-value": &a.nullHeaderValue, "empty-header-value": &a.emptyHeaderValue,
		"binary-header-value": &a.binaryHeaderValue, "repeated-header": &a.repeatedHeader,
	}
	for _, w := range cannot {
		if words[w] == nil {
			return a, fmt.Errorf("the agent cannot %q, which is no word of the protocol", w)
		}
		*words[w] = false
	}
	a.timestamp = a.timestamp && a.anyTimestamp
	return a, nil
}

// inputSpec says what records to make.
type inputSpec struct {
	seed       uint64
	count      int
	partitions int32
	can        abilities
	firstTime  int64 // of the first record; later ones follow by 2 ms each, always even, some a little out of order
	ownTime    bool  // the last twentieth of the records leaves the timestamp to the client
}

// writeInput writes an input file of the scenario: skewed keys, null keys (sent to chosen partitions), null, empty, small
// and large values, headers of all kinds.
func writeInput(path string, s inputSpec) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := recfile.NewWriter(f, false)
	rng := rand.New(rand.NewPCG(s.seed, 0x6d696c6c))
	for i := range s.count {
		if err := w.Write(s.record(rng, i)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (s inputSpec) record(rng *rand.Rand, i int) *recfile.Record {
	r := &recfile.Record{Partition: -1, Timestamp: -1}
	if s.can.timestamp && !(s.ownTime && i >= s.count-s.count/20) {
		r.Timestamp = s.firstTime + 2*int64(i) - 2*rng.Int64N(20)
	}
	if s.can.nullKey && s.can.partition && rng.IntN(5) == 0 {
		r.Partition = rng.Int32N(s.partitions)
	} else {
		// A few keys are hot and most are rare.
		k := int(float64(1+s.count/10) * rng.Float64() * rng.Float64() * rng.Float64())
		if s.can.binary && k%7 == 0 {
			r.Key = []byte{0, byte(k), byte(k >> 8), 0xff, '\n', '\t', 0xc3}
		} else {
			r.Key = fmt.Appendf(nil, "key-%06d", k)
		}
	}
	switch kind := rng.IntN(100); {
	case kind < 5 && s.can.nullValue:
	case kind < 10 && s.can.emptyValue:
		r.Value = []byte{}
	case kind < 12:
		r.Value = s.text(rng, i, 4000+rng.IntN(16_000))
	case kind < 50 && s.can.binary:
		r.Value = make([]byte, 1+rng.IntN(150))
		for j := range r.Value {
			r.Value[j] = byte(rng.Uint32())
		}
	default:
		r.Value = s.text(rng, i, 20+rng.IntN(180))
	}
	if s.can.headers && rng.IntN(3) == 0 {
		for h := range 1 + rng.IntN(3) {
			key := fmt.Sprintf("header-%d", h)
			if s.can.repeatedHeader && rng.IntN(4) == 0 {
				key = "again"
			}
			value := fmt.Appendf(nil, "of record %d", i)
			switch n := rng.IntN(6); {
			case n == 0 && s.can.nullHeaderValue:
				value = nil
			case n == 1 && s.can.emptyHeaderValue:
				value = []byte{}
			case n == 2 && s.can.binary && s.can.binaryHeaderValue:
				value = []byte{0xff, 0, byte(i)}
			}
			r.Headers = append(r.Headers, recfile.Header{Key: key, Value: value})
		}
	}
	return r
}

var words = strings.Fields("offset epoch leader follower segment batch record header broker controller partition topic group member")

func (s inputSpec) text(rng *rand.Rand, i, n int) []byte {
	b := fmt.Appendf(make([]byte, 0, n+16), `{"seq":%d,"text":"`, i)
	for len(b) < n {
		b = append(b, words[rng.IntN(len(words))]...)
		b = append(b, ' ')
	}
	return append(b, `"}`...)
}

// writeGoSources writes every line of every .go file below a directory as a record keyed by the file's name, at most limit
// of them (0: all), and returns how many.
func writeGoSources(path, goroot string, limit int) (int, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := recfile.NewWriter(f, false)
	count := 0
	err = filepath.WalkDir(goroot, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(name, ".go") || (limit > 0 && count >= limit) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(goroot, name)
		if err != nil {
			return err
		}
		r := recfile.Record{Partition: -1, Timestamp: -1, Key: []byte(filepath.ToSlash(rel))}
		for len(text) > 0 && (limit == 0 || count < limit) {
			line := text
			if i := slices.Index(text, '\n'); i >= 0 {
				line, text = text[:i:i], text[i+1:]
			} else {
				text = nil
			}
			r.Value = line
			if err := w.Write(&r); err != nil {
				return err
			}
			count++
		}
		return nil
	})
	if err != nil {
		return count, fmt.Errorf("read the Go sources: %w", err)
	}
	if err := w.Flush(); err != nil {
		return count, err
	}
	return count, f.Close()
}

// writeEvents writes count JSON events with skewed keys, the same ones every time.
func writeEvents(path string, count int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := recfile.NewWriter(f, false)
	rng := rand.New(rand.NewPCG(17, 4))
	zipf := rand.NewZipf(rng, 1.1, 2, 19_999)
	var buf []byte
	for i := range count {
		user := zipf.Uint64()
		key := fmt.Appendf(nil, "user-%05d", user)
		buf = fmt.Appendf(buf[:0], `{"event":%d,"user":"user-%05d","action":%q,"amount":%d.%02d,"tags":[%q,%q],"note":%q}`,
			i, user, words[rng.IntN(len(words))], rng.IntN(1000), rng.IntN(100), words[rng.IntN(len(words))], words[rng.IntN(len(words))],
			strings.Repeat("größer ", rng.IntN(6)))
		if !utf8.Valid(buf) {
			return fmt.Errorf("event %d is not UTF-8", i)
		}
		if err := w.Write(&recfile.Record{Partition: -1, Timestamp: -1, Key: key, Value: buf}); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
