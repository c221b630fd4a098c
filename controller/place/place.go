// Package place decides which brokers get the replicas of new partitions.
//
// It is a pure room: the chance in it comes in as a seed. It knows brokers by
// id, rack and whether they live, and nothing of topics.
//
// It promises what Kafka's placer promises: a broker at most once per partition;
// leaders and replicas spread evenly over brokers; racks used as widely as the
// replication factor allows; a living broker first in each list, and fenced ones
// only where the living do not suffice.
package place

import (
	"cmp"
	"fmt"
	"slices"
)

// Broker is a broker that may get replicas.
type Broker struct {
	ID     int32
	Rack   string // "" is a rack of its own kind: none given
	Fenced bool
}

// Error says why there is no placement, in Kafka's words.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// Place gives the replica lists of partitions [0, partitions), preferred leader
// first.
func Place(brokers []Broker, partitions int, factor int, seed uint64) ([][]int32, error) {
	if factor <= 0 {
		return nil, &Error{fmt.Sprintf("Invalid replication factor %d: the replication factor must be positive.", factor)}
	}
	if !slices.ContainsFunc(brokers, func(b Broker) bool { return !b.Fenced }) {
		return nil, &Error{"All brokers are currently fenced."}
	}
	if factor > len(brokers) {
		return nil, &Error{fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.", factor, len(brokers))}
	}
	random := Random{state: seed}
	living, fenced := newRing(brokers, false, &random), newRing(brokers, true, &random)
	out := make([][]int32, partitions)
	for p := range out {
		list := make([]int32, 0, factor)
		used := map[string]int{}
		list = living.take(list, used, p, factor)
		list = fenced.take(list, used, p, factor)
		out[p] = list
	}
	return out, nil
}

// ring is the brokers of one kind in an order that goes from rack to rack: one
// broker of each, then one more of each, and so on.
type ring struct {
	brokers []Broker
	start   int
}

func newRing(brokers []Broker, fenced bool, random *Random) *ring {
	byRack := map[string][]Broker{}
	var racks []string
	for _, b := range brokers {
		if b.Fenced != fenced {
			continue
		}
		if _, known := byRack[b.Rack]; !known {
			racks = append(racks, b.Rack)
		}
		byRack[b.Rack] = append(byRack[b.Rack], b)
	}
	slices.Sort(racks)
	random.Shuffle(len(racks), func(i, j int) { racks[i], racks[j] = racks[j], racks[i] })
	r := &ring{}
	longest := 0
	for _, rack := range racks {
		in := byRack[rack]
		slices.SortFunc(in, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
		random.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		longest = max(longest, len(in))
	}
	for depth := range longest {
		for _, rack := range racks {
			if in := byRack[rack]; depth < len(in) {
				r.brokers = append(r.brokers, in[depth])
			}
		}
	}
	if len(r.brokers) > 0 {
		r.start = random.Below(len(r.brokers))
	}
	return r
}

// take adds brokers of the ring to a partition's list until it has factor. The
// first moves on by one for each partition. The others are looked for from a
// place behind it that moves on once a round, so that the same two brokers do
// not always share partitions; among the racks with a broker left, the one that
// the list uses least comes first.
func (r *ring) take(list []int32, used map[string]int, partition, factor int) []int32 {
	n := len(r.brokers)
	want := min(factor-len(list), n)
	if want <= 0 {
		return list
	}
	first := (r.start + partition) % n
	taken := make([]bool, n)
	for i := range want {
		at, from := -1, first
		if i > 0 || len(list) > 0 {
			from = first + 1 + (partition/n)%max(n-1, 1)
		}
		for step := range n {
			try := (from + step) % n
			if !taken[try] && (at < 0 || used[r.brokers[try].Rack] < used[r.brokers[at].Rack]) {
				at = try
			}
		}
		taken[at] = true
		used[r.brokers[at].Rack]++
		list = append(list, r.brokers[at].ID)
	}
	return list
}

// Random is a small deterministic source of chance (splitmix64).
type Random struct{ state uint64 }

// NewRandom gives a source that is determined by its seed.
func NewRandom(seed uint64) *Random { return &Random{state: seed} }

// Next gives 64 bits.
func (r *Random) Next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below gives a number in [0, n).
func (r *Random) Below(n int) int { return int(r.Next() % uint64(n)) }

// Shuffle puts n things in a random order.
func (r *Random) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.Below(i+1))
	}
}
