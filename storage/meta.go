package storage

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/storage/disk"
)

const (
	metaFile  = "meta.properties"
	lockFile  = ".lock"
	cleanFile = ".kafka_cleanshutdown"
)

// ErrIdentity says that a data directory belongs to another node or cluster, or that two do not belong together.
var ErrIdentity = errors.New("data directory belongs to another node or cluster")

// ErrMeta says that a directory's meta.properties does not tell whose it is.
var ErrMeta = errors.New("data directory cannot be identified")

// meta is what meta.properties says of a data directory.
type meta struct {
	clusterID string
	nodeID    int32
	directory [16]byte // zero: the file has none (before 3.7)
}

// encode makes the file's bytes as Java's Properties writes them.
func (m meta) encode(now time.Time) []byte {
	return fmt.Appendf(nil, "#\n#%s\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
		now.UTC().Format("Mon Jan 02 15:04:05 UTC 2006"), escapeProperty(m.clusterID), encodeUUID(m.directory), m.nodeID)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(`\`, `\\`, `=`, `\=`, `:`, `\:`, `#`, `\#`, `!`, `\!`).Replace(s)
}

// decodeMeta reads version 1, and version 0 of brokers that came from ZooKeeper. Its errors name the line.
func decodeMeta(b []byte) (meta, error) {
	props, err := properties(b)
	if err != nil {
		return meta{}, err
	}
	var m meta
	id := "node.id"
	switch v := props["version"]; v.text {
	case "":
		if props["broker.id"].line == 0 {
			// Version 0 may go without saying so, but then it is recognized by its key.
			return meta{}, v.wrong("version is missing: expected version=1 with cluster.id and node.id")
		}
		fallthrough
	case "0":
		id = "broker.id"
		m.clusterID = props["cluster.id"].text
	case "1":
		if m.clusterID = props["cluster.id"].text; m.clusterID == "" {
			return meta{}, props["cluster.id"].wrong("cluster.id is missing")
		}
	default:
		return meta{}, v.wrong("version is %q: only 1 and 0 are known", v.text)
	}
	n, err := strconv.ParseInt(props[id].text, 10, 32)
	switch {
	case props[id].line == 0:
		return meta{}, props[id].wrong("%s is missing", id)
	case err != nil || n < 0:
		return meta{}, props[id].wrong("%s is %q: expected a number that is not negative", id, props[id].text)
	}
	m.nodeID = int32(n)
	if d, ok := props["directory.id"]; ok {
		if m.directory, err = decodeUUID(d.text); err != nil {
			return meta{}, d.wrong("directory.id: %w", err)
		}
		if reserved(m.directory) {
			return meta{}, d.wrong("directory.id %s is reserved", d.text)
		}
	}
	return m, nil
}

// property is a value, and the line it stands on; 0: it is not there.
type property struct {
	text string
	line int
}

func (p property) wrong(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if p.line == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", p.line, err)
}

// properties reads the part of Java's properties syntax that such files use: comments, key=value, backslash escapes.
func properties(b []byte) (map[string]property, error) {
	out := map[string]property{}
	number := 0
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // of an editor's
	for line := range bytes.Lines(b) {
		number++
		s := strings.TrimLeft(strings.TrimRight(string(line), "\r\n"), " \t\f")
		if s == "" || s[0] == '#' || s[0] == '!' {
			continue
		}
		var key strings.Builder
		i := 0
		for ; i < len(s) && !strings.ContainsRune("=: \t\f", rune(s[i])); i++ {
			if s[i] == '\\' && i+1 < len(s) {
				i++
			}
			key.WriteByte(s[i])
		}
		rest := strings.TrimLeft(s[i:], " \t\f")
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], " \t\f")
		}
		var value strings.Builder
		for j := 0; j < len(rest); j++ {
			if rest[j] == '\\' {
				j++
				if j == len(rest) || rest[j] == 'u' {
					return nil, fmt.Errorf("line %d: escape in %q", number, s)
				}
			}
			value.WriteByte(rest[j])
		}
		out[key.String()] = property{value.String(), number}
	}
	return out, nil
}

// encodeUUID is Kafka's text form of a uuid.
func encodeUUID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func decodeUUID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is no uuid", s)
	}
	copy(id[:], b)
	return id, nil
}

// reserved says whether an id is one of the hundred that mean something else.
func reserved(id [16]byte) bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < 100
}

// newUUID makes a random uuid. Kafka leaves out those whose text begins with a dash, which tools would take for a flag.
func newUUID() [16]byte {
	for {
		var id [16]byte
		if _, err := rand.Read(id[:]); err != nil {
			panic(fmt.Sprintf("no randomness: %v", err))
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if !strings.HasPrefix(encodeUUID(id), "-") {
			return id
		}
	}
}

// readMeta reads meta.properties; ok is false where there is none.
func readMeta(fsys disk.FS, dir string) (m meta, ok bool, err error) {
	b, err := disk.ReadFile(fsys, dir+"/"+metaFile, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, false, nil
	}
	if err != nil {
		return meta{}, false, fmt.Errorf("read %s/%s: %w", dir, metaFile, err)
	}
	if m, err = decodeMeta(b); err != nil {
		return meta{}, false, fmt.Errorf("%w: %s/%s: %w", ErrMeta, dir, metaFile, err)
	}
	return m, true, nil
}

// Owner says which node the directories belong to, by the first one that says it; ok is false where none does. One that
// cannot be read says nothing: Open gives it up, if another is left. It changes nothing.
func Owner(fsys disk.FS, dirs []string) (nodeID int32, ok bool, err error) {
	fsys = orOS(fsys)
	for _, dir := range dirs {
		m, known, err := readMeta(fsys, dir)
		if errors.Is(err, ErrMeta) {
			return 0, false, err
		}
		if known {
			return m.nodeID, true, nil
		}
	}
	return 0, false, nil
}

// encodeClean makes the mark of a clean stop.
func encodeClean(brokerEpoch int64) []byte {
	return fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, brokerEpoch)
}

// decodeClean reads the broker epoch out of the mark; -1 where it has none. The mark of older brokers is empty.
func decodeClean(b []byte) int64 {
	m := struct{ BrokerEpoch *int64 }{}
	if err := json.Unmarshal(b, &m); err != nil || m.BrokerEpoch == nil {
		return -1
	}
	return *m.BrokerEpoch
}

// partitionDir is the name of a partition's directory.
func partitionDir(topic string, partition int32) string {
	return topic + "-" + strconv.FormatInt(int64(partition), 10)
}

// parsePartitionDir is the inverse; the partition follows the last dash.
func parsePartitionDir(name string) (k partitionKey, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 || name[i+1] == '+' {
		return k, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || partitionDir(name[:i], int32(n)) != name {
		return k, false
	}
	return partitionKey{topic: name[:i], partition: int32(n)}, true
}

const (
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
	futureSuffix = "-future"
)

// maxName is the longest name of a file.
const maxName = 255

// doomedDir is the name a partition's directory gets when it is deleted: the topic's name is cut where it would be too
// long.
func doomedDir(topic string, partition int32, suffix string) string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	tail := fmt.Sprintf("-%d.%x%s", partition, id, suffix)
	return topic[:min(len(topic), maxName-len(tail))] + tail
}

func hasAnySuffix(name string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}
