package tools

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// Normaliser changes one server's outputs so that they can be compared with the
// other's: by the type of what stands there, never by where. An identity (a topic
// id, a member id) becomes a number in the order in which identities are first
// met, so that two outputs are alike only if the same identities are equal.
type Normaliser struct {
	server *Server
	names  map[string]string // of identities
	counts map[string]int    // of each type
}

// NewNormaliser is for the outputs of one play on one server.
func NewNormaliser(server *Server) *Normaliser {
	return &Normaliser{server: server, names: make(map[string]string), counts: make(map[string]int)}
}

func (n *Normaliser) identity(kind, value string) string {
	name, ok := n.names[value]
	if !ok {
		n.counts[kind]++
		name = fmt.Sprintf("<%s %d>", kind, n.counts[kind])
		n.names[value] = name
	}
	return name
}

var (
	uuidText  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	kafkaUUID = regexp.MustCompile(`[A-Za-z0-9_-]{22,}`)
	groupText = regexp.MustCompile(`\b(console-consumer|perf-consumer|console-share-consumer)-\d+\b`)
	// The number that a client counts its kind with in its process; a tool is a
	// process of its own for a user, and one of many here.
	clientText = regexp.MustCompile(`\b((?:consumer|producer|adminclient)(?:-[A-Za-z0-9_.]+)*?)-\d+\b`)
	// Microseconds of the year 2001 are far from milliseconds of today: thirteen
	// digits from 2017 to 2033.
	epochText = regexp.MustCompile(`\b(1[5-9]\d{11}|20\d{11})\b`)
	dateText  = regexp.MustCompile(`\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,:]\d+)?)?(Z|[+-]\d\d:?\d\d)?`)
	// In what dump-log prints of a batch: a producer id is given out by the
	// cluster, and a checksum covers the times in the batch.
	producerText = regexp.MustCompile(`\b(producerId|ProducerId|PRODUCER ID)(: ?|=)(\d+)\b`)
	crcText      = regexp.MustCompile(`\b(crc: |"crc":)\d+`)
	// Offsets and terms of the metadata log: how often it was written, by each
	// server's own controller.
	featureText = regexp.MustCompile(`(FinalizedVersionLevel: \S+\s+Epoch: )\d+`)
	statusText  = regexp.MustCompile(`(?m)^(LeaderEpoch|HighWatermark):(\s+)\d+$`)
	replicaText = regexp.MustCompile(`(?m)^(\d+\s+[A-Za-z0-9_-]{22}\s+)\d+(\s+\d+\s.*(?:Leader|Observer|Follower)\s*)$`)
	agoText     = regexp.MustCompile(`\b\d+ ms ago`)
	frameText   = regexp.MustCompile(`(?m)^(\s+at [\w.$/<>@]+\(.*\)|\s+\.\.\. \d+ (more|common frames omitted))\n`)
	// The message of an exception that stands for a broker's error code. Its words
	// are the broker's own, the class is what the code means.
	proseText = regexp.MustCompile(`org\.apache\.kafka\.common\.errors\.(\w+): ([^\n]+)`)
)

// measured are figures of speed and time in what the performance tools print, by
// the words around them.
var measured = []*regexp.Regexp{
	regexp.MustCompile(`\d+(?:\.\d+)?(?: records/sec| MB/sec| ms avg latency| ms max latency| ms 50th| ms 95th| ms 99th| ms 99\.9th)`),
	regexp.MustCompile(`(?m)^Avg latency: [\d.]+`), regexp.MustCompile(`(?m)^0\t\d+\.\d+$`), regexp.MustCompile(`(?:50|99|99\.9)th = \d+`),
	regexp.MustCompile(`"(?:avg_throughput|target_throughput)":-?\d+(?:\.\d+)?`),
}

// consumed is a line of the consumer's performance test: times, then how much was
// read, and figures.
var consumed = regexp.MustCompile(`(?m)^([^,\n]+, [^,\n]+, [\d.]+), [\d.]+, (\d+), [\d.]+, \d+, \d+, [\d.]+, [\d.]+$`)

var number = regexp.MustCompile(`-?\d+(?:\.\d+)?`)

// Text normalises what a command printed.
func (n *Normaliser) Text(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = frameText.ReplaceAllString(text, "")
	for _, re := range measured { // first: decimals can look like a time
		text = re.ReplaceAllStringFunc(text, func(s string) string {
			// The figure is the first number, or the last where words stand first.
			all := number.FindAllStringIndex(s, -1)
			at := all[0]
			if at[0] > 0 || strings.HasPrefix(s, "0\t") || strings.Contains(s, "th = ") {
				at = all[len(all)-1]
			}
			return s[:at[0]] + "<measured>" + s[at[1]:]
		})
	}
	for _, m := range proseText.FindAllStringSubmatch(text, -1) {
		text = strings.ReplaceAll(text, m[2], "<prose of "+m[1]+">")
	}
	text = n.addresses(text)
	text = strings.ReplaceAll(text, n.server.Dir, "<files>")
	text = strings.ReplaceAll(text, n.server.Data, "<data>")
	text = strings.ReplaceAll(text, n.server.ClusterID, "<cluster id>")
	text = replicaText.ReplaceAllString(text, "${1}<metadata offset>$2")
	text = uuidText.ReplaceAllStringFunc(text, func(id string) string { return n.identity("id", id) })
	text = kafkaUUID.ReplaceAllStringFunc(text, n.kafkaID)
	text = groupText.ReplaceAllString(text, "$1-<number>")
	text = clientText.ReplaceAllString(text, "$1-<number>")
	text = dateText.ReplaceAllString(text, "<time>")
	text = epochText.ReplaceAllString(text, "<time>")
	text = producerText.ReplaceAllStringFunc(text, func(s string) string {
		m := producerText.FindStringSubmatch(s)
		return m[1] + m[2] + n.identity("producer id", "producer "+m[3])
	})
	text = featureText.ReplaceAllString(text, "$1<metadata offset>")
	text = statusText.ReplaceAllString(text, "$1:$2<metadata offset>")
	text = agoText.ReplaceAllString(text, "<time>")
	text = crcText.ReplaceAllString(text, "$1<crc>")
	text = consumed.ReplaceAllString(text, "$1, <measured>, $2, <measured>")
	return text
}

// addresses replaces the server's own addresses: the host that Millrace tells a
// client on the loopback is localhost.
func (n *Normaliser) addresses(text string) string {
	for _, a := range []struct{ addr, name string }{{n.server.Bootstrap, "<broker>"}, {n.server.Controller, "<controller>"}} {
		_, port, ok := strings.Cut(a.addr, ":")
		if !ok {
			continue
		}
		re := regexp.MustCompile(`(?:localhost|127\.0\.0\.1)(: ?|["', ]+(?:port|PORT)["':= ]+|\s+)` + port + `\b`)
		text = re.ReplaceAllString(text, a.name)
	}
	return text
}

// kafkaID replaces a text that is a random UUID as Kafka writes them, in 22
// letters of base64: it says of itself that it is version 4.
func (n *Normaliser) kafkaID(text string) string {
	if len(text) != 22 {
		return text
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || b[6]>>4 != 4 || b[8]>>6 != 2 {
		return text
	}
	return n.identity("id", text)
}
