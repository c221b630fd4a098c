//go:build compat

package frames

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// properties are set on all servers: what concerns the size of a test, and what
// Apache Kafka's own defaults do not suit one node with.
var properties = map[string]string{
	"group.initial.rebalance.delay.ms": "0", "num.partitions": "1",
	"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
	"transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.num.partitions": "4", "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
	"node.id": "1", "log.cleaner.backoff.ms": "500",
}

// peers are the servers of a run.
type peers struct {
	ours, newest, oldest         Address
	weHave, newestHas, oldestHas map[int16][2]int16
	run                          string // makes names differ from those of an earlier run on the same servers
	mu                           sync.Mutex
	explained                    map[string]int
	again                        []rerun
	seen                         map[string]seen // by API/case/vN
}

// rerun is a case that differed while others ran beside it.
type rerun struct {
	full    string
	c       *Case
	version int16
}

// TestAnswersAreKafkas runs every case in every version that Millrace serves:
// against the newest Kafka where that serves the version, else against the
// oldest. MILLRACE_FRAMES narrows it to cases whose "API/name/vN" contains one
// of the texts that stand there between commas. MILLRACE_FRAMES_KAFKA and
// MILLRACE_FRAMES_KAFKA_OLD name servers that run already.
func TestAnswersAreKafkas(t *testing.T) {
	p := start(t)
	only := strings.Split(os.Getenv("MILLRACE_FRAMES"), ",")
	t.Run("versions", p.checkVersions)
	t.Run("features", p.checkFeatures)
	for _, alone := range []bool{true, false} {
		t.Run(map[bool]string{true: "alone", false: "together"}[alone], func(t *testing.T) {
			for _, c := range Cases() {
				if c.Alone != alone {
					continue
				}
				name := kmsg.NameForKey(int16(c.API)) + "/" + c.Name
				from, to := p.versions(&c)
				if from > to {
					t.Errorf("%s: no version from %d to %d", name, from, to)
				}
				for v := from; v <= to; v++ {
					full := fmt.Sprintf("%s/v%d", name, v)
					if !slices.ContainsFunc(only, func(text string) bool { return strings.Contains(full+"/", text) }) {
						continue
					}
					t.Run(full, func(t *testing.T) {
						if alone {
							p.compare(t, full, &c, v, p.run)
							return
						}
						t.Parallel()
						p.compareBeside(t, full, &c, v)
					})
				}
			}
		})
	}
	// Kafka's coordinator drops what it has only in memory, a group with nothing
	// but a pending member for one, when the write of another group in the same
	// partition fails, also one that a session's end brings long after its case;
	// and a stalled JVM lets sessions run out. What differs beside other cases
	// counts if it differs alone too, three times out of three.
	t.Run("again", func(t *testing.T) {
		for _, r := range p.again {
			t.Run(r.full, func(t *testing.T) {
				for attempt := range 2 {
					differences, err := p.differences(r.full, r.c, r.version, fmt.Sprint(p.run, "again", attempt))
					if err == nil && len(differences) == 0 {
						return
					}
					t.Logf("differs alone and is run again: %v %v", err, differences)
				}
				p.compare(t, r.full, r.c, r.version, p.run+"again")
			})
		}
	})
	if len(only) == 1 && only[0] == "" {
		for _, e := range explained {
			if p.explained[e.at.String()] == 0 {
				t.Errorf("nothing differs any more as explained by %q", e.at)
			}
		}
		p.everyAPI(t)
		p.settle(t)
	}
}

// versions is the versions a case runs in.
func (p *peers) versions(c *Case) (from, to int16) {
	has := p.weHave[int16(c.API)]
	from, to = max(has[0], c.From), has[1]
	if c.To != 0 {
		to = min(to, c.To)
	}
	if c.Old {
		to = min(to, p.newestHas[int16(c.API)][0]-1)
	}
	if c.Below != 0 {
		to = min(to, c.Below-1)
	}
	return from, to
}

// everyAPI holds the cases to it: no API and version that Millrace serves is
// without a case.
func (p *peers) everyAPI(t *testing.T) {
	for _, controller := range []bool{false, true} {
		all := p.weHave
		if controller {
			all = serves(t, p.ours.Controller)
		}
		for key, has := range all {
			for v := has[0]; v <= has[1]; v++ {
				if !slices.ContainsFunc(Cases(), func(c Case) bool {
					from, to := p.versions(&c)
					return int16(c.API) == key && c.Controller == controller && v >= from && v <= to
				}) {
					t.Errorf("no case for %s v%d, controller listener %v", kmsg.NameForKey(key), v, controller)
				}
			}
		}
	}
}

// compareBeside compares while other cases run, and notes what differs for
// another run.
func (p *peers) compareBeside(t *testing.T, full string, c *Case, v int16) {
	differences, err := p.differences(full, c, v, p.run)
	if err == nil && len(differences) == 0 {
		return
	}
	t.Logf("differs beside other cases and is run again: %v %v", err, differences)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = append(p.again, rerun{full, c, v})
}

func (p *peers) compare(t *testing.T, full string, c *Case, v int16, run string) {
	differences, err := p.differences(full, c, v, run)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Error(d)
	}
}

// differences plays a case on both servers and gives what nobody has explained.
func (p *peers) differences(full string, c *Case, v int16, run string) (out []string, err error) {
	var whys []string
	defer func() { p.note(full, seen{c.API, v, err != nil || len(out) > 0, whys}) }()
	peer := p.newest
	if !within(p.newestHas, c.API, v) {
		peer = p.oldest
		if !within(p.oldestHas, c.API, v) {
			return nil, fmt.Errorf("neither Kafka serves version %d", v)
		}
	}
	prefix := fmt.Sprintf("%s.%s.%d.%s.", run, kmsg.NameForKey(int16(c.API)), v, strings.ReplaceAll(c.Name, " ", "-"))
	type play struct {
		answers []Answer
		err     error
	}
	theirs := make(chan play, 1)
	go func() {
		a, err := c.Play(peer, v, prefix)
		theirs <- play{a, err}
	}()
	ours, err := c.Play(p.ours, v, prefix)
	other := <-theirs
	if err != nil || other.err != nil {
		return nil, fmt.Errorf("ours: %v, Kafka: %v", err, other.err)
	}
	if len(ours) == 0 {
		return nil, errors.New("nothing was asked")
	}
	for _, d := range Compare(ours, other.answers) {
		why := Explained(full+": "+d, func(at string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.explained[at]++
		})
		if why == "" {
			out = append(out, d)
		} else {
			whys = append(whys, why)
		}
	}
	return out, nil
}

// within says whether a server has an API in a version.
func within(has map[int16][2]int16, api kmsg.Key, v int16) bool {
	r, ok := has[int16(api)]
	return ok && v >= r[0] && v <= r[1]
}

func start(t *testing.T) *peers {
	var overrides []string
	for k, v := range properties {
		overrides = append(overrides, k+"="+v)
	}
	random := make([]byte, 3)
	rand.Read(random)
	p := &peers{run: hex.EncodeToString(random), explained: map[string]int{}, seen: map[string]seen{}}
	servers := make(chan error, 2)
	for _, s := range []struct {
		version, variable string
		// With eligible leader replicas on, Kafka shows min.insync.replicas of
		// every topic as set by the cluster.
		features []string
		into     *Address
	}{
		{kafka.Newest, "MILLRACE_FRAMES_KAFKA", []string{"eligible.leader.replicas.version=0"}, &p.newest},
		{kafka.Oldest, "MILLRACE_FRAMES_KAFKA_OLD", nil, &p.oldest},
	} {
		if addr := os.Getenv(s.variable); addr != "" {
			s.into.Broker = addr
			servers <- nil
			continue
		}
		go func() {
			k, err := kafka.Start(context.Background(), kafka.Options{Version: s.version, Properties: properties, Features: s.features})
			if err == nil {
				t.Cleanup(k.Stop)
				s.into.Broker = k.Bootstrap
			}
			servers <- err
		}()
	}
	overrides = append(overrides, "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.listener.names=CONTROLLER")
	b, err := launch.Start(launch.Options{Dir: filepath.Join(t.TempDir(), "data"), Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping Millrace: %v", err)
		}
	})
	p.ours.Broker = b.Bootstrap
	for range 2 {
		if err := <-servers; err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []*Address{&p.ours, &p.newest, &p.oldest} {
		found, err := Find(at.Broker)
		if err != nil {
			t.Fatal(err)
		}
		*at = found
		if err := WarmUp(at.Broker); err != nil {
			t.Fatal(err)
		}
	}
	p.weHave, p.newestHas, p.oldestHas = serves(t, p.ours.Broker), serves(t, p.newest.Broker), serves(t, p.oldest.Broker)
	// Kafka 4 tells Produce from 0 and serves it from 3 (KAFKA-18659).
	p.newestHas[int16(kmsg.Produce)] = [2]int16{3, p.newestHas[int16(kmsg.Produce)][1]}
	for key := range unadvertised {
		p.weHave[int16(key)], p.newestHas[int16(key)] = [2]int16{0, 0}, [2]int16{0, 0}
	}
	return p
}

func serves(t *testing.T, addr string) map[int16][2]int16 {
	c, err := frame.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	resp, ok := c.Ask(req).Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		t.Fatalf("%s does not tell its versions", addr)
	}
	out := map[int16][2]int16{}
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return out
}
