package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/controller/config"
	"millrace/controller/image"
)

// What a broker's dynamic configs must come to together, its own over the cluster's
// over the static: Kafka builds the whole configuration that a change would make and
// judges that.

// threadPools may at most be doubled or halved in one change.
var threadPools = []string{
	"background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers",
	"remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
	"remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads", "log.cleaner.threads",
}

// leastDedupe is what log.cleaner.dedupe.buffer.size must exceed for each cleaner thread.
const leastDedupe = 1 << 20

// levels are the dynamic configs of the broker that a change concerns, the nearest
// first, before and after it. A change of the cluster's is judged as this broker
// would have it.
func (d *Decider) levels(r resource, list []image.Config) (before, after []config.Lookup) {
	broker := r.name
	if broker == "" {
		broker = strconv.Itoa(int(d.node))
	}
	own, cluster := d.working.Configs(image.BrokerResource, broker).Get, d.clusterDefaults()
	changed, _ := lookup(list)
	if r.name == "" {
		return []config.Lookup{own, cluster}, []config.Lookup{own, changed}
	}
	return []config.Lookup{own, cluster}, []config.Lookup{changed, cluster}
}

// checkIntervals holds the broker's defaults of groups' assignment intervals to the
// limits that it sets groups.
func (d *Decider) checkIntervals(r resource, list []image.Config) *failure {
	_, after := d.levels(r, list)
	for _, protocol := range []string{"consumer", "share", "streams"} {
		prefix := "group." + protocol + "."
		const key = "assignment.interval.ms"
		switch v := d.number(prefix+key, after...); {
		case v < d.number(prefix+"min."+key, after...):
			return fail(kerr.InvalidRequest, prefix+key+" must be greater than or equal to "+prefix+"min."+key)
		case v > d.number(prefix+"max."+key, after...):
			return fail(kerr.InvalidRequest, prefix+key+" must be less than or equal to "+prefix+"max."+key)
		}
	}
	return nil
}

// checkRetention holds what a tiered log keeps on local disks to what it keeps at all,
// and how late it is copied to what it keeps locally (KIP-405). Kafka looks when
// a config of logs changes.
func (d *Decider) checkRetention(r resource, list []image.Config) *failure {
	touched := r.replace
	for _, c := range r.changes {
		touched = touched || strings.HasPrefix(c.key, "log.")
	}
	if !touched {
		return nil
	}
	_, after := d.levels(r, list)
	// What topics inherit: log.retention.hours may stand for log.retention.ms.
	topics, err := config.Topic(d.static, after[1], after[0], nil)
	if err != nil {
		return fail(kerr.InvalidRequest, err.Error())
	}
	for _, kept := range []struct {
		unit            string
		all, here, late int64
	}{
		{"ms", topics.RetentionMs, topics.LocalRetentionMs, topics.RemoteCopyLagMs},
		{"bytes", topics.RetentionBytes, topics.LocalRetentionBytes, topics.RemoteCopyLagBytes},
	} {
		retention, local, lag := "log.retention."+kept.unit, "log.local.retention."+kept.unit, "log.remote.copy.lag."+kept.unit
		all, here, late := kept.all, kept.here, kept.late
		switch {
		case all < 0 || here == -2:
		case here == -1:
			return fail(kerr.InvalidRequest, fmt.Sprintf("Invalid value -1 for configuration %s: Value must not be -1 as %s value is set as %d.", local, retention, all))
		case here > all:
			return fail(kerr.InvalidRequest, fmt.Sprintf("Invalid value %d for configuration %s: Value must not be more than %s property value: %d", here, local, retention, all))
		}
		if here == -2 {
			here = all
		}
		if here >= 0 && late > here {
			return fail(kerr.InvalidRequest, fmt.Sprintf("Invalid value %d for configuration %s: Value must not exceed %s (effective value: %d)", late, lag, local, here))
		}
	}
	return nil
}

// checkPerIP refuses a broker that would take a connection from nobody, with which
// the change could not be taken back either: no connections from any address, and
// no address that is an exception.
func (d *Decider) checkPerIP(r resource, after []image.Config) *failure {
	_, levels := d.levels(r, after)
	const limit, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
	if d.number(limit, levels...) != 0 {
		return nil
	}
	for _, level := range append(levels, d.static.Set) {
		if v, set := level(overrides); set {
			if strings.TrimSpace(v) != "" {
				return nil
			}
			break
		}
	}
	return fail(kerr.InvalidRequest, "requirement failed: "+limit+" can be set to zero only if "+overrides+" property is set.")
}

// checkThreads compares the thread pools of the broker before and after a change
// of its own configs or the cluster's: what another level hides is no change.
func (d *Decider) checkThreads(r resource, list []image.Config) *failure {
	before, after := d.levels(r, list)
	if threads := d.number("log.cleaner.threads", after...); threads > 0 && d.number("log.cleaner.dedupe.buffer.size", after...)/threads <= leastDedupe {
		return fail(kerr.InvalidRequest, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	}
	pools := slices.Clone(threadPools)
	for _, l := range d.static.Listeners() {
		pools = append(pools, "listener.name."+strings.ToLower(l.Name)+".num.network.threads")
	}
	for _, key := range pools {
		was, wanted := d.number(key, before...), d.number(key, after...)
		prefix := fmt.Sprintf("Dynamic thread count update validation failed for %s=%d: ", key, wanted)
		switch {
		case wanted == was:
		case wanted <= 0:
			return fail(kerr.InvalidRequest, prefix+"value should be at least 1")
		case wanted < was/2:
			return fail(kerr.InvalidRequest, fmt.Sprintf("%svalue should be at least half the current value %d", prefix, was))
		case wanted > was*2:
			return fail(kerr.InvalidRequest, fmt.Sprintf("%svalue should not be greater than double the current value %d", prefix, was))
		}
	}
	return nil
}

// number is the value of an int or long config with these dynamic configs over the
// static.
// One of a listener is the broker's where the listener has none.
func (d *Decider) number(key string, levels ...config.Lookup) int64 {
	for _, level := range append(slices.Clip(levels), d.static.Set) {
		if v, set := level(key); set {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return n
			}
		}
	}
	if rest, ok := strings.CutPrefix(key, "listener.name."); ok {
		_, base, _ := strings.Cut(rest, ".")
		return d.number(base, levels...)
	}
	return d.static.Long(key)
}
