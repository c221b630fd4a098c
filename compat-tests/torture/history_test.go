package torture

import (
	"fmt"
	"strings"
	"testing"
)

// recorded makes a history of 3 keys with 20 records each in two partitions, and the log that fits it. The last record of
// each key was sent and never acknowledged.
func recorded(t *testing.T) (*Records, map[int32][]Stored) {
	t.Helper()
	r := NewRecords("t")
	log := make(map[int32][]Stored)
	for i := range 20 {
		for k := range 3 {
			key := fmt.Sprintf("key-%d", k)
			seq := r.Sent(key)
			p := int32(k % 2)
			at := Found{p, int64(len(log[p]))}
			log[p] = append(log[p], Stored{at.Offset, key, Payload(key, seq)})
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
	return r, log
}

func renumbered(l []Stored) []Stored {
	l = append([]Stored(nil), l...)
	for i := range l {
		l[i].Offset = int64(i)
	}
	return l
}

func TestRecords(t *testing.T) {
	faults := []struct {
		name  string
		plant func(log map[int32][]Stored)
		want  string
	}{
		{"faultless", func(map[int32][]Stored) {}, ""},
		{"unacknowledged tail gone", func(l map[int32][]Stored) { l[0] = l[0][:len(l[0])-2]; l[1] = l[1][:len(l[1])-1] }, ""},
		{"acknowledged tail gone", func(l map[int32][]Stored) { l[0] = l[0][:len(l[0])-3] }, "is lost"},
		{"lost in the middle", func(l map[int32][]Stored) { l[1] = append(l[1][:12:12], l[1][13:]...) }, "offset 13 comes where 12 was due"},
		{"lost and closed up", func(l map[int32][]Stored) { l[1] = renumbered(append(l[1][:12:12], l[1][13:]...)) }, "is lost"},
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
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			r, log := recorded(t)
			f.plant(log)
			problems := strings.Join(r.Check(log), "\n")
			switch {
			case f.want == "" && problems != "":
				t.Error(problems)
			case !strings.Contains(problems, f.want):
				t.Errorf("the report lacks %q:\n%s", f.want, problems)
			}
		})
	}
}

func TestSeenTwiceDifferently(t *testing.T) {
	r, _ := recorded(t)
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
