package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		brokers []Broker
		factor  int
		want    string
	}{
		{nil, 0, "Invalid replication factor 0: the replication factor must be positive."},
		{nil, 1, "All brokers are currently fenced."},
		{[]Broker{{ID: 1, Fenced: true}}, 1, "All brokers are currently fenced."},
		{[]Broker{{ID: 1}, {ID: 2, Fenced: true}}, 3, "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered or some brokers have all their log directories cordoned."},
	} {
		_, err := Place(c.brokers, 1, c.factor, 7)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v at factor %d: %v, want %s", c.brokers, c.factor, err, c.want)
		}
	}
}

// TestPlacement checks on random clusters what the package promises.
func TestPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var brokers []Broker
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		for id := range rapid.IntRange(1, 9).Draw(t, "brokers") {
			brokers = append(brokers, Broker{
				ID: int32(id), Rack: string(rune('a' + rapid.IntRange(0, racks-1).Draw(t, "rack"))), Fenced: rapid.IntRange(0, 3).Draw(t, "fenced") == 0,
			})
		}
		living := slices.DeleteFunc(slices.Clone(brokers), func(b Broker) bool { return b.Fenced })
		if len(living) == 0 {
			return
		}
		factor := rapid.IntRange(1, len(brokers)).Draw(t, "factor")
		rounds := rapid.IntRange(1, 5).Draw(t, "rounds")
		partitions := len(living) * rounds
		lists, err := Place(brokers, partitions, factor, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		leads := map[int32]int{}
		for p, list := range lists {
			if len(list) != factor {
				t.Fatalf("partition %d has %v at factor %d", p, list, factor)
			}
			unique := slices.Compact(slices.Sorted(slices.Values(list)))
			if len(unique) != factor {
				t.Fatalf("partition %d has a broker twice: %v", p, list)
			}
			for i, id := range list {
				if brokers[id].Fenced && i < len(living) {
					t.Fatalf("partition %d has fenced broker %d at %d of %v with %d living", p, id, i, list, len(living))
				}
			}
			leads[list[0]]++
			inRack := map[string]int{}
			for _, id := range list[:min(factor, len(living))] {
				inRack[brokers[id].Rack]++
			}
			for _, b := range living {
				if !slices.Contains(list, b.ID) {
					for rack, n := range inRack {
						if n > inRack[b.Rack]+1 {
							t.Fatalf("partition %d has %d of rack %s and %d of rack %s, where broker %d is free: %v", p, n, rack, inRack[b.Rack], b.Rack, b.ID, list)
						}
					}
				}
			}
		}
		for _, b := range living {
			if leads[b.ID] != rounds {
				t.Fatalf("broker %d leads %d of %d partitions over %d brokers", b.ID, leads[b.ID], partitions, len(living))
			}
		}
	})
}

// TestFollowersSpread: with equal racks, followers are spread as evenly as
// leaders, and do not follow the same leader always.
func TestFollowersSpread(t *testing.T) {
	brokers := make([]Broker, 5)
	for i := range brokers {
		brokers[i].ID = int32(i)
	}
	lists, err := Place(brokers, 20, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	pairs, follows := map[[2]int32]int{}, map[int32]int{}
	for _, list := range lists {
		pairs[[2]int32{list[0], list[1]}]++
		follows[list[1]]++
	}
	if len(pairs) != 20 {
		t.Errorf("20 partitions over 5 brokers use %d of 20 pairs", len(pairs))
	}
	for id, n := range follows {
		if n != 4 {
			t.Errorf("broker %d follows %d times, not 4", id, n)
		}
	}
}

func TestSeedDecides(t *testing.T) {
	brokers := make([]Broker, 9)
	for i := range brokers {
		brokers[i].ID = int32(i)
	}
	a, _ := Place(brokers, 9, 3, 1)
	b, _ := Place(brokers, 9, 3, 1)
	c, _ := Place(brokers, 9, 3, 2)
	equal := func(x, y [][]int32) bool { return slices.EqualFunc(x, y, slices.Equal) }
	if !equal(a, b) || equal(a, c) {
		t.Errorf("one seed twice: equal %t; two seeds: equal %t", equal(a, b), equal(a, c))
	}
}
