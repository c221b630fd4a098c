package torture

import (
	"fmt"
	"strings"
	"testing"
)

// recorded makes a history of 3 keys with 20 records each in two partitions, and the log that fits it. The last record of
// each key was sent and never acknowledged. Partition 0 was trimmed to offset 5, if so asked, and is asked to be trimmed
// to 9.
func recorded(t *testing.T, trimmed bool) (*Records, map[int32]Kept) {
	t.Helper()
	r := NewRecords("t")
	log := make(map[int32]Kept)
	for i := range 20 {
		for k := range 3 {
			key := fmt.Sprintf("key-%d", k)
			seq := r.Sent(key)
			p := int32(k % 2)
			l := log[p]
			at := Found{p, int64(len(l.Records))}
			l.Records = append(l.Records, Stored{at.Offset, key, Payload(key, seq)})
			log[p] = l
			if i < 19 {
				r.Acked(key, seq, at)
			}
			if i < 10 {
				if err := r.Seen(p, at.Offset, key, Payload(key, seq)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if trimmed {
		r.Deleted(0).Begin(5)
		r.Deleted(0).Ack(5)
		r.Deleted(0).Begin(9)
		log[0] = Kept{5, log[0].Records[5:]}
	}
	return r, log
}

func renumbered(l []Stored) []Stored {
	l = append([]Stored(nil), l...)
	for i := range l {
		l[i].Offset = int64(i)
	}
	return l
}

// fault changes the records of two partitions.
type fault struct {
	name  string
	plant func(log map[int32][]Stored)
	want  string
}

func try(t *testing.T, f fault, history func(t *testing.T) (*Records, map[int32]Kept)) {
	t.Run(f.name, func(t *testing.T) {
		r, kept := history(t)
		log := map[int32][]Stored{0: kept[0].Records, 1: kept[1].Records}
		f.plant(log)
		after := map[int32]Kept{}
		for p, l := range log {
			after[p] = Kept{kept[p].Start, l}
			if len(l) > 0 && !r.Compacted {
				after[p] = Kept{l[0].Offset, l}
			}
		}
		problems := strings.Join(r.Check(after), "\n")
		switch {
		case f.want == "" && problems != "":
			t.Error(problems)
		case !strings.Contains(problems, f.want):
			t.Errorf("the report lacks %q:\n%s", f.want, problems)
		}
	})
}

func TestRecords(t *testing.T) {
	for _, f := range []fault{
		{"faultless", func(map[int32][]Stored) {}, ""},
		{"unacknowledged tail gone", func(l map[int32][]Stored) { l[0] = l[0][:len(l[0])-2]; l[1] = l[1][:len(l[1])-1] }, ""},
		{"acknowledged tail gone", func(l map[int32][]Stored) { l[0] = l[0][:len(l[0])-3] }, "is lost"},
		{"lost in the middle", func(l map[int32][]Stored) { l[1] = append(l[1][:12:12], l[1][13:]...) }, "offset 13 comes where 12 was due"},
		{"lost and closed up", func(l map[int32][]Stored) { l[1] = renumbered(append(l[1][:12:12], l[1][13:]...)) }, "is lost"},
		{"lost at the start", func(l map[int32][]Stored) { l[1] = l[1][1:] }, "the start of partition 1: 1 is there, acknowledged was 0"},
		{"stored twice", func(l map[int32][]Stored) { l[1] = append(l[1], Stored{20, l[1][5].Key, l[1][5].Value}) }, "is stored twice"},
		{"reordered", func(l map[int32][]Stored) {
			l[1][14].Value, l[1][15].Value = l[1][15].Value, l[1][14].Value
		}, "comes after record 15"},
		{"altered", func(l map[int32][]Stored) { l[1][3].Value = []byte("key-1 3 x") }, "not what was sent"},
		{"never sent", func(l map[int32][]Stored) { l[1] = append(l[1], Stored{20, "key-1", Payload("key-1", 20)}) }, "never sent"},
		{"never sent key", func(l map[int32][]Stored) { l[1] = append(l[1], Stored{20, "key-9", Payload("key-9", 0)}) }, "never sent"},
		{"moved", func(l map[int32][]Stored) {
			l[0][30], l[0][31] = Stored{30, l[0][31].Key, l[0][31].Value}, Stored{31, l[0][30].Key, l[0][30].Value}
		}, "it was acknowledged at"},
		{"changed after it was read", func(l map[int32][]Stored) { l[1] = l[1][:4] }, "a consumer was given"},
		{"partition emptied", func(l map[int32][]Stored) { delete(l, 1) }, "partition 1 is empty"},
	} {
		try(t, f, func(t *testing.T) (*Records, map[int32]Kept) { return recorded(t, false) })
	}
}

// TestCompacted: of a compacted topic all but the last record of a key may be gone.
func TestCompacted(t *testing.T) {
	newest := func(l []Stored) []Stored { // of partition 0: key-0 at 36 and key-2 at 37 are the last that were acknowledged
		return append([]Stored(nil), l[36:]...)
	}
	for _, f := range []fault{
		{"faultless", func(map[int32][]Stored) {}, ""},
		{"cleaned", func(l map[int32][]Stored) { l[0] = newest(l[0]) }, ""},
		{"cleaned, and the unacknowledged tail gone", func(l map[int32][]Stored) { l[0] = newest(l[0])[:2] }, ""},
		{"cleaned in part", func(l map[int32][]Stored) { l[0] = append(l[0][:7:7], l[0][20:]...) }, ""},
		{"the last of a key gone", func(l map[int32][]Stored) { l[0] = append(newest(l[0])[:1], newest(l[0])[2:3]...) }, "record 0 of key key-2 is lost"},
		{"a key gone", func(l map[int32][]Stored) { l[1] = nil }, "partition 1 is empty"},
		{"an older one kept in its place", func(l map[int32][]Stored) { l[1] = l[1][:12] }, "is lost"},
		{"order of offsets", func(l map[int32][]Stored) { l[1][3], l[1][4] = l[1][4], l[1][3] }, "offset 3 comes where 5 was due"},
		{"another in the place of one that was read", func(l map[int32][]Stored) { l[1][3].Value = l[1][15].Value; l[1] = append(l[1][:15:15], l[1][16:]...) }, "a consumer was given"},
	} {
		try(t, f, func(t *testing.T) (*Records, map[int32]Kept) {
			r, l := recorded(t, false)
			r.Compacted = true
			return r, l
		})
	}
}

// TestTrimmed: what was deleted is gone for good, and nothing else.
func TestTrimmed(t *testing.T) {
	all := func(t *testing.T) []Stored { _, l := recorded(t, false); return l[0].Records }
	for _, f := range []fault{
		{"faultless", func(map[int32][]Stored) {}, ""},
		{"further, as was asked", func(l map[int32][]Stored) { l[0] = all(t)[9:] }, ""},
		{"come back", func(l map[int32][]Stored) { l[0] = all(t) }, "the start of partition 0: 0 is there, acknowledged was 5, asked for after it [9]"},
		{"further than asked", func(l map[int32][]Stored) { l[0] = all(t)[12:] }, "the start of partition 0: 12 is there"},
		{"not as far as asked", func(l map[int32][]Stored) { l[0] = all(t)[7:] }, "the start of partition 0: 7 is there"},
		{"one more gone", func(l map[int32][]Stored) { l[0] = append(l[0][:6:6], l[0][7:]...) }, "offset 12 comes where 11 was due"},
		{"in the other partition", func(l map[int32][]Stored) { l[1] = l[1][5:] }, "the start of partition 1: 5 is there"},
	} {
		try(t, f, func(t *testing.T) (*Records, map[int32]Kept) { return recorded(t, true) })
	}
}

func TestSeenTwiceDifferently(t *testing.T) {
	r, _ := recorded(t, false)
	if err := r.Seen(1, 3, "key-1", Payload("key-1", 3)); err != nil {
		t.Error(err)
	}
	if err := r.Seen(1, 3, "key-1", Payload("key-1", 4)); err == nil {
		t.Error("an offset with two records passed")
	}
	if err := r.Seen(1, 99, "key-1", []byte("torn")); err == nil {
		t.Error("a torn value passed")
	}
}

func TestRegister(t *testing.T) {
	var r Register[int]
	check := func(what string, v int, found, good bool) {
		t.Helper()
		if err := r.Check(v, found); (err == nil) != good {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("nothing asked, nothing there", 0, false, true)
	check("nothing asked, something there", 1, true, false)
	r.Begin(1)
	check("asked, not there", 0, false, true)
	check("asked and there", 1, true, true)
	r.Ack(1)
	check("acknowledged, not there", 0, false, false)
	check("acknowledged and there", 1, true, true)
	r.Begin(2)
	r.Begin(3)
	check("the value before an open one", 1, true, true)
	check("one of two open ones", 2, true, true)
	r.Ack(3)
	check("an open one from before the acknowledged", 2, true, false)
	check("an older acknowledged one", 1, true, false)
	r.Begin(4)
	r.Refused()
	check("a refused one", 4, true, false)
}
