package oracle

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// emptied sends a request one of whose lists, at any depth, names nothing: it is
// empty, or null where it may be. DescribeTopicPartitions is left out: without topics
// it asks for everybody's, in their order.
func (g *gen) emptied() Step {
	inner := oneOf(g.Rand, (*gen).metadata, (*gen).listOffsets, (*gen).describeConfigs, (*gen).alterIncrementally, (*gen).alterWhole, (*gen).describeGroups, (*gen).deleteGroups,
		(*gen).offsetFetch, (*gen).offsetDelete, (*gen).simpleCommit, (*gen).findCoordinator, (*gen).describeProducers, (*gen).electLeaders, (*gen).reassign,
		(*gen).listReassignments, (*gen).describeLogDirs, (*gen).move, (*gen).epochEnd, (*gen).deleteRecords, (*gen).createPartitions, (*gen).createTopicsOddly, (*gen).deleteTopicsOddly,
		(*gen).produce, (*gen).fetch, (*gen).describeQuorum, (*gen).acls)(g)
	which, null := g.Uint32(), g.chance(50)
	text := "with a list emptied: "
	if null {
		text = "with a list that is null: "
	}
	return Step{Text: text + inner.Text, Do: func(p *Play) {
		p.empty = func(reqs [2]kmsg.Request) {
			a, b := listsIn(reflect.ValueOf(reqs[0]), nil), listsIn(reflect.ValueOf(reqs[1]), nil)
			if len(a) == 0 || len(a) != len(b) {
				return
			}
			i := which % uint32(len(a))
			for _, list := range []reflect.Value{a[i], b[i]} {
				list.SetZero()
				if !null {
					list.Set(reflect.MakeSlice(list.Type(), 0, 0))
				}
			}
		}
		defer func() { p.empty = nil }()
		inner.Do(p)
	}}
}

// listsIn adds the lists in a request, in order of its fields; bytes are none.
func listsIn(v reflect.Value, to []reflect.Value) []reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			to = listsIn(v.Elem(), to)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "UnknownTags" {
				to = listsIn(f, to)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		to = append(to, v)
		for i := range v.Len() {
			to = listsIn(v.Index(i), to)
		}
	}
	return to
}
